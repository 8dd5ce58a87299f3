use super::*;
use crate::data::Update;
use crate::input::Gesture;
use crate::testing::screen::{self, SIZES, assert_screen, drawn};
use crate::testing::world::{Names, World, ago};
use crate::testing::{self, Needed};
use std::time::Instant;
use ttmem_report::Timestamp;

const WORLD: World = World {
    devices: 8,
    processes: 3,
    busy: false,
    names: Names::Usual,
};

/// A world with one more mark, far older than the one that it has.
fn two_marks() -> Data {
    let mut data = WORLD.data();
    let totals = &mut data.snapshot.as_mut().unwrap().document;
    let older = Mark {
        name_hidden: false,
        name: String::new(),
        number: 7,
        time: ago(5_000),
    };
    totals.marks.insert(0, older);
    for device in &mut totals.devices {
        let peaks = device.peaks_since_marks[0];
        device.peaks_since_marks.insert(0, peaks);
    }
    data
}

/// Answers what the view needs, as the server of the world would.
fn answer(view: &Leaks, data: &mut Data, chosen: &Chosen) {
    let needed = testing::needed(view, data, chosen);
    if let Some(query) = needed.buffers {
        data.apply(Update::Buffers(WORLD.answer(&query)), Instant::now());
    }
    if let Some(query) = needed.groups {
        let groups = WORLD.answer_groups(&query);
        data.apply(Update::Groups(query, groups), Instant::now());
    }
}

fn press(view: &mut Leaks, data: &mut Data, chosen: &mut Chosen, keys: &str) {
    for key in keys.chars() {
        let key = if key == '\n' {
            Key::Enter
        } else {
            Key::Char(key)
        };
        assert_eq!(view.handle(key, data, chosen), Outcome::Handled, "{key:?}");
        answer(view, data, chosen);
    }
}

#[test]
fn a_board_of_eight_is_seen_whole_on_a_small_screen() {
    let chosen = Chosen::default();
    for rows in [20, 21] {
        let (mut view, mut data) = (Leaks::default(), WORLD.data());
        assert_eq!(data.devices().len(), 8);
        assert!(!held::processes(&data, &Prompt::default()).is_empty());
        answer(&view, &mut data, &chosen);
        let screen = drawn(&mut view, &data, &chosen, (80, rows));
        for device in data.devices() {
            let id = device.id.to_string();
            let row = |line: &str| {
                let name = line.split_whitespace().next().unwrap_or_default();
                name.trim_end_matches('R') == id && line.contains("iB")
            };
            assert!(
                screen.lines().any(row),
                "device {id} of {rows} rows:\n{screen}"
            );
        }
        for heading in ["OPERATION", "DEVICE", "PROCESS"] {
            let heading = |line: &str| line.starts_with(heading);
            assert!(screen.lines().any(heading), "{screen}");
        }
    }
}

#[test]
fn a_search_goes_to_the_server_and_to_the_processes() {
    let (mut view, mut data, mut chosen) = (Leaks::default(), WORLD.data(), Chosen::default());
    answer(&view, &mut data, &chosen);
    press(&mut view, &mut data, &mut chosen, "/0xAbc");
    let asked = testing::needed(&view, &data, &chosen).groups.unwrap();
    assert_eq!(asked.find.as_deref(), Some("0xAbc"));
    assert!(view.is_typing());
    let screen = drawn(&mut view, &data, &chosen, (120, 40));
    assert!(screen.contains("find: 0xAbc"), "{screen}");
    assert!(!screen.contains("PROCESS"), "none has that name:\n{screen}");
}

#[test]
fn screens() {
    screen::assert_in_every_world("leaks", || Box::<Leaks>::default());
}

