//! Where records begin and end when the sender does not pause.

use super::super::{DecodeRequestError, MalformedRequest};
use super::*;

fn malformed(decoded: u64, reason: MalformedRequest) -> Result<(), FramingError> {
    Err(FramingError::Malformed { decoded, reason })
}

#[test]
fn type_byte_after_the_first_record_decides_the_generation() {
    for generation in Generation::ALL {
        let mut session = Session::default();
        let mut bytes = encoded(generation, &[alloc()]);
        session.push(&bytes).unwrap();
        let decided_by_length = generation == Generation::G4;
        assert_eq!(session.framer.generation().is_some(), decided_by_length);
        assert_eq!(session.framer.awaits_pause(), !decided_by_length);
        bytes = encoded(generation, &[bare(RequestKind::Query, 5)]);
        session.push(&bytes[..1]).unwrap();
        assert_eq!(session.framer.generation(), Some(generation));
        assert_eq!(session.emitted, [(generation, alloc())]);
        session.push(&bytes[1..]).unwrap();
        assert_eq!(
            session.emitted[1..],
            [(generation, bare(RequestKind::Query, 5))]
        );
        session.finish().unwrap();
    }
}

#[test]
fn every_kind_is_emitted_replies_included() {
    let requests = RequestKind::ALL.map(|kind| bare(kind, 1));
    for generation in Generation::ALL {
        let mut session = Session::default();
        session.push(&encoded(generation, &requests)).unwrap();
        session.finish().unwrap();
        assert_eq!(session.emitted, requests.map(|r| (generation, r)));
    }
}

#[test]
fn single_bytes_come_out_as_whole_records() {
    let requests = [alloc(), bare(RequestKind::Free, 0), alloc()];
    for generation in Generation::ALL {
        let mut session = Session::default();
        for byte in encoded(generation, &requests) {
            session.push(&[byte]).unwrap();
            assert!(session.framer.pending_bytes() <= generation.record_bytes());
        }
        session.finish().unwrap();
        assert_eq!(session.emitted, requests.map(|r| (generation, r)));
    }
}

#[test]
fn end_of_stream_decides_by_length() {
    for generation in Generation::ALL {
        let mut session = Session::default();
        session.push(&encoded(generation, &[alloc()])).unwrap();
        session.finish().unwrap();
        assert_eq!(session.emitted, [(generation, alloc())]);
        assert_eq!(session.framer.generation(), Some(generation));
        session.finish().unwrap();
        assert_eq!(session.emitted.len(), 1, "the second end emitted again");
    }
}

#[test]
fn end_of_an_empty_stream_is_clean() {
    let mut session = Session::default();
    session.push(&[]).unwrap();
    assert_eq!(session.finish(), Ok(()));
    assert_eq!(session.framer.generation(), None);
}

#[test]
fn end_inside_the_first_record_drops_all_of_it() {
    let bytes = encoded(Generation::G4, &[alloc()]);
    for length in (1..144).filter(|l| ![72, 112, 128].contains(l)) {
        let mut session = Session::default();
        session.push(&bytes[..length]).unwrap();
        assert_eq!(
            session.finish(),
            Err(FramingError::Truncated { dropped: length })
        );
        assert_eq!(
            session.finish(),
            Err(FramingError::Truncated { dropped: length })
        );
        assert_eq!(session.emitted, []);
    }
}

#[test]
fn end_inside_a_later_record_drops_only_that() {
    let bytes = encoded(Generation::G2, &[alloc(), alloc()]);
    for length in 113..224 {
        let mut session = Session::default();
        session.push(&bytes[..length]).unwrap();
        assert_eq!(
            session.finish(),
            Err(FramingError::Truncated {
                dropped: length - 112
            })
        );
        assert_eq!(session.emitted, [(Generation::G2, alloc())]);
    }
}

#[test]
fn non_zero_byte_where_no_record_ends_is_refused() {
    for offset in 40..144 {
        let mut bytes = encoded(Generation::G4, &[alloc()]);
        bytes[offset] = 1;
        let mut session = Session::default();
        let result = session.push(&bytes[..=offset]);
        if Generation::from_record_bytes(offset).is_some() {
            assert_eq!(result, Ok(()));
            assert_eq!(session.emitted.len(), 1);
        } else {
            assert_eq!(result, Err(FramingError::UnknownSize { offset, found: 1 }));
            assert_eq!(session.emitted, []);
            assert!(!session.framer.awaits_pause());
        }
    }
}

