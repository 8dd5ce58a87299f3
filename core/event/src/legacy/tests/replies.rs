//! Records to a client, read back.

use super::super::{
    DecodeReplyError, DeviceInfo, DeviceInfoReply, Reply, RingBuffer, Totals, encode_device_count,
    encode_device_info, encode_response,
};
use super::*;

const TOTALS: Totals = Totals {
    dram: 1,
    l1: 2,
    l1_small: 3,
    trace: 4,
    cb: 5,
    kernel: 6,
};

fn wormhole() -> DeviceInfo {
    DeviceInfo {
        total_dram_bytes: 12 << 30,
        total_l1_bytes: 64 * 1_499_136,
        arch_type: 2,
        num_dram_channels: 12,
        dram_bytes_per_channel: 1 << 30,
        l1_bytes_per_core: 1_499_136,
        ring_buffer: RingBuffer {
            total_bytes: 68_608,
            used_bytes: 100,
            num_programs: 7,
        },
    }
}

#[test]
fn program_totals_reach_only_generations_that_have_them() {
    for generation in Generation::ALL {
        let mut bytes = Vec::new();
        encode_response(generation, 3, &TOTALS, &mut bytes);
        let totals = match generation {
            Generation::G1 | Generation::G2 => Totals {
                cb: 0,
                kernel: 0,
                ..TOTALS
            },
            Generation::G3 | Generation::G4 => TOTALS,
        };
        assert_eq!(
            Reply::decode(generation, &bytes),
            Ok(Reply::Totals {
                device_id: 3,
                totals
            })
        );
    }
}

#[test]
fn device_info_reaches_generations_as_far_as_they_have_fields() {
    for generation in Generation::ALL {
        let mut bytes = Vec::new();
        encode_device_info(generation, 4, Some(&wormhole()), &mut bytes);
        let Reply::DeviceInfo(reply) = Reply::decode(generation, &bytes).unwrap() else {
            panic!("not a device-info reply");
        };
        let expected = match generation {
            Generation::G1 => DeviceInfo::default(),
            Generation::G2 | Generation::G3 => DeviceInfo {
                ring_buffer: RingBuffer::default(),
                ..wormhole()
            },
            Generation::G4 => wormhole(),
        };
        let is_available = generation != Generation::G1;
        assert_eq!(
            reply,
            DeviceInfoReply {
                device_id: 4,
                is_available,
                num_devices: 0,
                info: expected
            },
        );
    }
}

#[test]
fn channel_of_4_gib_saturates_instead_of_wrapping() {
    let info = DeviceInfo {
        dram_bytes_per_channel: 4 << 30,
        ..wormhole()
    };
    let mut bytes = Vec::new();
    encode_device_info(Generation::G3, 0, Some(&info), &mut bytes);
    assert_eq!(bytes[112..116], [0xff; 4]);
}

#[test]
fn unknown_device_is_all_zero_but_its_id() {
    for generation in Generation::ALL {
        let mut bytes = Vec::new();
        encode_device_info(generation, 9, None, &mut bytes);
        let mut expected = vec![0; generation.record_bytes()];
        expected[0] = 7;
        expected[4] = 9;
        assert_eq!(bytes, expected);
    }
}

#[test]
fn device_count_says_whether_there_are_any() {
    for (count, is_available) in [(0, false), (1, true), (32, true)] {
        let mut bytes = Vec::new();
        encode_device_count(Generation::G2, count, &mut bytes);
        let expected = DeviceInfoReply {
            device_id: -1,
            is_available,
            num_devices: count,
            info: DeviceInfo::default(),
        };
        assert_eq!(
            Reply::decode(Generation::G2, &bytes),
            Ok(Reply::DeviceInfo(expected))
        );
    }
}

#[test]
fn replies_append() {
    let mut bytes = Vec::new();
    encode_response(Generation::G1, 0, &TOTALS, &mut bytes);
    encode_device_count(Generation::G1, 1, &mut bytes);
    assert_eq!(bytes.len(), 144);
    assert_eq!((bytes[0], bytes[72]), (4, 7));
}

#[test]
fn reply_in_another_layout_is_refused() {
    // Device info of 128 bytes cut to 112: its fields lie where totals were inserted.
    let mut bytes = Vec::new();
    encode_device_info(Generation::G3, 4, Some(&wormhole()), &mut bytes);
    let length = Reply::decode(Generation::G2, &bytes);
    assert_eq!(
        length,
        Err(DecodeReplyError::Length {
            expected: 112,
            found: 128
        })
    );
    assert!(matches!(
        Reply::decode(Generation::G2, &bytes[..112]),
        Err(DecodeReplyError::UnexpectedByte { .. }),
    ));
}

#[test]
fn unexplained_bytes_are_refused() {
    let mut bytes = Vec::new();
    encode_response(Generation::G4, 3, &TOTALS, &mut bytes);
    for offset in (1..4).chain(8..40).chain(88..144) {
        let mut bad = bytes.clone();
        bad[offset] = 0x20;
        assert_eq!(
            Reply::decode(Generation::G4, &bad),
            Err(DecodeReplyError::UnexpectedByte {
                offset,
                found: 0x20
            }),
        );
    }
    for found in [0, 1, 3, 5, 6, 8, 255] {
        bytes[0] = found;
        let decoded = Reply::decode(Generation::G4, &bytes);
        assert_eq!(decoded, Err(DecodeReplyError::UnknownType { found }));
    }
}
