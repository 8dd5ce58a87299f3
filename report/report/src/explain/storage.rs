//! A program's storage ran into something: what, by how much, and whose it is.

use crate::explain::holders;
use crate::explain::holders_unknown;
use crate::explain::moment::{Caller, Moment, StorageRefused};
use crate::explain::words;
use crate::{
    Clash, Explanation, HeldBlock, InTheWay, StorageKind, StorageLimit, Verdict, short_line,
    size_text,
};

pub(crate) fn explain(moment: &Moment, storage: &StorageRefused, explanation: &mut Explanation) {
    let overlap_bytes = storage.end.saturating_sub(storage.limit);
    explanation.verdict = match storage.met {
        StorageLimit::EndOfL1 => Verdict::Capacity,
        _in_use => Verdict::Clash,
    };
    let in_the_way = (storage.met != StorageLimit::EndOfL1)
        .then_some(storage.buffers.as_ref())
        .flatten()
        .map(|buffers| in_the_way(storage, buffers));
    let lowest = in_the_way.iter().flatten().next();
    explanation.sentence = sentence(moment, storage, overlap_bytes, lowest);
    if let Some(in_the_way) = &in_the_way {
        let blocks: Vec<&HeldBlock> = in_the_way.iter().map(|each| &each.block).collect();
        explanation.holders = Some(holders::groups(&blocks));
    } else if storage.met != StorageLimit::EndOfL1 {
        explanation.unknown.push(holders_unknown(moment.witness));
    }
    let advice = advice(moment, storage.met, overlap_bytes, in_the_way.as_deref());
    explanation.advice.extend(advice);
    explanation.clash = Some(Clash {
        storage: storage.storage,
        met: storage.met,
        program: storage.program,
        cores: storage.cores.clone(),
        storage_start: storage.start,
        storage_end: storage.end,
        limit: storage.limit,
        overlap_bytes,
        in_the_way,
    });
}

/// Buffers that begin before the storage would end, by address.
fn in_the_way(storage: &StorageRefused, buffers: &[HeldBlock]) -> Vec<InTheWay> {
    let start = storage.start.unwrap_or(0);
    let mut found: Vec<InTheWay> = buffers
        .iter()
        .filter_map(|block| {
            let from = block.address.max(start);
            let to = block.address.saturating_add(block.size_bytes);
            let overlap_bytes = to.min(storage.end).checked_sub(from)?;
            (overlap_bytes > 0).then(|| InTheWay {
                block: block.clone(),
                overlap_bytes,
            })
        })
        .collect();
    found.sort_by_key(|each| each.block.address);
    found
}

fn sentence(
    moment: &Moment,
    storage: &StorageRefused,
    overlap_bytes: u64,
    lowest: Option<&InTheWay>,
) -> String {
    let what = match storage.storage {
        StorageKind::CircularBuffers => "Circular buffers",
        StorageKind::DataflowBuffers => "Dataflow buffers",
        StorageKind::Trace | StorageKind::Other => "Storage",
    };
    let end = words::address(storage.end);
    let limit = words::address(storage.limit);
    // As the runtime counts, in bytes: a clash is often by a few of them.
    let by = match overlap_bytes {
        0..=9999 => format!("{overlap_bytes} B"),
        more => format!("{more} B ({})", size_text(more)),
    };
    if storage.storage == StorageKind::Trace {
        return format!(
            "A captured trace would lie over DRAM that was in use while it was captured: it begins \
             at {limit}, and DRAM up to {end} was used, {by} further."
        );
    }
    let owner = owner(moment, storage);
    match storage.met {
        StorageLimit::EndOfL1 => format!(
            "L1 is too small for this program: {} {owner} end at {end}, {by} beyond the end of L1 \
             at {limit}.",
            what.to_lowercase()
        ),
        StorageLimit::ServiceCore => format!(
            "{what} {owner} end at {end}, {by} beyond the lowest allocation of the service cores \
             at {limit}."
        ),
        _l1_buffer => {
            let lowest = lowest.filter(|lowest| lowest.block.address == storage.limit);
            let lowest = lowest.map(|lowest| &lowest.block.owner);
            let whose = lowest
                .and_then(words::owner)
                .map_or_else(String::new, |whose| format!(" of {whose}"));
            let made = match lowest {
                Some(owner) if owner.of_call => ", which this call placed itself,",
                _another => "",
            };
            format!(
                "{what} {owner} end at {end}, {by} beyond the lowest L1 buffer{whose}{made} at \
                 {limit}."
            )
        }
    }
}

/// Whose the storage is: `of program 3 (ttnn.conv2d at model.py:57) on cores …`.
fn owner(moment: &Moment, storage: &StorageRefused) -> String {
    let program = storage.program.map_or_else(
        || "of a program".to_owned(),
        |id| format!("of program {id}"),
    );
    let caller = &moment.caller;
    let line = caller.python.as_deref().map(short_line);
    let operation = caller.operation.as_deref().map(words::operation);
    let caller = match (operation, line) {
        (Some(operation), Some(line)) => format!(" ({operation} at {line})"),
        (Some(operation), None) => format!(" ({operation})"),
        (None, Some(line)) => format!(" ({line})"),
        (None, None) => String::new(),
    };
    let cores = storage
        .cores
        .as_ref()
        .map_or_else(String::new, |cores| format!(" on cores {cores}"));
    format!("{program}{caller}{cores}")
}

fn advice(
    moment: &Moment,
    met: StorageLimit,
    overlap_bytes: u64,
    in_the_way: Option<&[InTheWay]>,
) -> Vec<String> {
    match met {
        StorageLimit::EndOfL1 => vec![format!(
            "no release can make it fit: make the operation's blocks smaller by {overlap_bytes} B \
             per core, or spread it over more cores"
        )],
        StorageLimit::CapturedDram => vec![
            "open the device with a trace_region_size, so that traces have memory of their own"
                .to_owned(),
        ],
        _in_use => way_out(
            &moment.caller,
            overlap_bytes,
            in_the_way.unwrap_or_default(),
        ),
    }
}

/// What to do about buffers in the way; not known which they are, there may be several.
fn way_out(caller: &Caller, overlap_bytes: u64, in_the_way: &[InTheWay]) -> Vec<String> {
    let own = in_the_way.iter().filter(|each| each.block.owner.of_call);
    let own = own.count() as u64;
    let others = in_the_way.len() as u64 - own;
    let gain = format!("gain {overlap_bytes} B per core");
    if own == 0 {
        let unless = words::unless(caller, 2);
        return vec![format!(
            "{gain}: release the buffers in the way before this program runs, {unless}, keep them \
             in DRAM, or make the operation's blocks smaller"
        )];
    }
    let mut advice = vec![format!(
        "{gain}: this call placed {} in the way itself, for its output or on the way to it. Have it \
         put its output in DRAM, give it less at once, or make the operation's blocks smaller",
        words::buffers(own)
    )];
    if others > 0 {
        let (which, them) = match others {
            1 => ("buffer".to_owned(), "it"),
            several => (words::buffers(several), "them"),
        };
        advice.push(format!(
            "the other {which} in the way: release {them} before this program runs, {}, or keep \
             {them} in DRAM",
            words::unless(caller, others),
        ));
    }
    advice
}