#[test]
fn screens_of_what_was_chosen() {
    for size in SIZES {
        for (state, keys) in [("by_size", "b"), ("opened", "j\n"), ("older_mark", "[")] {
            let (mut view, mut data, mut chosen) =
                (Leaks::default(), two_marks(), Chosen::default());
            press(&mut view, &mut data, &mut chosen, keys);
            let name = format!("leaks/state_{state}_{}x{}", size.0, size.1);
            assert_screen(&name, &drawn(&mut view, &data, &chosen, size));
        }
        let (mut view, mut data, chosen) = (Leaks::default(), two_marks(), Chosen::default());
        data.apply(Update::Leaks(Box::new(testing::leaks())), Instant::now());
        answer(&view, &mut data, &chosen);
        let name = format!("leaks/state_growing_{}x{}", size.0, size.1);
        assert_screen(&name, &drawn(&mut view, &data, &chosen, size));
        let mut data = WORLD.data();
        data.snapshot.as_mut().unwrap().document.marks.clear();
        let screen = drawn(&mut Leaks::default(), &data, &Chosen::default(), size);
        assert_screen(
            &format!("leaks/state_no_mark_{}x{}", size.0, size.1),
            &screen,
        );
    }
}

/// The key that sets one does nothing there.
#[test]
fn without_marks_a_recording_says_where_they_come_from() {
    let mut data = WORLD.data();
    data.snapshot.as_mut().unwrap().document.marks.clear();
    data.at = data.time();
    let screen = drawn(&mut Leaks::default(), &data, &Chosen::default(), (80, 24));
    assert!(!screen.contains("m sets one"), "{screen}");
    let words = "Programs set marks by ttmem.mark(); p goes to the peak, 6 shows what is there.";
    assert!(screen.contains(words), "{screen}");
}

/// A run of the model is over within milliseconds: its ages are not all `0 s`.
#[test]
fn ages_in_a_recording_are_finer_than_a_second() {
    let mut data = WORLD.data();
    let now = data.time().expect("it has a snapshot").unix_nanos();
    let before = |data: &Data, nanos| data.age(Timestamp::from_unix_nanos(now - nanos));
    assert_eq!(before(&data, 7_000).as_deref(), Some("0 s"), "it moves on");
    data.at = data.time();
    assert_eq!(before(&data, 7_000).as_deref(), Some("7 µs"));
    assert_eq!(before(&data, 80_000_000).as_deref(), Some("80 ms"));
    assert_eq!(before(&data, 80_000_000_000).as_deref(), Some("1 min 20 s"));
}

#[test]
fn the_latest_mark_is_followed_unless_another_was_chosen() {
    let (mut view, mut data, mut chosen) = (Leaks::default(), two_marks(), Chosen::default());
    let since = |view: &Leaks, data: &Data| {
        let asked = testing::needed(view, data, &Chosen::default()).groups;
        asked.and_then(|query| query.since)
    };
    assert_eq!(since(&view, &data), Some(ago(95)));
    press(&mut view, &mut data, &mut chosen, "[[");
    assert_eq!(since(&view, &data), Some(ago(5_000)));
    // What devices had so long ago is not in the recent history.
    assert_eq!(
        testing::needed(&view, &data, &chosen).history_seconds,
        Some(7_200)
    );
    let newest = Mark {
        name_hidden: false,
        name: "newest".to_owned(),
        number: 9,
        time: ago(1),
    };
    let set = |data: &mut Data| {
        let totals = &mut data.snapshot.as_mut().unwrap().document;
        totals.marks.push(newest.clone());
    };
    set(&mut data);
    assert_eq!(since(&view, &data), Some(ago(5_000)));
    press(&mut view, &mut data, &mut chosen, "]]]");
    assert_eq!(since(&view, &data), Some(ago(1)));
    // The chosen one is gone: the latest is looked at.
    press(&mut view, &mut data, &mut chosen, "[");
    data.snapshot.as_mut().unwrap().document.marks.remove(1);
    assert_eq!(since(&view, &data), Some(ago(1)));
    data.snapshot.as_mut().unwrap().document.marks.clear();
    assert_eq!(testing::needed(&view, &data, &chosen), Needed::default());
    press(&mut view, &mut data, &mut chosen, "[]\n");
}

#[test]
fn sums_of_another_mark_are_not_shown() {
    let (mut view, data, mut chosen) = (Leaks::default(), two_marks(), Chosen::default());
    assert!(drawn(&mut view, &data, &chosen, SIZES[0]).contains("100 buffers"));
    view.handle(Key::Char('['), &data, &mut chosen);
    let waiting = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(
        waiting.contains("asking") && !waiting.contains("100 buffers"),
        "{waiting}"
    );
}

