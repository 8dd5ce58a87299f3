//! Screens, keys and odd data of the map.

use super::*;
use crate::testing;
use crate::testing::screen::{THEME, assert_in_every_world, assert_screen, drawn};
use crate::testing::world::{self, Names, World};
use crate::widgets::Canvas;
use ratatui::buffer::Buffer;
use ttmem_report::{SegmentKind, Timestamp};

const BUSY: World = World {
    devices: 8,
    processes: 40,
    busy: true,
    names: Names::Usual,
};

#[test]
fn screens() {
    assert_in_every_world("l1map", || Box::<L1MapView>::default());
}

#[test]
fn screens_of_the_banks() {
    assert_in_every_world("l1map_dram", || {
        Box::new(L1MapView {
            page: Page::Banks(MemoryClass::Dram),
            ..L1MapView::default()
        })
    });
}

fn press(view: &mut L1MapView, keys: &[Key], data: &Data, chosen: &mut Chosen) {
    for key in keys {
        assert_eq!(view.handle(*key, data, chosen), Outcome::Handled, "{key:?}");
    }
}

/// The busy world, with another core than the first.
fn busy_with(core: Place) -> Data {
    let mut data = BUSY.data();
    let map = BUSY.l1_map_with(core).expect("it has devices");
    data.l1map.as_mut().expect("a map").document = map;
    data
}

#[test]
fn the_narrow_core_is_found_and_warned_of() {
    let data = busy_with((5, 6));
    let chosen = Chosen::default();
    for size in [(80, 21), (200, 47)] {
        let mut view = L1MapView {
            core: Some((5, 6)),
            ..L1MapView::default()
        };
        let screen = drawn(&mut view, &data, &chosen, size);
        assert!(screen.contains("CB headroom 12.0 KiB – narrow"));
        assert!(
            screen.contains("0xbbc60   12.0 KiB · free"),
            "the list is open at the gap"
        );
        assert!(screen.contains("[██]") || screen.contains("[██ 95%]"));
        assert_screen(&format!("l1map/narrow_core_{}x{}", size.0, size.1), &screen);
    }
}

fn typed(view: &mut L1MapView, text: &str, data: &Data) {
    let keys: Vec<Key> = text.chars().map(Key::Char).collect();
    press(view, &keys, data, &mut Chosen::default());
}

#[test]
fn an_address_is_found_in_decimal_and_hex_in_both_lists() {
    let data = busy_with((5, 6));
    let map = &data.l1map.as_ref().expect("a map").document.1;
    let core = map.core.as_ref().expect("a core");
    for address in ["0xbbc60", "769120"] {
        let mut view = L1MapView {
            core: Some((5, 6)),
            ..L1MapView::default()
        };
        typed(&mut view, &format!("/{address}"), &data);
        let found = column::found(core, &view.find);
        let found: Vec<u64> = found.iter().map(|segment| segment.address).collect();
        assert_eq!(found, [0xb_bc60], "{address}");
        let screen = drawn(&mut view, &data, &Chosen::default(), (200, 47));
        assert!(screen.contains(&format!("find: {address}")), "{screen}");
        assert!(screen.contains("0xbbc60   12.0 KiB · free"), "{screen}");
    }
    let blocks = &data.blocks.as_ref().expect("banks").document.1;
    let wanted = blocks.largest[1].address;
    for address in [format!("{wanted:#x}"), wanted.to_string()] {
        let mut view = L1MapView {
            page: Page::Banks(MemoryClass::Dram),
            ..L1MapView::default()
        };
        typed(&mut view, &format!("/{address}"), &data);
        let found = blocks.largest.iter();
        let found = found.filter(|block| banks::is_found(block, &view.find));
        let found: Vec<u64> = found.map(|block| block.address).collect();
        assert_eq!(found, [wanted], "{address}");
        let screen = drawn(&mut view, &data, &Chosen::default(), (200, 47));
        assert!(screen.contains(&format!("find: {address}")), "{screen}");
    }
}

