//! What keys do to the time cursor, and that every screen is of one instant.

use super::state::{App, Flow};
use super::tests::{drawn, now, press};
use crate::data::{Link, Update};
use crate::fetch::Document;
use crate::input::{Gesture, Input, Key, Pointer};
use crate::testing::screen::{SIZES, THEME, assert_screen, text};
use crate::testing::world::{NOW, Names, World, ago};
use crate::views::Tab;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::time::Duration;
use ttmem_report::{Recording, RecordingSource, SCHEMA, Timestamp};

const WORLD: World = World {
    devices: 8,
    processes: 3,
    busy: false,
    names: Names::Usual,
};

fn recording(source: RecordingSource) -> Recording {
    WORLD.recording(source)
}

fn with(tab: Tab, recording: Recording) -> App {
    let mut app = App::new("run.ttmem".to_owned(), Duration::from_secs(1), tab, THEME);
    app.take(Update::Link(Link::Up), now());
    app.take(Update::Recording(Some(Box::new(recording))), now());
    app
}

/// A view of a file, at the moment of the world.
fn at_instant(tab: Tab) -> App {
    let mut app = with(tab, recording(RecordingSource::File));
    go_to(&mut app, NOW);
    app
}

/// Goes to an instant by its marks, and answers with the documents of the world.
fn go_to(app: &mut App, at: Timestamp) {
    let mut file = recording(RecordingSource::File);
    file.marks.truncate(1);
    file.marks[0].time = at;
    let own = recording(RecordingSource::File);
    app.take(Update::Recording(Some(Box::new(file))), now());
    press(app, Key::Char('\''));
    app.take(Update::Recording(Some(Box::new(own))), now());
    assert_eq!(app.settings().at, Some(at));
    app.take(WORLD.instant(at), now());
}

fn keys(app: &mut App, keys: &str) {
    for key in keys.chars() {
        assert_eq!(press(app, Key::Char(key)), Flow::On, "{key}");
    }
}

#[test]
fn views_at_an_instant() {
    for size in SIZES {
        for tab in [Tab::Overview, Tab::L1Map, Tab::Failures, Tab::Events] {
            let mut app = at_instant(tab);
            let screen = drawn(&mut app, size, &[]);
            let name = format!("recorded/{}_{}x{}", tab.name(), size.0, size.1);
            assert_screen(&name, &screen);
        }
        let damaged = Recording {
            damage: Some("a block at byte 4096 has a wrong checksum".to_owned()),
            missing_events: 3,
            ..recording(RecordingSource::File)
        };
        let mut app = with(Tab::Overview, damaged);
        for update in WORLD.updates() {
            app.take(update, now());
        }
        let screen = drawn(&mut app, size, &[]);
        assert_screen(&format!("recorded/damaged_{}x{}", size.0, size.1), &screen);
    }
}

#[test]
fn keys_move_the_cursor_and_everything_is_asked_for_of_its_instant() {
    for tab in Tab::ALL {
        let mut app = at_instant(tab);
        let at = |app: &App| app.settings().at;
        let second = |seconds: u64| Some(Timestamp::from_unix_nanos(NOW.unix_nanos() + seconds));
        keys(&mut app, ".");
        assert_eq!(at(&app), second(1_000_000_000), "{tab:?}");
        keys(&mut app, ",,");
        assert_eq!(at(&app), Some(ago(1)), "{tab:?}");
        keys(&mut app, "f");
        let first = recording(RecordingSource::File).failures[0].time;
        assert_eq!(at(&app), Some(first), "{tab:?}: from the last to the first");
        keys(&mut app, "'");
        assert_eq!(at(&app), Some(ago(3600)), "{tab:?}");
        keys(&mut app, "'");
        assert_eq!(at(&app), Some(ago(1800)), "{tab:?}");
        keys(&mut app, "n");
        assert_eq!(at(&app), None, "{tab:?}");
        let settings = app.settings();
        assert!(!settings.streams_events, "{tab:?}: a file has no stream");
        assert_eq!((settings.marks, settings.paused), (0, false), "{tab:?}");
        assert_eq!(app.tab, tab);
    }
}

