//! The old protocol as its senders and viewers speak it, in all four sizes.
//!
//! Expected replies are put together here byte by byte, not with the codec under test.

mod accounting;
mod framing;
mod refusals;
mod viewers;

use crate::support::client::{Client, MESH};
use crate::support::old_client::{OldClient, request};
use crate::support::server::TestServer;
use ttmem_event::legacy::{Generation, Request, RequestKind, Totals};
use ttmem_event::{Class, Event, EventKind};

/// A record with these bytes at these places, and else zeros.
fn record(generation: Generation, kind: u8, device: i32, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; generation.record_bytes()];
    bytes[0] = kind;
    bytes[4..8].copy_from_slice(&device.to_le_bytes());
    for (offset, field) in fields {
        bytes[*offset..*offset + field.len()].copy_from_slice(field);
    }
    bytes
}

/// The RESPONSE about a device.
fn response(generation: Generation, device: i32, totals: &Totals) -> Vec<u8> {
    let Totals {
        dram,
        l1,
        l1_small,
        trace,
        cb,
        kernel,
    } = totals;
    let mut bytes = record(
        generation,
        4,
        device,
        &[
            (40, &dram.to_le_bytes()),
            (48, &l1.to_le_bytes()),
            (56, &l1_small.to_le_bytes()),
            (64, &trace.to_le_bytes()),
        ],
    );
    if generation.record_bytes() >= 128 {
        bytes[72..80].copy_from_slice(&cb.to_le_bytes());
        bytes[80..88].copy_from_slice(&kernel.to_le_bytes());
    }
    bytes
}

fn query(device: i32) -> Request {
    request(RequestKind::Query, device, 0, 0, 0)
}

fn device_info_query(device: i32) -> Request {
    request(RequestKind::DeviceInfoQuery, device, 0, 0, 0)
}

const MIXED: Totals = Totals {
    dram: 1 << 33,
    l1: 20_000,
    l1_small: 3_000,
    trace: 400_000,
    cb: 5_000,
    kernel: 600,
};

/// Reports that add up to [`MIXED`].
fn mixed_reports(device: i32) -> Vec<Request> {
    vec![
        request(RequestKind::Alloc, device, MIXED.dram, 0, 0x1000),
        request(RequestKind::Alloc, device, MIXED.l1, 1, 0x2000),
        request(RequestKind::Alloc, device, MIXED.l1_small, 3, 0x3000),
        request(RequestKind::Alloc, device, MIXED.trace, 4, 0x4000),
        request(RequestKind::CbAlloc, device, MIXED.cb, 0, 0x5000),
        request(RequestKind::KernelLoad, device, MIXED.kernel, 0, 0x6000),
    ]
}

#[test]
fn senders_of_all_four_sizes_on_one_socket_get_byte_exact_answers() {
    let server = TestServer::start(&["--board", "t3000"]);
    let mut clients: Vec<OldClient> = Generation::ALL
        .into_iter()
        .map(|generation| OldClient::connect(&server.socket(), generation))
        .collect();
    for (device, client) in (0..).zip(&mut clients) {
        client.send_all(&mixed_reports(device));
        client.totals(device);
    }
    for client in &mut clients {
        let generation = client.generation;
        for device in 0..4 {
            assert_eq!(
                client.ask(&query(device)),
                response(generation, device, &MIXED)
            );
        }
        let nothing = response(generation, 7, &Totals::default());
        assert_eq!(client.ask(&query(7)), nothing);
    }
    for client in &mut clients {
        let generation = client.generation;
        // The first size has no room for device information at all.
        let block = match generation.record_bytes() {
            72 => None,
            112 => Some(72),
            _larger => Some(88),
        };
        let all = client.ask(&device_info_query(-1));
        let unknown = client.ask(&device_info_query(8));
        assert_eq!(unknown, record(generation, 7, 8, &[]));
        let Some(block) = block else {
            assert_eq!(all, record(generation, 7, -1, &[]));
            continue;
        };
        let available = (block + 32, &1_u32.to_le_bytes()[..]);
        let count = (block + 36, &8_u32.to_le_bytes()[..]);
        assert_eq!(all, record(generation, 7, -1, &[available, count]));
        for device in 0..8 {
            // A Wormhole chip of an n300 board: 12 × 1 GiB of DRAM, 64 cores.
            let expected = record(
                generation,
                7,
                device,
                &[
                    (block, &(12_u64 << 30).to_le_bytes()),
                    (block + 8, &(64 * 1_499_136_u64).to_le_bytes()),
                    (block + 16, &2_u32.to_le_bytes()),
                    (block + 20, &12_u32.to_le_bytes()),
                    (block + 24, &(1_u32 << 30).to_le_bytes()),
                    (block + 28, &1_499_136_u32.to_le_bytes()),
                    available,
                ],
            );
            assert_eq!(
                client.ask(&device_info_query(device)),
                expected,
                "device {device}"
            );
        }
    }
}

