//! The events in every world, and under the user's keys.

use super::*;
use crate::data::{TAIL_EVENTS, Update};
use crate::testing::screen::{SIZES, THEME, assert_in_every_world, assert_screen, drawn};
use crate::testing::world::all;
use crate::theme::ColourDepth;
use crate::theme::Theme;
use crate::widgets::Canvas;
use ratatui::buffer::Buffer;
use ttmem_report::StreamEvent;
use ttmem_report::{EventFields, LastEvent, Timestamp};

fn busy() -> Data {
    let mut worlds = all().into_iter();
    let (_, data) = worlds.find(|(name, _)| *name == "busy").expect("it is one");
    data
}

/// Events that are still to come.
fn coming(first_id: u64, count: u64) -> Update {
    let event = |id| {
        let time = Timestamp::from_unix_nanos(id);
        StreamEvent {
            id,
            applied: time,
            event: LastEvent {
                time,
                pid: Some(7),
                process: None,
                recovered: false,
                event: format!("marked_{id}"),
                fields: EventFields::default(),
            },
        }
    };
    Update::Events((first_id..first_id + count).map(event).collect())
}

/// A view and what it is drawn from.
struct Stage {
    view: Events,
    data: Data,
    chosen: Chosen,
}

impl Stage {
    fn new(data: Data) -> Self {
        let (view, chosen) = (Events::default(), Chosen::default());
        let mut stage = Self { view, data, chosen };
        stage.screen();
        stage
    }

    /// The newest events, with this many that came.
    fn with_coming(count: u64) -> Self {
        let mut data = busy();
        data.tail = crate::data::Tail::default();
        let now = data.now;
        data.apply(coming(1, count), now);
        Self::new(data)
    }

    fn screen(&mut self) -> String {
        drawn(&mut self.view, &self.data, &self.chosen, (80, 24))
    }

    fn press(&mut self, key: Key) -> Outcome {
        self.view.handle(key, &self.data, &mut self.chosen)
    }

    /// Presses keys, each of which the view takes.
    fn keys(&mut self, keys: &str) {
        for key in keys.chars() {
            let key = if key == '\n' {
                Key::Enter
            } else {
                Key::Char(key)
            };
            assert_eq!(self.press(key), Outcome::Handled, "{key:?}");
        }
    }

    fn come(&mut self, first_id: u64, count: u64) {
        let now = self.data.now;
        self.data.apply(coming(first_id, count), now);
    }
}

#[test]
fn every_world_looks_as_it_was_looked_at() {
    assert_in_every_world("events", || Box::<Events>::default());
}

#[test]
fn states_look_as_they_were_looked_at() {
    for size in SIZES {
        let at = |name: &str, stage: &mut Stage| {
            let screen = drawn(&mut stage.view, &stage.data, &stage.chosen, size);
            assert_screen(&format!("events/{name}_{}x{}", size.0, size.1), &screen);
        };
        let mut stage = Stage::new(busy());
        stage.keys("/matmul");
        at("typing", &mut stage);
        stage.keys("\ne");
        at("filtered_buffers", &mut stage);
        let mut stage = Stage::new(busy());
        let now = stage.data.now;
        stage.data.apply(Update::Missed(1_234), now);
        stage.keys(" kkk");
        stage.come(900_000, 77);
        at("paused", &mut stage);
    }
}

#[test]
fn it_runs_until_it_is_scrolled_up_and_again_from_its_end() {
    let mut stage = Stage::with_coming(100);
    assert!(stage.screen().contains("marked_100"));
    stage.come(101, 1);
    assert!(stage.screen().contains("marked_101"));
    stage.keys("k");
    stage.come(102, 5);
    let screen = stage.screen();
    assert!(
        !screen.contains("marked_102") && screen.contains("5 came since"),
        "{screen}"
    );
    stage.keys("j");
    let screen = stage.screen();
    assert!(
        screen.contains("marked_106") && screen.contains("following"),
        "{screen}"
    );
    stage.keys("g");
    let screen = stage.screen();
    assert!(
        screen.contains("marked_1\n") || screen.contains("marked_1 "),
        "{screen}"
    );
    stage.keys("G");
    assert!(stage.screen().contains("following"));
}

#[test]
fn what_is_paused_stays_even_when_all_of_it_is_gone() {
    let mut stage = Stage::with_coming(100);
    stage.keys(" ");
    let before: Vec<String> = stage.screen().lines().skip(1).map(str::to_owned).collect();
    let many = 2 * u64::try_from(TAIL_EVENTS).expect("few");
    stage.come(101, many);
    let screen = stage.screen();
    let after: Vec<String> = screen.lines().skip(1).map(str::to_owned).collect();
    assert_eq!(before, after);
    assert!(screen.contains("20000 came since"), "{screen}");
    // At its end it stays paused: only the key lets it run.
    stage.keys("kG");
    assert!(stage.screen().contains("paused"));
    stage.keys(" ");
    let screen = stage.screen();
    assert!(
        screen.contains("following") && screen.contains("marked_20100"),
        "{screen}"
    );
    assert!(!screen.contains("not shown"), "{screen}");
}

