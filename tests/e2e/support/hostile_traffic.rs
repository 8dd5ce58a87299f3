//! Everything a server should never be sent.

use super::client::{allocation, n150, n150_capacities};
use super::random::Random;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use ttmem_event::legacy::{Generation, Request, RequestKind};
use ttmem_event::wire::{Clock, Frame, FrameKind, Hello, Preamble};
use ttmem_event::{Event, Source};

/// Sends so many messages over many connections, one after the other.
pub(crate) fn attack(socket: &Path, seed: u64, messages: u64) {
    let mut random = Random::new(seed);
    let mut sent = 0;
    let mut kept = Vec::new();
    while sent < messages {
        let (bytes, count) = salvo(&mut random);
        sent += count;
        let mut stream = UnixStream::connect(socket).expect("the server still listens");
        stream
            .set_write_timeout(Some(Duration::from_secs(2)))
            .expect("a timeout");
        stream
            .set_read_timeout(Some(Duration::from_secs(2)))
            .expect("a timeout");
        // The server may close at the first wrong byte: the rest is then not taken.
        let _refused = stream.write_all(&bytes);
        match random.below(8) {
            0 => kept.push(stream),
            1 => {
                let mut answer = [0; 512];
                let _refused = stream.shutdown(std::net::Shutdown::Write);
                let _ended = stream.read(&mut answer);
            }
            _leave => {}
        }
        if kept.len() > 32 {
            kept.clear();
        }
    }
}

/// The bytes of one connection, and how many messages they are.
fn salvo(random: &mut Random) -> (Vec<u8>, u64) {
    match random.below(8) {
        0 => {
            let count = 1 + random.below(300);
            (random.bytes(count), 1)
        }
        1 => (http(random), 1),
        2 => {
            // A first byte that no protocol begins with, then honest records.
            let (mut bytes, count) = records(random, 4);
            bytes[0] = 13 + random.byte() % 52;
            (bytes, count)
        }
        3 => {
            let (mut bytes, count) = records(random, 40);
            bytes.truncate(1 + random.below(bytes.len()));
            (bytes, count)
        }
        4 => {
            let (mut bytes, count) = records(random, 40);
            mutate(random, &mut bytes);
            (bytes, count)
        }
        5 => frames(random),
        _many => records(random, 2000),
    }
}

/// Records whose form is right and whose content is anything.
fn records(random: &mut Random, most: usize) -> (Vec<u8>, u64) {
    let generation = random.pick(&Generation::ALL);
    let count = 1 + random.below(most);
    let mut bytes = Vec::with_capacity(count * generation.record_bytes());
    for _record in 0..count {
        let kind = match random.pick(&RequestKind::ALL) {
            // Each prints all there is: a few are enough.
            RequestKind::DumpRemaining | RequestKind::DumpKernels if random.below(200) > 0 => {
                RequestKind::Free
            }
            kind => kind,
        };
        let request = Request {
            kind,
            device_id: match random.below(4) {
                0 => {
                    i32::from_le_bytes([random.byte(), random.byte(), random.byte(), random.byte()])
                }
                1 => random.pick(&[-1, 7, 8, 31, 1023, 1024, i32::MAX, i32::MIN]),
                _usual => 0,
            },
            size: match random.below(4) {
                0 => random.next(),
                1 => random.pick(&[0, 1, u64::MAX, 1 << 63, u64::MAX - 1]),
                _usual => random.next() % (1 << 20),
            },
            buffer_type: match random.below(4) {
                0 => random.byte(),
                _usual => random.byte() % 5,
            },
            process_id: i32::from_le_bytes([random.byte(), 0, 0, random.byte()]),
            buffer_id: random.next() % 64,
            timestamp: random.next(),
        };
        request.encode(generation, &mut bytes);
    }
    (bytes, count as u64)
}

fn http(random: &mut Random) -> Vec<u8> {
    let start = random.pick(&[
        "GET /v1/snapshot HTTP/1.1\r\nHost: x\r\n",
        "GET / HTTP/1.1\r\n",
        "GET ",
        "POST /v1/forget HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n",
        "POST /v1/forget HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "ZZZZZZZZ",
    ]);
    let mut bytes = start.as_bytes().to_vec();
    let count = random.below(600);
    bytes.extend(random.bytes(count));
    if random.below(2) == 0 {
        bytes.extend_from_slice(b"\r\n\r\n");
    }
    bytes
}

/// A client's frames with wrong bytes in them: anywhere, or only in its events.
fn frames(random: &mut Random) -> (Vec<u8>, u64) {
    let mut bytes = Preamble::OURS.encode().to_vec();
    let hello = Hello {
        instance: [random.byte() % 4; 16],
        pid: 1,
        source: Source::Client,
        name: "\u{1b}[31mhostile\n",
        visible_devices: "",
        labels: vec![],
    };
    Frame::put_hello(&mut bytes, &hello);
    Frame::put_clock(&mut bytes, &Clock::UNIX_NANOS);
    let head = bytes.len();
    Frame::put_define(&mut bytes, &n150(0, 0xBAD));
    let resync = random.below(4) == 0;
    if resync {
        Frame::put(&mut bytes, FrameKind::ResyncBegin, |_empty| {});
    }
    let defined = bytes.len();
    let mut events: Vec<Event> = n150_capacities();
    events.extend((0..64).map(|id| {
        let address = 2_000_000 + random.next() % (1 << 28);
        allocation(1 + id % 16, address, 32 * (1 + random.next() % 1000))
    }));
    Frame::put_events(&mut bytes, 0, &events);
    Frame::put(&mut bytes, FrameKind::Flush, |_empty| {});
    let count = 3 + events.len() as u64;
    let (from, wrong) = match random.below(4) {
        0 => (0, 3),
        1 => (head, 5),
        _events => (defined + 24, 20),
    };
    for _wrong in 0..random.below(wrong) + 1 {
        mutate(random, &mut bytes[from..]);
    }
    if random.below(8) == 0 {
        bytes.truncate(1 + random.below(bytes.len()));
    }
    (bytes, count)
}

fn mutate(random: &mut Random, bytes: &mut [u8]) {
    let place = random.below(bytes.len());
    bytes[place] = match random.below(3) {
        0 => bytes[place] ^ (1 << random.below(8)),
        1 => random.pick(&[0, 1, 0x7F, 0x80, 0xFF]),
        _any => random.byte(),
    };
}
