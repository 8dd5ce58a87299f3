//! Screens of every world, the order of rows, and what keys do.

use super::held::state;
use super::*;
use crate::input::Gesture;
use crate::testing::screen::{THEME, assert_in_every_world, assert_screen, drawn, text as lines};
use crate::testing::world::{self, Names, World};
use crate::theme::ColourDepth;
use crate::theme::Theme;
use crate::views::Tab;
use crate::widgets::Canvas;
use ratatui::buffer::Buffer;
use ttmem_report::Source;
use ttmem_report::format::short_duration as age;
use ttmem_report::labels::fullest;

const BUSY: World = World {
    devices: 8,
    processes: 40,
    busy: true,
    names: Names::Usual,
};

fn press(view: &mut Processes, keys: &[Key], data: &Data) {
    for key in keys {
        let outcome = view.handle(*key, data, &mut Chosen::default());
        assert_eq!(outcome, Outcome::Handled, "{key:?}");
    }
}

fn typed(view: &mut Processes, text: &str, data: &Data) {
    let keys: Vec<Key> = text.chars().map(Key::Char).collect();
    press(view, &keys, data);
}

fn pids(view: &Processes, data: &Data) -> Vec<Option<u32>> {
    let rows = view.rows.iter();
    rows.filter_map(|row| look_up(*row, data))
        .map(|(process, _)| process.pid)
        .collect()
}

#[test]
fn every_world_has_its_processes() {
    assert_in_every_world("processes", || Box::<Processes>::default());
}

#[test]
fn devices_and_filters_have_their_screens() {
    let data = BUSY.data();
    for size in [(80, 24), (200, 50)] {
        let name = |state: &str| format!("processes/{state}_{}x{}", size.0, size.1);
        let mut view = Processes::default();
        press(&mut view, &[Key::Char('d'), Key::Down], &data);
        let screen = drawn(&mut view, &data, &Chosen::default(), size);
        assert_screen(&name("per_device"), &screen);
        press(&mut view, &[Key::Char('d'), Key::Char('/')], &data);
        typed(&mut view, "leak", &data);
        let screen = drawn(&mut view, &data, &Chosen::default(), size);
        assert_screen(&name("typing"), &screen);
        press(&mut view, &[Key::Enter, Key::Char('G')], &data);
        let screen = drawn(&mut view, &data, &Chosen::default(), size);
        assert_screen(&name("filtered"), &screen);
    }
}

/// The busy world, of which all but every fifth process run in jobs.
fn in_jobs() -> Data {
    let mut data = BUSY.data();
    let snapshot = data.snapshot.as_mut().unwrap();
    for (place, process) in snapshot.document.processes.iter_mut().enumerate() {
        if place % 5 != 4 {
            let labels = [("job", 91 + place / 20), ("rank", place % 4)];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_string()));
            process.labels.extend(labels);
        }
    }
    data
}

#[test]
fn processes_are_grouped_by_job_and_by_rank() {
    let data = in_jobs();
    let processes = data.processes();
    let sum = |places: &[usize]| {
        let members = places.iter().map(|place| &processes[*place]);
        members
            .map(|process| held(&process.devices, |on| on.dram_bytes))
            .sum::<u64>()
    };
    let mut view = Processes::default();
    for (label, count) in [("job", 3), ("rank", 9)] {
        press(&mut view, &[Key::Char('b')], &data);
        let screen = drawn(&mut view, &data, &Chosen::default(), (200, 50));
        assert_screen(&format!("processes/by_{label}_200x50"), &screen);
        let small = drawn(&mut view, &data, &Chosen::default(), (80, 24));
        assert_screen(&format!("processes/by_{label}_80x24"), &small);
        assert_eq!(view.groups.len(), count);
        let mut members: Vec<usize> = view
            .groups
            .iter()
            .flat_map(|group| group.members.clone())
            .collect();
        members.sort_unstable();
        assert_eq!(
            members,
            (0..processes.len()).collect::<Vec<_>>(),
            "each is in one group"
        );
        let last = view.groups.last().unwrap();
        assert!(
            last.title.starts_with(&format!("no {label}: ")),
            "{}",
            last.title
        );
        for group in &view.groups {
            assert!(
                screen.contains(&bytes(sum(&group.members))),
                "{}",
                group.title
            );
        }
    }
    // A heading is nobody: it is not opened, and what was followed is found again.
    press(&mut view, &[Key::Char('g'), Key::Enter], &data);
    assert!(view.opened.is_none());
    press(&mut view, &[Key::Down, Key::Enter], &data);
    assert!(view.opened.is_some());
    press(&mut view, &[Key::Escape, Key::Char('b')], &data);
    drawn(&mut view, &data, &Chosen::default(), (80, 24));
    assert!(view.groups.is_empty() && view.grouping == Grouping::None);
    press(&mut view, &[Key::Char('/')], &data);
    typed(&mut view, "job 92", &data);
    assert_eq!(view.list.places().len(), 16);
}

