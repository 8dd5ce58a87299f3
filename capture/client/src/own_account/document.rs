//! The account as a JSON document, for whoever asked.

use super::json::Json;
use super::peak_lines::{self, Line, LinesAtPeaks};
use super::{Answer, AskError, Described, Peaks, Point, Rows};
use std::collections::{BTreeSet, HashSet};
use ttmem_account::totals::GaugeKind;
use ttmem_account::{BufferRow, HeldDevice, name_and_stack};
use ttmem_event::{Class, TextId};
use ttmem_ring::heap::Heap;

/// The document; an error where there is no memory for it.
pub(super) fn write(answer: &Answer) -> Result<Box<[u8]>, AskError> {
    let mut json = Json::default();
    let lines = answer.lines.as_ref().map(peak_lines::of).transpose()?;
    let mut texts = BTreeSet::new();
    let mut outcome = Ok(());
    json.object(|json| {
        json.key("stretch").number(answer.stretch);
        json.key("order").number(answer.order);
        json.key("lost_events").number(answer.facts.lost_events);
        json.key("untracked").list(|json| untracked(json, answer));
        json.key("devices").list(|json| {
            for slot in 0..answer.facts.devices.len() {
                json.object(|json| device(json, answer, slot, lines.as_ref(), &mut texts));
            }
        });
        json.key("timeline").list(|json| {
            for point in &answer.timeline {
                json.object(|json| write_point(json, point));
            }
        });
        if let Some(rows) = &answer.rows {
            outcome = write_rows(json, answer, rows, &mut texts);
        }
        json.key("texts").object(|json| {
            for id in texts {
                if let Some(text) = answer.facts.definitions.text(id) {
                    json.key(&id.0.to_string()).text(text);
                }
            }
        });
    });
    outcome?;
    json.finish()
}

/// What is known not to be reported, by its name.
fn untracked(json: &mut Json, answer: &Answer) {
    for untracked in &answer.facts.untracked {
        let name = answer.facts.definitions.name(untracked.what);
        json.text(name.unwrap_or("something"));
    }
}

/// The word for a figure, as the read API has it: `dram`, `l1`, …, `cb`, `kernel`.
fn word(kind: GaugeKind) -> String {
    match kind {
        GaugeKind::Class(Class::System) => "system".to_owned(),
        GaugeKind::Class(class) => class.name().to_ascii_lowercase(),
        GaugeKind::Cb => "cb".to_owned(),
        GaugeKind::Kernel => "kernel".to_owned(),
    }
}

fn device(
    json: &mut Json,
    answer: &Answer,
    slot: usize,
    lines: Option<&LinesAtPeaks>,
    texts: &mut BTreeSet<TextId>,
) {
    let peaks = answer.peaks.get(slot).copied().unwrap_or_default();
    describe(json, answer.devices.get(slot));
    json.key("is_open").flag(is_open(answer, slot));
    json.key("kinds").object(|json| {
        let held = answer.facts.devices.get(slot);
        for (held, kind) in held
            .iter()
            .flat_map(|held| GaugeKind::all().map(move |kind| (held, kind)))
        {
            let lines = lines.and_then(|lines| lines.get(&(slot, kind)));
            json.key(&word(kind)).object(|json| {
                figures(json, held, kind, &peaks);
                if let Some(lines) = lines {
                    json.key("peak_lines").list(|json| write_lines(json, lines));
                    texts.extend(lines.iter().map(|line| line.text));
                }
            });
        }
    });
}

fn describe(json: &mut Json, described: Option<&Described>) {
    let id = described.and_then(|described| described.logical_id);
    json.key("id").maybe(id.map(u64::from));
    match described.and_then(|described| described.unique_id) {
        Some(unique_id) => json.key("unique_id").text(&format!("{unique_id:016x}")),
        None => json.key("unique_id").null(),
    }
    match described.and_then(|described| described.board.as_ref()) {
        Some(board) => json.key("board").text(board),
        None => json.key("board").null(),
    }
}

/// Whether an allocator of the device hands out memory.
fn is_open(answer: &Answer, slot: usize) -> bool {
    answer.facts.meshes.iter().any(|mesh| {
        let hands_out = || mesh.allocators.iter().any(|each| each.capacity.is_some());
        mesh.devices.iter().any(|each| *each as usize == slot) && hands_out()
    })
}

fn figures(json: &mut Json, held: &HeldDevice, kind: GaugeKind, peaks: &Peaks) {
    let (capacity, count) = match kind {
        GaugeKind::Class(class) => (
            held.capacities[class.index()].map(|capacity| capacity.total_bytes()),
            held.totals.class(class).buffers,
        ),
        GaugeKind::Cb => (None, held.totals.cb.count),
        GaugeKind::Kernel => (None, held.totals.kernel.count),
    };
    json.key("bytes").number(held.totals.gauge(kind).bytes());
    json.key("peak_bytes").number(peaks[kind.index()].bytes);
    json.key("capacity_bytes").maybe(capacity);
    json.key("count").number(count);
}

