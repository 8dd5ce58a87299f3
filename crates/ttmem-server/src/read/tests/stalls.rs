//! Readers that take nothing, and what that costs the others: nothing.

use super::hostility::WATCHDOG;
use super::streams::{Live, buffer, next_changes};
use super::*;
use crate::read::limits::Permits;
use crate::stream::{Pace, StreamBody, StreamEnd};
use axum::body::{Bytes, HttpBody};
use std::pin::Pin;
use std::sync::Condvar;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use ttmem_api::{StreamChanges, StreamMessage};

/// A runtime like that of the HTTP thread.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn open(live: &Live, permits: &Permits, pace: Pace) -> (StreamBody, StreamEnd) {
    let (permit, timeout) = (permits.stream(pace).unwrap(), permits.limits.stream_timeout);
    let started = facts().started;
    live.streams.open(pace, None, started, permit, timeout)
}

/// What waits for a reader, piece by piece; `None` at the end of the stream.
async fn take_bytes(body: &mut StreamBody) -> Option<Bytes> {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
    let frame = tokio::time::timeout(WATCHDOG, frame).await.unwrap()?;
    Some(frame.unwrap().into_data().unwrap())
}

/// The next message of a reader of changes.
async fn take(body: &mut StreamBody) -> Option<StreamMessage> {
    let bytes = take_bytes(body).await?;
    let text = std::str::from_utf8(&bytes).unwrap();
    let data = text.split_once("data: ").unwrap().1;
    Some(serde_json::from_str(data.trim()).unwrap())
}

async fn take_changes(body: &mut StreamBody) -> StreamChanges {
    match take(body).await {
        Some(StreamMessage::Changes(changes)) => changes,
        other => panic!("{other:?}"),
    }
}

/// Reads until the totals have this many events.
async fn reach(body: &mut StreamBody, id: u64) {
    while take_changes(body).await.id < id {}
}

#[test]
fn a_reader_of_changes_that_stalled_finds_a_gap_and_then_everything() {
    let live = Live::with(HttpLimits::SOCKET, facts);
    let permits = Permits::new(HttpLimits::SOCKET);
    runtime().block_on(async {
        let (mut stalled, _end) = open(&live, &permits, Pace::Changes);
        let (mut reader, _other_end) = open(&live, &permits, Pace::Changes);
        assert!(matches!(
            take(&mut reader).await,
            Some(StreamMessage::Hello(_))
        ));
        // Each is told before the next happens: more than wait for a reader.
        for id in 1..=8 {
            live.apply([buffer(id, FIRST)]);
            reach(&mut reader, id).await;
        }
        assert!(matches!(
            take(&mut stalled).await,
            Some(StreamMessage::Hello(_))
        ));
        let mut last = take_changes(&mut stalled).await;
        let gap = loop {
            match take(&mut stalled).await {
                Some(StreamMessage::Changes(changes)) => last = changes,
                Some(StreamMessage::Gap(gap)) => break gap,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((gap.after, gap.resumes), (last.id, 8));
        assert_eq!(gap.reason, "the reader was too slow");
        let all = take_changes(&mut stalled).await;
        let buffers: Vec<u64> = all.devices.iter().map(|device| device.buffers).collect();
        assert_eq!((all.id, buffers), (8, vec![8, 0]), "also what is as it was");
    });
}

#[test]
fn of_many_readers_those_that_stall_are_given_up_and_the_others_go_on() {
    const EACH: usize = 100;
    let limits = HttpLimits {
        changes_streams: 2 * EACH,
        raw_streams: EACH,
        stream_timeout: Duration::from_millis(200),
        ..HttpLimits::SOCKET
    };
    let live = Live::with(limits, facts);
    let permits = Permits::new(limits);
    runtime().block_on(async {
        let mut stalled: Vec<_> = (0..2 * EACH)
            .map(|number| {
                let pace = if number < EACH {
                    Pace::Changes
                } else {
                    Pace::Raw
                };
                open(&live, &permits, pace)
            })
            .collect();
        let readers: Vec<_> = (0..EACH)
            .map(|_reader| open(&live, &permits, Pace::Changes))
            .collect();
        assert!(
            permits.stream(Pace::Raw).is_err(),
            "there are as many as there may be"
        );
        let (told, last) = tokio::sync::watch::channel(u64::MAX);
        let readers: Vec<_> = readers
            .into_iter()
            .map(|(mut body, end)| {
                let last = last.clone();
                tokio::spawn(async move {
                    assert!(matches!(
                        take(&mut body).await,
                        Some(StreamMessage::Hello(_))
                    ));
                    loop {
                        let id = take_changes(&mut body).await.id;
                        if id == *last.borrow() {
                            break drop(end);
                        }
                    }
                })
            })
            .collect();
        // Things happen for as long as anybody is waited for.
        let mut newest = 0;
        let mut happen = || {
            newest += 1;
            live.apply([buffer(newest, BOTH)]);
            newest
        };
        for (_body, end) in &mut stalled {
            loop {
                tokio::select! {
                    () = &mut *end => break,
                    () = tokio::time::sleep(Duration::from_millis(10)) => happen(),
                };
            }
        }
        told.send_replace(happen());
        for reader in readers {
            tokio::time::timeout(WATCHDOG, reader)
                .await
                .unwrap()
                .unwrap();
        }
        // What waited for them is little, and the end follows it.
        for (body, _end) in &mut stalled {
            let mut waited = 0;
            while take_bytes(body).await.is_some() {
                waited += 1;
            }
            assert!(waited <= 2, "{waited} messages");
        }
        open(&live, &permits, Pace::Raw);
    });
}

/// Holds up whoever comes, until it is opened.
#[derive(Default)]
pub(super) struct Gate {
    pub(super) closed: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicUsize,
}

impl Gate {
    pub(super) fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let closed = self.closed.lock().unwrap();
        drop(self.opened.wait_while(closed, |closed| *closed).unwrap());
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits until so many are held up.
    pub(super) fn wait_for(&self, count: usize) {
        let began = Instant::now();
        while self.waiting.load(Ordering::Relaxed) < count {
            assert!(began.elapsed() < WATCHDOG, "no document is being made");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Opens a gate, also when the test fails.
pub(super) struct Opens<'g>(pub(super) &'g Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        *self.0.closed.lock().unwrap() = false;
        self.0.opened.notify_all();
    }
}

#[test]
fn documents_that_take_long_hold_up_no_stream() {
    let gate = Arc::new(Gate::default());
    let passed = Arc::clone(&gate);
    let live = Live::with(HttpLimits::SOCKET, move || {
        passed.pass();
        facts()
    });
    let mut reader = live.follow(ttmem_api::Pace::Changes, None);
    *gate.closed.lock().unwrap() = true;
    thread::scope(|scope| {
        let opens = Opens(&gate);
        let answers: Vec<_> = (0..20)
            .map(|_request| {
                let client = live.served.client().with_timeout(WATCHDOG);
                scope.spawn(move || client.snapshot())
            })
            .collect();
        // As many as are made at once, and the others behind them.
        gate.wait_for(3);
        for id in 1..=5 {
            live.apply([buffer(id, BOTH)]);
            while next_changes(&mut reader).id < id {}
        }
        drop(opens);
        for answer in answers {
            answer.join().unwrap().unwrap();
        }
    });
}
