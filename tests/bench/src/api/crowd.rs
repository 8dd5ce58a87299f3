//! A crowd of readers, half of which stall.
//!
//! As many as the server has streams: half of them read all the time; a quarter sleeps for half of the
//! run and then reads again; a quarter never reads, and is given up by the server if the run is long
//! enough. Who sleeps must reach the last event when it wakes, behind a gap if events were left out.

use super::stream::{self, Message, Scanner};
use super::{Load, Scale, WATCHDOG};
use crate::harness::{OwnServer, Programs};
use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait for bytes before looking at the clock, in nanoseconds.
const LOOK_NANOS: i64 = 50_000_000;

pub(super) fn measure(programs: &Programs, scale: &Scale) -> Result<Value> {
    let server = OwnServer::start(programs, &["--quiet"])?;
    let quarter = scale.crowd / 4;
    let open = |count: usize| Crowd::open(&server.socket, count);
    let mut readers = open(scale.crowd - 2 * quarter)?;
    let mut sleepers = open(quarter)?;
    let mut never = open(quarter)?;
    let mut load = Load::start(programs, &server, scale.rate, scale.crowd_seconds)?;
    readers.forget_times();
    let seconds = Duration::from_secs(scale.crowd_seconds);
    let mut looked = Instant::now();
    while load.elapsed() < seconds {
        readers.read()?;
        // Before the server gives them up.
        if load.elapsed() > seconds.min(WATCHDOG) / 2 {
            sleepers.read_at_once()?;
        }
        if looked.elapsed() > Duration::from_millis(200) {
            looked = Instant::now();
            load.look_at_memory(&server)?;
        }
    }
    let took = load.elapsed();
    let (messages, worst) = (readers.messages(), readers.worst_interval());
    let account = load.account()?;
    let recorded = account["events"].as_u64().context("no count of events")?;
    let mut late = Value::Null;
    for (crowd, name) in [
        (&mut readers, "readers"),
        (&mut sleepers, "sleepers"),
        (&mut never, "never_read"),
    ] {
        crowd.catch_up(recorded).context(name)?;
        late[name] = crowd.outcome(recorded);
    }
    ensure!(
        late["readers"]["dropped"] == 0,
        "who reads is not dropped: {late}"
    );
    let each = messages as f64 / readers.readers.len() as f64;
    Ok(json!({
        "load": load.end(&server, &account)?,
        "messages_per_second_each": each / took.as_secs_f64(),
        "worst_interval_millis": worst.as_secs_f64() * 1e3,
        "in_the_end": late,
    }))
}

/// Some readers of the same kind.
struct Crowd {
    readers: Vec<Reader>,
}

struct Reader {
    stream: UnixStream,
    scanner: Scanner,
    messages: u64,
    gaps: u64,
    /// The last message's count of events.
    reached: u64,
    last: Instant,
    worst_interval: Duration,
    is_over: bool,
}

impl Crowd {
    fn open(socket: &Path, count: usize) -> Result<Self> {
        let open = |_number| -> Result<Reader> {
            let stream = stream::open(socket)?;
            stream.set_nonblocking(true)?;
            Ok(Reader {
                stream,
                scanner: Scanner::default(),
                messages: 0,
                gaps: 0,
                reached: 0,
                last: Instant::now(),
                worst_interval: Duration::ZERO,
                is_over: false,
            })
        };
        let readers = (0..count).map(open).collect::<Result<_>>()?;
        Ok(Self { readers })
    }

    /// Begins to count anew: until now they waited for each other.
    fn forget_times(&mut self) {
        for reader in &mut self.readers {
            (reader.messages, reader.last) = (0, Instant::now());
            reader.worst_interval = Duration::ZERO;
        }
    }

    /// Waits a moment for bytes, and reads what came.
    fn read(&mut self) -> Result<()> {
        let going = self.readers.iter().filter(|reader| !reader.is_over);
        let mut waited: Vec<PollFd<'_>> = going
            .map(|reader| PollFd::new(&reader.stream, PollFlags::IN))
            .collect();
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: LOOK_NANOS,
        };
        if poll(&mut waited, Some(&moment)).context("cannot wait for readers")? == 0 {
            return Ok(());
        }
        self.read_at_once()
    }

    fn read_at_once(&mut self) -> Result<()> {
        for reader in self.readers.iter_mut().filter(|reader| !reader.is_over) {
            reader.read()?;
        }
        Ok(())
    }

    /// Reads until everybody has reached this many events, or is dropped.
    fn catch_up(&mut self, events: u64) -> Result<()> {
        let begun = Instant::now();
        let is_behind = |reader: &Reader| !reader.is_over && reader.reached < events;
        while self.readers.iter().any(is_behind) {
            ensure!(begun.elapsed() < WATCHDOG, "they do not catch up");
            self.read()?;
        }
        Ok(())
    }

    fn messages(&self) -> u64 {
        self.readers.iter().map(|reader| reader.messages).sum()
    }

    fn worst_interval(&self) -> Duration {
        let intervals = self.readers.iter().map(|reader| reader.worst_interval);
        intervals.max().unwrap_or_default()
    }

    /// How many reached the end, were dropped, and were told that something was left out.
    fn outcome(&self, events: u64) -> Value {
        let count = |is_one: &dyn Fn(&&Reader) -> bool| self.readers.iter().filter(is_one).count();
        json!({
            "all": self.readers.len(),
            "reached_the_last_event": count(&|reader| reader.reached >= events),
            "dropped": count(&|reader| reader.is_over),
            "told_of_a_gap": count(&|reader| reader.gaps > 0),
        })
    }
}

impl Reader {
    /// Reads what is there, to the end of the stream if that has come.
    fn read(&mut self) -> Result<()> {
        let mut bytes = [0; 1 << 16];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => {
                    self.is_over = true;
                    return Ok(());
                }
                Ok(count) => self.take(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    self.is_over = true;
                    return Ok(());
                }
                Err(error) => return Err(error).context("a stream broke"),
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        let mut scanner = std::mem::take(&mut self.scanner);
        scanner.push(bytes, |message| self.count(&message));
        self.scanner = scanner;
    }

    fn count(&mut self, message: &Message<'_>) {
        if !message.is("event") {
            self.gaps += u64::from(message.is("gap"));
            return;
        }
        self.reached = message.number("id").unwrap_or(self.reached);
        self.messages += 1;
        let now = Instant::now();
        self.worst_interval = self.worst_interval.max(now.duration_since(self.last));
        self.last = now;
    }
}
