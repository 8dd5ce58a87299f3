//! What was refused, in figures.

use ttmem_event::EventKind;
use ttmem_tui::format::bytes;

#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) kind: &'static str,
    pub(crate) meaning: &'static str,
    /// How far it was from going well.
    pub(crate) figures: String,
}

/// The figures of an event that tells of a refusal.
pub(crate) fn refused(event: &EventKind) -> String {
    match *event {
        EventKind::AllocationFailed {
            class,
            banks,
            per_bank_bytes,
            free_bytes,
            largest_free_bytes,
            ..
        } => format!(
            "{} in each of {banks} banks of {} where {} are free and {} in one piece",
            bytes(per_bank_bytes),
            class.name(),
            bytes(free_bytes),
            bytes(largest_free_bytes)
        ),
        EventKind::Clashed {
            region_end, limit, ..
        } => format!(
            "circular buffers up to address {region_end} where {limit} is taken, {} too far",
            bytes(region_end.saturating_sub(limit))
        ),
        _other => event.name().to_owned(),
    }
}

#[cfg(test)]
mod tests;
