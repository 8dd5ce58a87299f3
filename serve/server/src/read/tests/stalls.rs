//! Readers that take nothing, and what that costs the others: nothing.

use super::hostility::WATCHDOG;
use super::streams::{Live, buffer, next_event};
use super::*;
use crate::read::limits::Permits;
use crate::stream::{StreamBody, StreamEnd};
use axum::body::{Bytes, HttpBody};
use std::pin::Pin;
use std::sync::Condvar;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// A runtime like that of the HTTP thread.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn open(live: &Live, permits: &Permits) -> (StreamBody, StreamEnd) {
    let (permit, timeout) = (permits.stream(None).unwrap(), permits.limits.stream_timeout);
    let started = facts().server.started;
    live.streams.open(None, started, permit, timeout)
}

/// What waits for a reader, piece by piece; `None` at the end of the stream.
async fn take_bytes(body: &mut StreamBody) -> Option<Bytes> {
    let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
    let frame = tokio::time::timeout(WATCHDOG, frame).await.unwrap()?;
    Some(frame.unwrap().into_data().unwrap())
}

/// The id of the last event that a piece of a stream has, if it has any.
fn last_id(piece: &Bytes) -> Option<u64> {
    let text = std::str::from_utf8(piece).unwrap();
    let mut ids = text.lines().filter_map(|line| line.strip_prefix("id: "));
    ids.next_back().map(|id| id.parse().unwrap())
}

#[test]
fn of_many_readers_those_that_stall_are_given_up_and_the_others_go_on() {
    const EACH: usize = 100;
    let limits = HttpLimits {
        streams: 2 * EACH,
        stream_timeout: Duration::from_millis(200),
        ..HttpLimits::SOCKET
    };
    let live = Live::with(limits, facts);
    let permits = Permits::new(limits);
    runtime().block_on(async {
        let open_each = || (0..EACH).map(|_reader| open(&live, &permits));
        let mut stalled: Vec<_> = open_each().collect();
        let readers: Vec<_> = open_each().collect();
        assert!(
            permits.stream(None).is_err(),
            "there are as many as there may be"
        );
        let (end_at, last) = tokio::sync::watch::channel(u64::MAX);
        let readers: Vec<_> = readers
            .into_iter()
            .map(|(mut body, end)| {
                let last = last.clone();
                tokio::spawn(async move {
                    loop {
                        let piece = take_bytes(&mut body).await.unwrap();
                        if last_id(&piece) == Some(*last.borrow()) {
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
                    _closed = &mut *end => break,
                    () = tokio::time::sleep(Duration::from_millis(10)) => happen(),
                };
            }
        }
        end_at.send_replace(happen());
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
        open(&live, &permits);
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
    let mut reader = live.follow(None);
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
            assert_eq!(next_event(&mut reader).id, id);
        }
        drop(opens);
        for answer in answers {
            answer.join().unwrap().unwrap();
        }
    });
}