#[test]
fn a_group_opens_its_buffers_since_the_mark_and_closes_again() {
    let (mut view, mut data, mut chosen) = (Leaks::default(), two_marks(), Chosen::default());
    press(&mut view, &mut data, &mut chosen, "j\n");
    let asked = testing::needed(&view, &data, &chosen).buffers.unwrap();
    assert_eq!(asked.operation.as_deref(), Some("ttnn::matmul"));
    assert_eq!(asked.since, Some(ago(95)));
    // Keys are those of the list, typing included.
    press(&mut view, &mut data, &mut chosen, "/x");
    assert!(view.is_typing());
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    assert!(!view.is_typing() && view.opened.is_some());
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    assert!(view.opened.is_none());
    // By process: the one that was chosen before is chosen again.
    press(&mut view, &mut data, &mut chosen, "bbb\n");
    assert_eq!(chosen.pid, Some(70_100));
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    assert_eq!(chosen.pid, None);
    // By layout there is no filter.
    press(&mut view, &mut data, &mut chosen, "b\n");
    assert!(view.opened.is_none());
    let screen = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(screen.contains(groups::NO_FILTER), "{screen}");
}

#[test]
fn what_is_above_an_opened_group_is_of_the_group_whatever_happens() {
    let (mut view, mut data, mut chosen) = (Leaks::default(), two_marks(), Chosen::default());
    let heading = |view: &mut Leaks, data: &Data, chosen: &Chosen| {
        let screen = drawn(view, data, chosen, SIZES[1]);
        let mut lines = screen.lines().map(str::to_owned);
        (lines.next().unwrap(), lines.next().unwrap())
    };
    press(&mut view, &mut data, &mut chosen, "j\n");
    let (mark, _filters) = heading(&mut view, &data, &chosen);
    assert!(
        mark.starts_with("since mark 2 of 2: before the second epoch"),
        "{mark}"
    );
    // A newer mark: the rows are still since the one before.
    let newest = Mark {
        name_hidden: false,
        name: "newest".to_owned(),
        number: 9,
        time: ago(50),
    };
    let totals = &mut data.snapshot.as_mut().unwrap().document;
    totals.marks.push(newest);
    let asked = testing::needed(&view, &data, &chosen).buffers.unwrap();
    assert_eq!(asked.since, Some(ago(95)));
    let (mark, _filters) = heading(&mut view, &data, &chosen);
    assert!(
        mark.starts_with("since mark 2 of 3: before the second epoch"),
        "{mark}"
    );
    let totals = &mut data.snapshot.as_mut().unwrap().document;
    totals.marks.remove(1);
    let (mark, _filters) = heading(&mut view, &data, &chosen);
    assert!(
        mark.starts_with("since a mark that is gone: before the second epoch"),
        "{mark}"
    );
    // The filters are those of the list, said once.
    press(&mut view, &mut data, &mut chosen, "d]");
    let (mark, filters) = heading(&mut view, &data, &chosen);
    assert!(
        filters.contains("device 1") && !mark.contains("device"),
        "{mark}\n{filters}"
    );
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    press(&mut view, &mut data, &mut chosen, "d");
    answer(&view, &mut data, &chosen);
    press(&mut view, &mut data, &mut chosen, "\nd");
    assert!(view.opened.is_some());
    let (mark, filters) = heading(&mut view, &data, &chosen);
    assert!(
        !filters.contains("device 1") && !mark.contains("device"),
        "{mark}\n{filters}"
    );
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    let (mark, _sums) = heading(&mut view, &data, &chosen);
    assert!(
        mark.starts_with("since mark 2 of 2: newest") && mark.ends_with("device 1"),
        "{mark}"
    );
}

