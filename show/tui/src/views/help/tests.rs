//! The help over every view, by its keys and as it looks.

use super::*;
use crate::testing::screen::{self, SIZES, THEME};
use crate::testing::world;
use crate::theme::Theme;
use crate::views::{Chosen, Tab};
use crate::widgets::Canvas;
use ratatui::buffer::Buffer;

fn drawn(help: &mut Help, view: &dyn View, size: (u16, u16)) -> String {
    let mut canvas = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    let area = canvas.area;
    help.draw(&mut Canvas::new(&mut canvas, THEME), area, view);
    screen::text(&canvas)
}

/// Whatever is met by scrolling to the end, line by line.
fn read_to_the_end(view: &dyn View, size: (u16, u16)) -> Vec<String> {
    let mut help = Help::default();
    let mut lines: Vec<String> = Vec::new();
    loop {
        let screen = drawn(&mut help, view, size);
        let inside = screen.lines().skip(1).take(usize::from(size.1) - 2);
        let inside: Vec<String> = inside
            .map(|line| line.trim_matches(['│', ' ']).to_owned())
            .collect();
        let top = help.scroll.place();
        if lines.is_empty() {
            lines.extend(inside);
        } else {
            lines.extend(inside.last().cloned());
        }
        assert!(help.handle(Key::Down));
        drawn(&mut help, view, size);
        if help.scroll.place() == top {
            return lines;
        }
    }
}

#[test]
fn every_word_and_every_key_is_reached_in_every_view_and_no_word_twice() {
    for tab in Tab::ALL {
        let view = tab.view();
        let lines = read_to_the_end(&*view, (80, 24));
        for word in Word::ALL {
            let meaning = &text::wrap(word.meaning(), 80 - 4 - TERM_WIDTH - 2)[0];
            let line = format!("{}{meaning}", text::left(word.term(), TERM_WIDTH));
            let found = lines.iter().filter(|known| **known == line).count();
            assert_eq!(found, 1, "{tab:?}: {}", word.term());
        }
        for key in view.keys().iter().chain(EVERYWHERE).chain(TIME_KEYS) {
            let help = format!("{} {}", text::left(key.0, 9), key.1);
            let found = lines.iter().any(|line| line.contains(&help));
            assert!(found, "{tab:?}: {help}");
        }
    }
}

#[test]
fn it_closes_by_its_keys_and_by_no_other() {
    for key in [Key::Char('?'), Key::Char('h'), Key::Char('q'), Key::Escape] {
        assert!(!Help::default().handle(key), "{key:?}");
    }
    for key in [
        Key::Enter,
        Key::Char('x'),
        Key::Char('3'),
        Key::Tab,
        Key::PageDown,
    ] {
        assert!(Help::default().handle(key), "{key:?}");
    }
}

#[test]
fn it_scrolls_and_has_an_end_and_a_beginning() {
    let view = Tab::Events.view();
    let mut help = Help::default();
    let first = drawn(&mut help, &*view, (80, 24));
    assert!(first.contains("more lines"));
    help.handle(Key::Char('G'));
    let last = drawn(&mut help, &*view, (80, 24));
    assert!(last.contains("the end") && !last.contains("more lines"));
    help.handle(Key::Down);
    assert_eq!(drawn(&mut help, &*view, (80, 24)), last);
    help.handle(Key::Up);
    assert_ne!(drawn(&mut help, &*view, (80, 24)), last);
    help.handle(Key::Home);
    assert_eq!(drawn(&mut help, &*view, (80, 24)), first);
}

#[test]
fn no_area_is_too_small() {
    let view = Tab::Events.view();
    for size in [(1, 0), (1, 1), (20, 5), (21, 7), (3, 40)] {
        let mut help = Help::default();
        drawn(&mut help, &*view, size);
        help.handle(Key::End);
        drawn(&mut help, &*view, size);
    }
}

#[test]
fn without_unicode_nothing_but_ascii_is_drawn() {
    let theme = Theme::new(crate::theme::ColourDepth::None, false);
    let mut canvas = Buffer::empty(Rect::new(0, 0, 80, 24));
    let area = canvas.area;
    Help::default().draw(
        &mut Canvas::new(&mut canvas, theme),
        area,
        &*Tab::Overview.view(),
    );
    let screen = screen::text(&canvas);
    let frame = screen.lines().next().expect("a line");
    assert!(
        frame.is_ascii() && frame.starts_with("+- Help -"),
        "{frame}"
    );
}

#[test]
fn it_lies_over_the_events() {
    let worlds = world::all();
    let (_, data) = worlds.iter().find(|(name, _)| *name == "busy").expect("it");
    for size in SIZES {
        let mut view = Tab::Events.view();
        let mut canvas = Buffer::empty(Rect::new(0, 0, size.0, size.1));
        let area = canvas.area;
        view.draw(
            &mut Canvas::new(&mut canvas, THEME),
            area,
            data,
            &Chosen::default(),
        );
        Help::default().draw(&mut Canvas::new(&mut canvas, THEME), area, &*view);
        let name = format!("help/events_{}x{}", size.0, size.1);
        screen::assert_screen(&name, &screen::text(&canvas));
    }
}

#[test]
fn the_help_of_every_view_is_as_it_was_looked_at() {
    for tab in Tab::ALL {
        for size in SIZES {
            let screen = drawn(&mut Help::default(), &*tab.view(), size);
            let name = format!("help/of_{}_{}x{}", tab.name(), size.0, size.1);
            screen::assert_screen(&name, &screen);
        }
    }
}