#[test]
fn scrolling_begins_where_the_screen_was_though_events_went_on() {
    let mut stage = Stage::with_coming(u64::try_from(TAIL_EVENTS).expect("few"));
    stage.come(10_001, 50);
    // Not drawn since: the user still sees event 10000 at the bottom.
    stage.keys("k");
    stage.screen();
    let row = stage.view.rows.get(stage.view.cursor.row).expect("a row");
    let held = stage.view.held.as_ref();
    let event = Events::shown(held, &stage.data)
        .at(row.place())
        .expect("an event");
    assert_eq!(event.id, 9_999);
}

#[test]
fn a_filter_is_typed_undone_and_cleared() {
    let mut stage = Stage::new(busy());
    stage.keys("/softmax q1 ");
    assert!(stage.view.is_typing() && stage.screen().contains("/softmax q1 "));
    stage.keys("no such word");
    stage.keys("e");
    let screen = stage.screen();
    assert!(screen.contains("0 match"), "{screen}");
    assert_eq!(stage.press(Key::Escape), Outcome::Handled);
    assert!(!stage.view.is_typing() && stage.view.filter.text().is_empty());
    stage.keys("/SOFTMAX\n");
    let screen = stage.screen();
    assert!(
        screen.contains("softmax") && !screen.contains("matmul"),
        "{screen}"
    );
    assert_eq!(stage.press(Key::Escape), Outcome::Handled);
    assert_eq!(stage.press(Key::Escape), Outcome::Unused);
}

#[test]
fn the_chosen_event_stays_chosen_when_the_filter_changes() {
    let mut stage = Stage::new(busy());
    stage.keys(" kkkkkkkk");
    stage.screen();
    let chosen = |stage: &Stage| stage.view.rows.get(stage.view.cursor.row).map(Row::place);
    let before = chosen(&stage).expect("a row");
    stage.keys("/e\n");
    stage.screen();
    assert_eq!(chosen(&stage), Some(before));
}

#[test]
fn one_process_can_be_looked_at_alone() {
    let mut stage = Stage::new(busy());
    // Nothing is marked while the list runs.
    assert_eq!(stage.press(Key::Enter), Outcome::Unused);
    stage.keys(" \n");
    let pid = stage.chosen.pid.expect("a process was chosen");
    let screen = stage.screen();
    assert!(screen.contains(&format!("only process {pid}")), "{screen}");
    let rows = screen
        .lines()
        .filter(|line| line.contains("python3") || line.contains(" 43"));
    assert!(rows.clone().count() > 1 && rows.clone().all(|line| line.contains(&pid.to_string())));
    assert_eq!(stage.press(Key::Escape), Outcome::Handled);
    assert_eq!(stage.chosen.pid, None);
}

#[test]
fn families_are_chosen_by_key_and_by_pointer() {
    let mut stage = Stage::new(busy());
    stage.keys("E");
    let screen = stage.screen();
    assert!(
        screen.contains("[failures]") && screen.contains("✗  allocation_failed"),
        "{screen}"
    );
    assert!(!screen.contains("buffer_freed"), "{screen}");
    let column = screen
        .lines()
        .next()
        .and_then(|line| line.find("kernels"))
        .expect("it is there");
    let click = |column, row| Pointer {
        column,
        row,
        did: Gesture::Click,
    };
    let at = click(u16::try_from(column).expect("on the screen"), 0);
    let outcome = stage.view.point(at, &stage.data, &mut stage.chosen);
    assert_eq!(outcome, Outcome::Handled);
    let screen = stage.screen();
    assert!(
        screen.contains("[kernels]") && screen.contains("kernel_loaded"),
        "{screen}"
    );
    // A row is chosen, and the list stands still; the heading is no row.
    let outcome = stage
        .view
        .point(click(3, 4), &stage.data, &mut stage.chosen);
    assert_eq!(outcome, Outcome::Handled);
    assert!(stage.screen().contains("scrolled up"));
    let outcome = stage
        .view
        .point(click(3, 1), &stage.data, &mut stage.chosen);
    assert_eq!(outcome, Outcome::Unused);
}

#[test]
fn the_wheel_scrolls() {
    let mut stage = Stage::with_coming(100);
    let wheel = |did| Pointer {
        column: 0,
        row: 5,
        did,
    };
    stage
        .view
        .point(wheel(Gesture::WheelUp), &stage.data, &mut stage.chosen);
    assert!(stage.screen().contains("scrolled up"));
    stage
        .view
        .point(wheel(Gesture::WheelDown), &stage.data, &mut stage.chosen);
    assert!(stage.screen().contains("following"));
}