#[test]
fn only_the_chosen_device_or_process_until_escape() {
    let (mut view, mut data, mut chosen) = (Leaks::default(), WORLD.data(), Chosen::default());
    press(&mut view, &mut data, &mut chosen, "d");
    let next = view.handle(Key::Right, &data, &mut chosen);
    assert_eq!(next, Outcome::Handled);
    chosen.pid = Some(70_100);
    let asked = testing::needed(&view, &data, &chosen).groups.unwrap();
    assert_eq!(asked.unique_id, data.devices()[1].unique_id);
    assert_eq!(asked.pid, Some(70_100));
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    let asked = testing::needed(&view, &data, &chosen).groups.unwrap();
    assert_eq!((asked.unique_id, asked.pid), (None, None));
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
fn no_area_is_too_small_and_groups_may_vanish() {
    let (mut view, mut data, mut chosen) = (Leaks::default(), WORLD.data(), Chosen::default());
    press(&mut view, &mut data, &mut chosen, "G");
    drawn(&mut view, &data, &chosen, SIZES[0]);
    assert_eq!(view.cursor.row, 6);
    let (query, mut sums) = data.groups.take().unwrap().document;
    sums.groups.truncate(2);
    data.apply(Update::Groups(query, sums), Instant::now());
    drawn(&mut view, &data, &chosen, SIZES[0]);
    assert_eq!(view.cursor.row, 1);
    let click = Pointer {
        column: 3,
        row: 5,
        did: Gesture::Click,
    };
    assert_eq!(view.point(click, &data, &mut chosen), Outcome::Handled);
    assert_eq!(view.cursor.row, 0);
    for keys in ["", "\n"] {
        press(&mut view, &mut data, &mut chosen, keys);
        for size in [(0, 0), (1, 1), (20, 5), (3, 40), (160, 2), (40, 9)] {
            drawn(&mut view, &data, &chosen, size);
        }
    }
}

/// A world in which so many lines were held at close.
fn held_at_close(entries: usize) -> Data {
    let mut data = WORLD.data();
    let mut leaks = testing::leaks();
    let held = leaks.held_at_close[1].clone();
    leaks.held_at_close = (0..entries)
        .map(|place| {
            let mut held = held.clone();
            held.group.line = Some(format!("/m/held.py:{place} f"));
            held
        })
        .collect();
    data.apply(Update::Leaks(Box::new(leaks)), Instant::now());
    data
}

#[test]
fn what_was_held_has_the_room_and_says_what_is_left_out() {
    let chosen = Chosen::default();
    let lines = |data: &Data, size| {
        let mut view = Leaks::default();
        let screen = drawn(&mut view, data, &chosen, size);
        let held = screen.lines().filter(|line| line.contains("held.py:"));
        let mut others = screen.lines().filter_map(|line| {
            let more = line.trim().strip_suffix(" more")?;
            more.parse::<usize>().ok()
        });
        (held.count(), others.next(), view.hidden_rows())
    };
    for marks in [true, false] {
        let mut data = held_at_close(15);
        if !marks {
            data.snapshot.as_mut().unwrap().document.marks.clear();
        }
        answer(&Leaks::default(), &mut data, &chosen);
        assert_eq!(lines(&data, (120, 60)), (15, None, 0));
        let (held, others, hidden) = lines(&data, (120, 20));
        // One line grows.
        let left_out = others.expect("not all of them fit");
        assert!(
            held + left_out == 15 || held + left_out == 16,
            "{held} {left_out}"
        );
        assert!(hidden > 0);
    }
}

#[test]
fn a_mark_of_this_session_is_not_displaced_and_one_of_an_earlier_has_no_claim() {
    let (view, mut data) = (Leaks::default(), two_marks());
    let since = |data: &Data| {
        let asked = testing::needed(&view, data, &Chosen::default()).groups;
        asked.and_then(|query| query.since)
    };
    let set = |data: &mut Data, name: &str, seconds| {
        let mark = Mark {
            name_hidden: false,
            name: name.to_owned(),
            number: 100 - seconds,
            time: ago(seconds),
        };
        let totals = &mut data.snapshot.as_mut().unwrap().document;
        totals.marks.push(mark.clone());
        mark
    };
    let own = set(&mut data, "top 1", 50);
    set(&mut data, "step", 40);
    assert_eq!(since(&data), Some(ago(40)));
    data.apply(Update::Marked(own), Instant::now());
    assert_eq!(since(&data), Some(ago(50)));
    let notice = &data.notice.as_ref().unwrap().document;
    assert_eq!(notice, "mark top 1 set");
    set(&mut data, "step", 30);
    assert_eq!(since(&data), Some(ago(50)));
}