#[test]
fn zero_after_the_largest_record_is_refused() {
    let mut session = Session::default();
    let mut bytes = encoded(Generation::G4, &[alloc()]);
    bytes.push(0);
    let expected = malformed(1, MalformedRequest::UnknownType { found: 0 });
    assert_eq!(session.push(&bytes), expected);
    assert_eq!(session.emitted, [(Generation::G4, alloc())]);
}

#[test]
fn stream_that_begins_with_no_type_is_refused_at_its_first_byte() {
    for found in [0, 13, 0x47, 0xff] {
        let mut session = Session::default();
        let expected = malformed(0, MalformedRequest::UnknownType { found });
        assert_eq!(session.push(&[found]), expected);
        assert_eq!(session.push(&encoded(Generation::G1, &[alloc()])), expected);
        session.pause();
        assert_eq!(session.finish(), expected, "the end forgot the error");
        assert_eq!(session.emitted, []);
    }
}

#[test]
fn first_fault_of_a_decided_record_is_named_at_once() {
    for generation in Generation::ALL {
        let record = encoded(generation, &[alloc()]);
        let reserved = [1, 2, 3, 17, 18, 19].into_iter().chain(40..record.len());
        for offset in reserved {
            let mut bytes = [record.clone(), record.clone()].concat();
            bytes[record.len() + offset] = 0xee;
            let reason = MalformedRequest::NonZeroByte {
                offset,
                found: 0xee,
            };
            let mut whole = Session::default();
            assert_eq!(whole.push(&bytes), malformed(1, reason));
            let mut cut = Session::default();
            assert_eq!(
                cut.push(&bytes[..=record.len() + offset]),
                malformed(1, reason)
            );
            assert_eq!(cut.emitted, [(generation, alloc())]);
            let decoded = Request::decode(generation, &bytes[record.len()..]);
            assert_eq!(decoded, Err(DecodeRequestError::Malformed(reason)));
        }
    }
}

#[test]
fn other_tools_record_of_32_bytes_is_refused() {
    // type, device, size, id, pid: another program's layout on the same socket.
    let mut record = [0; 32];
    record[0] = 8;
    record[8..16].copy_from_slice(&4096_u64.to_le_bytes());
    record[16] = 3;
    record[24..28].copy_from_slice(&1_714_322_i32.to_le_bytes());

    let mut session = Session::default();
    let refusal = Err(FramingError::UnknownSize {
        offset: 41,
        found: 0x10,
    });
    assert_eq!(session.push(&record.repeat(9)), refusal);
    assert_eq!(session.emitted, []);

    // Without a size the pid of the second record gives it away.
    record[8..16].fill(0);
    let mut session = Session::default();
    let refused = session.push(&record.repeat(2));
    assert_eq!(
        refused,
        Err(FramingError::UnknownSize {
            offset: 48,
            found: 3
        })
    );

    let mut session = Session::default();
    session.push(&record).unwrap();
    assert!(!session.framer.awaits_pause(), "32 bytes are no record");
    assert_eq!(
        session.finish(),
        Err(FramingError::Truncated { dropped: 32 })
    );
}

#[test]
fn decoding_a_slice_of_the_wrong_length_names_both() {
    let bytes = encoded(Generation::G3, &[alloc()]);
    for found in [0, 39, 40, 127] {
        assert_eq!(
            Request::decode(Generation::G3, &bytes[..found]),
            Err(DecodeRequestError::Length {
                expected: 128,
                found
            }),
        );
    }
    assert_eq!(Request::decode(Generation::G3, &bytes), Ok(alloc()));
}

#[test]
fn messages_say_what_is_wrong_and_where() {
    let reason = MalformedRequest::NonZeroByte {
        offset: 17,
        found: 0x0a,
    };
    assert_eq!(
        FramingError::Malformed {
            decoded: 12,
            reason
        }
        .to_string(),
        "after 12 whole messages: byte 17 of the message is 0x0a where the protocol has zero",
    );
    assert_eq!(
        FramingError::UnknownSize {
            offset: 96,
            found: 2
        }
        .to_string(),
        "byte 96 of the first message is 0x02, but messages are 72, 112, 128 or 144 bytes, \
         zero from byte 40 on",
    );
}