#[test]
fn a_rank_is_one_of_its_job_and_ten_comes_after_two() {
    let mut data = BUSY.data();
    let snapshot = data.snapshot.as_mut().unwrap();
    let processes = &mut snapshot.document.processes;
    processes.truncate(6);
    let labels = [
        (Some("10"), Some("10")),
        (Some("10"), Some("2")),
        (Some("9"), Some("2")),
        (None, Some("2")),
        (Some("9"), None),
        (Some("train"), Some("0")),
    ];
    for (process, (job, rank)) in processes.iter_mut().zip(labels) {
        let labels = [("job", job), ("rank", rank)];
        let labels = labels.map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
        process.labels.extend(labels.into_iter().flatten());
    }
    let places = [0, 1, 2, 3, 4, 5];
    let titles = |by| {
        let groups = groups(by, data.processes(), &places);
        groups
            .into_iter()
            .map(|group| group.title)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        titles(Grouping::Rank),
        [
            "rank 2: 1 process",
            "job 9 rank 2: 1 process",
            "job 10 rank 2: 1 process",
            "job 10 rank 10: 1 process",
            "job train rank 0: 1 process",
            "no rank: 1 process",
        ]
    );
    assert_eq!(titles(Grouping::Job).len(), 4);
}

#[test]
fn job_and_rank_are_columns_where_a_process_has_them() {
    let heading = |data: &Data, size| {
        let screen = drawn(&mut Processes::default(), data, &Chosen::default(), size);
        screen.lines().nth(1).unwrap().to_owned()
    };
    let has = |line: &str, title| line.split_whitespace().any(|word| word == title);
    let labelled = heading(&in_jobs(), (200, 50));
    assert!(
        has(&labelled, "JOB") && has(&labelled, "RANK"),
        "{labelled}"
    );
    // What is not there is not sorted by.
    let (plain, mut view) = (BUSY.data(), Processes::default());
    for _each in SORTS {
        press(&mut view, &[Key::Char('s')], &plain);
        let (column, _down) = view.list.sorted(SORTS).unwrap();
        assert!(!["JOB", "RANK"].contains(&COLUMNS[column].title));
    }
    let plain = heading(&plain, (200, 50));
    assert!(!has(&plain, "JOB") && !has(&plain, "RANK"), "{plain}");
    let mut without_rank = in_jobs();
    let snapshot = without_rank.snapshot.as_mut().unwrap();
    for process in &mut snapshot.document.processes {
        process.labels.remove("rank");
    }
    let jobs = heading(&without_rank, (200, 50));
    assert!(has(&jobs, "JOB") && !has(&jobs, "RANK"), "{jobs}");
    assert!(has(&heading(&in_jobs(), (80, 24)), "STATE"));
}

#[test]
fn without_labels_there_is_nothing_to_group_by() {
    let data = BUSY.data();
    let mut view = Processes::default();
    let outcome = view.handle(Key::Char('b'), &data, &mut Chosen::default());
    assert_eq!(outcome, Outcome::Unused);
    assert!(view.keys().iter().all(|(key, _what)| *key != "b"));
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let data = BUSY.data();
    let mut view = Processes::default();
    press(&mut view, &[Key::Char('/')], &data);
    assert!(view.is_typing());
    typed(&mut view, "PYTEST", &data);
    assert_eq!(view.list.places().len(), 13);
    press(&mut view, &[Key::Enter], &data);
    assert!(!view.is_typing());
    press(&mut view, &[Key::Char('/')], &data);
    typed(&mut view, " of nobody", &data);
    assert_eq!(view.list.places().len(), 0);
    let screen = drawn(&mut view, &data, &Chosen::default(), (80, 24));
    assert!(screen.contains("no process matches"));
    press(&mut view, &[Key::Escape, Key::Escape], &data);
    let chosen = &mut Chosen::default();
    assert_eq!(view.handle(Key::Escape, &data, chosen), Outcome::Unused);
    assert_eq!(view.list.places().len(), 40);
}

