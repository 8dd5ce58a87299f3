//! The terminal: taken over at the beginning, given back however it ends.
//!
//! What was on the screen before is there afterwards, on every way out: the usual one, a signal, a
//! panic, a suspension. Only one [`Screen`] can be there at a time.

use crate::input::ASK_BACKGROUND;
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{QueueSelector, tcflush};
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::{emulate_default_handler, pipe, unregister};
use std::cell::Cell;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

/// Buttons and the wheel, and where: not every movement, which nothing here has a use for. Pasted
/// text in brackets.
const INPUT_ON: &str = "\u{1b}[?1000h\u{1b}[?1006h\u{1b}[?2004h";
const INPUT_OFF: &str = "\u{1b}[?2004l\u{1b}[?1006l\u{1b}[?1000l";

/// Bytes read at once; a paste is more than one reading.
const READ_AT_ONCE: usize = 4096;

/// How long a frame may hold up the end: a terminal that takes no output blocks for ever.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

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
    terminal: Terminal<CrosstermBackend<Output>>,
}

/// Standard output in one write for each flush. What was not flushed is lost with it: half a frame
/// has no place on a screen that was given back.
#[derive(Debug, Default)]
struct Output(Vec<u8>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&self.0);
        self.0.clear();
        written?;
        stdout.flush()
    }
}

impl Screen {
    /// # Errors
    /// When standard input or output is not a terminal.
    pub(crate) fn enter() -> io::Result<Self> {
        if !io::stdin().is_terminal() {
            return Err(io::Error::other("standard input is not a terminal"));
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
        let terminal = Terminal::new(CrosstermBackend::new(Output::default()));
        if terminal.is_err() {
            give_back();
        }
        Ok(Self {
            terminal: terminal?,
        })
    }

    /// Asks the terminal for its background; the answer comes as input, if ever.
    pub(crate) fn ask_background(&mut self) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), Print(ASK_BACKGROUND))
    }

    /// Draws a frame: what differs from the last one, in one go.
    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    /// Gives the terminal back, stops this process until it is continued, and takes it again.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        emulate_default_handler(SIGTSTP)?;
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
    let taken = execute!(io::stdout(), EnterAlternateScreen, Print(INPUT_ON), Hide);
    if taken.is_err() {
        give_back();
    }
    taken
}

/// Waits for something to be read, at most so long; whether there is.
///
/// # Errors
/// When the terminal is gone.
pub(crate) fn wait_for_input(longest: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut stdin = [PollFd::new(&stdin, PollFlags::IN)];
    let longest = Timespec::try_from(longest).unwrap_or_default();
    match poll(&mut stdin, Some(&longest)) {
        Err(Errno::INTR) => return Ok(false),
        ready => ready?,
    };
    let found = stdin[0].revents();
    if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(found.contains(PollFlags::IN))
}

/// What was typed, after [`wait_for_input`] found something.
///
/// Past the standard library's buffer: what lies there is not seen by who waits.
///
/// # Errors
/// When the terminal is gone: of a terminal in raw mode there is no other end.
pub(crate) fn read_input() -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; READ_AT_ONCE];
    let count = match rustix::io::read(io::stdin(), &mut bytes[..]) {
        Err(Errno::INTR | Errno::AGAIN) => 0,
        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
        count => count?,
    };
    bytes.truncate(count);
    Ok(bytes)
}

/// Leaves nothing of ours behind; a terminal that is gone needs nothing back.
fn give_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        let _gone = execute!(
            io::stdout(),
            EndSynchronizedUpdate,
            Print(INPUT_OFF),
            LeaveAlternateScreen,
            Show
        );
        // What was typed too late, or answered, is not for the shell.
        let _gone = tcflush(io::stdin(), QueueSelector::IFlush);
        let _gone = disable_raw_mode();
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        for panic in failed.drain(..) {
            let _gone = writeln!(io::stderr(), "{panic}");
        }
    }
}

/// Signals that came, to be looked at between frames.
///
/// One that ends the process does so even when no frame ends any more, because the terminal takes no
/// output: a thread sees to it.
#[derive(Debug)]
pub(crate) struct Signals {
    end: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    go_on: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
    /// Wakes the thread that ends the process; the thread ends when they are gone.
    wakes: Vec<SigId>,
    watching: Arc<AtomicBool>,
}

impl Signals {
    /// Notes signals from now on instead of dying of them.
    pub(crate) fn watch() -> io::Result<Self> {
        let mut signals = Self {
            end: Arc::default(),
            stop: Arc::default(),
            go_on: Arc::default(),
            resized: Arc::default(),
            wakes: Vec::new(),
            watching: Arc::new(AtomicBool::new(true)),
        };
        let (mut woken, wakes) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&signals.end))?;
            let wake = pipe::register(signal, wakes.try_clone()?)?;
            signals.wakes.push(wake);
        }
        drop(wakes);
        signal_hook::flag::register(SIGTSTP, Arc::clone(&signals.stop))?;
        signal_hook::flag::register(SIGCONT, Arc::clone(&signals.go_on))?;
        signal_hook::flag::register(SIGWINCH, Arc::clone(&signals.resized))?;
        let watching = Arc::clone(&signals.watching);
        let thread = std::thread::Builder::new().name("ttmem-end".to_owned());
        thread.spawn(move || {
            if woken.read(&mut [0]).is_ok_and(|count| count > 0) {
                std::thread::sleep(ENDS_WITHIN);
                if watching.load(Ordering::Relaxed) {
                    // Only its modes: writing to it is what blocks.
                    let _gone = disable_raw_mode();
                    let _never = emulate_default_handler(SIGTERM);
                }
            }
        })?;
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

    /// Whether the terminal has another size; asked once.
    pub(crate) fn resized(&self) -> bool {
        self.resized.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.watching.store(false, Ordering::Relaxed);
        for wake in self.wakes.drain(..) {
            unregister(wake);
        }
    }
}

#[cfg(test)]
mod tests;
