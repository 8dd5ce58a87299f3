//! What was refused, in figures.

use ttmem_event::What;
use ttmem_tui::format::bytes;

/// Something that was refused.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// Its name.
    pub(crate) kind: &'static str,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// How far it was from going well.
    pub(crate) figures: String,
}

/// The figures of an event that tells of a refusal.
pub(crate) fn refused(what: &What) -> String {
    match *what {
        What::AllocationFailed {
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
        What::Clashed {
            region_end, limit, ..
        } => format!(
            "circular buffers up to address {region_end} where {limit} is taken, {} too far",
            bytes(region_end.saturating_sub(limit))
        ),
        _other => what.name().to_owned(),
    }
}

#[cfg(test)]
mod tests;