#[test]
fn every_column_sorts_and_those_that_are_gone_come_last() {
    let data = in_jobs();
    let mut view = Processes::default();
    for _column in 0..SORTS.len() {
        for _way in 0..2 {
            view.refresh(&data);
            assert_eq!(view.rows.len(), 40);
            let rows = view.rows.iter();
            let gone: Vec<bool> = rows
                .filter_map(|row| look_up(*row, &data))
                .map(|(process, _)| is_gone(process))
                .collect();
            assert!(gone.is_sorted(), "{:?}", view.list.sorted(SORTS));
            press(&mut view, &[Key::Char('S')], &data);
        }
        press(&mut view, &[Key::Char('s')], &data);
    }
    assert_eq!(view.list.sorted(SORTS), Some((DRAM, true)));
    view.list = List::sorted_by(0);
    view.refresh(&data);
    let roots = |view: &Processes| -> Vec<Option<u32>> {
        let rows = view.rows.iter().filter(|row| row.depth == 0);
        let found = rows.filter_map(|row| look_up(*row, &data));
        let living = found.filter(|(process, _)| !is_gone(process));
        living.map(|(process, _)| process.pid).collect()
    };
    assert!(roots(&view).is_sorted());
    press(&mut view, &[Key::Char('S')], &data);
    view.refresh(&data);
    assert!(roots(&view).is_sorted_by(|left, right| left >= right));
}

#[test]
fn enter_opens_a_process_and_escape_comes_back() {
    let data = BUSY.data();
    for size in [(80, 24), (200, 50)] {
        let mut view = Processes::default();
        let mut chosen = Chosen::default();
        assert_eq!(
            view.handle(Key::Enter, &data, &mut chosen),
            Outcome::Handled
        );
        let pid = pids(&view, &data)[0].expect("a pid");
        let screen = drawn(&mut view, &data, &chosen, size);
        assert!(screen.contains(&format!("pid {pid}")), "{screen}");
        assert_screen(&format!("processes/opened_{}x{}", size.0, size.1), &screen);
        let documents = view.documents(&data, &chosen);
        let asked = documents
            .iter()
            .any(|document| matches!(document, Document::Groups(query) if query.pid == Some(pid)));
        assert!(asked, "{documents:?}");
        assert_eq!(
            view.handle(Key::Enter, &data, &mut chosen),
            Outcome::Go(Tab::Buffers)
        );
        assert_eq!(chosen.pid, Some(pid));
        assert_eq!(
            view.handle(Key::Escape, &data, &mut chosen),
            Outcome::Handled
        );
        assert_eq!(
            view.handle(Key::Escape, &data, &mut chosen),
            Outcome::Unused
        );
    }
    // One that is gone still has its peaks.
    let mut view = Processes::default();
    press(&mut view, &[Key::End, Key::Enter], &data);
    let screen = drawn(&mut view, &data, &Chosen::default(), (120, 40));
    assert!(
        screen.contains("ended, held at exit 77 buffers: 512.0 MiB"),
        "{screen}"
    );
}

#[test]
fn children_stand_behind_their_parents() {
    let data = BUSY.data();
    let mut view = Processes::default();
    view.refresh(&data);
    let parent = view.rows.iter().position(|row| {
        look_up(*row, &data).is_some_and(|(process, _)| process.pid == Some(70_100))
    });
    let parent = parent.expect("the first process");
    assert_eq!(
        (view.rows[parent].depth, view.rows[parent + 1].depth),
        (0, 1)
    );
    // A circle of parents loses nobody.
    let mut snapshot = data.totals().expect("a snapshot").clone();
    snapshot.processes.truncate(3);
    let pids: Vec<u32> = snapshot
        .processes
        .iter()
        .filter_map(|one| one.pid)
        .collect();
    for (place, process) in snapshot.processes.iter_mut().enumerate() {
        let host = process.host.as_mut().expect("it lives");
        host.parent = Some(pids[(place + 1) % 3]);
    }
    let mut rows: Vec<usize> = in_families(&snapshot.processes, &[0, 1, 2])
        .into_iter()
        .map(|(place, _)| place)
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, [0, 1, 2]);
}

