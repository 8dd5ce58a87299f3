//! Both protocols against a whole server, byte by byte.

use super::session::MAX_OUTSTANDING;
use super::*;
use crate::log::{LogFileOptions, LogOptions, LogTarget};
use crate::server::{LogConfig, Server, Signals};
use crate::socket::SocketConfig;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use ttmem_event::legacy::{BufferTypeNumbering, Generation, Reply, Request, RequestKind};
use ttmem_event::wire::{Frame, FrameKind, FrameReader, Goodbye, Hello, Preamble, ResyncEnd};
use ttmem_event::{Event, EventKind, Source};

/// Generous: only a defect is ever that slow.
const WATCHDOG: Duration = Duration::from_secs(60);

/// What the log has after a server served what `talk` did on its socket.
fn logged(talk: impl FnOnce(&PathBuf)) -> String {
    let directory = tempfile::tempdir().unwrap();
    let (path, log) = (directory.path().join("s"), directory.path().join("log"));
    let config = ServerConfig {
        sockets: vec![SocketConfig {
            path: path.clone(),
            mode: 0o600,
            group: None,
        }],
        http: None,
        machine: None,
        board: None,
        log: LogConfig {
            target: LogTarget::File(LogFileOptions::new(&log)),
            options: LogOptions::default(),
        },
        max_clients: 8,
        buffer_types: BufferTypeNumbering::Runtime,
        record: None,
    };
    let server = Server::start(config, Signals::Ignore).unwrap();
    let handle = server.handle();
    let serving = std::thread::spawn(move || server.run());
    talk(&path);
    handle.stop();
    serving.join().unwrap().unwrap();
    std::fs::read_to_string(log).unwrap()
}

fn connect(path: &PathBuf) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream
}

/// What a client sends first.
fn hello(instance: [u8; 16]) -> Vec<u8> {
    let mut bytes = Preamble::OURS.encode().to_vec();
    let hello = Hello {
        instance,
        pid: 1,
        source: Source::Client,
        name: "tester",
        visible_devices: "",
        labels: vec![],
    };
    Frame::put_hello(&mut bytes, &hello);
    bytes
}

struct Client {
    stream: UnixStream,
    reader: FrameReader,
}

impl Client {
    fn connect(path: &PathBuf) -> Self {
        let mut stream = connect(path);
        stream.write_all(&hello([7; 16])).unwrap();
        let reader = FrameReader::default();
        Self { stream, reader }
    }