#[test]
fn the_peak_is_that_of_what_the_view_shows() {
    let file = recording(RecordingSource::File);
    let of = |device: usize, class: usize| Some(file.peaks[3 * device + class].time);
    let largest = |class: usize| {
        let peaks = (0..8).map(|device| &file.peaks[3 * device + class]);
        Some(peaks.max_by_key(|peak| peak.bytes).expect("some").time)
    };
    let mut app = at_instant(Tab::Overview);
    keys(&mut app, "p");
    assert_eq!(app.settings().at, largest(0));
    keys(&mut app, "p");
    assert_eq!(app.settings().at, largest(1));
    let mut app = at_instant(Tab::Device);
    keys(&mut app, "]]p");
    assert_eq!(app.settings().at, of(2, 0));
    let mut app = at_instant(Tab::L1Map);
    keys(&mut app, "]p");
    assert_eq!(app.settings().at, of(1, 1));
    keys(&mut app, "dp");
    assert_eq!(app.settings().at, of(1, 0));
}

#[test]
fn a_screen_is_of_one_instant() {
    let mut app = at_instant(Tab::L1Map);
    let before = drawn(&mut app, (120, 40), &[]);
    assert!(before.contains("recorded 2026-11-15 00:00:00.000 UTC, paused"));
    keys(&mut app, ",");
    // Until the whole of the other instant is there, all of it is of the one before.
    assert_eq!(drawn(&mut app, (120, 40), &[]), before);
    let mut canvas = Buffer::empty(Rect::new(0, 0, 120, 40));
    app.draw(&mut canvas, &[], now() + Duration::from_secs(2));
    assert!(text(&canvas).contains("going to 23:59:59"));
    let totals = WORLD.updates().into_iter();
    let totals = totals.filter(|update| matches!(update, Update::Snapshot(_)));
    app.take(Update::Instant(Some(ago(1)), totals.collect()), now());
    let screen = drawn(&mut app, (120, 40), &[]);
    assert!(screen.contains("23:59:59.000 UTC, paused"), "{screen}");
    assert!(
        !screen.contains("ADDRESS"),
        "the map was of another instant\n{screen}"
    );
    let documents = app.settings().documents;
    let asks = |document: &Document| matches!(document, Document::L1Map(..));
    assert!(documents.iter().any(asks), "{documents:?}");
}

#[test]
fn what_is_recorded_does_not_age_and_what_failed_is_as_old_as_it_was() {
    let failures = recording(RecordingSource::File).failures;
    let failed = failures.last().expect("some failed").time;
    let mut app = at_instant(Tab::Overview);
    let later = now() + Duration::from_secs(7200);
    let mut canvas = Buffer::empty(Rect::new(0, 0, 120, 40));
    app.draw(&mut canvas, &[], later);
    assert_eq!(text(&canvas), drawn(&mut app, (120, 40), &[]));
    assert!(!text(&canvas).contains("! pid"), "it failed an hour before");
    let just_after = Timestamp::from_unix_nanos(failed.unix_nanos() + 5_000_000_000);
    let mut app = at_instant(Tab::Overview);
    go_to(&mut app, just_after);
    let screen = drawn(&mut app, (240, 40), &[]);
    assert!(screen.contains("(5 s ago)"), "{screen}");
}

#[test]
fn space_plays_a_recording_and_holds_what_is_live() {
    let mut app = at_instant(Tab::Events);
    let began = std::time::Instant::now();
    keys(&mut app, " ");
    let screen = drawn(&mut app, (120, 40), &[]);
    assert!(screen.contains(", playing ×1"), "{screen}");
    let later = began + Duration::from_secs(60);
    app.tick(later);
    let moved = app.settings().at;
    assert!(moved > Some(NOW), "{moved:?}");
    // The next instant is asked for when this one has been answered.
    app.tick(later + Duration::from_secs(1));
    assert_eq!(app.settings().at, moved);
    app.take(Update::Instant(moved, Vec::new()), now());
    app.tick(later + Duration::from_secs(2));
    assert!(app.settings().at > moved);
    keys(&mut app, " >");
    app.tick(later + Duration::from_secs(9));
    let screen = drawn(&mut app, (120, 40), &[]);
    assert!(screen.contains(", paused ×2"), "{screen}");

    let mut app = with(Tab::Overview, recording(RecordingSource::Live));
    for update in WORLD.updates() {
        app.take(update, now());
    }
    assert!(drawn(&mut app, (120, 40), &[]).contains("live, every 1 s"));
    keys(&mut app, " ");
    assert!(app.settings().paused);
    assert!(drawn(&mut app, (120, 40), &[]).contains("PAUSED"));
    // Whoever looks back does not hold it any more, and comes back to what is live.
    keys(&mut app, ",");
    assert!(!app.settings().paused && app.settings().at.is_some());
    keys(&mut app, "n");
    assert_eq!((app.settings().paused, app.settings().at), (false, None));
}

