//! What is on the screen and what keys do to it; knows no terminal.

use super::CompanionLine;
use crate::data::{Data, Update};
use crate::export::{Export, ExportForm};
use crate::fetch::{Document, Settings};
use crate::frame::{self, Around, Parts};
use crate::input::{Gesture, Input, Key, Pointer};
use crate::playback::{self, Playback};
use crate::theme::Theme;
use crate::timebar;
use crate::views::buffers::Buffers;
use crate::views::help::{EVERYWHERE, Help, TIME_KEYS};
use crate::views::problems;
use crate::views::{Chosen, KeyHelp, Outcome, Tab, View};
use crate::widgets::{Canvas, below, row_of};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::time::{Duration, Instant};
use ttmem_report::{GroupBy, Timestamp};

/// The intervals that `+` and `-` go through.
const INTERVALS_MS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

const EXPORT_KEYS: &[KeyHelp] = &[("c", "CSV"), ("j", "JSON"), ("Esc", "nothing")];

/// While text is typed every other key is a letter of it.
const TYPING_KEYS: &[KeyHelp] = &[("Enter", "keep"), ("Esc", "undo")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    On,
    /// The process is to be stopped, until the user continues it.
    Suspend,
    Quit,
    /// The fleet that the server is one of.
    ToFleet,
    /// Whoever runs beside and waits is to go on.
    GoOn,
}

pub(crate) struct App {
    data: Data,
    pub(super) tab: Tab,
    /// The tabs from which the user went to others for details, to come back to.
    before: Vec<Tab>,
    /// Whether whoever runs beside waits for the user.
    held: bool,
    /// Whether `0` shows the fleet that the server is one of.
    of_fleet: bool,
    /// Whether the user is asked which form an export is to have.
    exporting: bool,
    views: [Box<dyn View>; Tab::ALL.len()],
    chosen: Chosen,
    help: Option<Help>,
    theme: Theme,
    changed: bool,
    /// How the screen was divided when it was last drawn.
    parts: Option<Parts>,
    too_small: bool,
    /// Where the time cursor moves, if it is on the screen.
    rail: Rect,
    refreshes: u64,
    marks: u32,
}

impl App {
    pub(crate) fn new(address: String, interval: Duration, tab: Tab, theme: Theme) -> Self {
        Self {
            data: Data::new(address, interval, Instant::now()),
            tab,
            before: Vec::new(),
            held: false,
            of_fleet: false,
            exporting: false,
            views: Tab::ALL.map(Tab::view),
            chosen: Chosen::default(),
            help: None,
            theme,
            changed: true,
            parts: None,
            too_small: false,
            rail: Rect::ZERO,
            refreshes: 0,
            marks: 0,
        }
    }

    /// Begins at an instant of a recording.
    pub(crate) fn begin_at(&mut self, at: Option<Timestamp>) {
        self.data.playback = Playback::beginning_at(at);
    }

    /// Begins with the buffers in groups.
    pub(crate) fn group_buffers(&mut self, by: GroupBy) {
        self.views[Tab::Buffers as usize] = Box::new(Buffers::grouped_by(by));
    }

    pub(crate) const fn set_of_fleet(&mut self, of_fleet: bool) {
        self.of_fleet = of_fleet;
    }

    /// Whether a frame would differ from the last one.
    pub(crate) const fn is_changed(&self) -> bool {
        self.changed
    }

    pub(crate) fn set_held(&mut self, held: bool) {
        self.changed |= self.held != held;
        self.held = held;
    }

    pub(crate) fn settings(&self) -> Settings {
        let view = &self.views[self.tab as usize];
        let mut documents = view.documents(&self.data, &self.chosen);
        let recorded = self.data.wants_recorded();
        let mut want = |document: Document, wanted: bool| {
            if wanted && !documents.contains(&document) {
                documents.push(document);
            }
        };
        // Asked for before their views are opened, which have them at once then.
        let failed = self.data.totals().map_or(0, |totals| totals.failures.count);
        let other = self.data.has_other_failures();
        want(Document::Failures, other || (recorded && failed > 0));
        want(Document::Leaks, self.data.marks().len() > 1);
        want(Document::LastEvents, recorded && view.streams_events());
        Settings {
            documents,
            at: self.data.playback.at(),
            streams_events: view.streams_events() && !recorded,
            samples_events: view.samples_events(&self.chosen),
            interval: self.data.interval,
            paused: self.data.paused,
            refreshes: self.refreshes,
            marks: self.marks,
        }
    }

