//! Properties that hold for every stream and every way to cut it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::Reply;
use super::*;
use crate::fuzz::check_framer;

fn generations() -> impl Strategy<Value = Generation> {
    select(Generation::ALL.as_slice())
}

prop_compose! {
    fn requests()(
        kind in select(RequestKind::ALL.as_slice()),
        device_id in any::<i32>(),
        size in any::<u64>(),
        buffer_type in any::<u8>(),
        process_id in any::<i32>(),
        buffer_id in any::<u64>(),
        timestamp in any::<u64>(),
    ) -> Request {
        Request { kind, device_id, size, buffer_type, process_id, buffer_id, timestamp }
    }
}

/// Pushes `bytes` in chunks of the given lengths, over and over.
fn push_cut(session: &mut Session, bytes: &[u8], lengths: &[usize]) -> Result<(), FramingError> {
    let mut rest = bytes;
    for &length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at(length.min(rest.len()));
        rest = after;
        session.push(chunk)?;
        assert!(session.framer.pending_bytes() < 144);
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_requests_in_any_cut_come_out(
        generation in generations(),
        list in vec(requests(), 0..12),
        lengths in vec(1_usize..400, 1..8),
    ) {
        let mut session = Session::default();
        push_cut(&mut session, &encoded(generation, &list), &lengths).unwrap();
        let expected: Vec<_> = list.iter().map(|&r| (generation, r)).collect();
        if list.len() >= 2 {
            prop_assert_eq!(&session.emitted, &expected, "the end was needed");
        }
        prop_assert_eq!(session.finish(), Ok(()));
        prop_assert_eq!(&session.emitted, &expected);
        prop_assert_eq!(session.framer.generation(), list.first().map(|_| generation));
    }

    #[test]
    fn pauses_at_every_whole_size_lose_and_repeat_nothing(
        generation in generations(),
        list in vec(requests(), 1..6),
        lengths in vec(1_usize..100, 1..6),
    ) {
        let bytes = encoded(generation, &list);
        let mut session = Session::default();
        let mut rest = bytes.as_slice();
        for &length in lengths.iter().cycle() {
            let (chunk, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            session.push(chunk).unwrap();
            if session.framer.awaits_pause() {
                session.pause();
            }
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(session.finish(), Ok(()));
        let found: Vec<_> = session.emitted.iter().map(|e| e.1).collect();
        prop_assert_eq!(found, list);
        prop_assert!(session.emitted[1..].iter().all(|e| e.0 == generation));
        prop_assert_eq!(session.framer.generation(), Some(generation));
    }

    #[test]
    fn an_early_record_may_grow_to_any_larger_one(
        first in requests(),
        next in requests(),
        smaller in 0_usize..4,
        larger in 0_usize..4,
        lengths in vec(1_usize..60, 1..5),
    ) {
        prop_assume!(smaller < larger);
        let (smaller, larger) = (Generation::ALL[smaller], Generation::ALL[larger]);
        let bytes = encoded(larger, &[first, next, next]);
        let mut session = Session::default();
        session.push(&bytes[..smaller.record_bytes()]).unwrap();
        prop_assert!(session.framer.awaits_pause());
        session.pause();
        push_cut(&mut session, &bytes[smaller.record_bytes()..], &lengths).unwrap();
        prop_assert_eq!(session.finish(), Ok(()));
        prop_assert_eq!(session.emitted, [(smaller, first), (larger, next), (larger, next)]);
    }

    #[test]
    fn random_bytes_keep_every_promise(input in vec(any::<u8>(), 0..600)) {
        check_framer(&input);
    }

    #[test]
    fn nearly_valid_streams_keep_every_promise(
        generation in generations(),
        list in vec(requests(), 1..5),
        controls in vec(any::<u8>(), 0..32),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut stream = encoded(generation, &list);
        for (at, byte) in damage {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        stream.truncate(cut.index(stream.len()) + 1);
        let count = u8::try_from(controls.len()).unwrap();
        check_framer(&[vec![count], controls, stream].concat());
    }

    #[test]
    fn random_records_never_break_the_decoders(
        generation in generations(),
        kind in 0_u8..14,
        mut bytes in vec(prop_oneof![4 => Just(0), 1 => any::<u8>()], 144),
    ) {
        bytes[0] = kind;
        bytes.truncate(generation.record_bytes());
        if let Ok(request) = Request::decode(generation, &bytes) {
            prop_assert_eq!(&encoded(generation, &[request]), &bytes);
        }
        if Reply::decode(generation, &bytes).is_ok() {
            prop_assert!(kind == 4 || kind == 7);
        }
    }
}
