//! View 0: the fleet on the terminal, until the user leaves or opens a host.
//!
//! A screen of its own around the same parts as the views of a server: there may be no server that is asked
//! meanwhile. A thread asks Prometheus, so that the screen waits for nobody.

use super::view::FleetView;
use crate::app::TopError;
use crate::data::Data;
use crate::frame;
use crate::input::{Input, Key, Parser};
use crate::terminal::{Screen, Signals, read_input, wait_for_input};
use crate::theme::{Ink, Theme};
use crate::views::help::Help;
use crate::views::{Chosen, KeyHelp, Outcome, View};
use crate::widgets::{Canvas, above, below, row_of};
use ratatui::buffer::Buffer;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use ttmem_reader::{HttpUrl, Prometheus, PrometheusError};
use ttmem_report::Fleet;
use ttmem_report::format;

/// Prometheus scrapes every 15 seconds by our example: asking more often shows nothing new.
const INTERVAL: Duration = Duration::from_secs(10);

/// After an answer that took long, at least so many times as long passes before the next question.
const REST: u32 = 4;

const FRAME: Duration = Duration::from_millis(200);

const EVERYWHERE: &[KeyHelp] = &[("q", "quit"), ("?", "help"), ("r", "refresh")];

#[derive(Debug)]
pub struct FleetOptions {
    pub prometheus: Prometheus,
    pub theme: Theme,
    pub asks_background: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetLeft {
    Quit,
    /// The user wants to see the server of this host.
    Open(HttpUrl),
}

/// Shows a fleet on the terminal until the user leaves, or opens a host.
///
/// # Errors
/// When standard input or output is not a terminal, or the system has no thread left. A Prometheus that does not
/// answer is no error: it is asked again.
pub fn fleet(options: FleetOptions) -> Result<FleetLeft, TopError> {
    let signals = Signals::watch().map_err(TopError::Terminal)?;
    let asked = Asked::start(options.prometheus.clone()).map_err(TopError::Thread)?;
    let mut shown = Shown::new(options.prometheus.url().to_string(), options.theme);
    let mut screen = Screen::enter().map_err(TopError::Terminal)?;
    if options.asks_background {
        screen.ask_background().map_err(TopError::Terminal)?;
    }
    let mut parser = Parser::default();
    loop {
        let drawn = screen.draw(|frame| shown.draw(frame.buffer_mut(), Instant::now()));
        drawn.map_err(TopError::Terminal)?;
        if wait_for_input(FRAME).map_err(TopError::Terminal)? {
            let bytes = read_input().map_err(TopError::Terminal)?;
            for input in parser.take(&bytes) {
                match shown.handle(input) {
                    Flow::On => {}
                    Flow::Quit => return Ok(FleetLeft::Quit),
                    Flow::Open(host) => return Ok(FleetLeft::Open(host)),
                    Flow::Refresh => asked.refresh(),
                    Flow::Suspend => {
                        screen.suspend().map_err(TopError::Terminal)?;
                        signals.went_on();
                    }
                }
            }
        }
        if signals.end() {
            return Ok(FleetLeft::Quit);
        }
        if signals.stop() {
            screen.suspend().map_err(TopError::Terminal)?;
            signals.went_on();
        }
        if signals.went_on() {
            screen.resume().map_err(TopError::Terminal)?;
        }
        // Another size is seen by the next frame, which is never far.
        signals.resized();
        if let Some(answer) = asked.next()? {
            shown.take(answer, Instant::now());
        }
    }
}

/// The thread that asks; it ends when this is gone, after the question that it waits for.
struct Asked {
    answers: Receiver<Result<Fleet, PrometheusError>>,
    again: SyncSender<()>,
}

impl Asked {
    fn start(prometheus: Prometheus) -> std::io::Result<Self> {
        let (answer, answers) = sync_channel(1);
        let (again, asked_again) = sync_channel(1);
        let thread = std::thread::Builder::new().name("ttmem-fleet".to_owned());
        thread.spawn(move || {
            loop {
                let began = Instant::now();
                if answer.send(prometheus.fleet()).is_err() {
                    return;
                }
                let rest = INTERVAL.max(began.elapsed().saturating_mul(REST));
                if asked_again.recv_timeout(rest) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        })?;
        Ok(Self { answers, again })
    }

    fn refresh(&self) {
        // One question that waits is enough.
        let _full = self.again.try_send(());
    }

    fn next(&self) -> Result<Option<Result<Fleet, PrometheusError>>, TopError> {
        match self.answers.try_recv() {
            Ok(answer) => Ok(Some(answer)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(TopError::Fetch),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    Quit,
    Suspend,
    Refresh,
    Open(HttpUrl),
}

/// What is on the screen; knows no terminal.
pub(super) struct Shown {
    view: FleetView,
    address: String,
    theme: Theme,
    help: Option<Help>,
    received: Option<Instant>,
    trouble: Option<String>,
    /// What views of a server share; nothing of it is used here.
    data: Data,
    chosen: Chosen,
}

impl Shown {
    pub(super) fn new(address: String, theme: Theme) -> Self {
        Self {
            view: FleetView::default(),
            data: Data::new(address.clone(), INTERVAL, Instant::now()),
            address,
            theme,
            help: None,
            received: None,
            trouble: None,
            chosen: Chosen::default(),
        }
    }

    pub(super) fn take(&mut self, answer: Result<Fleet, PrometheusError>, received: Instant) {
        match answer {
            Ok(fleet) => {
                self.view.fleet = Some(fleet);
                self.received = Some(received);
                self.trouble = None;
            }
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    pub(super) fn handle(&mut self, input: Input) -> Flow {
        let outcome = match input {
            Input::Key(key) => {
                match key {
                    Key::Control('c') => return Flow::Quit,
                    Key::Control('z') => return Flow::Suspend,
                    _other => {}
                }
                if let Some(help) = &mut self.help {
                    if !help.handle(key) {
                        self.help = None;
                    }
                    return Flow::On;
                }
                let outcome = self.view.handle(key, &self.data, &mut self.chosen);
                if outcome == Outcome::Unused {
                    return match key {
                        Key::Char('q') => Flow::Quit,
                        Key::Char('r') => Flow::Refresh,
                        Key::Char('?' | 'h') => {
                            self.help = Some(Help::of_a_screen(EVERYWHERE));
                            Flow::On
                        }
                        _other => Flow::On,
                    };
                }
                outcome
            }
            Input::Pasted(letter) if self.view.is_typing() => {
                self.view
                    .handle(Key::Char(letter), &self.data, &mut self.chosen)
            }
            Input::Pasted(_) => Outcome::Unused,
            Input::Pointer(pointer) if self.help.is_none() => {
                self.view.point(pointer, &self.data, &mut self.chosen)
            }
            Input::Pointer(_) => Outcome::Unused,
            Input::Background(background) => {
                self.theme = self.theme.with_background(background);
                Outcome::Handled
            }
        };
        match self.view.opened.take() {
            Some(host) if outcome == Outcome::Handled => Flow::Open(host),
            _none => Flow::On,
        }
    }

    pub(super) fn draw(&mut self, buffer: &mut Buffer, now: Instant) {
        let canvas = &mut Canvas::new(buffer, self.theme);
        let area = canvas.area;
        if frame::is_too_small(area) {
            frame::draw_too_small(canvas);
            self.theme.ascii(canvas);
            return;
        }
        let (state, ink) = self.state(now);
        let rest = canvas.text_at_right(row_of(area, 0), &state, ink);
        let title = [
            ("0 Fleet".to_owned(), Ink::Chosen),
            (format!("  {}", self.address), Ink::Faint),
        ];
        canvas.line(rest, &title);
        let inside = above(below(area, 1), area.height.saturating_sub(2));
        self.view.draw(canvas, inside, &self.data, &self.chosen);
        if let Some(help) = &mut self.help {
            help.draw(canvas, inside, &self.view);
        }
        let keys = [self.view.keys(), EVERYWHERE];
        frame::draw_keys(canvas, row_of(area, area.height - 1), keys);
        self.theme.ascii(canvas);
    }

    fn state(&self, now: Instant) -> (String, Ink) {
        let age = self
            .received
            .map(|received| now.saturating_duration_since(received).as_secs());
        match (&self.trouble, age) {
            (Some(trouble), Some(age)) => (
                format!(" STALE for {}: {trouble}", format::duration(age)),
                Ink::Danger,
            ),
            (Some(trouble), None) => (format!(" {trouble}"), Ink::Danger),
            (None, Some(age)) => (format!(" asked {} ago", format::duration(age)), Ink::Good),
            (None, None) => (" connecting".to_owned(), Ink::Warning),
        }
    }
}
