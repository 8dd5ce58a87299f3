//! The last failures, each with what an explanation needs of the moment it happened in.
//!
//! A refused allocation keeps the blocks of its allocator, a clash the buffers in the way. Both are
//! copied when the event is applied, since a moment later they may be gone, and both are bounded: in
//! number, in blocks, and in how many blocks a process can make the ledger copy for each event that
//! it sends.

use crate::device::Device;
use crate::process::{Process, ProcessIdentity};
use std::collections::VecDeque;
use std::sync::Arc;
use ttmem_account::{Account, BufferRow, Capacity, oldest_of_largest};
use ttmem_event::catalogue::Arch;
use ttmem_event::{CbKind, Class, CoreSet, CoresId, Event, EventKind, MeshId, ProgramId, TextId};

pub(crate) const MAX_FAILURES: usize = 64;

/// Blocks over all failures, of 48 bytes each.
pub(crate) const MAX_BLOCKS: usize = 1 << 18;

/// Blocks of one failure.
const MAX_MOMENT_BLOCKS: u64 = 1 << 16;

/// Blocks that a process may have copied from the start, and more for each of its events: a process
/// that fails in a loop must not make the ledger copy its allocator every time.
const FIRST_BLOCKS: u64 = 1 << 17;
const BLOCKS_PER_EVENT: u64 = 16;

/// A block at the moment of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MomentBlock {
    pub address: u64,
    pub per_bank_bytes: u64,
    /// When it was placed.
    pub time: u64,
    /// The text of its operation, with the Python stack that is behind it.
    pub origin: Option<Arc<str>>,
    pub of_call: OfCall,
}

/// Whether the call that failed had placed a block itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfCall(pub bool);

const _: () = assert!(size_of::<MomentBlock>() <= 48);

/// A failure, and what was true then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureMoment {
    /// When it happened; if several times in a row, the first of them.
    pub time: u64,
    /// When it happened last.
    pub last_time: u64,
    /// How often it happened in a row, with the same figures.
    pub times: u64,
    pub identity: ProcessIdentity,
    /// The ledger's numbers of its devices.
    pub devices: Vec<u32>,
    /// The event that reported it: an allocation that failed, or a clash.
    pub event: EventKind,
    /// The text of the operation that failed, or of the program, with the Python stack behind it.
    pub origin: Option<Arc<str>>,
    /// The cores of a clash.
    pub cores: Option<CoreSet>,
    /// Where the storage of a clash begins.
    pub storage_start: Option<u64>,
    /// Whether it is dataflow buffers and scratchpads, not circular buffers.
    pub is_dataflow: bool,
    /// The architecture of its devices.
    pub arch: Option<Arch>,
    /// What the allocator has.
    pub capacity: Option<Capacity>,
    /// The allocator's blocks, or the buffers in the way; `None` if there were too many.
    pub blocks: Option<Arc<[MomentBlock]>>,
}

impl FailureMoment {
    /// Whether it is known which blocks the call that failed had placed itself.
    #[must_use]
    pub fn is_call_known(&self) -> bool {
        call_first(&self.event).is_some()
    }

    /// Leaves out what names its process and its lines.
    pub(crate) fn hide_names(&mut self) {
        self.identity.hide_names();
        self.origin = None;
        let blocks = self.blocks.iter().flat_map(|blocks| blocks.iter());
        let nameless = blocks.map(|block| MomentBlock {
            origin: None,
            ..block.clone()
        });
        let nameless: Arc<[MomentBlock]> = nameless.collect();
        self.blocks = self.blocks.is_some().then_some(nameless);
    }
}

/// The last failures, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    pub(crate) kept: VecDeque<Arc<FailureMoment>>,
    pub(crate) blocks: usize,
    /// Failures that are no longer kept.
    pub omitted: u64,
}

impl Failures {
    /// These, oldest first; none before them is counted.
    pub(crate) fn of(kept: VecDeque<Arc<FailureMoment>>) -> Self {
        let blocks = kept.iter().map(|moment| count(moment)).sum();
        Self {
            kept,
            blocks,
            omitted: 0,
        }
    }