#[test]
fn what_is_missing_is_told_where_it_is_missing() {
    let mut stage = Stage::with_coming(5);
    stage.come(1_006, 1);
    let now = stage.data.now;
    stage.data.apply(Update::Missed(1_000), now);
    let screen = stage.screen();
    assert!(screen.contains("╌╌╌ 1000 events not shown ╌╌╌"), "{screen}");
    assert!(
        screen.contains("1000 events missed: more than this reader can take"),
        "{screen}"
    );
    stage.come(1, 1);
    assert!(
        stage
            .screen()
            .contains("╌╌╌ the server was started anew ╌╌╌")
    );
}

#[test]
fn a_pause_of_the_app_is_the_apps() {
    let mut stage = Stage::new(busy());
    stage.data.paused = true;
    assert_eq!(stage.press(Key::Char(' ')), Outcome::Unused);
    let before = stage.screen();
    assert!(before.contains("paused · 0 came since"), "{before}");
    // Events go on coming, but nothing moves.
    stage.come(900_000, 40);
    let rows = |screen: &str| {
        screen
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let during = stage.screen();
    assert_eq!(rows(&before), rows(&during));
    assert!(during.contains("paused · 40 came since"), "{during}");
    // Its end does not let it run: only the app does.
    stage.keys("kG");
    assert_eq!(rows(&before), rows(&stage.screen()));
    for key in [
        Key::Char('q'),
        Key::Char('?'),
        Key::Char('m'),
        Key::Tab,
        Key::Char('1'),
    ] {
        assert_eq!(stage.press(key), Outcome::Unused, "{key:?}");
    }
    stage.data.paused = false;
    let screen = stage.screen();
    assert!(
        screen.contains("following") && screen.contains("marked_900039"),
        "{screen}"
    );
}

#[test]
fn what_was_paused_before_it_was_ever_looked_at_begins_at_its_end() {
    let mut data = Stage::with_coming(100).data;
    data.paused = true;
    let mut stage = Stage::new(data);
    stage.come(101, 5);
    let screen = stage.screen();
    assert!(
        screen.contains("marked_100") && screen.contains("paused · 5 came since"),
        "{screen}"
    );
}

#[test]
fn a_list_that_was_scrolled_up_stays_so_through_a_pause_of_the_app() {
    let mut stage = Stage::with_coming(100);
    stage.keys("k");
    stage.data.paused = true;
    assert!(stage.screen().contains("paused"));
    stage.come(101, 5);
    stage.keys("j");
    let screen = stage.screen();
    assert!(
        screen.contains("paused · 5 came since") && !screen.contains("marked_105"),
        "{screen}"
    );
    stage.keys("k");
    stage.data.paused = false;
    assert!(stage.screen().contains("scrolled up"));
    stage.keys("j");
    assert!(stage.screen().contains("marked_105"));
}

#[test]
fn no_area_is_too_small_and_no_look_too_plain() {
    let mut stage = Stage::new(busy());
    stage.keys(" kk/x");
    for (columns, rows) in [(0, 0), (1, 1), (20, 5), (30, 2), (80, 3), (5, 60)] {
        for theme in [THEME, Theme::new(ColourDepth::True, false)] {
            let mut canvas = Buffer::empty(Rect::new(0, 0, columns, rows));
            let area = canvas.area;
            let (data, chosen) = (&stage.data, &stage.chosen);
            stage
                .view
                .draw(&mut Canvas::new(&mut canvas, theme), area, data, chosen);
        }
    }
    // The whole tail is gone under the cursor.
    stage.keys("\n");
    stage.press(Key::Escape);
    stage.keys(" ");
    stage.data.tail = crate::data::Tail::default();
    assert!(stage.screen().contains("no events yet"));
    assert_eq!(stage.press(Key::Char('j')), Outcome::Handled);
}

#[test]
fn who_looks_for_something_gets_all_events() {
    let (data, mut chosen) = (busy(), Chosen::default());
    let mut view = Events::default();
    assert!(view.streams_events() && view.samples_events(&chosen));
    let press = |view: &mut Events, chosen: &mut Chosen, keys: &[Key]| {
        for key in keys {
            view.handle(*key, &data, chosen);
        }
    };
    press(&mut view, &mut chosen, &[Key::Char('e')]);
    assert!(!view.samples_events(&chosen), "of one kind");
    press(&mut view, &mut chosen, &[Key::Char('E')]);
    assert!(view.samples_events(&chosen));
    press(&mut view, &mut chosen, &[Key::Char('/'), Key::Char('x')]);
    assert!(!view.samples_events(&chosen), "with a text");
    press(&mut view, &mut chosen, &[Key::Enter, Key::Escape]);
    assert!(view.samples_events(&chosen));
    chosen.pid = Some(7);
    assert!(!view.samples_events(&chosen), "of one process");
}
