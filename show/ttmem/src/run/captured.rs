//! `ttmem run --top`: the terminal view on the terminal of a program that runs.
//!
//! A terminal has one screen. While the view has it, what the program would write there is kept,
//! as much as [`KEPT_BYTES`] hold; the view shows the last line, and all of it comes out when the
//! view is left. Keys are the view's: the program reads nothing. Leaving the view does not end the
//! program.

use super::child::{Child, Ended, Signals, Streams};
use crate::cli::Look;
use crate::commands::top::{show_beside, terminal_obstacle};
use crate::exit;
use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use ttmem_reader::ApiClient;
use ttmem_report::format;
use ttmem_tui::{Companion, CompanionLine};

/// What is kept of a program's output: the newest, enough for any screen's history.
const KEPT_BYTES: usize = 16 * 1024 * 1024;

/// How long what a program started may be silent after its end before nobody listens any more.
const AFTER_THE_END: Duration = Duration::from_millis(200);

/// How often the end of a program is looked for while it is silent.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// What is looked at for the last line of the program's output.
const LAST_BYTES: usize = 1024;

/// Why the view cannot be beside a program here; none if it can.
pub(super) fn obstacle() -> Option<&'static str> {
    terminal_obstacle()
}

/// What becomes of a program's output while the view has the terminal.
#[derive(Debug)]
pub(super) struct CapturedOutput {
    output: PipeReader,
    input: PipeWriter,
    kept: Mutex<Kept>,
    title: String,
    begun: Instant,
}

/// What a program wrote and the terminal has not got yet.
#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// Bytes that were dropped because there were too many.
    dropped: u64,
    /// The terminal is free: nothing is kept any more.
    passes: bool,
}

impl CapturedOutput {
    pub(super) fn new(title: String) -> Result<Self> {
        let (output, input) = io::pipe().context("cannot make a pipe for the program")?;
        Ok(Self {
            output,
            input,
            kept: Mutex::default(),
            title,
            begun: Instant::now(),
        })
    }

    /// The streams that a program is to have: those that are not the terminal stay as they are.
    pub(super) fn streams(&self) -> Result<Streams> {
        let nothing = File::open("/dev/null").context("cannot open /dev/null")?;
        let kept = || self.input.as_fd().try_clone_to_owned();
        let error = io::stderr().is_terminal().then(kept).transpose();
        Ok(Streams {
            input: Some(nothing.into()),
            output: Some(kept().context("cannot keep what the program writes")?),
            error: error.context("cannot keep what the program writes")?,
        })
    }

    /// Shows the view until the user leaves it or the program ends; waits for the program.
    pub(super) fn show(
        self,
        child: Child,
        signals: &Signals,
        server: &ApiClient,
        look: &Look,
    ) -> Result<Ended> {
        let Self {
            output,
            input,
            kept,
            title,
            begun,
        } = self;
        // From here on only the program has it: when it is gone, the pipe ends.
        drop(input);
        let ended = OnceLock::new();
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("ttmem-output".to_owned());
            let keeping = thread.spawn_scoped(scope, || keep(output, &kept, &ended));
            keeping.context("cannot start a thread for the program's output")?;
            let waiter = std::thread::Builder::new().name("ttmem-wait".to_owned());
            let waiting = waiter.spawn_scoped(scope, || {
                let outcome = child.wait(signals);
                let _first = ended.set(outcome.as_ref().ok().copied());
                outcome
            });
            let waiting = waiting.context("cannot start a thread for the program")?;
            let running = Running {
                title: &title,
                begun,
                kept: &kept,
                ended: &ended,
            };
            let shown = show_beside(server, &running, look);
            lock(&kept).pass();
            if let Err(error) = shown {
                exit::say(format_args!("no view: {error}"));
            }
            let outcome = waiting.join();
            outcome.map_err(|_panic| anyhow!("the thread that waits has failed"))?
        })
    }
}

