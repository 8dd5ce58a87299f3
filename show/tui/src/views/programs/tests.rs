use super::*;
use crate::data::Update;
use crate::testing;
use crate::testing::screen::{self, SIZES, assert_screen, drawn};
use crate::testing::world::{Names, World, ago};
use std::time::Duration;
use ttmem_report::{ConfigRingEntry, CoreType};

const WORLD: World = World {
    devices: 8,
    processes: 3,
    busy: true,
    names: Names::Usual,
};

fn press(view: &mut Programs, data: &Data, chosen: &mut Chosen, keys: &str) {
    for key in keys.chars() {
        let key = if key == '\n' {
            Key::Enter
        } else {
            Key::Char(key)
        };
        assert_eq!(view.handle(key, data, chosen), Outcome::Handled, "{key:?}");
    }
}

fn on(page: Page) -> Programs {
    Programs {
        page,
        ..Programs::default()
    }
}

/// The names of the programs on the screen, from the top.
fn names(screen: &str) -> Vec<String> {
    let rows = screen.lines().skip(3);
    rows.filter_map(|row| Some(row.split_whitespace().next()?.to_owned()))
        .collect()
}

/// The screens after some answers between which programs ran.
fn ran(view: &mut Programs, polls: u64) -> Data {
    let mut data = WORLD.data();
    for poll in 0..polls {
        data.now += Duration::from_secs(1);
        let mut listed = data.programs.take().unwrap().document;
        for (place, row) in listed.rows.iter_mut().enumerate().skip(2) {
            let every = 1 + place as u64 % 7;
            if place % 3 == 0 && poll % every == 0 {
                row.dispatches += (1 << (place % 9)) * (1 + poll % 2);
            }
        }
        data.apply(Update::Programs(listed), data.now);
        drawn(view, &data, &Chosen::default(), SIZES[0]);
    }
    data
}

#[test]
fn screens() {
    screen::assert_in_every_world("programs", || Box::<Programs>::default());
    screen::assert_in_every_world("programs_kernels", || Box::new(on(Page::Kernels)));
    screen::assert_in_every_world("programs_rings", || Box::new(on(Page::Rings)));
}

#[test]
fn screens_of_what_was_chosen() {
    for size in SIZES {
        let name = |state: &str| format!("programs/state_{state}_{}x{}", size.0, size.1);
        let mut view = on(Page::Timeline);
        let data = ran(&mut view, 60);
        let mut chosen = Chosen::default();
        assert_screen(&name("timeline"), &drawn(&mut view, &data, &chosen, size));
        let mut view = Programs::default();
        drawn(&mut view, &data, &chosen, size);
        press(&mut view, &data, &mut chosen, "j\n/mat");
        assert_screen(&name("filtered"), &drawn(&mut view, &data, &chosen, size));
    }
}

#[test]
fn rows_are_sorted_filtered_and_of_the_chosen_process() {
    let (mut view, data, mut chosen) = (Programs::default(), WORLD.data(), Chosen::default());
    let runs = names(&drawn(&mut view, &data, &chosen, SIZES[0]));
    press(&mut view, &data, &mut chosen, "S");
    let fewest = names(&drawn(&mut view, &data, &chosen, SIZES[0]));
    assert_eq!(
        (runs[0].as_str(), fewest[0].as_str()),
        ("SoftmaxMultiCore", "fabric_erisc_router")
    );
    // By code: the fabric's router is the largest.
    press(&mut view, &data, &mut chosen, "ss");
    let text = names(&drawn(&mut view, &data, &chosen, SIZES[0]));
    assert_eq!(
        text[..3],
        ["fabric_erisc_router", "cq_prefetch_dispatch", "SDPADecode"]
    );
    press(&mut view, &data, &mut chosen, "/sdpa");
    assert!(view.is_typing());
    let named = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(
        names(&named).iter().all(|name| name == "SDPADecode"),
        "{named}"
    );
    press(&mut view, &data, &mut chosen, "\n");
    chosen.pid = Some(1);
    assert!(names(&drawn(&mut view, &data, &chosen, SIZES[0])).is_empty());
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    assert_eq!(chosen.pid, None);
    assert!(drawn(&mut view, &data, &chosen, SIZES[0]).contains("72 programs"));
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Unused
    );
}

