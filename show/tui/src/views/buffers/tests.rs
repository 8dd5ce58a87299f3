use super::*;
use crate::data::Update;
use crate::input::Gesture;
use crate::testing;
use crate::testing::screen::{self, SIZES, assert_screen, drawn};
use crate::testing::world::{Names, World};
use std::time::Instant;

const WORLD: World = World {
    devices: 8,
    processes: 3,
    busy: false,
    names: Names::Usual,
};

/// Answers what the view needs, as the server of the world would.
fn answer(view: &Buffers, data: &mut Data, chosen: &Chosen) {
    let needed = testing::needed(view, data, chosen);
    let now = Instant::now();
    if let Some(query) = needed.buffers {
        data.apply(Update::Buffers(WORLD.answer(&query)), now);
    }
    if let Some(query) = needed.groups {
        let groups = WORLD.answer_groups(&query);
        data.apply(Update::Groups(query, groups), now);
    }
}

fn press(view: &mut Buffers, data: &mut Data, chosen: &mut Chosen, keys: &str) {
    for key in keys.chars() {
        let key = if key == '\n' {
            Key::Enter
        } else {
            Key::Char(key)
        };
        assert_eq!(view.handle(key, data, chosen), Outcome::Handled, "{key:?}");
    }
}

/// The screen after some keys and the server's answer to them.
fn after(keys: &str, size: (u16, u16)) -> String {
    let (mut view, mut data, mut chosen) = (Buffers::default(), WORLD.data(), Chosen::default());
    drawn(&mut view, &data, &chosen, size);
    press(&mut view, &mut data, &mut chosen, keys);
    answer(&view, &mut data, &chosen);
    drawn(&mut view, &data, &chosen, size)
}

#[test]
fn screens() {
    screen::assert_in_every_world("buffers", || Box::<Buffers>::default());
}

#[test]
fn screens_of_what_was_asked() {
    let states = [
        ("grouped_by_operation", "b"),
        ("grouped_by_class", "bbb"),
        ("narrowed", "czz/mat\n"),
        ("typing", "/soft"),
        ("details", "jjj\n"),
        ("newest", "ss"),
    ];
    for size in SIZES {
        for (name, keys) in states {
            let name = format!("buffers/state_{name}_{}x{}", size.0, size.1);
            assert_screen(&name, &after(keys, size));
        }
    }
}

#[test]
fn filters_and_order_go_to_the_server() {
    let (mut view, mut data, mut chosen) = (Buffers::default(), WORLD.data(), Chosen::default());
    drawn(&mut view, &data, &chosen, SIZES[0]);
    press(&mut view, &mut data, &mut chosen, "s/Mat\ncdzP");
    let asked = testing::needed(&view, &data, &chosen).buffers.unwrap();
    assert_eq!(
        (asked.sort, asked.descending),
        (Some(SortBy::Address), false)
    );
    assert_eq!(asked.find.as_deref(), Some("Mat"));
    assert_eq!(asked.class, Some(MemoryClass::Dram));
    assert_eq!(asked.min_bytes, Some(1024));
    assert_eq!(asked.unique_id, data.devices()[0].unique_id);
    // No row answers this question yet, so there is no process to choose.
    assert_eq!((asked.pid, asked.device), (None, None));
    answer(&view, &mut data, &chosen);
    press(&mut view, &mut data, &mut chosen, "P");
    assert!(chosen.pid.is_some());
    assert_eq!(
        testing::needed(&view, &data, &chosen).buffers.unwrap().pid,
        chosen.pid
    );
    // Escape takes all of it back, and then belongs to the app.
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    let asked = testing::needed(&view, &data, &chosen).buffers.unwrap();
    assert_eq!(
        (asked.pid, asked.class, asked.operation),
        (None, None, None)
    );
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Unused
    );
    assert_eq!(
        view.handle(Key::Char('m'), &data, &mut chosen),
        Outcome::Unused
    );
}