    fn send(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        put(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    fn send_events(&mut self, first_sequence: u64, count: usize) {
        let kind = EventKind::EventsElided { count: 1 };
        let events = vec![Event { time: 1, kind }; count];
        self.send(|out| Frame::put_events(out, first_sequence, &events));
    }

    /// The next frame of the server: what it is, and its sequence number.
    fn receive(&mut self) -> (&'static str, u64) {
        loop {
            match self.reader.next_frame().unwrap() {
                Some(Frame::Welcome(welcome)) if welcome.needs_resync => {
                    return ("resync", welcome.next_sequence);
                }
                Some(Frame::Welcome(welcome)) => return ("welcome", welcome.next_sequence),
                Some(Frame::Ack { next_sequence }) => return ("ack", next_sequence),
                Some(Frame::Refused { .. }) => return ("refused", 0),
                Some(other) => panic!("{other:?}"),
                None => {}
            }
            let mut buffer = [0; 256];
            let count = self.stream.read(&mut buffer).unwrap();
            assert_ne!(count, 0, "the server closed the connection");
            self.reader.push(&buffer[..count]);
        }
    }
}

#[test]
fn a_client_is_acknowledged_once_and_resumes_where_it_was() {
    let text = logged(|path| {
        let mut client = Client::connect(path);
        assert_eq!(client.receive(), ("resync", 0));
        client.send(|out| Frame::put(out, FrameKind::ResyncBegin, |_out| {}));
        let end = ResyncEnd {
            next_sequence: 10,
            lost_events: 0,
            elided_events: 0,
        };
        client.send(|out| Frame::put_resync_end(out, &end));
        assert_eq!(client.receive(), ("ack", 10));
        client.send_events(10, 3);
        assert_eq!(client.receive(), ("ack", 13));
        drop(client);

        let mut client = Client::connect(path);
        assert_eq!(client.receive(), ("welcome", 13));
        client.send_events(12, 2);
        assert_eq!(client.receive(), ("ack", 14));
        client.send_events(20, 1);
        assert_eq!(client.receive(), ("ack", 21));
        client.send(|out| Frame::put_goodbye(out, &Goodbye { next_sequence: 21 }));
        assert_eq!(client.stream.read(&mut [0; 8]).unwrap(), 0);

        let mut client = Client::connect(path);
        assert_eq!(client.receive(), ("resync", 0), "who left is new");
        client.send(|out| Frame::put_ack(out, 1));
        assert_eq!(client.receive(), ("refused", 0));
    });
    assert_eq!(text.matches("Connected (tester)").count(), 2, "{text}");
    assert_eq!(text.matches("Left out 1 events").count(), 5, "{text}");
    assert_eq!(text.matches("Lost 6 events").count(), 1, "{text}");
    assert_eq!(text.matches("Exited").count(), 1, "{text}");
    assert!(text.contains("a server-to-client frame out of place"));
}

#[test]
fn an_old_client_is_answered_in_order_and_its_nonsense_is_logged() {
    let text = logged(|path| {
        let mut stream = connect(path);
        let generation = Generation::G4;
        let request = |kind, buffer_type| Request {
            kind,
            device_id: 0,
            size: 4096,
            buffer_type,
            process_id: 1,
            buffer_id: 16,
            timestamp: 0,
        };
        let mut bytes = Vec::new();
        for (kind, buffer_type) in [
            (RequestKind::Alloc, 1),
            (RequestKind::Alloc, 99),
            (RequestKind::Response, 0),
        ] {
            request(kind, buffer_type).encode(generation, &mut bytes);
        }
        // More questions than may wait for answers at once.
        for _ in 0..3 * MAX_OUTSTANDING {
            request(RequestKind::Query, 0).encode(generation, &mut bytes);
        }
        stream.write_all(&bytes).unwrap();
        let mut record = vec![0; generation.record_bytes()];
        for _ in 0..3 * MAX_OUTSTANDING {
            stream.read_exact(&mut record).unwrap();
            match Reply::decode(generation, &record).unwrap() {
                Reply::Totals { totals, .. } => assert_eq!(totals.l1, 4096),
                other => panic!("{other:?}"),
            }
        }
    });
    assert!(text.contains("Allocated 4096 bytes of L1 on device 0 (buffer_id=0x10)"));
    assert!(text.contains("Invalid buffer_type 99 for buffer 16 on device 0"));
    assert!(text.contains("Unknown message type: 4"));
}

fn old_request(kind: RequestKind) -> Request {
    Request {
        kind,
        device_id: 0,
        size: 4096,
        buffer_type: 0,
        process_id: 1,
        buffer_id: 16,
        timestamp: 0,
    }
}

#[test]
fn an_old_client_that_ends_its_side_behind_its_questions_is_answered() {
    logged(|path| {
        for questions in [1, 3 * MAX_OUTSTANDING] {
            let mut stream = connect(path);
            let generation = Generation::G4;
            let mut bytes = Vec::new();
            for _ in 0..questions {
                old_request(RequestKind::Query).encode(generation, &mut bytes);
            }
            stream.write_all(&bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answers = Vec::new();
            stream.read_to_end(&mut answers).unwrap();
            let expected = generation.record_bytes() * questions as usize;
            assert_eq!(answers.len(), expected);
        }
    });
}

#[test]
fn a_flood_of_dump_requests_prints_few_dumps() {
    let text = logged(|path| {
        let mut stream = connect(path);
        let mut bytes = Vec::new();
        for _ in 0..2000 {
            old_request(RequestKind::DumpRemaining).encode(Generation::G4, &mut bytes);
            // So that each is printed, and none takes the place of another that waits.
            old_request(RequestKind::Query).encode(Generation::G4, &mut bytes);
        }
        let mut answering = stream.try_clone().unwrap();
        let asked = std::thread::spawn(move || stream.write_all(&bytes).unwrap());
        let mut answers = vec![0; 2000 * Generation::G4.record_bytes()];
        answering.read_exact(&mut answers).unwrap();
        asked.join().unwrap();
    });
    let printed = text.matches("DUMP_REMAINING complete.").count();
    assert!((1..=8).contains(&printed), "{printed} dumps");
    assert_eq!(text.matches("Asks for dumps too often").count(), 1);
}

#[test]
fn frames_of_a_newer_client_are_skipped_and_a_flood_of_them_ends_its_connection() {
    let unknown = |count: usize| {
        let mut bytes = Vec::new();
        Frame::put_ack(&mut bytes, 1);
        // A kind that nobody has yet.
        bytes[4] = 0x7f;
        bytes.repeat(count)
    };
    let text = logged(|path| {
        let mut client = Client::connect(path);
        assert_eq!(client.receive(), ("resync", 0));
        client.send(|out| out.extend(unknown(5000)));
        client.send(|out| Frame::put(out, FrameKind::Flush, |_out| {}));
        assert_eq!(client.receive(), ("ack", 0));
        let mut flood = client.stream.try_clone().unwrap();
        // Until the server does not take any more: 64 MB, or it would have to be fast to read.
        let sent = std::thread::spawn(move || flood.write_all(&unknown(1 << 22)).is_ok());
        assert_eq!(client.receive(), ("refused", 0));
        assert!(!sent.join().unwrap(), "all of it was read");
    });
    assert!(text.contains("too many frames without events"), "{text}");
}

#[test]
fn storm_of_connections_reaches_no_ledger() {
    let text = logged(|path| {
        let mut client = Client::connect(path);
        assert_eq!(client.receive(), ("resync", 0));
        client.send_events(0, 1);
        assert_eq!(client.receive(), ("ack", 1));
        // Far more than a process may bring in the time that this takes.
        for number in 0..20_000_u128 {
            let mut stream = UnixStream::connect(path).unwrap();
            // Refused ones are closed while this is sent.
            let _refused = stream.write_all(&hello(number.to_le_bytes()));
        }
        client.send_events(1, 1);
        assert_eq!(client.receive(), ("ack", 2));
    });
    assert_eq!(text.matches("Connected (").count(), 1, "{text}");
    // The client's own end may still be seen before the server's.
    assert!(text.matches("Disconnected").count() <= 1, "{text}");
    let lines = text.matches("connects too often").count();
    assert!((1..=15).contains(&lines), "{text}");
}

#[test]
fn clients_that_only_ask_are_joined() {
    let text = logged(|path| {
        let mut client = Client::connect(path);
        assert_eq!(client.receive(), ("resync", 0));
        client.send(|out| Frame::put(out, FrameKind::Flush, |_out| {}));
        assert_eq!(client.receive(), ("ack", 0));
    });
    assert_eq!(text.matches("Connected (tester)").count(), 1, "{text}");
}