    /// Newest first.
    pub fn iter(&self) -> impl Iterator<Item = &FailureMoment> {
        self.kept.iter().rev().map(|each| &**each)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// How many there were, those that are no longer kept included.
    #[must_use]
    pub fn count(&self) -> u64 {
        let kept = self.kept.iter().map(|moment| moment.times);
        kept.fold(self.omitted, u64::saturating_add)
    }

    /// The newest one.
    #[must_use]
    pub fn newest(&self) -> Option<&Arc<FailureMoment>> {
        self.kept.back()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(crate) fn moments_mut(&mut self) -> impl Iterator<Item = &mut Arc<FailureMoment>> {
        self.kept.iter_mut()
    }

    /// Keeps the moment of a failure that was just applied.
    ///
    /// A program that tries again has placed other buffers by then, with the same figures.
    pub(crate) fn keep(&mut self, process: &mut Process, known: &[Device], event: &Event) {
        if let Some(last) = self.kept.back_mut()
            && last.identity == process.facts.identity
            && without_call(last.event) == without_call(event.kind)
            && last.origin == origin(&process.account, &event.kind)
        {
            // Its time stays that of its blocks.
            let last = Arc::make_mut(last);
            last.times += 1;
            last.last_time = event.time;
            return;
        }
        let moment = moment(process, known, event);
        self.blocks += count(&moment);
        self.kept.push_back(Arc::new(moment));
        while self.kept.len() > MAX_FAILURES || (self.blocks > MAX_BLOCKS && self.kept.len() > 1) {
            let place = oldest_of_largest(&self.kept, |each| {
                let identity = &each.identity;
                (identity.uid, (identity.pid, identity.instance))
            });
            if let Some(oldest) = self.kept.remove(place) {
                self.blocks -= count(&oldest);
                self.omitted += oldest.times;
            }
        }
    }
}

/// The lower half of the first buffer id of the call that failed, if that is known.
fn call_first(event: &EventKind) -> Option<u32> {
    match *event {
        EventKind::AllocationFailed { call_first, .. } | EventKind::Clashed { call_first, .. } => {
            (call_first != 0).then_some(call_first)
        }
        _no_failure => None,
    }
}

/// The event of a failure without what differs from call to call.
fn without_call(mut event: EventKind) -> EventKind {
    if let EventKind::AllocationFailed { call_first, .. } | EventKind::Clashed { call_first, .. } =
        &mut event
    {
        *call_first = 0;
    }
    event
}

/// Whether a buffer is not older than the first one of a call. Ids grow; their halves begin anew.
fn is_of_call(id: u64, first: u32) -> bool {
    let half = u32::try_from(id & u64::from(u32::MAX)).unwrap_or(0);
    half.wrapping_sub(first).cast_signed() >= 0
}

fn count(moment: &FailureMoment) -> usize {
    moment.blocks.as_ref().map_or(0, |blocks| blocks.len())
}

fn moment(process: &mut Process, known_devices: &[Device], event: &Event) -> FailureMoment {
    let account = &process.account;
    let (mesh, class) = match event.kind {
        EventKind::AllocationFailed { mesh, class, .. } => (mesh, class),
        EventKind::Clashed { mesh, .. } => (mesh, Class::L1),
        _no_failure => (MeshId(0), Class::L1),
    };
    let (cores, storage) = match event.kind {
        EventKind::Clashed { program, cores, .. } => (
            account.facts().definitions.cores(cores).copied(),
            lowest_storage(account, program),
        ),
        _refused => (None, None),
    };
    let known = account.mesh(mesh);
    let slots = known.map(|mesh| Arc::clone(&mesh.devices));
    let devices = slots.iter().flat_map(|slots| slots.iter());
    let devices = devices.filter_map(|slot| process.devices.get(*slot as usize));
    let devices: Vec<u32> = devices.copied().collect();
    let first = devices.first();
    let first = first.and_then(|number| known_devices.get(*number as usize));
    let capacity = known.and_then(|mesh| mesh.allocators[class.index()].capacity);
    let moment = FailureMoment {
        time: event.time,
        last_time: event.time,
        times: 1,
        identity: process.facts.identity.clone(),
        devices,
        arch: first.and_then(|device| device.facts.arch),
        event: event.kind,
        origin: origin(account, &event.kind),
        cores,
        storage_start: storage.map(|(address, _kind)| address),
        is_dataflow: storage
            .is_some_and(|(_address, kind)| matches!(kind, CbKind::Dataflow | CbKind::Scratchpad)),
        capacity,
        blocks: None,
    };
    let blocks = blocks(process, mesh, class, &event.kind);
    FailureMoment { blocks, ..moment }
}

/// Who asked for what failed: the operation, or the program as it was named last.
fn origin(account: &Account, event: &EventKind) -> Option<Arc<str>> {
    match *event {
        EventKind::AllocationFailed { operation, .. } => text(account, operation),
        EventKind::Clashed { program, .. } => text(account, account.program(program)?.name),
        _no_failure => None,
    }
}

fn text(account: &Account, id: TextId) -> Option<Arc<str>> {
    let text = account.facts().definitions.text(id).cloned();
    text.filter(|text| !text.is_empty())
}

/// The lowest storage of a program that lies in no buffer.
fn lowest_storage(account: &Account, program: ProgramId) -> Option<(u64, CbKind)> {
    let program = account.program(program)?;
    let devices = 0..account.facts().devices.len();
    let devices = devices.filter_map(|slot| program.on_device(u32::try_from(slot).ok()?));
    let storage = devices.flat_map(|on| on.cbs());
    let storage = storage.filter(|cb| !cb.kind.borrows());
    let lowest = storage.min_by_key(|cb| cb.address)?;
    Some((lowest.address, lowest.kind))
}

/// The blocks that explain a failure, as far as the process may have them copied.
fn blocks(
    process: &mut Process,
    mesh: MeshId,
    class: Class,
    event: &EventKind,
) -> Option<Arc<[MomentBlock]>> {
    let account = &process.account;
    let buffers = account.mesh(mesh)?.allocators[class.index()].buffers;
    let budget = FIRST_BLOCKS.saturating_add(account.order().saturating_mul(BLOCKS_PER_EVENT));
    let copied = process.copied_blocks.saturating_add(buffers);
    if buffers > MAX_MOMENT_BLOCKS || copied > budget {
        return None;
    }
    let matters = |row: &&BufferRow| match *event {
        // What lies above the storage is not in its way.
        EventKind::Clashed { region_end, .. } => row.address < region_end,
        // Buffers of single cores are in the way of all others, which take every bank.
        _refused => row.cores_id == CoresId::NONE || class == Class::L1,
    };
    let first = call_first(event);
    let rows = account.allocator_rows(mesh, class).filter(matters);
    let blocks = rows.map(|row| MomentBlock {
        address: row.address,
        per_bank_bytes: row.per_bank_bytes,
        time: row.time,
        origin: text(account, row.operation),
        of_call: OfCall(first.is_some_and(|first| is_of_call(row.id, first))),
    });
    let blocks = blocks.collect();
    process.copied_blocks = copied;
    Some(blocks)
}

#[cfg(test)]
mod tests {
    use super::is_of_call;

    #[test]
    fn buffers_of_a_call_are_those_from_its_first_on() {
        for from in [0, (1 << 32) - 3, 7 << 32] {
            let first = u32::try_from((from + 5) & u64::from(u32::MAX)).unwrap();
            let of_call = [4, 5, 6].map(|id| is_of_call(from + id, first));
            assert_eq!(of_call, [false, true, true], "{from}");
            // Parts of a buffer have its id in their lower half.
            assert!(is_of_call(from + 5 + (3 << 40), first));
        }
    }
}