#[test]
fn a_line_of_python_is_asked_for_and_said_while_it_is_typed_and_after() {
    let (mut view, mut data, mut chosen) = (Buffers::default(), WORLD.data(), Chosen::default());
    press(
        &mut view,
        &mut data,
        &mut chosen,
        "/q
lmodel.py:5",
    );
    assert!(view.is_typing());
    let screen = drawn(&mut view, &data, &chosen, SIZES[1]);
    assert!(screen.contains("Python line has: model.py:5"), "{screen}");
    press(
        &mut view,
        &mut data,
        &mut chosen,
        "7
",
    );
    let asked = testing::needed(&view, &data, &chosen).buffers.unwrap();
    let texts = (asked.python.as_deref(), asked.find.as_deref());
    assert_eq!(texts, (Some("model.py:57"), Some("q")));
    let screen = drawn(&mut view, &data, &chosen, SIZES[1]);
    assert!(
        screen.contains("Python line has \"model.py:57\""),
        "{screen}"
    );
    view.handle(Key::Escape, &data, &mut chosen);
    let asked = testing::needed(&view, &data, &chosen).buffers.unwrap();
    assert_eq!((asked.python, asked.find), (None, None));
}

#[test]
fn an_answer_to_another_question_is_not_shown() {
    let (mut view, mut data, mut chosen) = (Buffers::default(), WORLD.data(), Chosen::default());
    assert!(drawn(&mut view, &data, &chosen, SIZES[0]).contains("1613 buffers"));
    press(&mut view, &mut data, &mut chosen, "cc");
    let waiting = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(
        waiting.contains("asking") && !waiting.contains("from_torch"),
        "{waiting}"
    );
    answer(&view, &mut data, &chosen);
    assert!(drawn(&mut view, &data, &chosen, SIZES[0]).contains("118 buffers"));
    // The same of sums.
    press(&mut view, &mut data, &mut chosen, "b");
    answer(&view, &mut data, &chosen);
    press(&mut view, &mut data, &mut chosen, "b");
    assert!(drawn(&mut view, &data, &chosen, SIZES[0]).contains("asking"));
}

#[test]
fn rows_far_down_come_in_windows_that_scrolling_seldom_changes() {
    let (mut view, mut data, mut chosen) = (Buffers::default(), WORLD.data(), Chosen::default());
    let mut window = data.buffers.take().unwrap().document;
    window.page.matched = Some(1_000_000);
    data.apply(Update::Buffers(window), Instant::now());
    drawn(&mut view, &data, &chosen, SIZES[0]);
    press(&mut view, &mut data, &mut chosen, "G");
    let waiting = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(
        waiting.lines().nth(3).unwrap().starts_with('…'),
        "{waiting}"
    );
    let asked = testing::needed(&view, &data, &chosen).buffers.unwrap();
    let reach = asked.offset.unwrap()..asked.offset.unwrap() + u64::from(asked.limit.unwrap());
    assert!(
        reach.contains(&999_978) && reach.contains(&999_999),
        "{reach:?}"
    );
    // Down the list row by row: so many rows are asked for once, not with every key.
    press(&mut view, &mut data, &mut chosen, "g");
    let mut asked = Vec::new();
    for _key in 0..640 {
        press(&mut view, &mut data, &mut chosen, "j");
        drawn(&mut view, &data, &chosen, SIZES[0]);
        let query = testing::needed(&view, &data, &chosen).buffers.unwrap();
        let (offset, limit) = (query.offset.unwrap(), u64::from(query.limit.unwrap()));
        assert!(offset <= view.cursor.top && view.cursor.row < offset + limit);
        asked.push(offset);
    }
    asked.dedup();
    assert!((5..=10).contains(&asked.len()), "{asked:?}");
}

