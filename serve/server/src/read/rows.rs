//! Pages of live buffers, circular buffers and kernels.
//!
//! Rows are ordered by process and by slot within it, and a cursor names the last row given. A
//! page therefore costs what it holds, however far into the table it begins. Between two pages
//! the ledger goes on: a buffer that lives through the whole walk is given exactly once, and so
//! are the rows of a program that does not change meanwhile.

use super::handlers::bounded;
use super::http::Refusal;
use super::row_length::RowLength;
use super::vocabulary;
use ttmem_event::{CoresId, TextId};
use ttmem_ledger::program::{Cb, Kernel, Program, ProgramOnDevice};
use ttmem_ledger::{ProcessView, View};
use ttmem_report::{BufferRow, CbRow, HexId, KernelRow, MAX_PAGE_ROWS, Page, SCHEMA, Timestamp};

const DEFAULT_LIMIT: u32 = 1000;

/// The most bytes of JSON before a page ends early: call stacks and large meshes make rows long.
///
/// A row is made whole, so that a page may have one row more than fits.
const MAX_PAGE_BYTES: u64 = 16 << 20;

/// The bytes that a page has so far.
#[derive(Debug, Default)]
pub(super) struct PageBytes(u64);

impl PageBytes {
    pub(super) fn have_room(&self) -> bool {
        self.0 < MAX_PAGE_BYTES
    }

    /// Counts a row, as long as it may be when it is written.
    pub(super) fn add(&mut self, row: &impl RowLength) {
        self.0 = self.0.saturating_add(row.max_json_bytes());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageRequest {
    after: Option<Cursor>,
    limit: usize,
}

impl PageRequest {
    /// The first page, or the one behind a cursor.
    pub(super) fn new(cursor: Option<&str>, limit: Option<u32>) -> Result<Self, Refusal> {
        Ok(Self {
            limit: page_rows(limit)?,
            after: parsed_cursor(cursor, Cursor::parse)?,
        })
    }
}

pub(super) fn page_rows(limit: Option<u32>) -> Result<usize, Refusal> {
    let limit = bounded("limit", limit, DEFAULT_LIMIT, MAX_PAGE_ROWS)?;
    Ok(limit as usize)
}

/// The place that a cursor names, if there is one.
pub(super) fn parsed_cursor<C>(
    cursor: Option<&str>,
    parse: impl FnOnce(&str) -> Option<C>,
) -> Result<Option<C>, Refusal> {
    let parsed = cursor.map(|text| {
        parse(text).ok_or_else(|| Refusal::bad_request("the cursor is not one of this server's"))
    });
    parsed.transpose()
}

/// The place of a row: its process, its slot there, and its number within the slot.
///
/// A buffer is alone in its slot; a program has many rows in its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    process: u32,
    slot: u32,
    row: u32,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}-{}", self.process, self.slot, self.row)
    }
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let [process, slot, row] = super::dashed(text)?;
        Some(Self {
            process: u32::try_from(process).ok()?,
            slot: u32::try_from(slot).ok()?,
            row: u32::try_from(row).ok()?,
        })
    }
}

pub(super) fn buffers(view: &View, request: PageRequest) -> Page<BufferRow> {
    page(view, request, |process, first_slot, give| {
        for (slot, row) in process.rows.buffers.iter_from(first_slot) {
            give(slot, 0, &mut || buffer_row(view, process, row))?;
        }
        Ok(())
    })
}

pub(super) fn cbs(view: &View, request: PageRequest) -> Page<CbRow> {
    let of_programs = program_walk(
        view,
        ProgramOnDevice::cbs,
        cb_key,
        |owner, cb, _on, devices| cb_row(owner.process, owner.program_id(), cb, devices),
    );
    page(view, request, |process, first_slot, give| {
        if is_tracked(process) {
            return of_programs(process, first_slot, give);
        }
        // Those of old senders belong to no program.
        for (slot, row) in process.rows.legacy_cbs.iter_from(first_slot) {
            give(slot, 0, &mut || {
                let devices = logical_ids(view, process, [row.device]);
                cb_row(process, None, &row.cb, devices)
            })?;
        }
        Ok(())
    })
}

pub(super) fn kernels(view: &View, request: PageRequest) -> Page<KernelRow> {
    let walk = program_walk(view, ProgramOnDevice::kernels, kernel_key, kernel_row);
    page(view, request, walk)
}

/// The page is full: no further row is needed.
pub(super) struct Full;

/// Takes a row's slot, its number there, and how to make it.
pub(super) type Give<'g, R> = dyn FnMut(u32, u32, &mut dyn FnMut() -> R) -> Result<(), Full> + 'g;