fn write_lines(json: &mut Json, lines: &[Line]) {
    for line in lines {
        json.object(|json| {
            json.key("bytes").number(line.bytes);
            json.key("count").number(line.count);
            json.key("text").number(line.text.0.into());
            json.key("is_before").flag(line.is_before);
        });
    }
}

fn write_point(json: &mut Json, point: &Point) {
    json.key("time").number(point.time);
    for class in Class::ALL {
        let bytes = point.bytes[class.index()];
        if bytes > 0 {
            json.key(&word(GaugeKind::Class(*class))).number(bytes);
        }
    }
}

/// The largest rows, and how many there are.
fn write_rows(
    json: &mut Json,
    answer: &Answer,
    rows: &Rows,
    texts: &mut BTreeSet<TextId>,
) -> Result<(), AskError> {
    let total = |row: &BufferRow| {
        row.charged_bytes()
            .saturating_mul(devices_of(answer, row).len() as u64)
    };
    let all = || {
        let held = rows.held.buffers.iter().map(|(_slot, row)| (row, false));
        let held = held.filter(|(row, _closed)| row.order > rows.since_order);
        held.chain(rows.left.iter().map(|row| (row, true)))
    };
    let mut wanted: Vec<(&BufferRow, bool)> = Vec::new();
    let reserved = wanted.try_reserve_exact(all().count());
    reserved.map_err(|_none| AskError::NoMemory)?;
    wanted.extend(all());
    let bytes: u64 = wanted.iter().map(|(row, _closed)| total(row)).sum();
    let (more, more_bytes) = rows.unlisted;
    json.key("row_count").number(wanted.len() as u64 + more);
    json.key("row_bytes")
        .number(bytes.saturating_add(more_bytes));
    let by_size = |(row, _closed): &(&BufferRow, bool)| (std::cmp::Reverse(total(row)), row.order);
    if wanted.len() > rows.most {
        // Only the largest are put in order: there may be a million.
        wanted.select_nth_unstable_by_key(rows.most, by_size);
        wanted.truncate(rows.most);
    }
    wanted.sort_unstable_by_key(by_size);
    let binaries = binaries(rows)?;
    json.key("rows").list(|json| {
        for (row, is_closed) in &wanted {
            json.object(|json| {
                write_row(json, answer, row);
                json.key("is_closed").flag(*is_closed);
                json.key("is_binary")
                    .flag(is_binary(answer, row, &binaries));
            });
        }
    });
    // Where memory runs out meanwhile, the document is cut as well.
    let operations = wanted.iter().map(|(row, _closed)| row.operation);
    texts.extend(operations.take_while(|_text| !Heap::is_exhausted()));
    Ok(())
}

fn devices_of<'a>(answer: &'a Answer, row: &BufferRow) -> &'a [u32] {
    let mesh = answer.facts.meshes.get(row.mesh as usize);
    mesh.map_or(&[][..], |mesh| &mesh.devices)
}

fn write_row(json: &mut Json, answer: &Answer, row: &BufferRow) {
    json.key("kind").text(&word(GaugeKind::Class(row.class)));
    json.key("address").number(row.address);
    json.key("bytes").number(row.charged_bytes());
    json.key("requested_bytes").number(row.requested_bytes);
    json.key("layout").text(row.layout.name());
    json.key("text").number(row.operation.0.into());
    json.key("order").number(row.order);
    json.key("devices").list(|json| {
        for slot in devices_of(answer, row) {
            let described = answer.devices.get(*slot as usize);
            json.maybe(described.and_then(|known| known.logical_id).map(u64::from));
        }
    });
}

/// The sizes of the binaries of live programs, each with a device that it was sent to.
fn binaries(rows: &Rows) -> Result<HashSet<(u32, u64)>, AskError> {
    let programs = rows.held.programs.iter();
    let parts = programs.flat_map(|(_slot, program)| &program.on);
    let sizes = parts.filter_map(|on| Some((on.device, on.sent_bytes?)));
    let mut binaries = HashSet::new();
    for size in sizes {
        // There are few different ones.
        let reserved = binaries.try_reserve(1);
        reserved.map_err(|_none| AskError::NoMemory)?;
        binaries.insert(size);
    }
    Ok(binaries)
}

/// Whether a buffer is the binary of a program: of DRAM, as large, and of no operation's asking.
fn is_binary(answer: &Answer, row: &BufferRow, binaries: &HashSet<(u32, u64)>) -> bool {
    let text = answer.facts.definitions.text(row.operation);
    let is_named = text.is_some_and(|text| !name_and_stack(text).0.is_empty());
    let mut devices = devices_of(answer, row).iter();
    row.class == Class::Dram
        && !is_named
        && devices.any(|device| binaries.contains(&(*device, row.requested_bytes)))
}
