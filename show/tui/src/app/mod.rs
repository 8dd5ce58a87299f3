//! Keys in, frames out.
//!
//! [`top`] runs on the caller's thread until the user leaves. What a key or an update does is in
//! [`state`], without a terminal; here is the loop around it: it wakes for a key at once, looks at
//! what was fetched ten times a second, and draws only when something changed.

#[cfg(test)]
mod label_tests;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod time_tests;

pub(crate) use state::App;

use crate::fetch::{FetchEnded, Fetcher};
use crate::input::Parser;
use crate::terminal::{Screen, Signals, read_input, wait_for_input};
use crate::theme::Theme;
use crate::views::Tab;
use state::Flow;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};
use ttmem_reader::ApiClient;
use ttmem_report::Timestamp;

/// How often the server is asked, unless the user wants otherwise.
pub const INTERVAL: Duration = Duration::from_millis(500);

/// Frames are at least this far apart, unless a key was pressed.
const FRAME: Duration = Duration::from_millis(100);

/// After a key, what the server answers is looked for this often...
const EAGER_FRAME: Duration = Duration::from_millis(15);

/// ...for this long.
const EAGER: Duration = Duration::from_millis(400);

/// Ages on the screen change every second even if nothing else does.
const CLOCK: Duration = Duration::from_secs(1);

/// Updates that are taken in between two frames: more wait for the next one.
const UPDATES: usize = 256;

/// Somebody who runs beside the screen: a demo, a program under observation.
pub trait Companion {
    /// What it has to say: a few lines, the first of which is always shown.
    fn lines(&self) -> Vec<CompanionLine>;

    fn is_over(&self) -> bool;

    /// Whether the screen is to be left now, whatever the user does.
    fn must_leave(&self) -> bool {
        false
    }

    /// Whether its last state stays on the screen until the user leaves.
    fn stays(&self) -> bool {
        false
    }

    /// Whether it waits for the user, who continues it with `c`.
    fn is_held(&self) -> bool {
        false
    }

    fn go_on(&self) {}
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompanionLine {
    pub text: String,
    pub is_warning: bool,
}

pub struct TopOptions<'c> {
    pub client: ApiClient,
    /// What the user calls it.
    pub address: String,
    pub interval: Duration,
    pub tab: Tab,
    /// The instant of a recording to begin with.
    pub at: Option<Timestamp>,
    pub theme: Theme,
    /// Whether the terminal is asked for its background, which decides the colours.
    pub asks_background: bool,
    pub companion: Option<&'c dyn Companion>,
    /// Whether it is one host of a fleet, to which `0` goes back.
    pub of_fleet: bool,
}

impl fmt::Debug for TopOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopOptions")
            .field("address", &self.address)
            .field("interval", &self.interval)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The user left, or the terminal is gone.
    Quit,
    /// Whoever ran beside has ended, and the user had not touched the screen.
    Over,
    /// The user wants to see the fleet that the server is one of.
    ToFleet,
}

#[derive(Debug, thiserror::Error)]
pub enum TopError {
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
    #[error("cannot start the threads that ask the server")]
    Thread(#[source] io::Error),
    #[error("the threads that ask the server have failed")]
    Fetch,
}

impl From<FetchEnded> for TopError {
    fn from(FetchEnded: FetchEnded) -> Self {
        Self::Fetch
    }
}

/// Shows a server on the terminal until the user leaves.
///
/// # Errors
/// When standard input or output is not a terminal, or the system has no thread left. A server that
/// cannot be reached is no error: it is waited for.
pub fn top(options: TopOptions<'_>) -> Result<Left, TopError> {
    let signals = Signals::watch().map_err(TopError::Terminal)?;
    let fetcher = Fetcher::start(options.client, options.interval).map_err(TopError::Thread)?;
    let mut app = App::new(
        options.address,
        options.interval,
        options.tab,
        options.theme,
    );
    app.begin_at(options.at);
    app.set_of_fleet(options.of_fleet);
    let mut screen = Screen::enter().map_err(TopError::Terminal)?;
    if options.asks_background {
        screen.ask_background().map_err(TopError::Terminal)?;
    }
    let shown = Shown {
        screen,
        signals,
        fetcher,
        companion: options.companion,
        parser: Parser::default(),
    };
    match shown.run(&mut app) {
        // Nobody is left to show anything to.
        Err(TopError::Terminal(error)) if is_gone(&error) => Ok(Left::Quit),
        left => left,
    }
}

fn is_gone(error: &io::Error) -> bool {
    // What a terminal whose other end is closed answers with.
    const EIO: i32 = 5;
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof
    ) || error.raw_os_error() == Some(EIO)
}