/// Collects rows behind the cursor until the page is full.
///
/// `walk` offers the rows of one process from a slot on, in order; a row is made only if it is
/// given.
pub(super) fn page<R: RowLength>(
    view: &View,
    request: PageRequest,
    walk: impl Fn(&ProcessView, u32, &mut Give<'_, R>) -> Result<(), Full>,
) -> Page<R> {
    let first = request
        .after
        .map_or((0, 0), |last| (last.process, last.slot));
    let mut rows = Vec::new();
    let mut bytes = PageBytes::default();
    let (mut last, mut is_full) = (None, false);
    for process in view.processes.iter_from(first.0) {
        let first_slot = if process.index == first.0 { first.1 } else { 0 };
        let full = walk(process, first_slot, &mut |slot, row, make| {
            let cursor = Cursor {
                process: process.index,
                slot,
                row,
            };
            if request.after.is_some_and(|after| cursor <= after) {
                return Ok(());
            }
            if rows.len() == request.limit || !bytes.have_room() {
                return Err(Full);
            }
            let made = make();
            bytes.add(&made);
            rows.push(made);
            last = Some(cursor);
            Ok(())
        });
        is_full = full.is_err();
        if is_full {
            break;
        }
    }
    Page {
        schema: SCHEMA,
        rows,
        next: last.filter(|_last| is_full).map(|last| last.to_string()),
        matched: None,
        matched_bytes: None,
    }
}

/// Walks over what programs have on their devices, equal entries of a program in one row.
fn program_walk<E: Copy, K: Ord, R: RowLength>(
    view: &View,
    entries: impl Fn(&ProgramOnDevice) -> &[E],
    key: impl Fn(&E, &ProgramOnDevice) -> K,
    make: impl Fn(&Owner<'_>, &E, &ProgramOnDevice, Vec<u32>) -> R,
) -> impl Fn(&ProcessView, u32, &mut Give<'_, R>) -> Result<(), Full> {
    move |process, first_slot, give| {
        for (slot, program) in process.rows.programs.iter_from(first_slot) {
            let owner = Owner { process, program };
            for (row, group) in (0..).zip(grouped(program, &entries, &key)) {
                let (_key, first, on) = &group[0];
                give(slot, row, &mut || {
                    let devices = group.iter().map(|(_key, _entry, on)| on.device);
                    make(&owner, first, on, logical_ids(view, process, devices))
                })?;
            }
        }
        Ok(())
    }
}

/// An entry with its key, and the device it is on.
type Placed<'p, K, E> = (K, E, &'p ProgramOnDevice);

/// The entries of a program, those that are equal but for their device together.
///
/// The runtime places a program once for a whole mesh, so most are.
fn grouped<'p, E: Copy, K: Ord>(
    program: &'p Program,
    entries: impl Fn(&ProgramOnDevice) -> &[E],
    key: impl Fn(&E, &ProgramOnDevice) -> K,
) -> Vec<Vec<Placed<'p, K, E>>> {
    let mut placed: Vec<Placed<'p, K, E>> = Vec::new();
    for on in &program.on {
        placed.extend(entries(on).iter().map(|entry| (key(entry, on), *entry, on)));
    }
    placed.sort_by(|one, other| one.0.cmp(&other.0));
    let mut groups: Vec<Vec<Placed<'p, K, E>>> = Vec::new();
    for each in placed {
        match groups.last_mut() {
            // Equal entries of one device are several: old senders can have them.
            Some(group)
                if group[0].0 == each.0
                    && group
                        .last()
                        .is_some_and(|last| last.2.device != each.2.device) =>
            {
                group.push(each);
            }
            _ => groups.push(vec![each]),
        }
    }
    groups
}

struct Owner<'v> {
    process: &'v ProcessView,
    program: &'v Program,
}

impl Owner<'_> {
    /// The client's number of the program; old senders have no programs.
    fn program_id(&self) -> Option<u64> {
        is_tracked(self.process).then_some(self.program.id.0)
    }
}

/// Whether a process sends identities and places: all but the old ones do.
pub(super) fn is_tracked(process: &ProcessView) -> bool {
    process.facts.identity.source != ttmem_event::Source::Legacy
}

pub(super) fn defined_text(process: &ProcessView, id: TextId) -> Option<String> {
    let defined = process.account.definitions.name(id)?;
    vocabulary::known_text(defined)
}

/// The frames of a Python stack.
pub(super) fn python(process: &ProcessView, id: TextId) -> Option<Vec<String>> {
    let frames = process.account.definitions.python_stack(id);
    let frames: Vec<String> = frames.map(vocabulary::text).collect();
    (!frames.is_empty()).then_some(frames)
}

/// The line of Python that something comes from.
pub(super) fn python_line(process: &ProcessView, id: TextId) -> Option<String> {
    let frames = process.account.definitions.python_stack(id);
    ttmem_report::user_frame(frames).map(vocabulary::text)
}

pub(super) fn instance(process: &ProcessView) -> Option<String> {
    process.facts.identity.instance.map(vocabulary::instance)
}