#[test]
fn events_are_those_up_to_the_instant() {
    let mut app = at_instant(Tab::Events);
    let settings = app.settings();
    assert!(settings.documents.contains(&Document::LastEvents));
    let screen = drawn(&mut app, (120, 40), &[]);
    assert!(screen.contains("up to this instant"), "{screen}");
    keys(&mut app, "kk");
    assert!(drawn(&mut app, (120, 40), &[]).contains("scrolled up"));
    // Nothing of them is held under another instant.
    let none = ttmem_report::LastEvents {
        schema: SCHEMA,
        events: Vec::new(),
    };
    keys(&mut app, ",");
    let updates = vec![Update::LastEvents(none)];
    app.take(Update::Instant(app.settings().at, updates), now());
    let screen = drawn(&mut app, (120, 40), &[]);
    assert!(screen.contains("no events up to this instant"), "{screen}");
    // What the stream still brings is not shown either.
    let streamed = WORLD.updates().into_iter();
    let mut streamed = streamed.filter(|update| matches!(update, Update::Events(_)));
    app.take(streamed.next().expect("events"), now());
    assert_eq!(drawn(&mut app, (120, 40), &[]), screen);
    assert!(!app.settings().streams_events);
}

#[test]
fn a_click_on_the_line_goes_there() {
    let mut app = at_instant(Tab::Overview);
    let screen = drawn(&mut app, (120, 40), &[]);
    let line = screen.lines().rev().nth(1).expect("the time bar");
    let column = line.chars().position(|sign| sign == '━').expect("its line");
    let click = |column| Pointer {
        column: u16::try_from(column).expect("on the screen"),
        row: 38,
        did: Gesture::Click,
    };
    app.handle(Input::Pointer(click(column)));
    assert_eq!(app.settings().at, Some(ago(7200)));
}

#[test]
fn nothing_recorded_takes_no_keys_and_no_room() {
    let mut app = App::new(
        "ttmem.sock".to_owned(),
        Duration::from_secs(1),
        Tab::Overview,
        THEME,
    );
    for update in WORLD.updates() {
        app.take(update, now());
    }
    let before = drawn(&mut app, (80, 24), &[]);
    keys(&mut app, ",.<>pf'n");
    assert_eq!(app.settings().at, None);
    assert_eq!(drawn(&mut app, (80, 24), &[]), before);
    assert!(!before.contains('━'), "{before}");
}

#[test]
fn a_recording_takes_no_marks_and_letters_are_typed() {
    let mut app = at_instant(Tab::Buffers);
    keys(&mut app, "m");
    assert_eq!(app.settings().marks, 0);
    let screen = drawn(&mut app, (120, 40), &[]);
    assert!(
        screen.contains("no mark was set: this is a recording"),
        "{screen}"
    );
    let at = app.settings().at;
    keys(&mut app, "/,.pfn' ");
    assert_eq!(app.settings().at, at);
    assert!(drawn(&mut app, (120, 40), &[]).contains(",.pfn'"));
}

#[test]
fn hints_name_the_keys_of_a_recording_and_every_size_can_be_drawn() {
    let mut app = at_instant(Tab::Leaks);
    let screen = drawn(&mut app, (200, 50), &[]);
    let hints = screen.lines().last().unwrap_or_default();
    for hint in [
        "Space play",
        ", . step",
        "p peak",
        "f failure",
        "' mark",
        "q quit",
        "? help",
    ] {
        assert!(hints.contains(hint), "{hint}: {hints}");
    }
    assert!(!hints.contains("set mark"), "{hints}");
    for tab in Tab::ALL {
        let mut app = at_instant(tab);
        for width in [0, 1, 39, 40, 59, 60, 80, 300] {
            for height in [0, 1, 7, 8, 9, 10, 24, 100] {
                drawn(&mut app, (width, height), &[]);
            }
        }
    }
}