#[test]
fn pages_follow_each_other_and_devices_too() {
    let (mut view, data, mut chosen) = (Programs::default(), WORLD.data(), Chosen::default());
    assert!(!testing::needed(&view, &data, &chosen).kernels);
    press(&mut view, &data, &mut chosen, "vv");
    assert!(testing::needed(&view, &data, &chosen).kernels);
    press(&mut view, &data, &mut chosen, "v]");
    let rings = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(
        rings.contains("[rings and caches]") && rings.contains("device 1R "),
        "{rings}"
    );
    // Not sorted: that key is the app's.
    assert_eq!(
        view.handle(Key::Char('s'), &data, &mut chosen),
        Outcome::Unused
    );
    press(&mut view, &data, &mut chosen, "/hole");
    let found = drawn(&mut view, &data, &chosen, SIZES[0]);
    let entries = found.split("FREE AFTER").nth(1).expect("a list");
    let mut entries = entries.lines().skip(1).filter(|line| line.contains("0x"));
    assert!(entries.all(|line| line.contains("hole")), "{found}");
    for key in [Key::Enter, Key::Escape] {
        assert_eq!(view.handle(key, &data, &mut chosen), Outcome::Handled);
    }
    press(&mut view, &data, &mut chosen, "v");
    assert_eq!(view.page, Page::Programs);
    let click = |column, row| Pointer {
        column,
        row,
        did: Gesture::Click,
    };
    drawn(&mut view, &data, &chosen, SIZES[0]);
    assert_eq!(
        view.point(click(5, 6), &data, &mut chosen),
        Outcome::Handled
    );
    assert_eq!(view.list.cursor.row, 3);
    assert_eq!(
        view.point(click(12, 0), &data, &mut chosen),
        Outcome::Handled
    );
    assert_eq!(view.page, Page::Timeline);
    assert_eq!(
        view.point(click(79, 0), &data, &mut chosen),
        Outcome::Unused
    );
}

#[test]
fn a_kernel_counts_once_for_each_process_that_has_it() {
    let (mut view, data, chosen) = (on(Page::Kernels), WORLD.data(), Chosen::default());
    drawn(&mut view, &data, &chosen, SIZES[0]);
    let rows = &data.kernels.as_ref().unwrap().document.rows;
    let mut ids: Vec<_> = rows.iter().map(|row| (row.pid, row.kernel)).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(view.kernel_list.places().len(), ids.len());
    assert!(ids.len() < rows.len());
}

#[test]
fn the_timeline_tells_runs_from_answer_to_answer_and_is_bounded() {
    let mut data = WORLD.data();
    let mut timeline = Timeline::default();
    let none = Prompt::default();
    let mut ask = |timeline: &mut Timeline, change: &dyn Fn(&mut Vec<ProgramRow>)| {
        data.now += Duration::from_secs(1);
        let mut listed = data.programs.take().unwrap().document;
        change(&mut listed.rows);
        data.apply(Update::Programs(listed), data.now);
        timeline.take(data.programs.as_ref().unwrap(), &data, screen::THEME);
        timeline.rows(&none, None)
    };
    // What ran before the first answer is not told as if it had run now.
    assert_eq!(ask(&mut timeline, &|_rows| {}), 0);
    assert_eq!(ask(&mut timeline, &|rows| rows[5].dispatches += 3), 1);
    // One that is listed for the first time but is old; one that is new; one that began anew.
    let mut old = WORLD.data().programs.unwrap().document.rows[9].clone();
    old.program = Some(77_777);
    let new = ProgramRow {
        created: ttmem_report::Timestamp::from_unix_nanos(u64::MAX),
        ..old.clone()
    };
    let rows = ask(&mut timeline, &|rows| {
        rows.extend([old.clone(), new.clone()]);
        rows[6].dispatches = 0;
    });
    assert_eq!(rows, 2);
    // Far more programs than are kept, for far longer.
    for poll in 0..300_u64 {
        ask(&mut timeline, &|rows| {
            rows.truncate(900);
            while rows.len() < 900 {
                let program = Some(100_000 + rows.len() as u64);
                rows.push(ProgramRow {
                    program,
                    created: ago(0),
                    ..old.clone()
                });
            }
            for row in rows.iter_mut() {
                row.dispatches += 1 + poll % 2;
            }
        });
    }
    assert_eq!(timeline.rows(&none, None), timeline::PROGRAMS as u64);
    // Nothing ran for as long as answers are kept.
    for _poll in 0..timeline::POLLS {
        ask(&mut timeline, &|_rows| {});
    }
    assert_eq!(timeline.rows(&none, None), 0);
}