    pub(crate) fn take(&mut self, update: Update, received: Instant) {
        // Totals that were on their way when the user stopped it are not shown; what a view asked
        // for since is.
        let is_held = matches!(update, Update::Snapshot(_) | Update::Recent(_));
        if !(is_held && self.data.paused) {
            self.data.apply(update, received);
            self.changed = true;
        }
    }

    /// Moves on while a recording plays.
    pub(crate) fn tick(&mut self, now: Instant) {
        if let Some(recording) = &self.data.recording {
            self.changed |= self.data.playback.tick(recording, self.data.at, now);
        }
    }

    pub(crate) fn handle(&mut self, input: Input) -> Flow {
        self.changed = true;
        match input {
            Input::Key(key) => self.press(key),
            Input::Pointer(pointer) => {
                self.point(pointer);
                Flow::On
            }
            Input::Pasted(letter) if self.views[self.tab as usize].is_typing() => {
                self.press(Key::Char(letter))
            }
            Input::Pasted(_) => Flow::On,
            Input::Background(background) => {
                self.theme = self.theme.with_background(background);
                Flow::On
            }
        }
    }

    pub(crate) fn draw(&mut self, buffer: &mut Buffer, companion: &[CompanionLine], now: Instant) {
        self.changed = false;
        self.data.begin_frame(now);
        let canvas = &mut Canvas::new(buffer, self.theme);
        let problem = problems::line(&self.data);
        let lines = problem
            .as_ref()
            .map(|line| frame::problem_lines(canvas.area, line));
        let lines = lines.unwrap_or_default();
        let companion = &frame::companion_lines(canvas.area, companion);
        let around = Around {
            problem_lines: lines.len(),
            companion_lines: companion.len(),
            time_lines: timebar::lines(&self.data),
        };
        self.parts = Parts::of(canvas.area, around);
        self.too_small = self.parts.is_none();
        match self.parts {
            Some(parts) => {
                self.draw_parts(canvas, &parts, companion);
                if let Some(problem) = &problem {
                    frame::draw_problem(canvas, parts.problem, (problem, &lines));
                }
            }
            None => frame::draw_too_small(canvas),
        }
        self.theme.ascii(canvas);
    }

    fn draw_parts(&mut self, canvas: &mut Canvas<'_>, parts: &Parts, companion: &[CompanionLine]) {
        let view = &mut self.views[self.tab as usize];
        let [keys, everywhere] = if self.exporting {
            [EXPORT_KEYS.to_vec(), Vec::new()]
        } else if view.is_typing() {
            [TYPING_KEYS.to_vec(), Vec::new()]
        } else {
            keys(&**view, &self.data)
        };
        let mut everywhere = everywhere;
        if self.of_fleet && !everywhere.is_empty() {
            everywhere.insert(2, ("0", "fleet"));
        }
        frame::draw(canvas, parts, (self.tab, [&keys, &everywhere]), &self.data);
        let peaks = match &self.data.recording {
            Some(recording) => playback::peaks(recording, &view.subject(&self.data, &self.chosen)),
            None => Vec::new(),
        };
        self.rail = timebar::draw(canvas, parts.time, &self.data, &peaks);
        if self.exporting {
            frame::draw_question(
                canvas,
                parts,
                "Export this view: c CSV, j JSON, Esc nothing",
            );
        }
        frame::draw_companion(canvas, parts, companion);
        view.draw(canvas, parts.view, &self.data, &self.chosen);
        if let Some(help) = &mut self.help {
            help.draw(canvas, parts.view, &**view);
        }
    }

