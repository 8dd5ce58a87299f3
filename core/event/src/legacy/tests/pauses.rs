//! A first record that is taken as whole because the sender paused.

use super::super::MalformedRequest;
use super::*;

/// A session that received one record of `generation` and then a pause.
fn paused(generation: Generation) -> Session {
    let mut session = Session::default();
    session.push(&encoded(generation, &[alloc()])).unwrap();
    session.pause();
    assert_eq!(session.emitted, [(generation, alloc())]);
    assert_eq!(session.framer.generation(), Some(generation));
    session
}

#[test]
fn pause_is_wanted_exactly_at_the_record_sizes_below_the_largest() {
    let bytes = encoded(Generation::G4, &[alloc()]);
    let mut session = Session::default();
    for length in 1..=bytes.len() {
        session.push(&bytes[length - 1..length]).unwrap();
        assert_eq!(
            session.framer.awaits_pause(),
            [72, 112, 128].contains(&length),
            "{length}"
        );
    }
    assert_eq!(session.emitted, [(Generation::G4, alloc())]);
}

#[test]
fn pause_elsewhere_changes_nothing() {
    let bytes = encoded(Generation::G2, &[alloc(), alloc()]);
    let mut session = Session::default();
    for &byte in &bytes {
        if !session.framer.awaits_pause() {
            session.pause();
        }
        session.push(&[byte]).unwrap();
    }
    session.finish().unwrap();
    assert_eq!(session.emitted, [(Generation::G2, alloc()); 2]);
}

#[test]
fn next_record_confirms_a_pause() {
    for generation in [Generation::G1, Generation::G2, Generation::G3] {
        let mut session = paused(generation);
        session.pause();
        let next = bare(RequestKind::Query, 2);
        session
            .push(&encoded(generation, &[next, alloc()]))
            .unwrap();
        session.finish().unwrap();
        assert_eq!(
            session.emitted,
            [alloc(), next, alloc()].map(|r| (generation, r))
        );
    }
}

#[test]
fn end_confirms_a_pause() {
    let mut session = paused(Generation::G1);
    assert_eq!(session.finish(), Ok(()));
    assert_eq!(session.emitted.len(), 1);
    assert_eq!(session.framer.generation(), Some(Generation::G1));
}

#[test]
fn zeros_raise_the_generation_and_emit_nothing() {
    let smaller = [Generation::G1, Generation::G2, Generation::G3];
    for (first, last) in smaller
        .into_iter()
        .flat_map(|f| Generation::ALL.map(|l| (f, l)))
    {
        let Some(zeros) = last.record_bytes().checked_sub(first.record_bytes()) else {
            continue;
        };
        let mut session = paused(first);
        for _ in 0..zeros {
            session.push(&[0]).unwrap();
            assert_eq!(session.framer.pending_bytes(), 0);
            assert!(!session.framer.awaits_pause());
        }
        assert_eq!(session.emitted.len(), 1, "the record came out twice");
        assert_eq!(session.framer.generation(), Some(last));
        let mut ended = Session {
            framer: session.framer.clone(),
            emitted: Vec::new(),
        };
        assert_eq!(ended.finish(), Ok(()));
        assert_eq!(ended.emitted, []);

        session
            .push(&encoded(last, &[bare(RequestKind::DumpRemaining, 0)]))
            .unwrap();
        session.finish().unwrap();
        assert_eq!(
            session.emitted[1..],
            [(last, bare(RequestKind::DumpRemaining, 0))]
        );
    }
}

#[test]
fn generation_is_the_smallest_still_possible() {
    let mut session = paused(Generation::G1);
    session.push(&[0]).unwrap();
    assert_eq!(session.framer.generation(), Some(Generation::G2));
    session.push(&[0; 39]).unwrap();
    assert_eq!(session.framer.generation(), Some(Generation::G2));
    session.push(&[0]).unwrap();
    assert_eq!(session.framer.generation(), Some(Generation::G3));
    session.push(&[0; 16]).unwrap();
    assert_eq!(session.framer.generation(), Some(Generation::G4));
}

#[test]
fn pause_in_the_middle_of_an_upgrade_is_harmless() {
    // 72 bytes, pause, 40 zeros, pause, then the next record of 112 bytes.
    let mut session = paused(Generation::G1);
    session.push(&[0; 40]).unwrap();
    session.pause();
    assert_eq!(session.framer.generation(), Some(Generation::G2));
    session.push(&encoded(Generation::G2, &[alloc()])).unwrap();
    session.finish().unwrap();
    assert_eq!(
        session.emitted,
        [(Generation::G1, alloc()), (Generation::G2, alloc())]
    );
}

#[test]
fn upgrade_glued_to_the_next_records_is_taken_apart() {
    let mut session = paused(Generation::G2);
    let bytes = [vec![0; 32], encoded(Generation::G4, &[alloc(), alloc()])].concat();
    session.push(&bytes).unwrap();
    assert_eq!(session.framer.generation(), Some(Generation::G4));
    assert_eq!(session.emitted.len(), 3);
    assert_eq!(session.finish(), Ok(()));
}

#[test]
fn next_record_inside_an_upgrade_is_refused() {
    let mut session = paused(Generation::G1);
    session.push(&[0; 39]).unwrap();
    let refusal = Err(FramingError::UnknownSize {
        offset: 111,
        found: 1,
    });
    assert_eq!(session.push(&encoded(Generation::G1, &[alloc()])), refusal);
    assert_eq!(session.finish(), refusal);
    assert_eq!(session.emitted.len(), 1);
}

#[test]
fn end_inside_an_upgrade_drops_what_reaches_no_size() {
    let mut session = paused(Generation::G1);
    session.push(&[0; 48]).unwrap();
    assert_eq!(
        session.finish(),
        Err(FramingError::Truncated { dropped: 8 })
    );
    assert_eq!(session.emitted.len(), 1);
}

#[test]
fn zeros_beyond_the_largest_record_are_refused() {
    let mut session = paused(Generation::G3);
    session.push(&[0; 16]).unwrap();
    let reason = MalformedRequest::UnknownType { found: 0 };
    assert_eq!(
        session.push(&[0]),
        Err(FramingError::Malformed { decoded: 1, reason })
    );
}
