//! The terminal: taken over at the beginning, given back however it ends.
//!
//! What was on the screen before is there afterwards, on every way out: the usual one, a signal, a
//! panic, a suspension. Only one [`Screen`] can be there at a time.

use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use std::cell::Cell;
use std::io::{self, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

/// Buttons and the wheel, and where: not every movement, which nothing here has a use for.
const MOUSE_ON: &str = "\u{1b}[?1000h\u{1b}[?1006h";
const MOUSE_OFF: &str = "\u{1b}[?1006l\u{1b}[?1000l";

/// What panicked on other threads while the terminal was ours, to be said when it is not.
static FAILED: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static IS_MINE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the terminal is ours at the moment, for the panic hook.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The panic hook is put in place once; it knows whether there is something to give back.
static HOOK: Once = Once::new();

#[derive(Debug)]
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// # Errors
    /// When standard input or output is no terminal.
    pub(crate) fn enter() -> io::Result<Self> {
        if !io::stdin().is_terminal() {
            return Err(io::Error::other("standard input is no terminal"));
        }
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if IS_MINE.get() {
                    give_back();
                } else if TAKEN.load(Ordering::Relaxed) {
                    // Words on a screen that another thread draws would be lost.
                    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.push(panic.to_string());
                    return;
                }
                before(panic);
            }));
        });
        IS_MINE.set(true);
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        if terminal.is_err() {
            give_back();
        }
        Ok(Self {
            terminal: terminal?,
        })
    }

    /// Draws a frame: what differs from the last one, in one go.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    /// Gives the terminal back, stops this process until it is continued, and takes it again.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        signal_hook::low_level::emulate_default_handler(SIGTSTP)?;
        self.resume()
    }

    /// Takes the terminal again: while this process was stopped, others had it.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        // Whoever had the terminal meanwhile may have left it in any mode, and only from the usual
        // one it is taken anew.
        let _was_ours = disable_raw_mode();
        take()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
        IS_MINE.set(false);
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::Relaxed);
    let taken = execute!(io::stdout(), EnterAlternateScreen, Print(MOUSE_ON), Hide);
    if taken.is_err() {
        give_back();
    }
    taken
}

/// Waits for something to be read, at most so long; whether there may be.
///
/// # Errors
/// When the terminal is gone. It has to be looked at before every reading: on a terminal that was
/// closed, the library that reads keys would try again for ever.
pub(crate) fn wait_for_input(longest: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut stdin = [PollFd::new(&stdin, PollFlags::IN)];
    let longest = Timespec::try_from(longest).unwrap_or_default();
    let ready = match poll(&mut stdin, Some(&longest)) {
        // A signal: it may have been SIGWINCH.
        Err(Errno::INTR) => match poll(&mut stdin, Some(&Timespec::default())) {
            Ok(_) | Err(Errno::INTR) => 1,
            Err(error) => return Err(error.into()),
        },
        ready => ready?,
    };
    let is_gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    if stdin[0].revents().intersects(is_gone) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(ready > 0)
}

/// Leaves nothing of ours behind; a terminal that is gone needs nothing back.
fn give_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        let _gone = execute!(
            io::stdout(),
            EndSynchronizedUpdate,
            Print(MOUSE_OFF),
            LeaveAlternateScreen,
            Show
        );
        let _gone = disable_raw_mode();
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        for panic in failed.drain(..) {
            let _gone = writeln!(io::stderr(), "{panic}");
        }
    }
}

/// Signals that came, to be looked at between frames.
#[derive(Debug)]
pub(crate) struct Signals {
    end: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    go_on: Arc<AtomicBool>,
}

impl Signals {
    /// Notes signals from now on instead of dying of them.
    pub(crate) fn watch() -> io::Result<Self> {
        let signals = Self {
            end: Arc::default(),
            stop: Arc::default(),
            go_on: Arc::default(),
        };
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&signals.end))?;
        }
        signal_hook::flag::register(SIGTSTP, Arc::clone(&signals.stop))?;
        signal_hook::flag::register(SIGCONT, Arc::clone(&signals.go_on))?;
        Ok(signals)
    }

    pub(crate) fn end(&self) -> bool {
        self.end.load(Ordering::Relaxed)
    }

    /// Whether it is to stop; asked once.
    pub(crate) fn stop(&self) -> bool {
        self.stop.swap(false, Ordering::Relaxed)
    }

    /// Whether it was continued; asked once.
    pub(crate) fn went_on(&self) -> bool {
        self.go_on.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