    /// Draws the view with the line of its state, for those who cannot press keys.
    pub(crate) fn draw_alone(&mut self, buffer: &mut Buffer, now: Instant) {
        self.data.begin_frame(now);
        let canvas = &mut Canvas::new(buffer, self.theme);
        let area = canvas.area;
        if self.data.is_recorded() {
            frame::draw_status(canvas, row_of(area, 0), &self.data);
        } else {
            frame::draw_facts(canvas, row_of(area, 0), &self.data);
        }
        let mut top = 1;
        if let Some(problem) = problems::line(&self.data) {
            let lines = frame::problem_lines(area, &problem);
            frame::draw_problem(canvas, below(area, top), (&problem, &lines));
            top += u16::try_from(lines.len()).unwrap_or(u16::MAX);
        }
        let view = &mut self.views[self.tab as usize];
        view.draw(canvas, below(area, top), &self.data, &self.chosen);
        self.theme.ascii(canvas);
    }

    /// Rows of the view's lists that were not on the screen when it was last drawn.
    pub(crate) fn hidden_rows(&self) -> u64 {
        self.views[self.tab as usize].hidden_rows()
    }

    fn press(&mut self, key: Key) -> Flow {
        match key {
            Key::Control('c') => return Flow::Quit,
            Key::Control('z') => return Flow::Suspend,
            _other => {}
        }
        if self.too_small {
            // Too small for anything but a sentence: nothing that cannot be seen may happen.
            return if key == Key::Char('q') {
                Flow::Quit
            } else {
                Flow::On
            };
        }
        if self.exporting {
            self.exporting = false;
            match key {
                Key::Char('c') => self.export(ExportForm::Csv),
                Key::Char('j') => self.export(ExportForm::Json),
                _other => {}
            }
            return Flow::On;
        }
        if let Some(help) = &mut self.help {
            if !help.handle(key) {
                self.help = None;
            }
            return Flow::On;
        }
        let view = &mut self.views[self.tab as usize];
        if self.held && key == Key::Char('c') && !view.is_typing() {
            return Flow::GoOn;
        }
        let is_typing = view.is_typing();
        if !is_typing && self.press_time(key) {
            return Flow::On;
        }
        let view = &mut self.views[self.tab as usize];
        let outcome = view.handle(key, &self.data, &mut self.chosen);
        if outcome == Outcome::Unused && !is_typing {
            return self.press_unused(key);
        }
        self.follow(outcome);
        Flow::On
    }

    fn press_unused(&mut self, key: Key) -> Flow {
        match key {
            Key::Char('q') => return Flow::Quit,
            Key::Escape => self.go_back(),
            Key::Char('?' | 'h') => self.help = Some(Help::default()),
            Key::Tab => self.go(self.neighbour(1)),
            Key::BackTab => self.go(self.neighbour(Tab::ALL.len() - 1)),
            Key::Char('r') => self.refreshes += 1,
            Key::Char(' ') => {
                self.data.paused = !self.data.paused;
                self.refreshes += u64::from(!self.data.paused);
            }
            Key::Char('m') if self.data.wants_recorded() => {
                self.notice("no mark was set: this is a recording".to_owned());
            }
            Key::Char('m') => self.marks += 1,
            Key::Char('0') if self.of_fleet => return Flow::ToFleet,
            Key::Char('x') => self.exporting = true,
            Key::Char('+' | '=') => self.step_interval(false),
            Key::Char('-') => self.step_interval(true),
            Key::Char(digit) => {
                let number = digit.to_digit(10).and_then(|digit| digit.checked_sub(1));
                let number = number.and_then(|number| usize::try_from(number).ok());
                if let Some(tab) = number.and_then(|number| Tab::ALL.get(number)) {
                    self.go(*tab);
                }
            }
            _other => {}
        }
        Flow::On
    }

