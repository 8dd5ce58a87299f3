//! What keys do to the whole screen, and what is around the views.

use super::CompanionLine;
use super::state::{App, Flow};
use crate::data::{Link, Update};
use crate::input::{Gesture, Input, Key, Pointer};
use crate::testing::screen::{SIZES, THEME, assert_screen, text};
use crate::testing::world::{NOW, Names, World};
use crate::views::Tab;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// One moment for all: ages on the screen must not depend on how fast a test runs.
pub(super) fn now() -> Instant {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    *START
}

const WORLD: World = World {
    devices: 8,
    processes: 3,
    busy: false,
    names: Names::Usual,
};

fn app(tab: Tab) -> App {
    let mut app = App::new("ttmem.sock".to_owned(), Duration::from_secs(1), tab, THEME);
    for update in WORLD.updates() {
        app.take(update, now());
    }
    app
}

pub(super) fn drawn(app: &mut App, size: (u16, u16), companion: &[CompanionLine]) -> String {
    let mut canvas = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    app.draw(&mut canvas, companion, now());
    text(&canvas)
}

pub(super) fn press(app: &mut App, key: Key) -> Flow {
    app.handle(Input::Key(key))
}

#[test]
fn every_tab_with_what_is_around_it() {
    for size in SIZES {
        for tab in Tab::ALL {
            let screen = drawn(&mut app(tab), size, &[]);
            let name = format!("whole/{}_{}x{}", tab.name(), size.0, size.1);
            assert_screen(&name, &screen);
        }
    }
}

#[test]
fn a_problem_is_on_as_many_lines_as_it_needs() {
    let mut app = app(Tab::Events);
    let busy = World {
        busy: true,
        ..WORLD
    };
    let mut problems = busy.problems(NOW);
    problems.problems[0].text = format!("pid 4242 grows: {}model.py:57", "word ".repeat(12));
    app.take(Update::Problems(problems), now());
    let screen = drawn(&mut app, (60, 24), &[]);
    let lines: Vec<&str> = screen.lines().skip(2).take(2).collect();
    let [first, second] = lines[..] else {
        unreachable!("two lines")
    };
    assert!(first.starts_with("! ") && first.contains(" ["), "{screen}");
    assert!(second.starts_with("  "), "{screen}");
    assert_eq!(screen.lines().count(), 24, "{screen}");
    let line = |is_warning| CompanionLine {
        text: format!(
            "! out_of_memory: {}ttnn.zeros, model.py:1257",
            "x ".repeat(30)
        ),
        is_warning,
    };
    let screen = drawn(&mut app, (80, 24), &[line(true)]);
    assert!(screen.contains("model.py:1257"), "{screen}");
    let screen = drawn(&mut app, (80, 24), &[line(false)]);
    assert!(!screen.contains("model.py:1257"), "{screen}");
}

#[test]
fn numbers_and_tab_go_from_view_to_view() {
    let mut app = app(Tab::Overview);
    for (digit, tab) in ('1'..='9').zip(Tab::ALL) {
        assert_eq!(press(&mut app, Key::Char(digit)), Flow::On);
        assert_eq!(app.tab, tab);
    }
    press(&mut app, Key::Tab);
    assert_eq!(app.tab, Tab::Overview);
    press(&mut app, Key::BackTab);
    assert_eq!(app.tab, Tab::Failures);
}

#[test]
fn a_click_on_a_name_is_as_good_as_its_number() {
    let mut app = app(Tab::Overview);
    let screen = drawn(&mut app, (80, 24), &[]);
    let names = screen.lines().next().expect("a first line");
    let column = names.find("Map").expect("its name");
    let click = Pointer {
        column: u16::try_from(column).expect("on the screen"),
        row: 0,
        did: Gesture::Click,
    };
    app.handle(Input::Pointer(click));
    assert_eq!(app.tab, Tab::L1Map);
}

#[test]
fn a_slash_finds_in_every_view_and_escape_takes_it_back() {
    for tab in Tab::ALL {
        let mut app = app(tab);
        drawn(&mut app, (120, 40), &[]);
        for key in "/qzq".chars() {
            assert_eq!(press(&mut app, Key::Char(key)), Flow::On, "{tab:?}");
        }
        let screen = drawn(&mut app, (120, 40), &[]);
        assert!(screen.contains("qzq▏"), "{tab:?}:\n{screen}");
        press(&mut app, Key::Enter);
        let screen = drawn(&mut app, (120, 40), &[]);
        assert!(screen.contains("qzq"), "{tab:?}:\n{screen}");
        press(&mut app, Key::Escape);
        let screen = drawn(&mut app, (120, 40), &[]);
        assert!(!screen.contains("qzq"), "{tab:?}:\n{screen}");
        assert_eq!(press(&mut app, Key::Char('q')), Flow::Quit);
    }
}

