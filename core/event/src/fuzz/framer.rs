//! The check of the fuzz target `legacy_framer`.

use crate::legacy::{Framer, FramingError, Generation, Request};

/// Most control bytes an input can have.
const MAX_CONTROLS: usize = 31;
/// In a control byte: a pause follows the chunk.
const PAUSE: u8 = 0x80;

/// What a framer made of a whole stream.
struct Outcome {
    emitted: Vec<(Generation, Request)>,
    result: Result<(), FramingError>,
    generation: Option<Generation>,
}

/// Frames one input in several ways and asserts that the outcomes agree.
///
/// The input is `[n, control × n, stream…]`. Each control byte cuts a chunk off the
/// stream: the low seven bits are its length, the top bit puts a pause after it.
///
/// # Panics
///
/// If the framer breaks a promise.
pub fn check_framer(input: &[u8]) {
    let Some((&count, rest)) = input.split_first() else {
        return;
    };
    let count = (usize::from(count) % (MAX_CONTROLS + 1)).min(rest.len());
    let (controls, stream) = rest.split_at(count);

    let whole = run(&[], stream, false);
    let chunked = run(controls, stream, false);
    assert_eq!(
        whole.emitted, chunked.emitted,
        "the cuts changed what came out"
    );
    assert_eq!(whole.result, chunked.result, "the cuts changed the verdict");
    assert_eq!(
        whole.generation, chunked.generation,
        "the cuts changed the generation"
    );
    let single_bytes = run(&vec![1; stream.len()], stream, false);
    assert_eq!(
        whole.emitted, single_bytes.emitted,
        "single bytes changed what came out"
    );
    assert_eq!(
        whole.result, single_bytes.result,
        "single bytes changed the verdict"
    );

    check_reencoding(&whole, stream);
    check_paused(&whole, &run(controls, stream, true));
}

/// Frames `stream` cut as `controls` say, then its rest in one piece.
fn run(controls: &[u8], stream: &[u8], pauses: bool) -> Outcome {
    let mut framer = Framer::new();
    let mut emitted = Vec::new();
    let mut sink = |generation, request| emitted.push((generation, request));
    let mut rest = stream;
    let mut pushed = Ok(());
    let cuts = controls
        .iter()
        .map(|c| (usize::from(c & !PAUSE), c & PAUSE != 0));
    for (length, pause) in cuts.chain([(stream.len(), false)]) {
        let (chunk, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        pushed = framer.push(chunk, &mut sink);
        assert!(
            framer.pending_bytes() < Generation::G4.record_bytes(),
            "held a whole record"
        );
        if pauses && pause {
            framer.pause(&mut sink);
            assert!(
                !framer.awaits_pause(),
                "a pause left the first record undecided"
            );
        }
    }
    let result = framer.finish(&mut sink);
    assert!(
        pushed.is_ok() || result == pushed,
        "the end of the stream forgave an error"
    );
    assert_eq!(
        framer.finish(&mut sink),
        result,
        "the second end differs from the first"
    );
    let generation = framer.generation();
    Outcome {
        emitted,
        result,
        generation,
    }
}

/// What came out, encoded again, is what went in, up to the fault if there was one.
fn check_reencoding(outcome: &Outcome, stream: &[u8]) {
    let mut encoded = Vec::new();
    for (generation, request) in &outcome.emitted {
        assert_eq!(
            Some(*generation),
            outcome.generation,
            "one stream, one generation"
        );
        request.encode(*generation, &mut encoded);
        let last = &encoded[encoded.len() - generation.record_bytes()..];
        assert_eq!(Request::decode(*generation, last), Ok(*request));
    }
    assert!(
        stream.starts_with(&encoded),
        "encoding again gave other bytes"
    );
    let rest = stream.len() - encoded.len();
    match outcome.result {
        Ok(()) => assert_eq!(rest, 0, "bytes vanished"),
        Err(FramingError::Truncated { dropped }) => assert_eq!(rest, dropped),
        Err(FramingError::UnknownSize { offset, found }) => {
            assert!(
                outcome.emitted.is_empty(),
                "emitted a record of unknown size"
            );
            assert_eq!(stream[offset], found);
        }
        Err(FramingError::Malformed { decoded, .. }) => {
            assert_eq!(usize::try_from(decoded), Ok(outcome.emitted.len()));
            assert!(rest > 0, "refused a byte that is not there");
        }
    }
}

/// Pauses may only let the first record out early, with a smaller generation.
fn check_paused(whole: &Outcome, paused: &Outcome) {
    let requests = |outcome: &Outcome| outcome.emitted.iter().map(|e| e.1).collect::<Vec<_>>();
    let (expected, found) = (requests(whole), requests(paused));
    if expected.is_empty() {
        assert!(
            found.len() <= 1,
            "a pause let more than the first record out"
        );
    } else {
        assert_eq!(expected, found, "a pause changed what came out");
        assert!(
            paused.emitted[0].0 <= whole.emitted[0].0,
            "a pause made the record longer"
        );
        assert_eq!(whole.emitted[1..], paused.emitted[1..]);
        assert_eq!(
            whole.generation, paused.generation,
            "a pause decided the generation"
        );
    }
    match (whole.result, paused.result) {
        // The part of a record that was already let out is not dropped.
        (
            Err(FramingError::Truncated { dropped: a }),
            Err(FramingError::Truncated { dropped: b }),
        ) => {
            assert!(b <= a);
        }
        (a, b) => assert_eq!(a, b, "a pause changed the verdict"),
    }
}