#[test]
fn what_ran_while_nobody_looked_is_a_gap_and_not_one_burst() {
    let mut view = on(Page::Timeline);
    let mut data = ran(&mut view, 10);
    let chosen = Chosen::default();
    let ask = |view: &mut Programs, data: &mut Data, seconds: u64, runs: u64| {
        data.now += Duration::from_secs(seconds);
        let mut listed = data.programs.take().unwrap().document;
        listed.rows[3].dispatches += runs;
        data.apply(Update::Programs(listed), data.now);
        let screen = drawn(view, data, &chosen, SIZES[0]);
        let row = screen.lines().nth(3).unwrap();
        let cells: String = row.chars().rev().take(4).collect();
        cells.chars().rev().collect::<String>()
    };
    assert_eq!(ask(&mut view, &mut data, 3, 1), "·▄·▁");
    // The runs of ten minutes are of no moment in them.
    assert_eq!(ask(&mut view, &mut data, 600, 4_000), "▄·▁┊");
    assert_eq!(ask(&mut view, &mut data, 1, 16), "·▁┊▅");
    // A server that takes its time is asked less often: that is no gap.
    for _frame in 0..9 {
        data.now += Duration::from_secs(1);
        drawn(&mut view, &data, &chosen, SIZES[0]);
    }
    assert_eq!(ask(&mut view, &mut data, 1, 1), "▁┊▅▁");
    // A pause is one, however many frames were drawn meanwhile.
    data.paused = true;
    drawn(&mut view, &data, &chosen, SIZES[0]);
    data.paused = false;
    assert_eq!(ask(&mut view, &mut data, 1, 9), "┊▅▁┊");
    data.interval = Duration::from_secs(60);
    assert_eq!(ask(&mut view, &mut data, 60, 1), "▅▁┊▁");
}

#[test]
fn rows_that_the_server_did_not_list_are_told() {
    let mut data = WORLD.data();
    let chosen = Chosen::default();
    let programs = data.programs.as_ref().unwrap().document.rows.len();
    let kernels = data.kernels.as_ref().unwrap().document.rows.len();
    for (page, of) in [
        (Page::Programs, programs),
        (Page::Timeline, programs),
        (Page::Kernels, kernels),
    ] {
        let all = drawn(&mut on(page), &data, &chosen, SIZES[1]);
        assert!(!all.contains("of the first") && !all.contains('≥'), "{all}");
        data.programs.as_mut().unwrap().document.has_more = true;
        data.kernels.as_mut().unwrap().document.has_more = true;
        let some = drawn(&mut on(page), &data, &chosen, SIZES[1]);
        let more = format!("s · of the first {of}; the server has more");
        assert!(some.contains(&more), "{some}");
        // What is put together from some rows is not said as if it were from all.
        for title in ["TOTAL", "UNIQUE", "SHARED", "PROGRAMS", "RUNS"] {
            let at_least = some.contains(&format!("≥{title}"));
            assert_eq!(at_least, page == Page::Kernels, "{some}");
        }
        data.programs.as_mut().unwrap().document.has_more = false;
        data.kernels.as_mut().unwrap().document.has_more = false;
    }
}

#[test]
fn a_ring_may_be_anything() {
    let mut data = WORLD.data();
    let mut view = on(Page::Rings);
    let entry = |address, size_bytes| ConfigRingEntry {
        program: None,
        address,
        size_bytes,
        sync: None,
    };
    let cases = [
        vec![],
        vec![entry(u64::MAX, u64::MAX), entry(0, u64::MAX)],
        vec![entry(100, 50), entry(100, 50), entry(120, 500)],
        vec![entry(0, 0); 300],
    ];
    for entries in cases {
        for capacity in [None, Some(0), Some(u64::MAX)] {
            let snapshot = &mut data.snapshot.as_mut().unwrap().document;
            let ring = &mut snapshot.devices[0].ring[0];
            ring.entries.clone_from(&entries);
            ring.capacity_bytes = capacity;
            ring.used_bytes = u64::MAX;
            ring.core_type = CoreType::Other;
            for size in [(0, 0), (1, 1), (20, 5), (80, 24)] {
                let drawn = drawn(&mut view, &data, &Chosen::default(), size);
                let shares = drawn
                    .split_whitespace()
                    .filter_map(|word| word.strip_suffix('%'));
                for share in shares.filter_map(|share| share.parse::<f64>().ok()) {
                    assert!(share <= 100.0, "{drawn}");
                }
            }
        }
    }
}

