//! One reader of every event, and how old each is when it comes.
//!
//! An event has the time at which its process recorded it and the time at which the server applied
//! it; here it gets that of the `read` that brought it. All three are of this machine's clock.

use super::{WATCHDOG, stream};
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use stream::{Message, Scanner};
use ttmem_report::Timestamp;

/// Bytes of one read: more than comes at once.
const READ_BYTES: usize = 1 << 20;

/// A reader on a thread of its own.
#[derive(Debug)]
pub(super) struct Follower {
    stream: UnixStream,
    /// The newest id that it has.
    reached: Arc<AtomicU64>,
    thread: Option<JoinHandle<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The id that comes next.
    next: u64,
    events: u64,
    /// Notices that some events will not come.
    gaps: u64,
    /// Events that came in the wrong order, or are missing without a notice.
    wrong: u64,
    /// Microseconds from recorded to received, and from recorded to applied.
    received: Vec<u64>,
    applied: Vec<u64>,
}

impl Follower {
    /// Follows all events from now on.
    pub(super) fn start(socket: &Path) -> Result<Self> {
        let stream = stream::open(socket)?;
        let reached = Arc::new(AtomicU64::new(0));
        let (told, reading) = (Arc::clone(&reached), stream.try_clone()?);
        let thread = std::thread::Builder::new()
            .name("follower".to_owned())
            .spawn(move || follow(reading, &told))
            .context("cannot start a thread")?;
        Ok(Self {
            stream,
            reached,
            thread: Some(thread),
        })
    }

    /// Waits until it has the event with this id, ends it and says what it saw.
    pub(super) fn end(&mut self, last: u64) -> Result<Value> {
        let begun = Instant::now();
        while self.reached.load(Ordering::Relaxed) < last {
            let reached = self.reached.load(Ordering::Relaxed);
            ensure!(
                begun.elapsed() < WATCHDOG,
                "event {last} does not come, the last was {reached}"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        self.stream.shutdown(Shutdown::Both)?;
        let thread = self.thread.take().context("it ends once")?;
        let mut seen = thread.join().map_err(|_panic| anyhow!("it failed"))?;
        ensure!(seen.wrong == 0, "events missing without a notice: {seen:?}");
        Ok(json!({
            "events": seen.events,
            "gaps": seen.gaps,
            "recorded_to_received_millis": spread(&mut seen.received),
            "recorded_to_applied_millis": spread(&mut seen.applied),
        }))
    }
}

/// Reads until the stream ends.
fn follow(mut stream: UnixStream, reached: &AtomicU64) -> Seen {
    let mut seen = Seen {
        next: 1,
        ..Seen::default()
    };
    let mut scanner = Scanner::default();
    let mut bytes = vec![0; READ_BYTES];
    // A stream that breaks ends before its last event, which is noticed.
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        let now = Timestamp::from(SystemTime::now());
        scanner.push(&bytes[..count], |message| seen.take(&message, now));
        reached.store(seen.next - 1, Ordering::Relaxed);
    }
    seen
}

impl Seen {
    fn take(&mut self, message: &Message<'_>, now: Timestamp) {
        if message.is("gap") {
            self.gaps += 1;
            self.next = message.number("resumes").unwrap_or(self.next);
        }
        if !message.is("event") {
            return;
        }
        let id = message.number("id").unwrap_or(0);
        self.wrong += u64::from(id != self.next);
        self.next = id + 1;
        self.events += 1;
        let time = |name: &str| message.field(name)?.parse::<Timestamp>().ok();
        let micros = |from: Timestamp, to: Timestamp| {
            to.unix_nanos().saturating_sub(from.unix_nanos()) / 1000
        };
        if let (Some(recorded), Some(applied)) = (time("time"), time("applied")) {
            self.received.push(micros(recorded, now));
            self.applied.push(micros(recorded, applied));
        }
    }
}

/// Median, tails and maximum of some microseconds, in milliseconds.
fn spread(micros: &mut [u64]) -> Value {
    micros.sort_unstable();
    let at = |per_mille: usize| {
        let place = (micros.len() * per_mille / 1000).min(micros.len().saturating_sub(1));
        // Below 2^52, where every integer is a float.
        micros.get(place).map(|micros| *micros as f64 / 1000.0)
    };
    json!({ "p50": at(500), "p99": at(990), "p999": at(999), "max": at(1000) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_of_nothing_is_unknown_and_of_one_is_that_one() {
        assert_eq!(spread(&mut [])["p99"], Value::Null);
        assert_eq!(spread(&mut [2000])["p50"], 2.0);
        let mut many: Vec<u64> = (1..=1000).map(|millis| millis * 1000).rev().collect();
        let found = spread(&mut many);
        assert_eq!(
            (&found["p50"], &found["max"]),
            (&json!(501.0), &json!(1000.0))
        );
    }
}