#[test]
fn a_click_on_a_heading_sorts() {
    let data = BUSY.data();
    let mut view = Processes::default();
    let screen = drawn(&mut view, &data, &Chosen::default(), (80, 24));
    let heading = screen
        .lines()
        .position(|line| line.contains("COMMAND"))
        .expect("it is there");
    let column = screen
        .lines()
        .nth(heading)
        .and_then(|line| line.find("COMMAND"));
    let click = Pointer {
        column: u16::try_from(column.expect("it is there")).expect("on the screen"),
        row: u16::try_from(heading).expect("on the screen"),
        did: Gesture::Click,
    };
    let mut sorted = || {
        assert_eq!(
            view.point(click, &data, &mut Chosen::default()),
            Outcome::Handled
        );
        drawn(&mut view, &data, &Chosen::default(), (80, 24));
        view.list.sorted(SORTS)
    };
    assert_eq!(sorted(), Some((2, false)));
    assert_eq!(sorted(), Some((2, true)));
}

#[test]
fn the_row_that_the_user_went_to_is_followed() {
    let mut data = BUSY.data();
    let mut view = Processes::default();
    press(&mut view, &[Key::Down, Key::Down], &data);
    let pid = pids(&view, &data)[2];
    press(&mut view, &[Key::Char('s'), Key::Char('S')], &data);
    drawn(&mut view, &data, &Chosen::default(), (80, 24));
    let chosen = view.chosen(&data).map(|(process, _)| process.pid);
    assert_eq!(chosen, Some(pid));
    // When it is no longer there the cursor stays inside.
    let snapshot = data.snapshot.as_mut().expect("this world has one");
    snapshot.document.processes.truncate(1);
    snapshot.received += std::time::Duration::from_secs(1);
    drawn(&mut view, &data, &Chosen::default(), (80, 24));
    assert_eq!(view.list.cursor.row, 0);
    assert!(view.chosen(&data).is_some());
}

#[test]
fn the_pointer_chooses_a_row() {
    let data = BUSY.data();
    let mut view = Processes::default();
    drawn(&mut view, &data, &Chosen::default(), (80, 24));
    let mut point = |row, did| {
        let pointer = Pointer {
            column: 5,
            row,
            did,
        };
        view.point(pointer, &data, &mut Chosen::default())
    };
    assert_eq!(point(4, Gesture::Click), Outcome::Handled);
    assert_eq!(point(0, Gesture::Click), Outcome::Unused);
    assert_eq!(point(23, Gesture::Click), Outcome::Unused);
    assert_eq!(point(0, Gesture::WheelDown), Outcome::Handled);
    assert_eq!(view.list.cursor.row, 5);
}

#[test]
fn states_are_told_apart() {
    let data = BUSY.data();
    let mut process = data.totals().expect("a snapshot").processes[0].clone();
    let mut word = |change: fn(&mut Process)| {
        change(&mut process);
        state(&process).0
    };
    assert_eq!(word(|_| {}), "live");
    assert_eq!(word(|process| process.anomalies = 1), "live! 1 anomaly");
    assert_eq!(
        word(|process| process.state = ProcessState::Detached),
        "detached! 1 anomaly"
    );
    assert_eq!(
        word(|process| process.leak_candidates.buffers = 3),
        "detached! 3 held"
    );
    assert_eq!(
        word(|process| process.incomplete = true),
        "incomplete! 3 held"
    );
    assert_eq!(
        word(|process| process.resyncing = true),
        "resyncing! 3 held"
    );
    assert_eq!(
        word(|process| process.state = ProcessState::Exited),
        "ended"
    );
}

fn processes_in(data: &mut Data) -> &mut Vec<Process> {
    let snapshot = data.snapshot.as_mut().expect("a snapshot");
    &mut snapshot.document.processes
}

#[test]
fn what_a_process_held_when_it_ended_is_never_cut() {
    let mut data = BUSY.data();
    let processes = processes_in(&mut data);
    let ended = processes.iter_mut().find(|process| is_gone(process));
    let released = ended.expect("one has ended").released.as_mut();
    let released = released.expect("it held something");
    (released.reason, released.buffers) = ("replaced".to_owned(), 7);
    released.buffer_bytes = 1023 << 20;
    for columns in [80, 100, 160] {
        let mut view = Processes::default();
        press(&mut view, &[Key::End], &data);
        let screen = drawn(&mut view, &data, &Chosen::default(), (columns, 24));
        for words in ["ended, held 512.0 MiB", "replaced, held 1023.0 MiB"] {
            assert!(screen.contains(words), "{words}: {screen}");
        }
    }
}

