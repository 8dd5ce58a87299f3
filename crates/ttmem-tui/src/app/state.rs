//! What is on the screen and what keys do to it; knows no terminal.

use super::CompanionLine;
use crate::data::{Data, Update};
use crate::frame::{self, Parts, Surroundings};
use crate::input::{Gesture, Input, Key, Pointer};
use crate::look::Look;
use crate::views::help::Help;
use crate::views::{Chosen, Outcome, Tab, View};
use crate::wants::{Request, Wants};
use ratatui::buffer::Buffer;
use std::fmt;
use std::time::{Duration, Instant};

/// The intervals that `+` and `-` go through.
const INTERVALS_MS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

/// What follows from a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    On,
    /// The process is to be stopped, until the user continues it.
    Suspend,
    Quit,
}

/// What the app asks the feed to do.
pub(crate) trait Orders {
    /// Asks for everything anew.
    fn refresh(&self);
    /// Says how often to ask.
    fn set_interval(&self, interval: Duration);
    /// Stops asking, or goes on.
    fn pause(&self, paused: bool);
    /// Has the server do something.
    fn request(&self, request: Request);
}

/// Everything that is on the screen.
pub(crate) struct App {
    data: Data,
    tab: Tab,
    views: [Box<dyn View>; 8],
    chosen: Chosen,
    help: Option<Help>,
    look: Look,
    changed: bool,
    /// How the screen was divided when it was last drawn.
    parts: Option<Parts>,
    marks: u32,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("tab", &self.tab)
            .finish_non_exhaustive()
    }
}

impl App {
    /// The screen as it is at first.
    pub(crate) fn new(address: String, interval: Duration, tab: Tab, look: Look) -> Self {
        Self {
            data: Data::new(address, interval, Instant::now()),
            tab,
            views: Tab::ALL.map(Tab::view),
            chosen: Chosen::default(),
            help: None,
            look,
            changed: true,
            parts: None,
            marks: 0,
        }
    }

    /// Whether a frame would differ from the last one.
    pub(crate) const fn is_changed(&self) -> bool {
        self.changed
    }

    /// What the view on screen wants to be asked for.
    pub(crate) fn wants(&self) -> Wants {
        self.views[self.tab as usize].wants(&self.data, &self.chosen)
    }

    /// Takes in what the feed brought.
    pub(crate) fn take(&mut self, update: Update, received: Instant) {
        // Totals that were on their way when the user stopped it are not shown; what a view asked
        // for since is.
        let is_held = matches!(update, Update::Snapshot(_) | Update::Recent(_));
        if !(is_held && self.data.paused) {
            self.data.apply(update, received);
            self.changed = true;
        }
    }

    /// Takes in what the user did.
    pub(crate) fn handle(&mut self, input: Input, orders: &impl Orders) -> Flow {
        self.changed = true;
        match input {
            Input::Key(key) => self.press(key, orders),
            Input::Pointer(pointer) => {
                self.point(pointer);
                Flow::On
            }
            Input::Resized => Flow::On,
        }
    }

    pub(crate) fn draw(&mut self, canvas: &mut Buffer, companion: &[CompanionLine], now: Instant) {
        self.changed = false;
        self.data.now = now;
        self.parts = Parts::of(canvas.area, companion.len());
        match self.parts {
            Some(parts) => self.draw_parts(canvas, &parts, companion),
            None => frame::draw_too_small(canvas, self.look),
        }
        self.look.ascii(canvas);
    }

    fn draw_parts(&mut self, canvas: &mut Buffer, parts: &Parts, companion: &[CompanionLine]) {
        let view = &mut self.views[self.tab as usize];
        let around = Surroundings {
            tab: self.tab,
            keys: view.keys(),
            companion,
        };
        frame::draw(canvas, parts, &around, &self.data, self.look);
        view.draw(canvas, parts.view, &self.data, &self.chosen, self.look);
        if let Some(help) = &mut self.help {
            help.draw(canvas, parts.view, &**view, self.look);
        }
    }