#[test]
fn a_line_of_python_is_found_on_a_core_and_in_a_bank() {
    let mut data = BUSY.data();
    let line = Some("/home/me/q9.py:12 step".to_owned());
    let mut find = Prompt::default();
    find.set("Q9.py");
    let map = &mut data.l1map.as_mut().expect("a map").document.1;
    let core = map.core.as_mut().expect("a core");
    assert_eq!(column::found(core, &find).len(), 0);
    core.segments[1].line.clone_from(&line);
    assert_eq!(column::found(core, &find).len(), 1);
    let block = &mut data.blocks.as_mut().expect("banks").document.1.largest[1];
    assert!(!banks::is_found(block, &find));
    block.line = line;
    assert!(banks::is_found(block, &find));
}

#[test]
fn a_line_of_python_is_not_cut_before_its_end() {
    let mut data = BUSY.data();
    let line = Some("/home/me/model.py:1257 step".to_owned());
    let map = &mut data.l1map.as_mut().expect("a map").document.1;
    for segment in &mut map.core.as_mut().expect("a core").segments {
        segment.line.clone_from(&line);
    }
    for block in &mut data.blocks.as_mut().expect("banks").document.1.largest {
        block.line.clone_from(&line);
    }
    for size in [(80, 24), (100, 30), (160, 45)] {
        let mut view = L1MapView::default();
        let cores = drawn(&mut view, &data, &Chosen::default(), size);
        press(&mut view, &[Key::Char('d')], &data, &mut Chosen::default());
        let banks = drawn(&mut view, &data, &Chosen::default(), size);
        for screen in [cores, banks] {
            assert!(screen.contains("model.py:1257"), "{size:?}: {screen}");
        }
    }
}

#[test]
fn a_clash_is_said_and_marked() {
    let mut data = busy_with((0, 0));
    let map = &mut data.l1map.as_mut().expect("a map").document.1;
    let lowest = map.cores[9].lowest_buffer.expect("it has buffers");
    map.cores[9].cb_end = Some(lowest + 4096);
    let screen = drawn(
        &mut L1MapView::default(),
        &data,
        &Chosen::default(),
        (80, 24),
    );
    assert!(screen.contains("CB headroom clash by 4.0 KiB at core 1,1"));
    assert!(screen.contains("▓▓X"), "{screen}");
}

#[test]
fn arrows_move_the_core_and_stop_at_the_edge() {
    let data = BUSY.data();
    let mut chosen = Chosen::default();
    let mut view = L1MapView::default();
    drawn(&mut view, &data, &chosen, (80, 21));
    press(
        &mut view,
        &[Key::Right, Key::Right, Key::Char('j'), Key::Up, Key::Up],
        &data,
        &mut chosen,
    );
    assert_eq!(view.core, Some((2, 0)));
    let wanted = testing::needed(&view, &data, &chosen)
        .l1map
        .expect("a map is wanted");
    assert_eq!(wanted.1, Some((2, 0)));
    // The column is still that of the core before, and says so.
    let screen = drawn(&mut view, &data, &chosen, (80, 21));
    assert!(screen.contains("core 0,0; core 2,0 is on its way"));
    // In the list, arrows move in the list.
    let row = view.segment.row;
    press(
        &mut view,
        &[Key::Enter, Key::Down, Key::Char('j')],
        &data,
        &mut chosen,
    );
    assert_eq!((view.core, view.segment.row), (Some((2, 0)), row + 2));
    press(&mut view, &[Key::Escape, Key::Down], &data, &mut chosen);
    assert_eq!(view.core, Some((2, 1)));
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Unused
    );
    assert_eq!(
        view.handle(Key::Char('h'), &data, &mut chosen),
        Outcome::Unused
    );
}

#[test]
fn another_device_is_not_shown_as_this_one() {
    let data = BUSY.data();
    let mut chosen = Chosen::default();
    let mut view = L1MapView {
        core: Some((7, 7)),
        ..L1MapView::default()
    };
    press(&mut view, &[Key::Char(']')], &data, &mut chosen);
    let screen = drawn(&mut view, &data, &chosen, (80, 24));
    assert!(screen.contains("L1 of device 1 is on its way") && !screen.contains("RAN LAST"));
    // A core that the other device may not have is not asked for yet.
    let (key, core) = testing::needed(&view, &data, &chosen)
        .l1map
        .expect("a map is wanted");
    assert_eq!((key, core), (data.devices()[1].key(), None));
    assert_eq!(
        view.handle(Key::Left, &data, &mut chosen),
        Outcome::Unused,
        "nothing to move in"
    );
    press(&mut view, &[Key::Char('d')], &data, &mut chosen);
    let screen = drawn(&mut view, &data, &chosen, (80, 24));
    assert!(screen.contains("DRAM of device 1 is on its way"));
}

