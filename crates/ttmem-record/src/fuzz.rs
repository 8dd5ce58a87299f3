//! The check of the fuzz target `recording`, and its kept inputs as an ordinary test.

use crate::blocks::Blocks;
use crate::format::{BlockHeader, BlockKind, FileHeader};
use crate::player::{Player, Until};
use crate::recording::Recording;
use std::io::Cursor;
use ttmem_ledger::{Departure, Ledger, Limits, state_fingerprint};

/// Reads an input in one of three ways and plays what comes of it.
///
/// The first byte says what follows: a whole file; or the unpacked inputs of a block, after the
/// numbers of its entries and of its events, which get the checksums that let them through; or the
/// state of a ledger without its fingerprint.
///
/// # Panics
/// When totals do not add up after inputs that were read: that is the property under test.
pub fn check_recording(input: &[u8]) {
    let Some(([how, entries, events], rest)) = input.split_first_chunk::<3>() else {
        return;
    };
    match how % 3 {
        0 => check_file(rest.to_vec()),
        1 => check_file(file_with(rest, (*entries).into(), (*events).into())),
        _state => check_state(rest),
    }
}

fn check_file(bytes: Vec<u8>) {
    let Ok(recording) = Recording::open(Cursor::new(bytes)) else {
        return;
    };
    let Ok(mut player) = Player::new(recording) else {
        return;
    };
    let mut last = 0;
    let played = player.play(Until::End, |_ledger, time, _played| {
        assert!(time >= last, "instants go back");
        last = time;
    });
    player.view().audit().expect("totals add up");
    if played.is_ok() {
        let events = player.ledger().events();
        player.seek(last / 2).expect("everything could be read");
        player.seek_event(events).expect("everything could be read");
        assert!(player.ledger().events() <= events);
    }
}

/// A recording that begins with nothing and has these inputs.
fn file_with(payload: &[u8], entries: u32, events: u32) -> Vec<u8> {
    let mut blocks = Blocks::new(Vec::new(), 1, None).expect("a packer");
    let header = |kind, entries, events| BlockHeader {
        kind,
        is_start: kind == BlockKind::State,
        entries,
        events,
        first_time: 5,
        last_time: 5,
        first_event: 0,
        last_event: events.into(),
        stored_bytes: 0,
        raw_bytes: 0,
        payload_sum: 0,
    };
    let mut state = Vec::new();
    Ledger::default().save(&mut state);
    let written = blocks.put(&FileHeader::new(false, 5).encode());
    written.expect("memory takes everything");
    for (header, payload) in [
        (header(BlockKind::State, 0, 0), &state[..]),
        (header(BlockKind::Inputs, entries, events), payload),
    ] {
        let written = blocks.block(header, payload);
        written.expect("memory takes everything");
    }
    blocks.out
}

/// Whatever a state makes, it works.
fn check_state(body: &[u8]) {
    let mut bytes = state_fingerprint().to_le_bytes().to_vec();
    bytes.extend_from_slice(body);
    let Ok(mut ledger) = Ledger::load(&bytes, Limits::default()) else {
        return;
    };
    let view = ledger.view();
    let _residents = view.residents();
    let _geometry = view.geometry();
    ledger.set_mark(0, 9, "mark".into(), 1);
    let slots: Vec<u32> = view.processes.iter().map(|process| process.index).collect();
    for slot in slots {
        ledger.depart(slot, Departure::Ended, 9);
    }
    let mut again = Vec::new();
    ledger.save(&mut again);
    assert!(Ledger::load(&again, Limits::default()).is_ok());
}

#[cfg(test)]
mod tests {
    #[test]
    fn kept_inputs_pass() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/recording");
        let mut count = 0;
        for entry in std::fs::read_dir(corpus).expect("the corpus is there") {
            let path = entry.expect("a file").path();
            super::check_recording(&std::fs::read(path).expect("can be read"));
            count += 1;
        }
        assert!(count > 0);
    }
}