#[test]
fn an_export_asks_for_its_form_and_can_be_given_up() {
    let mut app = app(Tab::Overview);
    press(&mut app, Key::Char('x'));
    let screen = drawn(&mut app, (80, 24), &[]);
    assert!(screen.contains("c CSV, j JSON, Esc nothing"), "{screen}");
    press(&mut app, Key::Escape);
    let screen = drawn(&mut app, (80, 24), &[]);
    assert!(!screen.contains("CSV"), "{screen}");
    assert_eq!(press(&mut app, Key::Char('q')), Flow::Quit);
}

#[test]
fn keys_of_the_app_change_the_settings() {
    let mut app = app(Tab::Overview);
    let first = app.settings();
    assert_eq!((first.paused, first.refreshes, first.marks), (false, 0, 0));
    for (key, paused, refreshes, marks, millis) in [
        ('r', false, 1, 0, 1_000),
        (' ', true, 1, 0, 1_000),
        (' ', false, 2, 0, 1_000),
        ('m', false, 2, 1, 1_000),
        ('+', false, 2, 1, 500),
        ('-', false, 2, 1, 1_000),
        ('-', false, 2, 1, 2_000),
    ] {
        assert_eq!(press(&mut app, Key::Char(key)), Flow::On);
        let now = app.settings();
        assert_eq!(
            (now.paused, now.refreshes, now.marks),
            (paused, refreshes, marks)
        );
        assert_eq!(now.interval, Duration::from_millis(millis));
    }
    assert_eq!(press(&mut app, Key::Char('q')), Flow::Quit);
    assert_eq!(press(&mut app, Key::Control('c')), Flow::Quit);
    assert_eq!(press(&mut app, Key::Control('z')), Flow::Suspend);
}

#[test]
fn help_is_left_before_the_program_is() {
    let mut app = app(Tab::Overview);
    let before = drawn(&mut app, (80, 24), &[]);
    press(&mut app, Key::Char('?'));
    assert_ne!(drawn(&mut app, (80, 24), &[]), before);
    assert_eq!(press(&mut app, Key::Escape), Flow::On);
    assert_eq!(drawn(&mut app, (80, 24), &[]), before);
    assert_eq!(press(&mut app, Key::Char('q')), Flow::Quit);
}

#[test]
fn escape_goes_back_and_never_quits() {
    for tab in Tab::ALL {
        let mut app = app(tab);
        drawn(&mut app, (80, 24), &[]);
        for _ in 0..5 {
            assert_eq!(press(&mut app, Key::Escape), Flow::On, "{tab:?}");
        }
        assert_eq!(app.tab, tab);
        let screen = drawn(&mut app, (80, 24), &[]);
        assert!(screen.contains("q quits"), "{screen}");
    }
    let mut app = app(Tab::Overview);
    drawn(&mut app, (80, 24), &[]);
    press(&mut app, Key::Enter);
    assert_eq!(app.tab, Tab::Device);
    press(&mut app, Key::Escape);
    assert_eq!(app.tab, Tab::Overview);
    // A view that was named is not gone back from.
    press(&mut app, Key::Enter);
    press(&mut app, Key::Char('6'));
    press(&mut app, Key::Escape);
    assert_eq!(app.tab, Tab::Buffers);
}

#[test]
fn stale_counts_from_the_last_answer_whatever_was_asked_since() {
    let mut app = app(Tab::Overview);
    for seconds in [10, 20, 3_600] {
        let later = now() + Duration::from_secs(seconds);
        let down = Link::Down {
            reason: "timed out".to_owned(),
        };
        app.take(Update::Link(down), later);
        let mut canvas = Buffer::empty(Rect::new(0, 0, 120, 24));
        app.draw(&mut canvas, &[], later);
        let age = ttmem_report::format::duration(seconds);
        let words = format!("STALE for {age}: timed out");
        assert!(text(&canvas).contains(&words), "{}", text(&canvas));
    }
}

#[test]
fn nothing_happens_unseen_on_a_screen_that_is_too_small() {
    let mut app = app(Tab::Overview);
    drawn(&mut app, (30, 6), &[]);
    for key in [Key::Char('?'), Key::Char('2'), Key::Char('m'), Key::Enter] {
        assert_eq!(press(&mut app, key), Flow::On);
    }
    assert_eq!((app.tab, app.settings().marks), (Tab::Overview, 0));
    let screen = drawn(&mut app, (80, 24), &[]);
    assert!(!screen.contains("Keys of this view"), "{screen}");
    drawn(&mut app, (30, 6), &[]);
    assert_eq!(press(&mut app, Key::Char('q')), Flow::Quit);
}