#[test]
fn banks_are_asked_for_in_as_many_cells_as_fit() {
    let data = BUSY.data();
    let mut chosen = Chosen::default();
    let mut view = L1MapView::default();
    drawn(&mut view, &data, &chosen, (80, 21));
    press(&mut view, &[Key::Char('d')], &data, &mut chosen);
    let needed = testing::needed(&view, &data, &chosen);
    assert_eq!(needed.l1map, None);
    let (_, class, cells) = needed.blocks.expect("banks are wanted");
    assert_eq!((class, cells), (MemoryClass::Dram, 67 * 7));
    press(
        &mut view,
        &[Key::Char('j'), Key::Char('t')],
        &data,
        &mut chosen,
    );
    let screen = drawn(&mut view, &data, &chosen, (80, 21));
    assert!(screen.contains("TRACE of device 0 is on its way"));
    press(
        &mut view,
        &[Key::Char('l'), Key::Char('l')],
        &data,
        &mut chosen,
    );
    assert_eq!(view.page, Page::Cores);
    press(
        &mut view,
        &[Key::Char('t'), Key::Escape],
        &data,
        &mut chosen,
    );
    assert_eq!(view.page, Page::Cores);
}

#[test]
fn a_click_chooses_a_core_or_a_segment() {
    let data = BUSY.data();
    let mut chosen = Chosen::default();
    let mut view = L1MapView::default();
    drawn(&mut view, &data, &chosen, (80, 21));
    let mut click = |view: &mut L1MapView, column, row| {
        let pointer = Pointer {
            column,
            row,
            did: Gesture::Click,
        };
        view.point(pointer, &data, &mut chosen)
    };
    // The grid begins in the third row with its numbers.
    assert_eq!(click(&mut view, 4 + 3 * 3, 3 + 2), Outcome::Handled);
    assert_eq!(view.core, Some((3, 2)));
    assert_eq!(click(&mut view, 1, 5), Outcome::Unused);
    assert_eq!(click(&mut view, 60, 5), Outcome::Handled);
    assert_eq!(view.segment.row, view.segment.top + 1);
    assert_eq!(click(&mut view, 60, 0), Outcome::Unused);
}

#[test]
fn what_is_chosen_may_be_gone_and_any_area_can_be_drawn() {
    let mut data = BUSY.data();
    let chosen = Chosen::default();
    let mut view = L1MapView {
        core: Some((7, 7)),
        ..L1MapView::default()
    };
    view.segment.row = 9_999;
    view.block.row = 9_999;
    for round in 0..3 {
        for page in [Page::Cores, Page::Banks(MemoryClass::Dram)] {
            view.page = page;
            for width in (0..100).chain([200]) {
                for height in [0, 1, 2, 3, 4, 5, 6, 7, 9, 13, 21, 50] {
                    let mut canvas = Buffer::empty(Rect::new(3, 2, width, height));
                    let area = canvas.area;
                    view.draw(&mut Canvas::new(&mut canvas, THEME), area, &data, &chosen);
                }
            }
        }
        let map = &mut data.l1map.as_mut().expect("a map").document.1;
        let blocks = &mut data.blocks.as_mut().expect("banks").document.1;
        if round == 0 {
            // Numbers that cannot be.
            map.bytes_per_core = Some(0);
            map.cores.truncate(5);
            map.cores[4].x = u32::MAX;
            map.cores[3].y = u32::MAX;
            map.cores[2].occupied_bytes = Some(u64::MAX);
            let column = map.core.as_mut().expect("a core");
            column.segments.truncate(4);
            column.segments[0].size_bytes = u64::MAX;
            column.segments[1].address = u64::MAX;
            blocks.per_bank_bytes = Some(u64::MAX);
            blocks.base = Some(u64::MAX);
            blocks.cells = vec![u64::MAX; 3];
            blocks.largest.truncate(1);
        } else {
            map.cores.clear();
            map.core = None;
            map.residents.clear();
            blocks.cells.clear();
            blocks.free.clear();
            blocks.banks = None;
        }
    }
}

