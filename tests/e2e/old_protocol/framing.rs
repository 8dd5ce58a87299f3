//! A stream of records without marks: split anywhere, glued, or in single bytes.

use super::{query, response};
use crate::support::old_client::{OldClient, request};
use crate::support::server::TestServer;
use crate::support::wait_until;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;
use ttmem_event::legacy::{Generation, Request, RequestKind, Totals};

/// Longer than the server waits before it believes that a message is whole.
const PAUSE: Duration = Duration::from_millis(35);

/// An allocation, a kernel and a question; each call adds the same again.
fn stream(generation: Generation, id: u64) -> Vec<u8> {
    let requests = [
        request(RequestKind::Alloc, 3, 1000, 0, id * 0x100),
        request(RequestKind::KernelLoad, 3, 10, 1, id),
        query(3),
    ];
    let mut bytes = Vec::new();
    for request in requests {
        request.encode(generation, &mut bytes);
    }
    bytes
}

/// What [`stream`] is answered with after it was sent so many times.
fn answer(generation: Generation, times: u64) -> Vec<u8> {
    let totals = Totals {
        dram: 1000 * times,
        kernel: 10 * times,
        ..Totals::default()
    };
    response(generation, 3, &totals)
}

/// Sends a stream in two pieces over a separate connection.
fn split(socket: &Path, generation: Generation, id: u64, at: usize, pause: Duration) {
    // A process that connects this often is refused now and then.
    let reply = (0..1000).find_map(|_try| {
        let reply = try_split(socket, generation, id, at, pause).ok();
        if reply.is_none() {
            std::thread::sleep(Duration::from_millis(8));
        }
        reply
    });
    assert_eq!(
        reply,
        Some(answer(generation, id)),
        "split at byte {at} of {generation:?}"
    );
}

fn try_split(
    socket: &Path,
    generation: Generation,
    id: u64,
    at: usize,
    pause: Duration,
) -> io::Result<Vec<u8>> {
    let mut client = OldClient::connect(socket, generation);
    let bytes = stream(generation, id);
    client.stream.write_all(&bytes[..at])?;
    std::thread::sleep(pause);
    client.stream.write_all(&bytes[at..])?;
    let mut reply = vec![0; generation.record_bytes()];
    client.stream.read_exact(&mut reply)?;
    Ok(reply)
}

#[test]
fn records_may_be_split_at_every_byte() {
    let server = TestServer::start(&["--quiet"]);
    let mut id = 0;
    for generation in Generation::ALL {
        for at in 1..3 * generation.record_bytes() {
            id += 1;
            split(
                &server.socket(),
                generation,
                id,
                at,
                Duration::from_micros(100),
            );
        }
    }
    assert!(
        !server.log().contains("Connection closed"),
        "{}",
        server.log()
    );
}

#[test]
fn records_may_be_split_by_a_pause_that_makes_the_first_look_whole() {
    let server = TestServer::start(&["--quiet"]);
    let mut id = 0;
    for generation in Generation::ALL {
        let size = generation.record_bytes();
        let places = [
            1, 39, 40, 41, 71, 72, 73, 111, 112, 113, 127, 128, 129, 143, 144, 145,
        ];
        for at in places.into_iter().filter(|at| *at < size + 2) {
            id += 1;
            split(&server.socket(), generation, id, at, PAUSE);
        }
        for at in [size + 1, size + 40, 2 * size - 1, 2 * size, 2 * size + 1] {
            id += 1;
            split(&server.socket(), generation, id, at, PAUSE);
        }
    }
    assert!(
        !server.log().contains("Connection closed"),
        "{}",
        server.log()
    );
}

#[test]
fn records_may_come_in_single_bytes() {
    let server = TestServer::start(&[]);
    for (id, generation) in (1..).zip(Generation::ALL) {
        let mut client = OldClient::connect(&server.socket(), generation);
        for byte in stream(generation, id) {
            client.stream.write_all(&[byte]).expect("the server reads");
        }
        assert_eq!(client.reply(), answer(generation, id));
    }
}

#[test]
fn records_may_be_glued() {
    let server = TestServer::start(&[]);
    for generation in Generation::ALL {
        let mut client = OldClient::connect(&server.socket(), generation);
        let requests: Vec<Request> = (0..1000)
            .map(|id| request(RequestKind::Alloc, 0, 8, 0, id))
            .chain((0..999).map(|id| request(RequestKind::Free, 0, 0, 0, id)))
            .chain([query(0)])
            .collect();
        client.send_all(&requests);
        let left = Totals {
            dram: 8,
            ..Totals::default()
        };
        assert_eq!(client.reply(), response(generation, 0, &left));
        client.send(&request(RequestKind::Free, 0, 0, 0, 999));
        assert_eq!(client.totals(0), Totals::default());
    }
}

#[test]
fn a_question_that_looked_like_72_bytes_and_was_longer_is_followed_by_whole_answers() {
    let server = TestServer::start(&[]);
    for generation in [Generation::G2, Generation::G3, Generation::G4] {
        let mut client = OldClient::connect(&server.socket(), generation);
        let mut bytes = Vec::new();
        query(0).encode(generation, &mut bytes);
        client
            .stream
            .write_all(&bytes[..72])
            .expect("the server reads");
        let mut early = [0; 72];
        client
            .stream
            .read_exact(&mut early)
            .expect("the server believes it whole");
        assert_eq!(
            early[..],
            response(Generation::G1, 0, &Totals::default())[..]
        );
        client
            .stream
            .write_all(&bytes[72..])
            .expect("the server reads");
        // The rest of that answer cannot be made up later; all others are of the right size.
        assert_eq!(
            client.ask(&query(5)),
            response(generation, 5, &Totals::default())
        );
        assert_eq!(
            client.ask(&query(6)),
            response(generation, 6, &Totals::default())
        );
    }
}

#[test]
fn a_stream_that_cannot_be_explained_is_closed_with_a_reason_and_nothing_is_guessed() {
    let server = TestServer::start(&[]);
    let mut good = OldClient::connect(&server.socket(), Generation::G4);
    good.send(&request(RequestKind::Alloc, 0, 500, 0, 1));
    let mut bytes = Vec::new();
    request(RequestKind::Alloc, 0, 30, 0, 2).encode(Generation::G4, &mut bytes);
    request(RequestKind::Alloc, 0, 7, 0, 3).encode(Generation::G4, &mut bytes);
    let reasons = [
        (144 + 1, "byte 1 of the message is 0xee"),
        (144 + 18, "byte 18 of the message is 0xee"),
        (144 + 50, "byte 50 of the message is 0xee"),
        (144, "message type 238 is not one of 1 to 12"),
        (99, "byte 99 of the first message is 0xee"),
    ];
    for (place, reason) in reasons {
        let mut client = OldClient::connect(&server.socket(), Generation::G4);
        let mut wrong = bytes.clone();
        wrong[place] = 0xEE;
        client.stream.write_all(&wrong).expect("the server reads");
        let mut rest = Vec::new();
        let ended = client.stream.read_to_end(&mut rest);
        assert!(
            rest.is_empty() && ended.is_ok(),
            "closed without an answer: {ended:?}"
        );
        wait_until(reason, || server.log().contains(reason));
    }
    // The whole record before the wrong byte counts, once: it came again at the same address.
    assert_eq!(good.totals(0).dram, 530);
}