    /// Takes a key of the time cursor, where there is something recorded; whether it was one.
    fn press_time(&mut self, key: Key) -> bool {
        let Key::Char(key) = key else { return false };
        let recorded = self.data.wants_recorded();
        let Some(recording) = &self.data.recording else {
            return false;
        };
        let playback = &mut self.data.playback;
        let none = match key {
            ',' | '.' => {
                playback.step(recording, key == '.');
                None
            }
            // What is live is held, as without a recording.
            ' ' if recorded => {
                playback.toggle(recording, Instant::now());
                None
            }
            '<' | '>' => {
                playback.change_speed(key == '>');
                None
            }
            'p' => {
                let view = &self.views[self.tab as usize];
                let subject = view.subject(&self.data, &self.chosen);
                let found = self.data.playback.jump_to_peak(recording, subject);
                (!found).then_some("no peak was recorded of this")
            }
            'f' => {
                let times = recording.failures.iter().map(|failure| failure.time);
                let found = playback.jump_to_next(recording, times);
                (!found).then_some("nothing that was recorded failed")
            }
            '\'' => {
                let times = recording.marks.iter().map(|mark| mark.time);
                let found = playback.jump_to_next(recording, times);
                (!found).then_some("no mark was recorded")
            }
            'n' => {
                playback.go_to_end();
                None
            }
            _other => return false,
        };
        // Whoever looks back does not hold what is live any more.
        self.data.paused &= !self.data.wants_recorded();
        if let Some(none) = none {
            self.notice(none.to_owned());
        }
        true
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
            self.go(tab);
            return;
        }
        if pointer.did == Gesture::Click
            && self.rail.contains((pointer.column, pointer.row).into())
            && let Some(recording) = &self.data.recording
        {
            let (into, whole) = (pointer.column - self.rail.x, self.rail.width - 1);
            let (into, whole) = (u64::from(into), u64::from(whole));
            self.data.playback.jump_to_share(recording, into, whole);
            self.data.paused = false;
            return;
        }
        if parts.view.contains((pointer.column, pointer.row).into()) {
            let view = &mut self.views[self.tab as usize];
            let outcome = view.point(pointer, &self.data, &mut self.chosen);
            self.follow(outcome);
        }
    }

    fn follow(&mut self, outcome: Outcome) {
        if let Outcome::Go(tab) = outcome
            && tab != self.tab
        {
            self.before.push(self.tab);
            self.tab = tab;
        }
    }

    /// Goes to a view by its name: there is nothing to come back to.
    fn go(&mut self, tab: Tab) {
        self.before.clear();
        self.tab = tab;
    }

    fn export(&mut self, form: ExportForm) {
        let notice = match self.exported().write(form, &self.data) {
            Ok(written) => written,
            Err(error) => format!("nothing written: {error}"),
        };
        self.notice(notice);
    }

    fn notice(&mut self, notice: String) {
        self.data.apply(Update::Notice(notice), Instant::now());
    }

    /// What the view shows, for other programs.
    pub(crate) fn exported(&self) -> Export {
        let view = &self.views[self.tab as usize];
        let asked = view.documents(&self.data, &self.chosen);
        Export::of(self.tab, &asked, &self.data)
    }

    fn go_back(&mut self) {
        match self.before.pop() {
            Some(tab) => self.tab = tab,
            None => self.notice("nothing to go back to; q quits".to_owned()),
        }
    }

    fn neighbour(&self, step: usize) -> Tab {
        Tab::ALL[(self.tab as usize + step) % Tab::ALL.len()]
    }

    /// `+` asks more often, `-` less often.
    fn step_interval(&mut self, longer: bool) {
        let now = u64::try_from(self.data.interval.as_millis()).unwrap_or(u64::MAX);
        let mut steps = INTERVALS_MS.into_iter();
        let next = if longer {
            steps.find(|step| *step > now)
        } else {
            steps.rfind(|step| *step < now)
        };
        if let Some(next) = next {
            self.data.interval = Duration::from_millis(next);
        }
    }
}

/// The keys of a view, and those of everywhere: with those of the time cursor where there is one.
fn keys(view: &dyn View, data: &Data) -> [Vec<KeyHelp>; 2] {
    let mut of_view = view.keys().to_vec();
    let mut everywhere = EVERYWHERE.to_vec();
    if data.wants_recorded() {
        // Nothing is to be held, and nobody listens to marks.
        of_view.retain(|(key, _does)| !matches!(*key, "Space" | "m"));
        everywhere.retain(|(key, _does)| !matches!(*key, "Space" | "m" | "+ -"));
    }
    if data.recording.is_some() {
        let time_keys = TIME_KEYS.iter();
        let time_keys = time_keys.filter(|(key, _does)| *key != "Space" || data.wants_recorded());
        everywhere.splice(2..2, time_keys.copied());
    }
    [of_view, everywhere]
}