#[test]
fn groups_lead_to_their_buffers() {
    let (mut view, mut data, mut chosen) = (Buffers::default(), WORLD.data(), Chosen::default());
    let asked_after = |view: &mut Buffers, data: &mut Data, chosen: &mut Chosen, ways: &str| {
        press(view, data, chosen, ways);
        answer(view, data, chosen);
        press(view, data, chosen, "\n");
        testing::needed(view, data, chosen).buffers
    };
    let query = asked_after(&mut view, &mut data, &mut chosen, "b").unwrap();
    assert_eq!(query.operation.as_deref(), Some("ttnn::from_torch"));
    let query = asked_after(&mut view, &mut data, &mut chosen, "bb").unwrap();
    assert!(query.min_bytes.is_some() && !query.descending);
    let query = asked_after(&mut view, &mut data, &mut chosen, "bbb").unwrap();
    assert_eq!(query.class, Some(MemoryClass::Dram));
    let query = asked_after(&mut view, &mut data, &mut chosen, "bbbb").unwrap();
    assert_eq!((query.pid, chosen.pid), (Some(70_100), Some(70_100)));
    // No filter can say a layout: the groups stay.
    assert_eq!(
        asked_after(&mut view, &mut data, &mut chosen, "bbbbb"),
        None
    );
    assert!(drawn(&mut view, &data, &chosen, SIZES[0]).contains(groups::NO_FILTER));
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    assert!(testing::needed(&view, &data, &chosen).buffers.is_some());
}

#[test]
fn the_pointer_chooses_and_the_wheel_scrolls() {
    let (mut view, data, mut chosen) = (Buffers::default(), WORLD.data(), Chosen::default());
    drawn(&mut view, &data, &chosen, SIZES[1]);
    let mut point = |view: &mut Buffers, column, row, did| {
        view.point(Pointer { column, row, did }, &data, &mut chosen)
    };
    assert_eq!(point(&mut view, 4, 7, Gesture::Click), Outcome::Handled);
    assert_eq!(view.cursor.row, 5);
    assert_eq!(point(&mut view, 190, 9, Gesture::Click), Outcome::Unused);
    assert_eq!(point(&mut view, 4, 0, Gesture::Click), Outcome::Unused);
    assert_eq!(point(&mut view, 4, 4, Gesture::WheelDown), Outcome::Handled);
    assert_eq!(view.cursor.row, 8);
}

#[test]
fn no_area_is_too_small_and_a_list_may_shrink() {
    let (mut view, mut data, mut chosen) = (Buffers::default(), WORLD.data(), Chosen::default());
    drawn(&mut view, &data, &chosen, SIZES[0]);
    press(&mut view, &mut data, &mut chosen, "G");
    let mut window = WORLD.answer(&testing::needed(&view, &data, &chosen).buffers.unwrap());
    window.query.offset = Some(0);
    window.page.rows.truncate(3);
    window.page.matched = Some(3);
    data.apply(Update::Buffers(window), Instant::now());
    drawn(&mut view, &data, &chosen, SIZES[0]);
    assert_eq!(view.cursor.row, 2);
    for keys in ["", "\n", "b"] {
        press(&mut view, &mut data, &mut chosen, keys);
        for size in [(1, 1), (20, 5), (3, 30), (160, 2), (151, 9)] {
            drawn(&mut view, &data, &chosen, size);
        }
    }
}

#[test]
fn lines_of_python_stay_before_owners_and_are_the_first_way_to_group() {
    let (mut view, mut data, mut chosen) = (Buffers::default(), WORLD.data(), Chosen::default());
    let narrow = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(
        narrow.contains("OWNER") && !narrow.contains("PYTHON LINE"),
        "{narrow}"
    );
    let rows = &mut data.buffers.as_mut().unwrap().document.page.rows;
    rows[1].python = Some(vec!["/home/me/model.py:57 forward".to_owned()]);
    let narrow = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(
        !narrow.contains("OWNER") && narrow.contains("PYTHON LINE"),
        "{narrow}"
    );
    assert!(narrow.contains("model.py:57"), "{narrow}");
    press(&mut view, &mut data, &mut chosen, "b");
    assert_eq!(view.grouped, Some(GroupBy::Line));
    press(&mut view, &mut data, &mut chosen, "b");
    assert_eq!(view.grouped, Some(GroupBy::Operation));
}

#[test]
fn enter_on_an_empty_list_does_nothing() {
    let (mut view, mut data, mut chosen) = (Buffers::default(), WORLD.data(), Chosen::default());
    let page = &mut data.buffers.as_mut().unwrap().document.page;
    page.rows.clear();
    page.matched = Some(0);
    let before = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(
        before.contains("no buffer that is live matches"),
        "{before}"
    );
    press(&mut view, &mut data, &mut chosen, "\n");
    assert_eq!(drawn(&mut view, &data, &chosen, SIZES[0]), before);
}
