//! Worlds to draw: all documents of a server, made up but consistent, the same every time.

mod events;
mod failures;
mod history;
mod maps;
mod programs;
mod recording;
mod rows;
mod totals;

use crate::data::{Data, Link, Update};
use std::time::{Duration, Instant};
use ttmem_report::{Leaks, Problems, SCHEMA, Snapshot, Timestamp};

/// What a world is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct World {
    /// How many chips it has.
    pub(crate) devices: u32,
    pub(crate) processes: u32,
    /// Nearly full, with all that can go wrong.
    pub(crate) busy: bool,
    /// What names are made of.
    pub(crate) names: Names,
}

/// What names are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// As they are in life.
    Usual,
    /// Far longer than any column.
    OverLong,
    Wide,
    /// What would steer a terminal.
    Hostile,
}

/// The moment of every world.
pub(crate) const NOW: Timestamp = Timestamp::from_unix_nanos(1_794_700_800_000_000_000);

/// The worlds in which every view is looked at.
pub(crate) fn all() -> Vec<(&'static str, Data)> {
    let usual = World {
        devices: 1,
        processes: 1,
        busy: false,
        names: Names::Usual,
    };
    let worlds = [
        ("1_device", usual),
        (
            "8_devices",
            World {
                devices: 8,
                processes: 3,
                ..usual
            },
        ),
        (
            "32_devices",
            World {
                devices: 32,
                processes: 6,
                ..usual
            },
        ),
        (
            "empty",
            World {
                devices: 0,
                processes: 0,
                ..usual
            },
        ),
        (
            "busy",
            World {
                devices: 8,
                processes: 40,
                busy: true,
                ..usual
            },
        ),
        (
            "over_long_names",
            World {
                devices: 2,
                processes: 3,
                names: Names::OverLong,
                ..usual
            },
        ),
        (
            "wide_names",
            World {
                devices: 2,
                processes: 3,
                names: Names::Wide,
                ..usual
            },
        ),
        (
            "hostile_names",
            World {
                devices: 2,
                processes: 3,
                names: Names::Hostile,
                ..usual
            },
        ),
    ];
    let mut all: Vec<(&'static str, Data)> = Vec::new();
    // Before anything was heard.
    all.push((
        "silent",
        Data::new("ttmem.sock", Duration::from_secs(1), Instant::now()),
    ));
    all.extend(worlds.map(|(name, world)| (name, world.data())));
    all
}

impl World {
    /// All documents of this world, as if they had just come.
    pub(crate) fn data(self) -> Data {
        let now = Instant::now();
        let mut data = Data::new("ttmem.sock", Duration::from_secs(1), now);
        for update in self.updates() {
            data.apply(update, now);
        }
        data.events_per_second = Some(if self.busy { 98_765 } else { 1_234 });
        data
    }

    /// All documents of this world, as the feed brings them.
    pub(crate) fn updates(self) -> Vec<Update> {
        let (query, groups) = self.groups();
        let mut updates = vec![
            Update::Link(Link::Up),
            Update::Snapshot(Box::new(self.snapshot())),
            Update::Recent(self.history(600)),
            Update::History(600, self.history(600)),
            Update::Programs(self.programs()),
            Update::Kernels(self.kernels()),
            Update::Buffers(self.buffers()),
            Update::Groups(query, groups),
            Update::Events(self.events()),
            Update::Failures(self.failures()),
            Update::Problems(self.problems(NOW)),
        ];
        let l1_map = self.l1_map();
        updates.extend(l1_map.map(|(device, map)| Update::L1Map(device, Box::new(map))));
        let blocks = self.blocks();
        updates.extend(blocks.map(|(device, map)| Update::Blocks(device, Box::new(map))));
        updates
    }

    /// What a server finds wrong in these documents at a time.
    pub(crate) fn problems(self, time: Timestamp) -> Problems {
        let snapshot = Snapshot {
            time,
            ..self.snapshot()
        };
        let failures = self.failures().failures;
        let no_leaks = Leaks {
            schema: SCHEMA,
            time,
            growing: Vec::new(),
            held_at_close: Vec::new(),
            left_out: 0,
        };
        Problems {
            schema: SCHEMA,
            time,
            problems: ttmem_report::problems(&snapshot, &failures, &no_leaks),
        }
    }

    pub(crate) fn name(self, usual: &str, number: u32) -> String {
        match self.names {
            Names::Usual => usual.to_owned(),
            Names::OverLong => format!(
                "{usual}_{}_{number}",
                "with_a_name_that_never_ends_".repeat(12)
            ),
            Names::Wide => format!("模型推論{number}-{usual}-メモリ"),
            Names::Hostile => format!("{usual}\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}{number}\r\n\u{0}"),
        }
    }
}

/// So many seconds before the moment of every world.
pub(crate) fn ago(seconds: u64) -> Timestamp {
    Timestamp::from_unix_nanos(NOW.unix_nanos() - seconds * 1_000_000_000)
}

/// A number that looks like chance and is always the same.
pub(crate) fn chance(seed: u32, below: u64) -> u64 {
    let mixed = (u64::from(seed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 32)) % below.max(1)
}
