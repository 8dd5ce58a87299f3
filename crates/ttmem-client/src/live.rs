//! Stub.
use ttmem_event::wire::{PeakRecord, ProgramCounters};
use ttmem_event::{Definition, Event};
#[derive(Debug, Default)]
pub(crate) struct LiveSet;
pub(crate) struct Snapshot {
    pub(crate) events: Vec<Event>,
    pub(crate) peaks: Vec<PeakRecord>,
    pub(crate) counters: Vec<ProgramCounters>,
}
impl LiveSet {
    pub(crate) fn define(&mut self, _d: &Definition) {}
    pub(crate) fn apply(&mut self, _e: &Event) {}
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { events: vec![], peaks: vec![], counters: vec![] }
    }
    pub(crate) fn highest_buffer(&self) -> u64 { 0 }
}