#[test]
fn a_grid_that_does_not_fit_goes_along_with_the_chosen_core() {
    let mut data = BUSY.data();
    let map = &mut data.l1map.as_mut().expect("a map").document.1;
    let core = map.cores[0];
    let places = (0..32_u32 * 32).map(|place| (place % 32, place / 32));
    map.cores = places
        .map(|(x, y)| ttmem_report::L1Core { x, y, ..core })
        .collect();
    let mut view = L1MapView {
        core: Some((31, 20)),
        ..L1MapView::default()
    };
    let screen = drawn(&mut view, &data, &Chosen::default(), (80, 21));
    assert!(screen.contains("20  ") && screen.contains("31  "));
    assert_screen("l1map/32x32_cores_80x21", &screen);
}

#[test]
fn a_refused_program_is_hatched_over_what_it_met() {
    let world = World {
        devices: 1,
        processes: 1,
        busy: false,
        names: Names::Usual,
    };
    let mut data = world.data();
    let map = &data.l1map.as_ref().expect("this world has one").document.1;
    let core = map.core.as_ref().expect("a core was asked for");
    let is_buffer = |segment: &&ttmem_report::Segment| segment.kind == SegmentKind::Buffer;
    let lowest = core
        .segments
        .iter()
        .find(is_buffer)
        .expect("a buffer")
        .address;
    let mut failures = data.failures.take().expect("this world has some").document;
    let failure = &mut failures.failures[1];
    failure.last_time = Some(world::ago(5));
    let clash = failure.clash.as_mut().expect("the second is a clash");
    (clash.program, clash.storage_end, clash.limit) = (Some(7), lowest + 300_000, lowest);
    clash.overlap_bytes = 300_000;
    let before = drawn(
        &mut L1MapView::default(),
        &data,
        &Chosen::default(),
        (120, 40),
    );
    data.apply(crate::data::Update::Failures(failures), data.now);
    let screen = drawn(
        &mut L1MapView::default(),
        &data,
        &Chosen::default(),
        (120, 40),
    );
    let end = lowest + 300_000;
    let sentence = format!(
        "refused 5 s ago: CBs of program 7 of pid 70100 end at {end} ({end:#x}), 293.0 KiB beyond"
    );
    assert!(screen.contains(&sentence), "{screen}");
    assert!(screen.contains('╱') && screen.contains('╳'), "{screen}");
    assert!(!before.contains('╳'), "{before}");
    // It is of no interest over what is another's, ...
    let is_drawn = |data: &Data| {
        let screen = drawn(
            &mut L1MapView::default(),
            data,
            &Chosen::default(),
            (120, 40),
        );
        screen.contains("refused") || screen.contains('╳')
    };
    let mut ended = data.clone();
    let totals = &mut ended.snapshot.as_mut().expect("totals").document;
    totals.processes[0].state = ttmem_report::ProcessState::Exited;
    assert!(is_drawn(&data) && !is_drawn(&ended));
    let mut elsewhere = data.clone();
    let totals = &mut elsewhere.snapshot.as_mut().expect("totals").document;
    totals.processes[0].devices.clear();
    assert!(!is_drawn(&elsewhere));
    let mut of_another = data.clone();
    let map = &mut of_another.l1map.as_mut().expect("a map").document.1;
    for segment in &mut map.core.as_mut().expect("a core").segments {
        segment.pid = segment.pid.map(|pid| pid + 1);
    }
    assert!(!is_drawn(&of_another));
    // ...nor ten minutes later.
    let totals = &mut data.snapshot.as_mut().expect("totals").document;
    totals.time = Timestamp::from_unix_nanos(totals.time.unix_nanos() + 600_000_000_000);
    let later = drawn(
        &mut L1MapView::default(),
        &data,
        &Chosen::default(),
        (120, 40),
    );
    assert!(!later.contains("refused"), "{later}");
}
