//! Kinds of events: what they are about, and which of them nobody should overlook.
//!
//! Events come with their names. A name that a newer server adds belongs to no family: it is shown
//! among all events, and nowhere else.

use crate::theme::{Ink, Theme};
use crate::views::around;
use ttmem_report::LastEvent;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Family {
    #[default]
    All,
    /// Memory that is taken and given back.
    Buffers,
    /// Programs, their configuration and their runs.
    Programs,
    /// Kernels, and where their code comes from.
    Kernels,
    Failures,
}

impl Family {
    pub(super) const ALL: [Self; 5] = [
        Self::All,
        Self::Buffers,
        Self::Programs,
        Self::Kernels,
        Self::Failures,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Buffers => "buffers",
            Self::Programs => "programs",
            Self::Kernels => "kernels",
            Self::Failures => "failures",
        }
    }

    pub(super) fn step(self, forward: bool) -> Self {
        around(&Self::ALL, self, forward)
    }

    pub(super) fn has(self, event: &LastEvent) -> bool {
        match self {
            Self::All => true,
            Self::Failures => Weight::of(event) == Weight::Failure,
            other => Self::of(&event.event) == Some(other),
        }
    }

    /// The family of an event's name; failures are in one besides.
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "buffer_allocated"
            | "buffer_freed"
            | "buffers_released"
            | "cb_allocated"
            | "cb_freed"
            | "capacity_reported"
            | "statistics_reported"
            | "allocation_failed"
            | "legacy_allocated"
            | "legacy_freed"
            | "legacy_cb_allocated"
            | "legacy_cb_freed" => Self::Buffers,
            "program_created"
            | "program_finalized"
            | "program_destroyed"
            | "commands_cached"
            | "binary_sent"
            | "binary_status_changed"
            | "dispatched"
            | "clashed"
            | "config_ring_opened"
            | "config_ring_reserved"
            | "config_ring_allocated"
            | "config_ring_freed"
            | "config_ring_filled"
            | "prefetch_opened"
            | "prefetched"
            | "prefetch_reset"
            | "trace_began"
            | "trace_ended"
            | "trace_replayed"
            | "trace_released" => Self::Programs,
            "kernel_loaded"
            | "kernel_unloaded"
            | "jit_disk_lookup"
            | "legacy_kernel_loaded"
            | "legacy_kernel_unloaded" => Self::Kernels,
            _of_none => return None,
        })
    }
}

/// How much an event matters to whoever looks for trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    Usual,
    /// Something was not reported.
    Notable,
    Failure,
}

impl Weight {
    pub(super) fn of(event: &LastEvent) -> Self {
        match event.event.as_str() {
            "allocation_failed" | "clashed" | "events_lost" | "not_tracked" => Self::Failure,
            "events_elided" => Self::Notable,
            // A `config_ring_reserved` that stalled as well: a launch waits where much runs.
            _usual => Self::Usual,
        }
    }

    pub(super) const fn ink(self) -> Ink {
        match self {
            Self::Usual => Ink::Text,
            Self::Notable => Ink::Warning,
            Self::Failure => Ink::Danger,
        }
    }

    /// The sign before it: colours alone say nothing to some.
    pub(super) const fn sign(self, theme: Theme) -> &'static str {
        match self {
            Self::Usual => "",
            Self::Notable => "!",
            Self::Failure => theme.pick("✗", "X"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_report::{EventFields, FieldValue, Timestamp};

    fn event(name: &str, fields: Vec<(String, FieldValue)>) -> LastEvent {
        LastEvent {
            time: Timestamp::from_unix_nanos(0),
            pid: None,
            process: None,
            recovered: false,
            event: name.to_owned(),
            fields: EventFields(fields),
        }
    }

    /// The names of the protocol's table, as readers know them.
    fn names() -> Vec<String> {
        let table = include_str!("../../../../../docs/protocol.md");
        let rows = table.lines().filter_map(|line| {
            let (number, rest) = line.strip_prefix("| ")?.split_once(" | **")?;
            number.parse::<u8>().ok()?;
            rest.split_once("**")
        });
        let snake_case = |(name, _about): (&str, &str)| {
            let mut snake_case = String::new();
            for letter in name.chars() {
                if letter.is_uppercase() && !snake_case.is_empty() {
                    snake_case.push('_');
                }
                snake_case.extend(letter.to_lowercase());
            }
            snake_case
        };
        rows.map(snake_case).collect()
    }

    #[test]
    fn every_event_of_the_protocol_has_a_family_or_is_of_none_on_purpose() {
        let of_none = [
            "device_opened",
            "device_closed",
            "mesh_opened",
            "mesh_closed",
            "marked",
            "events_lost",
            "events_elided",
            "forked",
            "stack_noted",
            "not_tracked",
        ];
        let names = names();
        assert!(names.len() > 40, "{names:?}");
        for name in &names {
            let known = Family::of(name).is_some();
            assert_ne!(known, of_none.contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn what_failed_is_in_its_family_and_among_the_failures() {
        for name in ["allocation_failed", "clashed", "events_lost"] {
            let event = event(name, Vec::new());
            assert!(names().contains(&name.to_owned()));
            assert!(
                Family::Failures.has(&event) && Family::All.has(&event),
                "{name}"
            );
            assert_eq!(Weight::of(&event), Weight::Failure);
        }
        assert!(Family::Buffers.has(&event("allocation_failed", Vec::new())));
        assert!(Family::Programs.has(&event("clashed", Vec::new())));
        // Waiting is usual where much runs: a sign would hide what failed.
        let fields = vec![("stalled".to_owned(), FieldValue::Flag(true))];
        let stalled = event("config_ring_reserved", fields);
        assert_eq!(Weight::of(&stalled), Weight::Usual);
        assert_eq!(
            Weight::of(&event("events_elided", Vec::new())),
            Weight::Notable
        );
        assert!(Family::All.has(&event("of_a_newer_server", Vec::new())));
        assert!(!Family::Buffers.has(&event("of_a_newer_server", Vec::new())));
    }

    #[test]
    fn families_go_round() {
        let mut family = Family::All;
        for _step in Family::ALL {
            family = family.step(true);
        }
        assert_eq!(family, Family::All);
        assert_eq!(family.step(false), Family::Failures);
    }
}