    /// Draws the view with the line of its state, for those who cannot press keys.
    pub(crate) fn draw_alone(&mut self, canvas: &mut Buffer, now: Instant) {
        self.data.now = now;
        let (status, area) = frame::alone(canvas.area);
        frame::draw_facts(canvas, status, &self.data, self.look);
        let view = &mut self.views[self.tab as usize];
        view.draw(canvas, area, &self.data, &self.chosen, self.look);
        self.look.ascii(canvas);
    }

    fn press(&mut self, key: Key, orders: &impl Orders) -> Flow {
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
        let view = &mut self.views[self.tab as usize];
        let is_typing = view.is_typing();
        let outcome = view.handle(key, &self.data, &mut self.chosen);
        if outcome == Outcome::Unused && !is_typing {
            return self.press_unused(key, orders);
        }
        self.follow(outcome);
        Flow::On
    }

    /// A key that the view has no use for.
    fn press_unused(&mut self, key: Key, orders: &impl Orders) -> Flow {
        match key {
            Key::Char('q') | Key::Escape => return Flow::Quit,
            Key::Char('?' | 'h') => self.help = Some(Help::default()),
            Key::Tab => self.tab = self.neighbour(1),
            Key::BackTab => self.tab = self.neighbour(Tab::ALL.len() - 1),
            Key::Char('r') => orders.refresh(),
            Key::Char(' ') => {
                self.data.paused = !self.data.paused;
                orders.pause(self.data.paused);
                if !self.data.paused {
                    orders.refresh();
                }
            }
            Key::Char('m') => {
                self.marks += 1;
                orders.request(Request::Mark(format!("top {}", self.marks)));
            }
            Key::Char('+' | '=') => self.step_interval(false, orders),
            Key::Char('-') => self.step_interval(true, orders),
            Key::Char(digit) => {
                let number = digit.to_digit(10).and_then(|digit| digit.checked_sub(1));
                let number = number.and_then(|number| usize::try_from(number).ok());
                if let Some(tab) = number.and_then(|number| Tab::ALL.get(number)) {
                    self.tab = *tab;
                }
            }
            _other => {}
        }
        Flow::On
    }

    fn point(&mut self, pointer: Pointer) {
        let Some(parts) = self.parts else {
            return;
        };
        if let Some(help) = &mut self.help {
            let stays = match pointer.did {
                Gesture::Click => false,
                Gesture::WheelUp => help.handle(Key::Up),
                Gesture::WheelDown => help.handle(Key::Down),
            };
            if !stays {
                self.help = None;
            }
            return;
        }
        if pointer.did == Gesture::Click
            && let Some(tab) = parts.tab_at(pointer.column, pointer.row)
        {
            self.tab = tab;
            return;
        }
        if parts.view.contains((pointer.column, pointer.row).into()) {
            let view = &mut self.views[self.tab as usize];
            let outcome = view.point(pointer, &self.data, &mut self.chosen);
            self.follow(outcome);
        }
    }

    fn follow(&mut self, outcome: Outcome) {
        if let Outcome::Go(tab) = outcome {
            self.tab = tab;
        }
    }

    fn neighbour(&self, step: usize) -> Tab {
        Tab::ALL[(self.tab as usize + step) % Tab::ALL.len()]
    }

    /// `+` asks more often, `-` less often.
    fn step_interval(&mut self, longer: bool, orders: &impl Orders) {
        let now = u64::try_from(self.data.interval.as_millis()).unwrap_or(u64::MAX);
        let mut steps = INTERVALS_MS.into_iter();
        let next = if longer {
            steps.find(|step| *step > now)
        } else {
            steps.rfind(|step| *step < now)
        };
        if let Some(next) = next {
            self.data.interval = Duration::from_millis(next);
            orders.set_interval(self.data.interval);
        }
    }
}
