//! `ttmem run --top`: the terminal view on the terminal of a program that runs.
//!
//! A terminal has one screen. While the view has it, what the program would write there is kept in
//! a file without a name; the view shows its last line, and all of it comes out when the view is
//! left. Keys are the view's: the program reads nothing. Leaving the view does not end the program.

use super::child::{Child, Ended, Signals, Streams};
use anyhow::{Context, Result, anyhow};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use ttmem_api::ApiClient;
use ttmem_tui::{Companion, CompanionLine, Look, Tab, TopOptions, format, top};

/// How often the view asks the server.
const INTERVAL: Duration = Duration::from_secs(1);

/// How often what the program writes is passed on after the view was left.
const PASS_ON: Duration = Duration::from_millis(50);

/// What is looked at for the last line of the program's output.
const LAST_BYTES: usize = 1024;

/// Why the view cannot be beside a program here; none if it can.
pub(super) fn obstacle() -> Option<&'static str> {
    if !io::stdin().is_terminal() {
        return Some("standard input is no terminal");
    }
    (!io::stdout().is_terminal()).then_some("standard output is no terminal")
}

/// Where a program's output goes while the view has the terminal.
#[derive(Debug)]
pub(super) struct Beside {
    kept: File,
    title: String,
    begun: Instant,
}

impl Beside {
    /// Makes room for the output of a program.
    pub(super) fn new(title: String) -> Result<Self> {
        Ok(Self {
            kept: tempfile::tempfile().context("cannot keep what the program writes")?,
            title,
            begun: Instant::now(),
        })
    }

    /// The streams that a program is to have: those that are not the terminal stay as they are.
    pub(super) fn streams(&self) -> Result<Streams> {
        let nothing = File::open("/dev/null").context("cannot open /dev/null")?;
        let kept = || self.kept.as_fd().try_clone_to_owned();
        let error = io::stderr().is_terminal().then(kept).transpose();
        Ok(Streams {
            input: Some(nothing.into()),
            output: Some(kept().context("cannot keep what the program writes")?),
            error: error.context("cannot keep what the program writes")?,
        })
    }

    /// Shows the view until the user leaves it or the program ends; waits for the program.
    pub(super) fn show(
        &self,
        child: Child,
        signals: &Signals,
        server: &ApiClient,
    ) -> Result<Ended> {
        let ended = OnceLock::new();
        std::thread::scope(|scope| {
            let waiting = std::thread::Builder::new().name("ttmem-wait".to_owned());
            let waiting = waiting.spawn_scoped(scope, || {
                let outcome = child.wait(signals);
                let told = outcome.as_ref().ok().copied();
                let _first = ended.set(told);
                outcome
            });
            let waiting = waiting.context("cannot start a thread for the program")?;
            let running = Running {
                beside: self,
                ended: &ended,
                last: RefCell::default(),
            };
            let shown = top(TopOptions {
                client: server.clone(),
                address: server.server().to_string(),
                interval: INTERVAL,
                tab: Tab::Overview,
                look: Look::detect(|name| std::env::var_os(name)),
                companion: Some(&running),
            });
            if let Err(error) = shown {
                let _unheard = writeln!(io::stderr(), "ttmem: no view: {error}");
            }
            let mut passed = 0;
            while ended.get().is_none() {
                passed = self.pass_on(passed);
                std::thread::sleep(PASS_ON);
            }
            let outcome = waiting.join();
            self.pass_on(passed);
            outcome.map_err(|_panic| anyhow!("the thread that waits has failed"))?
        })
    }

    /// Writes what was kept from a place on to the terminal; how far it got.
    fn pass_on(&self, mut from: u64) -> u64 {
        let mut stdout = io::stdout().lock();
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = self.kept.read_at(&mut bytes, from) {
            // A terminal that is gone needs nothing any more; the program goes on.
            let _gone = stdout.write_all(&bytes[..count]);
            from += count as u64;
        }
        let _gone = stdout.flush();
        from
    }

    /// The last line that the program wrote.
    fn last_line(&self, last: &mut LastLine) {
        let Ok(length) = self.kept.metadata().map(|kept| kept.len()) else {
            return;
        };
        if length == last.length {
            return;
        }
        last.length = length;
        let mut bytes = [0; LAST_BYTES];
        let from = length.saturating_sub(LAST_BYTES as u64);
        let count = self.kept.read_at(&mut bytes, from).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..count]);
        let mut lines = text.lines().rev().map(str::trim);
        last.text = lines
            .find(|line| !line.is_empty())
            .unwrap_or_default()
            .to_owned();
    }
}

/// The last line of a program's output, and how long the output was then.
#[derive(Debug, Default)]
struct LastLine {
    length: u64,
    text: String,
}

/// The program, as the view knows it.
struct Running<'a> {
    beside: &'a Beside,
    /// Set when it has ended: how, if that could be learned.
    ended: &'a OnceLock<Option<Ended>>,
    last: RefCell<LastLine>,
}

impl Companion for Running<'_> {
    fn lines(&self) -> Vec<CompanionLine> {
        let state = match self.ended.get() {
            None => format!(
                "runs for {}",
                format::duration(self.beside.begun.elapsed().as_secs())
            ),
            Some(Some(Ended::Exited(code))) => {
                format!("ended with code {code}, q shows the report")
            }
            Some(Some(Ended::Killed(signal))) => {
                format!("ended by signal {signal}, q shows the report")
            }
            Some(None) => "ended, q shows the report".to_owned(),
        };
        let mut last = self.last.borrow_mut();
        self.beside.last_line(&mut last);
        let is_warning = !matches!(self.ended.get(), None | Some(Some(Ended::Exited(0))));
        let line = |text, is_warning| CompanionLine { text, is_warning };
        vec![
            line(format!("{}: {state}", self.beside.title), is_warning),
            line(format!("> {}", last.text), false),
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