#[test]
fn a_ring_that_was_empty_at_first_is_drawn_where_its_entries_lie() {
    let mut data = WORLD.data();
    let (mut view, chosen) = (on(Page::Rings), Chosen::default());
    let ring = |data: &mut Data, entries: Vec<ConfigRingEntry>| {
        let snapshot = &mut data.snapshot.as_mut().unwrap().document;
        snapshot.devices[0].ring[0].entries = entries;
    };
    let entries = data.devices()[0].ring[0].entries.clone();
    let lowest = entries.iter().map(|entry| entry.address).min();
    let from = format!("{:#x} (lowest seen) to ", lowest.unwrap());
    ring(&mut data, Vec::new());
    let empty = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(empty.contains("nothing lies in this ring"), "{empty}");
    ring(&mut data, entries);
    let filled = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert_eq!(
        filled,
        drawn(&mut on(Page::Rings), &data, &chosen, SIZES[0])
    );
    assert!(filled.contains(&from), "{filled}");
    // Empty again: it still lies where it did.
    ring(&mut data, Vec::new());
    let empty = drawn(&mut view, &data, &chosen, SIZES[0]);
    assert!(empty.contains(&from), "{empty}");
}

#[test]
fn no_area_is_too_small_and_lists_may_shrink() {
    let (mut data, mut chosen) = (WORLD.data(), Chosen::default());
    for page in Page::ALL {
        let mut view = on(page);
        drawn(&mut view, &data, &chosen, SIZES[1]);
        press(&mut view, &data, &mut chosen, "G");
        for size in [(0, 0), (1, 1), (20, 5), (3, 40), (160, 2)] {
            drawn(&mut view, &data, &chosen, size);
        }
    }
    let mut view = Programs::default();
    drawn(&mut view, &data, &chosen, SIZES[0]);
    press(&mut view, &data, &mut chosen, "G");
    assert_eq!(view.list.cursor.row, 71);
    let mut listed = data.programs.take().unwrap().document;
    listed.rows.truncate(2);
    let later = data.now + Duration::from_secs(1);
    data.apply(Update::Programs(listed), later);
    drawn(&mut view, &data, &chosen, SIZES[0]);
    assert_eq!(view.list.cursor.row, 1);
}

#[test]
fn a_line_of_python_finds_its_program_and_is_in_its_details() {
    let (mut view, mut data, mut chosen) = (on(Page::Timeline), WORLD.data(), Chosen::default());
    let mut listed = data.programs.take().unwrap().document;
    let line = "/home/me/q9.py:12 step";
    listed.rows[5].python = Some(vec![
        "/x/ttnn/site-packages/a.py:1 f".to_owned(),
        line.to_owned(),
    ]);
    let name = listed.rows[5].name.clone().unwrap();
    let mut later = data.now;
    for runs in [0, 3] {
        for row in &mut listed.rows {
            row.dispatches += runs;
        }
        data.apply(Update::Programs(listed.clone()), later);
        data.now = later;
        later += Duration::from_millis(500);
        drawn(&mut view, &data, &chosen, SIZES[1]);
    }
    press(&mut view, &data, &mut chosen, "/Q9.PY:12\n");
    let timeline = drawn(&mut view, &data, &chosen, SIZES[1]);
    assert!(timeline.contains(&name), "{timeline}");
    assert_eq!(view.timeline.rows(&view.filter, None), 1);
    view.page = Page::Programs;
    let details = drawn(&mut view, &data, &chosen, SIZES[1]);
    assert_eq!(view.list.cursor.rows, 1);
    assert!(details.contains(line), "{details}");
}

#[test]
fn enter_on_an_empty_list_does_nothing() {
    let (mut view, data, mut chosen) = (Programs::default(), WORLD.data(), Chosen::default());
    press(&mut view, &data, &mut chosen, "/no such name\n");
    let before = drawn(&mut view, &data, &chosen, SIZES[0]);
    press(&mut view, &data, &mut chosen, "\n");
    assert_eq!(drawn(&mut view, &data, &chosen, SIZES[0]), before);
}