/// Logical ids of devices that are given as the process counts them.
fn logical_ids(
    view: &View,
    process: &ProcessView,
    slots: impl IntoIterator<Item = u32>,
) -> Vec<u32> {
    let devices = slots.into_iter().filter_map(|slot| {
        let device = process.devices.get(slot as usize)?;
        let device = view.devices.get(*device as usize)?;
        Some(device.facts.logical_id)
    });
    devices.collect()
}

pub(super) fn buffer_row(
    view: &View,
    process: &ProcessView,
    row: &ttmem_ledger::BufferRow,
) -> BufferRow {
    let mesh = process.account.meshes.get(row.mesh as usize);
    let devices = mesh.map_or(&[] as &[u32], |mesh| &mesh.devices);
    let placed = is_tracked(process);
    BufferRow {
        pid: process.facts.identity.pid,
        instance: instance(process),
        device_ids: logical_ids(view, process, devices.iter().copied()),
        class: vocabulary::class(row.class),
        id: HexId(row.id),
        address: Some(row.address),
        requested_bytes: row.requested_bytes,
        charged_bytes: row.charged_bytes(),
        per_bank_bytes: placed.then_some(row.per_bank_bytes),
        banks: placed.then_some(u32::from(row.banks)),
        layout: vocabulary::layout(row.layout),
        page_bytes: (row.page_bytes > 0).then_some(u64::from(row.page_bytes)),
        aliases: row.references.saturating_sub(1),
        time: Some(Timestamp::from_unix_nanos(row.time)),
        operation: defined_text(process, row.operation),
        stack: stack(process, row.stack),
        python: python(process, row.operation),
    }
}

/// The frames of a call stack, whole: whoever asks for one wants to find its lines.
fn stack(process: &ProcessView, id: TextId) -> Option<Vec<String>> {
    let frames = process.account.definitions.text(id)?;
    Some(vocabulary::frames(frames))
}

/// Everything a row shows, its number first: rows of a program come in that order.
fn cb_key(cb: &Cb, _on: &ProgramOnDevice) -> impl Ord + use<> {
    let place = (cb.address, cb.size_bytes, cb.cores_id, cb.core_count);
    (cb.number, cb.kind, place, cb.time)
}

fn cb_row(process: &ProcessView, program: Option<u64>, cb: &Cb, device_ids: Vec<u32>) -> CbRow {
    let placed = cb.cores_id != CoresId::NONE;
    CbRow {
        pid: process.facts.identity.pid,
        instance: instance(process),
        device_ids,
        program,
        // An old sender knows a circular buffer by its address.
        cb: HexId(if placed {
            u64::from(cb.number)
        } else {
            cb.address
        }),
        kind: placed.then(|| vocabulary::cb_kind(cb.kind)),
        address: Some(cb.address),
        size_bytes: cb.size_bytes,
        cores: placed.then_some(cb.core_count),
        total_bytes: cb.total_bytes(),
        time: Some(Timestamp::from_unix_nanos(cb.time)),
    }
}

/// Everything a row shows, the kernel first.
fn kernel_key(kernel: &Kernel, on: &ProgramOnDevice) -> impl Ord + use<> {
    let cores = (kernel.core_type, kernel.core_count, kernel.cores_id);
    let size = (kernel.binary_bytes, kernel.total_bytes);
    let rest = (kernel.name, kernel.kind, kernel.time, on.dispatches);
    (kernel.id, cores, size, rest)
}

fn kernel_row(
    owner: &Owner<'_>,
    kernel: &Kernel,
    on: &ProgramOnDevice,
    device_ids: Vec<u32>,
) -> KernelRow {
    KernelRow {
        pid: owner.process.facts.identity.pid,
        instance: instance(owner.process),
        device_ids,
        program: owner.program_id(),
        program_name: defined_text(owner.process, owner.program.name),
        kernel: HexId(kernel.id.0),
        name: defined_text(owner.process, kernel.name),
        kind: vocabulary::kernel_kind(kernel.kind),
        core_type: kernel.core_type.map(vocabulary::core_type),
        binary_bytes: kernel.binary_bytes,
        cores: kernel.core_count,
        total_bytes: kernel.total_bytes,
        time: Some(Timestamp::from_unix_nanos(kernel.time)),
        dispatches: on.dispatches,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_and_nothing_else_is_one() {
        let cursor = Cursor {
            process: 3,
            slot: u32::MAX,
            row: 0,
        };
        assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
        for text in [
            "",
            "-",
            "1-2",
            "1-2-3-4",
            "1-2-",
            "+1-2-3",
            "1- 2-3",
            "1-2-4294967296",
            "a-b-c",
            "１-2-3",
        ] {
            assert_eq!(Cursor::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_limit_is_checked() {
        for limit in [0, MAX_PAGE_ROWS + 1, u32::MAX] {
            assert!(PageRequest::new(None, Some(limit)).is_err(), "{limit}");
        }
        assert!(PageRequest::new(Some("0-0-0"), Some(MAX_PAGE_ROWS)).is_ok());
    }
}