#[test]
fn a_bank_of_4_gib_is_answered_with_the_nearest_32_bit_number() {
    let server = TestServer::start(&[]);
    let mut opener = Client::connect(&server.socket(), [1; 16]);
    opener.open_n150(0, 0xABC);
    let event = EventKind::CapacityReported {
        mesh: MESH,
        class: Class::Dram,
        banks: 8,
        base: 0,
        per_bank_bytes: 1 << 32,
        alignment: 32,
    };
    opener.send(&[Event {
        time: 1,
        kind: event,
    }]);
    let mut client = OldClient::connect(&server.socket(), Generation::G4);
    let info = client.ask(&device_info_query(0));
    let number = |offset: usize| u32::from_le_bytes(info[offset..offset + 4].try_into().unwrap());
    assert_eq!(
        info[88..96],
        (32_u64 << 30).to_le_bytes(),
        "DRAM of the device"
    );
    assert_eq!(number(88 + 20), 8, "channels");
    assert_eq!(
        number(88 + 24),
        u32::MAX,
        "4 GiB do not fit, and 0 is not near"
    );
}

#[test]
fn a_viewer_that_asks_one_question_and_waits_is_answered_in_its_size() {
    let server = TestServer::start(&["--board", "n150"]);
    let mut sender = OldClient::connect(&server.socket(), Generation::G4);
    sender.send_all(&mixed_reports(0));
    sender.totals(0);
    for generation in Generation::ALL {
        let mut viewer = OldClient::connect(&server.socket(), generation);
        assert_eq!(viewer.ask(&query(0)), response(generation, 0, &MIXED));
        // And the next one, now that the size is known.
        assert_eq!(viewer.ask(&query(0)), response(generation, 0, &MIXED));
        let mut viewer = OldClient::connect(&server.socket(), generation);
        let counted = viewer.ask(&device_info_query(-1));
        assert_eq!(counted[0], 7);
        assert_eq!(counted.len(), generation.record_bytes());
    }
}

#[test]
fn all_twelve_message_types_are_taken() {
    let server = TestServer::start(&[]);
    let mut client = OldClient::connect(&server.socket(), Generation::G3);
    for kind in RequestKind::ALL {
        client.send(&request(kind, 0, 64, 0, 0x40));
    }
    // Both questions among them are answered, in order, and the connection goes on.
    let totals = Totals::default();
    assert_eq!(client.reply(), response(Generation::G3, 0, &totals));
    assert_eq!(client.reply(), record(Generation::G3, 7, 0, &[]));
    assert_eq!(client.totals(0), totals, "each was given back by the next");
    crate::support::wait_until("the log tells of the two that only servers send", || {
        let log = server.log();
        log.contains("Unknown message type: 4") && log.contains("Unknown message type: 7")
    });
    assert_eq!(server.status()["anomalies"]["malformed"], 2);
}

#[test]
fn what_follows_a_question_counts_though_its_asker_leaves_without_the_answer() {
    let server = TestServer::start(&[]);
    let mut keeper = OldClient::connect(&server.socket(), Generation::G4);
    for round in 1..=200 {
        let mut client = OldClient::connect(&server.socket(), Generation::G4);
        let mut requests = vec![query(0); 40];
        requests.push(request(RequestKind::Alloc, 0, 10, 0, round));
        client.send_all(&requests);
        drop(client);
        crate::support::wait_until("its allocation is booked", || {
            keeper.totals(0).dram == 10 * round
        });
    }
}