/// Takes what a program writes, until nobody writes any more.
///
/// What it started may outlive it and keep the pipe open: some time after its end nobody listens.
fn keep(mut output: PipeReader, kept: &Mutex<Kept>, ended: &OnceLock<Option<Ended>>) {
    let mut bytes = [0; 65_536];
    let mut silent_since = None;
    loop {
        let mut ready = [PollFd::new(&output, PollFlags::IN)];
        let is_ready = poll(&mut ready, Some(&PATIENCE)).is_ok_and(|count| count > 0);
        if !is_ready {
            let over = ended.get().is_some();
            let since = *silent_since.get_or_insert_with(Instant::now);
            if over && since.elapsed() > AFTER_THE_END {
                return;
            }
            continue;
        }
        silent_since = None;
        match output.read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => lock(kept).take(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_gone) => return,
        }
    }
}

impl Kept {
    fn take(&mut self, bytes: &[u8]) {
        if self.passes {
            write_out(bytes);
            return;
        }
        self.bytes.extend(bytes);
        let over = self.bytes.len().saturating_sub(KEPT_BYTES);
        self.bytes.drain(..over);
        self.dropped += over as u64;
    }

    /// Writes out all that was kept, and what comes from now on as it comes.
    fn pass(&mut self) {
        self.passes = true;
        if self.dropped > 0 {
            let dropped = format::bytes(self.dropped);
            let said =
                format!("ttmem: the first {dropped} of the program's output were not kept\n");
            write_out(said.as_bytes());
        }
        let bytes = std::mem::take(&mut self.bytes);
        let (first, second) = bytes.as_slices();
        write_out(first);
        write_out(second);
    }

    /// The last line that says anything.
    fn last_line(&self) -> String {
        let from = self.bytes.len().saturating_sub(LAST_BYTES);
        let bytes: Vec<u8> = self.bytes.range(from..).copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.lines().rev().map(str::trim);
        lines
            .find(|line| !line.is_empty())
            .unwrap_or_default()
            .to_owned()
    }
}

/// Writes to the terminal; one that is gone needs nothing, and the program goes on.
fn write_out(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _gone = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Running<'a> {
    title: &'a str,
    begun: Instant,
    kept: &'a Mutex<Kept>,
    /// Set when it has ended: how, if that could be learned.
    ended: &'a OnceLock<Option<Ended>>,
}

impl Companion for Running<'_> {
    fn lines(&self) -> Vec<CompanionLine> {
        let state = match self.ended.get() {
            None => format!(
                "runs for {}",
                format::duration(self.begun.elapsed().as_secs())
            ),
            Some(Some(Ended::Exited(code))) => {
                format!("ended with code {code}, q shows the report")
            }
            Some(Some(Ended::Killed(signal))) => {
                format!("ended by signal {signal}, q shows the report")
            }
            Some(None) => "ended, q shows the report".to_owned(),
        };
        let last = lock(self.kept).last_line();
        let is_warning = !matches!(self.ended.get(), None | Some(Some(Ended::Exited(0))));
        let line = |text, is_warning| CompanionLine { text, is_warning };
        vec![
            // The command last: it may be longer than any line.
            line(format!("ttmem run, {state}: {}", self.title), is_warning),
            line(format!("> {last}"), false),
        ]
    }

    fn is_over(&self) -> bool {
        self.ended.get().is_some()
    }

    fn must_leave(&self) -> bool {
        // Whoever ended it by a signal wants to be rid of us as well.
        matches!(self.ended.get(), Some(Some(Ended::Killed(_))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_kept_and_what_was_not_is_counted() {
        let mut kept = Kept::default();
        kept.take(&vec![b'a'; KEPT_BYTES]);
        kept.take(b"\nstep 7 of 9\n\n  \n");
        assert_eq!(kept.bytes.len(), KEPT_BYTES);
        assert_eq!(kept.dropped, 17);
        assert_eq!(kept.last_line(), "step 7 of 9");
        assert_eq!(Kept::default().last_line(), "");
    }
}
