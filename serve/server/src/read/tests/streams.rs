//! Streams as their readers see them.

use super::hostility::{WATCHDOG, ended, exchange, refusal};
use super::*;
use crate::recorder::StreamedRecordings;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use ttmem_reader::{EventReader, Streamed};
use ttmem_report::{FieldValue, StreamEvent, StreamGap, StreamMessage};

/// A server whose ledger goes on.
pub(super) struct Live {
    ledger: Arc<Mutex<Ledger>>,
    journal: Mutex<Journal>,
    process: u32,
    pub(super) streams: Streams,
    pub(super) served: Served,
}

impl Live {
    fn new() -> Self {
        Self::with(HttpLimits::SOCKET, facts)
    }

    pub(super) fn with(
        limits: HttpLimits,
        facts: impl Fn() -> ServerFacts + Send + Sync + 'static,
    ) -> Self {
        let mut ledger = empty_ledger();
        let process = joined(&mut ledger, 4001);
        let ledger = Arc::new(Mutex::new(ledger));
        let journal = Journal::default();
        let handle = ledger_thread_of(&ledger);
        let live = crate::read::Live {
            ledger: handle.clone(),
            histories: Histories::default(),
            journal: journal.clone(),
            recordings: StreamedRecordings::new(handle.clone()),
            machine: MachineFigures::default(),
        };
        let state = ReadState {
            live: Some(live),
            ..state(handle.clone(), facts)
        };
        Self {
            streams: Streams::new(handle, journal.clone(), Audience::Everything),
            served: Served::from(state, limits),
            ledger,
            journal: Mutex::new(journal),
            process,
        }
    }

    /// What the ledger thread does with a batch.
    pub(super) fn apply(&self, events: impl IntoIterator<Item = EventKind>) {
        let events: Vec<Event> = events
            .into_iter()
            .map(|kind| Event { time: 7, kind })
            .collect();
        let mut ledger = self.ledger.lock().unwrap();
        for event in &events {
            ledger.tell(self.process, event).unwrap();
        }
        drop(ledger);
        self.keep(events);
    }

    fn keep(&self, events: Vec<Event>) {
        let journal = self.journal.lock().unwrap();
        journal.push(batch(self.process, events));
    }

    pub(super) fn follow(&self, after: Option<u64>) -> EventReader {
        let mut reader = self.served.client().events(after).unwrap();
        match next(&mut reader) {
            StreamMessage::Hello(hello) => {
                assert_eq!(hello.started, facts().server.started);
            }
            other => panic!("{other:?}"),
        }
        reader
    }
}

/// Events that the process 4001 has sent.
pub(super) fn batch(slot: u32, events: Vec<Event>) -> Batch {
    Batch {
        slot,
        pid: Some(4001),
        applied: NOW,
        events: events.into(),
        ..Batch::default()
    }
}

pub(super) fn next(reader: &mut EventReader) -> StreamMessage {
    match reader.wait(WATCHDOG).unwrap() {
        Streamed::Message(message) => *message,
        other => panic!("{other:?}"),
    }
}