struct Shown<'c> {
    screen: Screen,
    signals: Signals,
    fetcher: Fetcher,
    companion: Option<&'c dyn Companion>,
    parser: Parser,
}

impl Shown<'_> {
    fn run(mut self, app: &mut App) -> Result<Left, TopError> {
        let mut drawn = None;
        let mut touched: Option<Instant> = None;
        let mut must_draw = true;
        loop {
            let now = Instant::now();
            let since = drawn.map_or(CLOCK, |drawn| now.saturating_duration_since(drawn));
            let eager =
                touched.is_some_and(|touched| now.saturating_duration_since(touched) < EAGER);
            let frame = if eager { EAGER_FRAME } else { FRAME };
            if must_draw || since >= CLOCK || (app.is_changed() && since >= frame) {
                self.draw(app, now)?;
                drawn = Some(now);
                must_draw = false;
            }
            app.tick(now);
            if wait_for_input(frame).map_err(TopError::Terminal)? {
                let (flow, was_used) = self.take_input(app)?;
                match flow {
                    Flow::On => {}
                    Flow::Suspend => self.suspend()?,
                    Flow::Quit => return Ok(Left::Quit),
                    Flow::ToFleet => return Ok(Left::ToFleet),
                    Flow::GoOn => self.companion.iter().for_each(|beside| beside.go_on()),
                }
                must_draw |= app.is_changed();
                if was_used {
                    touched = Some(Instant::now());
                }
            }
            if self.signals.end() {
                return Ok(Left::Quit);
            }
            if self.signals.stop() {
                self.suspend()?;
                must_draw = true;
            }
            must_draw |= self.signals.resized();
            if self.signals.went_on() {
                self.screen.resume().map_err(TopError::Terminal)?;
                must_draw = true;
            }
            for _update in 0..UPDATES {
                match self.fetcher.next()? {
                    Some(update) => app.take(update, Instant::now()),
                    None => break,
                }
            }
            if let Some(companion) = self.companion {
                if companion.must_leave() {
                    return Ok(Left::Quit);
                }
                app.set_held(companion.is_held());
                if companion.is_over() && touched.is_none() && !companion.stays() {
                    return Ok(Left::Over);
                }
            }
        }
    }

    fn suspend(&mut self) -> Result<(), TopError> {
        self.screen.suspend().map_err(TopError::Terminal)?;
        // The terminal was taken again; that this process goes on is no news any more.
        self.signals.went_on();
        Ok(())
    }

    /// Takes in what was typed; whether there was anything.
    ///
    /// One reading: more of a long paste comes after a frame, and after a look at the signals.
    fn take_input(&mut self, app: &mut App) -> Result<(Flow, bool), TopError> {
        let bytes = read_input().map_err(TopError::Terminal)?;
        let inputs = self.parser.take(&bytes);
        for input in &inputs {
            let flow = app.handle(*input);
            if flow != Flow::On {
                return Ok((flow, true));
            }
        }
        Ok((Flow::On, !inputs.is_empty()))
    }

    fn draw(&mut self, app: &mut App, now: Instant) -> Result<(), TopError> {
        let lines = self.companion.map_or_else(Vec::new, Companion::lines);
        let drawn = self.screen.draw(|frame| {
            app.draw(frame.buffer_mut(), &lines, now);
        });
        drawn.map_err(TopError::Terminal)?;
        self.fetcher.set(app.settings());
        Ok(())
    }
}