#[test]
fn hints_never_drop_the_way_out_and_the_help() {
    for tab in Tab::ALL {
        for width in [40, 60, 80, 200] {
            let screen = drawn(&mut app(tab), (width, 24), &[]);
            let hints = screen.lines().last().unwrap_or_default();
            assert!(hints.contains("q quit"), "{tab:?} {width}: {hints}");
            assert!(hints.contains("? help"), "{tab:?} {width}: {hints}");
        }
    }
}

#[test]
fn a_companion_that_waits_goes_on_with_c() {
    let mut app = app(Tab::Overview);
    drawn(&mut app, (80, 24), &[]);
    assert_eq!(press(&mut app, Key::Char('c')), Flow::On);
    app.set_held(true);
    assert_eq!(press(&mut app, Key::Char('c')), Flow::GoOn);
    press(&mut app, Key::Char('2'));
    press(&mut app, Key::Char('/'));
    assert_eq!(press(&mut app, Key::Char('c')), Flow::On, "it is typed");
}

#[test]
fn a_paste_is_text_or_nothing() {
    let mut app = app(Tab::Processes);
    drawn(&mut app, (80, 24), &[]);
    for letter in "qmr".chars() {
        assert_eq!(app.handle(Input::Pasted(letter)), Flow::On);
    }
    assert_eq!(app.settings().marks, 0);
    press(&mut app, Key::Char('/'));
    for letter in "qm".chars() {
        app.handle(Input::Pasted(letter));
    }
    assert!(drawn(&mut app, (80, 24), &[]).contains("find: qm"));
}

#[test]
fn help_is_seen_on_the_smallest_screens() {
    for height in [8, 9, 10] {
        let mut app = app(Tab::Overview);
        press(&mut app, Key::Char('?'));
        let screen = drawn(&mut app, (40, height), &[]);
        assert!(screen.contains("Keys of this view"), "{screen}");
        let lines = [line("a demo"), line("its last line")];
        let screen = drawn(&mut app, (40, height), &lines);
        assert!(screen.contains("Keys of this view"), "{screen}");
    }
}

#[test]
fn what_is_old_or_on_hold_is_called_so() {
    let mut app = app(Tab::Overview);
    assert!(drawn(&mut app, (80, 24), &[]).contains("live, every 1 s"));
    press(&mut app, Key::Char(' '));
    assert!(drawn(&mut app, (80, 24), &[]).contains("PAUSED for 0 s"));
    press(&mut app, Key::Char(' '));
    let down = Link::Down {
        reason: "no server listens on ttmem.sock".to_owned(),
    };
    app.take(Update::Link(down), now());
    let screen = drawn(&mut app, (80, 24), &[]);
    assert!(
        screen.contains("STALE for 0 s: no server listens on ttmem.sock"),
        "{screen}"
    );
}

#[test]
fn nothing_is_taken_in_on_hold_but_news_of_the_connection() {
    let mut app = app(Tab::Overview);
    press(&mut app, Key::Char(' '));
    let before = drawn(&mut app, (80, 24), &[]);
    let empty = World {
        devices: 0,
        processes: 0,
        busy: false,
        names: Names::Usual,
    };
    for update in empty.updates() {
        app.take(update, now());
    }
    assert_eq!(drawn(&mut app, (80, 24), &[]), before);
}

#[test]
fn every_size_can_be_drawn_with_and_without_a_companion() {
    for tab in Tab::ALL {
        let mut app = app(tab);
        for width in [0, 1, 2, 39, 40, 41, 79, 80, 81, 300] {
            for height in [0, 1, 2, 7, 8, 9, 23, 24, 100] {
                for lines in [0, 1, 4] {
                    drawn(&mut app, (width, height), &vec![line("a demo"); lines]);
                }
            }
        }
    }
    let lines = [line("the llama demo, step 12"), line("out of memory")];
    let screen = drawn(&mut app(Tab::Overview), (80, 24), &lines);
    let screen: Vec<&str> = screen.lines().collect();
    assert_eq!(screen[2..4], ["the llama demo, step 12", "out of memory"]);
}

fn line(text: &str) -> CompanionLine {
    CompanionLine {
        text: text.to_owned(),
        is_warning: false,
    }
}

#[test]
fn while_text_is_typed_only_the_keys_that_work_are_shown() {
    for tab in Tab::ALL {
        let mut app = app(tab);
        let keys = |app: &mut App| {
            let screen = drawn(app, (120, 30), &[]);
            screen.lines().last().unwrap().trim().to_owned()
        };
        let before = keys(&mut app);
        assert!(before.contains("q quit"), "{before}");
        app.handle(Input::Key(Key::Char('/')));
        assert_eq!(keys(&mut app), "Enter keep  Esc undo", "{tab:?}");
        app.handle(Input::Key(Key::Escape));
        assert_eq!(keys(&mut app), before, "{tab:?}");
    }
}