pub(super) fn next_event(reader: &mut EventReader) -> StreamEvent {
    match next(reader) {
        StreamMessage::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

fn next_gap(reader: &mut EventReader) -> StreamGap {
    match next(reader) {
        StreamMessage::Gap(gap) => gap,
        other => panic!("{other:?}"),
    }
}

pub(super) fn buffer(id: u64, mesh: MeshId) -> EventKind {
    let mut kind = allocated(id, Class::Dram, n150().dram.base + 64 * id, 64);
    if let EventKind::BufferAllocated { mesh: on, .. } = &mut kind {
        *on = mesh;
    }
    kind
}

#[test]
fn a_stream_has_every_event_with_its_names() {
    let live = Live::new();
    live.apply([buffer(1, BOTH)]);
    let mut reader = live.follow(None);
    live.apply([buffer(2, FIRST), buffer(3, BOTH)]);
    let event = next_event(&mut reader);
    assert_eq!(
        (event.id, event.applied),
        (2, Timestamp::from_unix_nanos(NOW))
    );
    assert_eq!(
        (event.event.pid, event.event.recovered),
        (Some(4001), false)
    );
    assert_eq!(event.event.process.as_deref(), Some("python"));
    assert_eq!(event.event.event, "buffer_allocated");
    let field = |name: &str| {
        let fields = &event.event.fields.0;
        fields
            .iter()
            .find(|field| field.0 == name)
            .map(|field| field.1.clone())
    };
    assert_eq!(field("devices"), Some(FieldValue::Devices(vec![0])));
    assert_eq!(
        field("operation"),
        Some(FieldValue::Text("ttnn::add".into()))
    );
    assert_eq!(field("per_bank_bytes"), Some(FieldValue::Number(64)));
    assert_eq!(next_event(&mut reader).id, 3);
    live.apply((4..=5000).map(|id| buffer(id, BOTH)));
    for id in 4..=5000 {
        assert_eq!(next_event(&mut reader).id, id);
    }

    for after in [0, 1, 4998] {
        let mut back = live.follow(Some(after));
        assert_eq!(next_event(&mut back).id, after + 1);
        assert_eq!(next_event(&mut back).id, after + 2);
    }
    let mut newest = live.served.client().newest_events(3).unwrap();
    assert!(matches!(next(&mut newest), StreamMessage::Hello(_)));
    assert_eq!(next_event(&mut newest).id, 4998);
    let mut up_to_date = live.follow(Some(5000));
    live.apply([buffer(5001, BOTH)]);
    assert_eq!(next_event(&mut up_to_date).id, 5001);
    let mut foreign = live.follow(Some(6000));
    assert_eq!(next_gap(&mut foreign).after, 6000);
    live.apply([buffer(5002, BOTH)]);
    assert_eq!(next_event(&mut foreign).id, 5002);
}

#[test]
fn an_event_of_a_process_that_is_gone_has_no_names() {
    let live = Live::new();
    live.apply([buffer(1, BOTH)]);
    live.ledger
        .lock()
        .unwrap()
        .depart(live.process, Departure::Ended, 9);
    let mut reader = live.follow(Some(0));
    let event = next_event(&mut reader).event;
    assert_eq!((event.pid, event.process), (Some(4001), None));
    let operation = event.fields.0.iter().find(|field| field.0 == "operation");
    assert_eq!(operation.unwrap().1, FieldValue::Unknown);
}

#[test]
fn the_header_of_a_browser_is_understood() {
    let live = Live::new();
    live.apply((1..=9).map(|id| buffer(id, BOTH)));
    let mut stream = UnixStream::connect(&live.served.path).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream
        .write_all(b"GET /api/v1/events HTTP/1.1\r\nLast-Event-ID: 7\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    while !text.contains("id: 9\n") {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(std::str::from_utf8(&part[..count]).unwrap());
    }
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    assert!(
        !text.contains("id: 7\n") && text.contains("id: 8\n"),
        "{text}"
    );
}

#[test]
fn who_was_away_too_long_is_told_what_is_missing() {
    let live = Live::new();
    let freed = |id| Event {
        time: 1,
        kind: EventKind::BufferFreed {
            mesh: BOTH,
            buffer: BufferId(id),
        },
    };
    for batch in 0..100 {
        let events = (0..1000).map(|id| freed(batch * 1000 + id)).collect();
        live.keep(events);
    }
    let mut reader = live.follow(Some(3));
    let gap = next_gap(&mut reader);
    assert_eq!((gap.after, gap.resumes), (3, 35_001));
    assert_eq!(gap.reason, "these events are not kept any more");
    for id in 35_001..=100_000 {
        assert_eq!(next_event(&mut reader).id, id);
    }
}

#[test]
fn a_reader_that_stalls_holds_up_nobody_and_finds_a_gap() {
    let live = Live::new();
    let mut stalled = live.follow(None);
    let mut reader = live.follow(None);
    let mut newest = 0;
    // More than sockets, queues and what is kept can hold.
    for _round in 0..150 {
        let batch = (newest + 1..=newest + 1000).map(|id| buffer(id, BOTH));
        live.apply(batch);
        for id in newest + 1..=newest + 1000 {
            assert_eq!(next_event(&mut reader).id, id);
        }
        newest += 1000;
    }
    let mut last = 0;
    let mut gaps = 0;
    while last < newest {
        match next(&mut stalled) {
            StreamMessage::Event(event) => {
                assert_eq!(event.id, last + 1);
                last = event.id;
            }
            StreamMessage::Gap(gap) => {
                assert_eq!(
                    (gap.after, gap.reason.as_str()),
                    (last, "the reader was too slow")
                );
                assert!(gap.resumes > last + 1);
                last = gap.resumes - 1;
                gaps += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(gaps > 0);
}

#[test]
fn streams_have_few_permits_which_take_none_of_requests() {
    let live = Live::new();
    let follow = || live.served.client().events(None).ok();
    let mut readers: Vec<EventReader> = std::iter::from_fn(follow).take(1000).collect();
    let most = HttpLimits::SOCKET.streams;
    assert!((2..=most).contains(&readers.len()), "{}", readers.len());
    let answer = exchange(&live.served, b"GET /api/v1/events HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(
        answer
            .to_ascii_lowercase()
            .contains("\r\nretry-after: 1\r\n"),
        "{answer}"
    );
    assert!(
        answer.contains("\"error\":\"too_many_streams\""),
        "{answer}"
    );
    let client = live.served.client();
    assert_eq!(refusal(client.events(None)).0, 429);
    client.snapshot().unwrap();
    // Who goes leaves the permit, though nothing is sent that would find the reader gone.
    drop(readers.pop());
    let began = Instant::now();
    while client.events(None).is_err() {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "the permit is still taken"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn readers_that_stay_take_no_permit_of_others() {
    let limits = HttpLimits {
        // More than one user may have.
        streams: 256,
        ..HttpLimits::SOCKET
    };
    let live = Live::with(limits, facts);
    let readers: Vec<EventReader> = (0..200)
        .map(|_reader| {
            let began = Instant::now();
            loop {
                // Coming all at once, they may find the permits of requests taken for a moment.
                match live.served.client().events(None) {
                    Ok(reader) => break reader,
                    Err(error) => assert!(began.elapsed() < WATCHDOG, "{error}"),
                }
            }
        })
        .collect();
    live.served.client().snapshot().unwrap();
    live.apply([buffer(1, BOTH)]);
    for mut reader in readers {
        assert!(matches!(next(&mut reader), StreamMessage::Hello(_)));
        assert_eq!(next_event(&mut reader).id, 1);
    }
}

#[test]
fn a_server_that_stops_ends_its_streams() {
    let http = HttpThread::start(
        state(ledger_thread(empty_ledger()), facts),
        HttpLimits::SOCKET,
        None,
    )
    .unwrap();
    let (mut near, far) = UnixStream::pair().unwrap();
    near.set_read_timeout(Some(WATCHDOG)).unwrap();
    http.serve(far, READER).unwrap();
    let request = b"GET /api/v1/events HTTP/1.1\r\n\r\n";
    near.write_all(request).unwrap();
    let mut first = [0; 16];
    near.read_exact(&mut first).unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200 "));
    drop(http);
    assert!(ended(&mut near).contains("event: hello"));
}

#[test]
fn what_is_no_stream_is_refused() {
    let live = Live::new();
    for parameters in [
        "pace=raw",
        "after=-1",
        "after=x",
        "since=1",
        "after=1&after=1",
    ] {
        let request = format!("GET /api/v1/events?{parameters} HTTP/1.1\r\n\r\n");
        let answer = exchange(&live.served, request.as_bytes());
        assert!(
            answer.starts_with("HTTP/1.1 400 "),
            "{parameters}: {answer}"
        );
    }
}