#[test]
fn sizes_that_nobody_counts_are_not_known() {
    let mut data = BUSY.data();
    let processes = processes_in(&mut data);
    processes.truncate(1);
    let process = &mut processes[0];
    process.state = ProcessState::NotAttached;
    process.host = None;
    process.name = Some("holder".to_owned());
    process.devices.truncate(1);
    process.devices[0].peak = None;
    let row = |data: &Data| {
        let mut view = Processes::default();
        let screen = drawn(&mut view, data, &Chosen::default(), (200, 24));
        let mut lines = screen.lines();
        let row = lines
            .find(|line| line.contains("holder"))
            .map(str::to_owned);
        (row.expect("its row"), screen)
    };
    for (source, sizes) in [(Source::Shm, true), (Source::Other, false)] {
        let process = &mut data.snapshot.as_mut().expect("one").document.processes[0];
        process.source = source;
        let (row, screen) = row(&data);
        assert_eq!(row.contains("iB"), sizes, "{row}");
        assert_eq!(row.contains(" 0 B"), sizes, "{row}");
        assert!(row.contains("not attached"), "{row}");
        assert!(!screen.contains("buffers ·"), "{screen}");
    }
    let process = &mut data.snapshot.as_mut().expect("one").document.processes[0];
    process.devices.clear();
    let (_row, screen) = row(&data);
    let words = "not attached: it uses a chip that is none of the devices here";
    assert!(screen.contains(words), "{screen}");
}

#[test]
fn figures_are_summed_up_and_peaks_are_not() {
    let data = BUSY.data();
    let process = &data.totals().expect("a snapshot").processes[0];
    let dram: u64 = process.devices.iter().map(|on| on.dram_bytes).sum();
    assert_eq!(held(&process.devices, |on| on.dram_bytes), dram);
    // The peak is of the device that the figure beside it is of.
    let (on, peak) = fullest(&process.devices).expect("it has devices");
    assert_eq!(on.peak.map(|peak| peak.dram), peak);
    assert!(peak.is_some());
    assert!(
        process
            .devices
            .iter()
            .all(|other| other.dram_bytes <= on.dram_bytes)
    );
    assert_eq!(fullest(&[]), None);
    // An unknown peak is not one of 0 bytes.
    let without = ttmem_report::ProcessDevice {
        peak: None,
        ..on.clone()
    };
    assert_eq!(
        fullest(std::slice::from_ref(&without)),
        Some((&without, None))
    );
}

#[test]
fn numbers_and_ages_are_short() {
    let ages = [59, 725, 11_520, 180_000, 99 * 86_400, u64::MAX].map(age);
    assert_eq!(ages[..4], ["59s", "12m 5s", "3h 12m", "2d 2h"]);
    assert!(ages.iter().all(|age| age.len() <= 7), "{ages:?}");
}

#[test]
fn no_area_is_too_small() {
    for (_name, data) in world::all() {
        for width in [0, 1, 2, 5, 20, 45, 79] {
            for height in [0, 1, 2, 3, 5, 9, 10, 18] {
                let area = Rect::new(3, 2, width, height);
                let mut canvas = Buffer::empty(area);
                let mut view = Processes {
                    per_device: true,
                    ..Processes::default()
                };
                view.draw(
                    &mut Canvas::new(&mut canvas, THEME),
                    area,
                    &data,
                    &Chosen::default(),
                );
            }
        }
    }
}

#[test]
fn without_unicode_there_is_nothing_but_ascii() {
    let mut canvas = Buffer::empty(Rect::new(0, 0, 200, 50));
    let area = canvas.area;
    let theme = Theme::new(ColourDepth::None, false);
    let mut view = Processes {
        per_device: true,
        ..Processes::default()
    };
    view.draw(
        &mut Canvas::new(&mut canvas, theme),
        area,
        &BUSY.data(),
        &Chosen::default(),
    );
    theme.ascii(&mut canvas);
    let screen = lines(&canvas);
    assert_eq!(screen.chars().find(|character| !character.is_ascii()), None);
}
