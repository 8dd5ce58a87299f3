//! Screens of every world, the arithmetic of the bars, and what keys do.

use super::figures::Filled;
use super::*;
use crate::testing::screen::{THEME, assert_in_every_world, assert_screen, drawn, text};
use crate::testing::world::{self, Names, World};
use crate::theme::ColourDepth;
use crate::theme::Theme;
use crate::widgets::Canvas;
use ratatui::buffer::Buffer;
use ttmem_report::Device;

const USUAL: World = World {
    devices: 8,
    processes: 3,
    busy: false,
    names: Names::Usual,
};

fn devices(number: u32) -> Data {
    World {
        devices: number,
        ..USUAL
    }
    .data()
}

fn press(view: &mut Overview, keys: &[Key], data: &Data, chosen: &mut Chosen) {
    for key in keys {
        assert_eq!(view.handle(*key, data, chosen), Outcome::Handled, "{key:?}");
    }
}

#[test]
fn every_world_has_its_overview() {
    assert_in_every_world("overview", || Box::<Overview>::default());
}

#[test]
fn a_galaxy_has_trays_and_keeps_its_processes() {
    let data = devices(32);
    for size in [(80, 24), (120, 40), (200, 50)] {
        let screen = drawn(&mut Overview::default(), &data, &Chosen::default(), size);
        for tray in ["tray 1", "tray 2", "tray 3", "tray 4"] {
            assert!(screen.contains(tray), "{tray}: {screen}");
        }
        let commands = screen.matches("python3 serve.py").count();
        assert!(commands >= 1, "{screen}");
        assert!(!screen.contains("more: 3 shows one"), "{screen}");
    }
}

#[test]
fn all_devices_are_seen_from_1_to_32() {
    for number in 1..=32 {
        for size in [(80, 24), (120, 40), (200, 50), (300, 90)] {
            let data = devices(number);
            let mut view = Overview::default();
            let screen = drawn(&mut view, &data, &Chosen::default(), size);
            assert_eq!(view.drawn.len(), number as usize, "{size:?}: {screen}");
            assert!(screen.contains("COMMAND"), "{size:?}: {screen}");
        }
    }
}

#[test]
fn the_graph_fills_its_window() {
    let mut data = devices(1);
    // A minute of data, of ten that there could be.
    let recent = &mut data.recent.as_mut().expect("this world has one").document;
    let steps = recent.times.len();
    for device in &mut recent.devices {
        device.dram_bytes[..steps - 60].fill(None);
    }
    let screen = drawn(
        &mut Overview::default(),
        &data,
        &Chosen::default(),
        (80, 24),
    );
    let axis = screen
        .lines()
        .find(|line| line.contains("ago"))
        .expect("an axis");
    assert!(
        axis.contains("59 s ago") || axis.contains("1 min ago"),
        "{axis}"
    );
    let bottom = screen
        .lines()
        .find(|line| line.contains(" 0 B █"))
        .expect("a plot");
    let plot: String = bottom.chars().skip(11).take(28).collect();
    assert_eq!(plot, "█".repeat(28), "{screen}");
}

#[test]
fn before_the_first_sample_the_graph_has_what_is_known_now() {
    let mut data = devices(1);
    data.recent = None;
    let size = (80, 24);
    let screen = drawn(&mut Overview::default(), &data, &Chosen::default(), size);
    let axis = screen.lines().find(|line| line.contains("10 s ago"));
    assert!(axis.is_some_and(|axis| axis.contains("now")), "{screen}");
    let bottom = screen.lines().find(|line| line.contains(" 0 B  "));
    let plot: String = bottom.expect("a plot").chars().take(39).collect();
    assert!(plot.ends_with('█'), "{screen}");
}

#[test]
fn graphs_say_so_where_they_are_not_of_all() {
    let mut data = devices(2);
    let words = "of attached processes";
    for size in [(100, 30), (160, 45)] {
        let screen = drawn(&mut Overview::default(), &data, &Chosen::default(), size);
        assert!(
            screen.contains("╭─ DRAM ") && !screen.contains(words),
            "{screen}"
        );
    }
    let unattached = unattached();
    let upstream = unattached.devices()[0].upstream.clone();
    data.snapshot.as_mut().expect("one").document.devices[1].upstream = upstream;
    for size in [(100, 30), (160, 45)] {
        let screen = drawn(&mut Overview::default(), &data, &Chosen::default(), size);
        assert_eq!(screen.matches(words).count(), 2, "{screen}");
    }
    // Where nobody ever reported anything there is nothing to draw.
    let size = (160, 45);
    let screen = drawn(
        &mut Overview::default(),
        &unattached,
        &Chosen::default(),
        size,
    );
    assert!(
        !screen.contains(words) && !screen.contains("now│"),
        "{screen}"
    );
}

#[test]
fn a_server_that_is_gone_is_named_with_its_reason() {
    let now = Instant::now();
    let mut data = Data::new("ttmem.sock", std::time::Duration::from_secs(1), now);
    data.link = crate::data::Link::Down {
        reason: "connection refused\u{1b}[2J".to_owned(),
    };
    let screen = drawn(
        &mut Overview::default(),
        &data,
        &Chosen::default(),
        (80, 24),
    );
    assert_screen("overview/down_80x24", &screen);
}

#[test]
fn more_than_there_is_stays_what_it_is_though_the_bar_ends() {
    let mut data = devices(1);
    let snapshot = data.snapshot.as_mut().expect("this world has one");
    let device = &mut snapshot.document.devices[0];
    device.dram.capacity_bytes = Some(10 << 30);
    device.dram.union_bytes = Some(12 << 30);
    device.l1.physical_bytes = Some(90 << 20);
    device.l1.occupied_bytes = Some(95 << 20);
    let l1 = Filled::l1(device);
    let sum: u64 = l1.parts.iter().map(|(_, part)| *part).sum();
    assert_eq!((sum, l1.used), (95 << 20, 95 << 20));
    assert_eq!(l1.percent("–").0, "100.0%!");
    let screen = drawn(
        &mut Overview::default(),
        &data,
        &Chosen::default(),
        (120, 24),
    );
    assert!(
        screen.contains("12.0 GiB of 10.0 GiB") && screen.contains("95.0 MiB of 90.0 MiB"),
        "{screen}"
    );
}

#[test]
fn l1_of_which_only_buffers_are_known_is_of_its_capacity() {
    let data = devices(1);
    let mut device = data.devices()[0].clone();
    device.l1.occupied_bytes = None;
    let l1 = Filled::l1(&device);
    assert_eq!(l1.whole, device.l1.capacity_bytes);
    assert_eq!(l1.used, device.l1.used_bytes());
    device.l1.union_bytes = None;
    device.l1.charged_bytes = u64::MAX;
    assert_eq!(Filled::l1(&device).percent("–").0, "100.0%!");
    device.l1.capacity_bytes = None;
    assert_eq!(Filled::l1(&device).percent("–").0.trim(), "–");
}

#[test]
fn a_device_of_which_nothing_is_known_has_dashes() {
    let mut data = devices(1);
    let unknown: Device = {
        let mut device = data.devices()[0].clone();
        (device.unique_id, device.arch, device.board) = (None, None, None);
        (device.remote, device.source, device.verified) = (None, None, None);
        (device.dram, device.l1) = (Default::default(), Default::default());
        (device.l1_small, device.trace) = (Default::default(), Default::default());
        device.cb.resident_bytes = None;
        device
    };
    let snapshot = data.snapshot.as_mut().expect("this world has one");
    snapshot.document.devices = vec![unknown];
    let screen = drawn(
        &mut Overview::default(),
        &data,
        &Chosen::default(),
        (80, 24),
    );
    assert_screen("overview/unknown_80x24", &screen);
    assert!(!screen.contains("0.0%"));
}

#[test]
fn what_programs_have_in_l1_is_a_dash_where_it_is_not_known() {
    let mut data = devices(2);
    let snapshot = data.snapshot.as_mut().expect("this world has one");
    let device = &mut snapshot.document.devices[0];
    device.l1.occupied_bytes = None;
    let screen = drawn(
        &mut Overview::default(),
        &data,
        &Chosen::default(),
        (80, 24),
    );
    assert!(
        screen.contains("buffers only: what else lies in L1"),
        "{screen}"
    );
    // Of the other it is known, and may be nothing.
    let snapshot = data.snapshot.as_mut().expect("this world has one");
    let device = &mut snapshot.document.devices[1];
    device.l1.occupied_bytes = Some(0);
    let screen = drawn(
        &mut Overview::default(),
        &data,
        &Chosen::default(),
        (80, 24),
    );
    assert!(screen.contains("CBs 0 B"), "{screen}");
}

#[test]
fn warnings_say_what_is_wrong() {
    let mut data = devices(1);
    let snapshot = data.snapshot.as_mut().expect("this world has one");
    snapshot.document.processes[0].incomplete = true;
    let device = &mut snapshot.document.devices[0];
    device.verified = Some(false);
    device.trace.overlap_bytes = Some(4096);
    device.dram.union_bytes = device.dram.capacity_bytes;
    let holders = figures::holders(&snapshot.document);
    let figures = Figures::of(&data.devices()[0], holders[0]);
    let words: Vec<&str> = figures.warnings.iter().map(|(word, _)| *word).collect();
    assert_eq!(words, ["incomplete", "differs", "overlap", "DRAM full"]);
    assert_eq!(figures.warnings[3].1, "DRAM 100.0% full");
}

#[test]
fn the_most_that_fits_is_drawn() {
    let planned = |number: u32, (width, height)| {
        let plan = Plan::of(devices(number).devices(), Rect::new(0, 0, width, height), 3);
        (plan.size, plan.columns)
    };
    assert_eq!(planned(1, (80, 21)), (Size::Card, 1));
    assert_eq!(planned(2, (80, 21)), (Size::Card, 1));
    assert_eq!(planned(3, (80, 21)), (Size::Strip, 2));
    assert_eq!(planned(8, (80, 21)), (Size::Strip, 2));
    assert_eq!(planned(8, (200, 47)), (Size::Card, 3));
    assert_eq!(planned(16, (80, 21)), (Size::Tiny, 8));
    assert_eq!(planned(32, (80, 21)), (Size::Tiny, 8));
    assert_eq!(planned(1, (20, 5)).1, 1);
}

#[test]
fn rows_that_no_process_needs_make_the_graph_higher() {
    let planned = |processes| {
        let area = Rect::new(0, 0, 120, 33);
        let plan = Plan::of(devices(8).devices(), area, processes);
        assert_eq!(
            plan.graph.height + plan.devices.height + plan.processes.height,
            33
        );
        (plan.graph.height, plan.processes.height)
    };
    let (few, many) = (planned(1), planned(40));
    assert!(few.0 > many.0 && few.1 >= 5, "{few:?} {many:?}");
    assert!(few.0 <= 33 / 2, "{few:?}");
}

#[test]
fn keys_choose_a_device_and_go_to_it() {
    let data = devices(8);
    let mut view = Overview::default();
    let mut chosen = Chosen::default();
    drawn(&mut view, &data, &chosen, (200, 50));
    // Three stand side by side here.
    press(&mut view, &[Key::Down, Key::Right], &data, &mut chosen);
    assert_eq!(chosen.place(&data), 4);
    press(&mut view, &[Key::Up, Key::Left], &data, &mut chosen);
    assert_eq!(chosen.place(&data), 0);
    assert_eq!(
        view.handle(Key::Enter, &data, &mut Chosen::default()),
        Outcome::Go(Tab::Device)
    );
    for key in [Key::Escape, Key::Char('q'), Key::Char('m'), Key::Tab] {
        assert_eq!(view.handle(key, &data, &mut chosen), Outcome::Unused);
    }
    let empty = devices(0);
    assert_eq!(
        view.handle(Key::Enter, &empty, &mut chosen),
        Outcome::Handled
    );
}

#[test]
fn the_pointer_chooses_what_it_points_at() {
    let data = devices(8);
    let mut view = Overview::default();
    let mut chosen = Chosen::default();
    let screen = drawn(&mut view, &data, &chosen, (80, 24));
    let is_device = |line: &str| line.starts_with('│') && line.contains("DRAM");
    let first = screen.lines().position(is_device);
    let row = u16::try_from(first.expect("a device")).expect("on the screen");
    let mut point = |column, row, did| {
        let pointer = Pointer { column, row, did };
        view.point(pointer, &data, &mut chosen)
    };
    assert_eq!(point(60, row, Gesture::Click), Outcome::Handled);
    assert_eq!(point(30, 0, Gesture::Click), Outcome::Unused);
    assert_eq!(point(0, 0, Gesture::WheelDown), Outcome::Handled);
    assert_eq!(chosen.place(&data) % 2, 1);
}

#[test]
fn devices_that_go_away_take_the_choice_along() {
    let many = devices(32);
    let few = devices(2);
    let mut view = Overview::default();
    let mut chosen = Chosen::default();
    drawn(&mut view, &many, &chosen, (80, 24));
    press(&mut view, &[Key::End], &many, &mut chosen);
    drawn(&mut view, &many, &chosen, (80, 24));
    let screen = drawn(&mut view, &few, &chosen, (80, 24));
    assert!(screen.contains("2 devices"), "{screen}");
    press(&mut view, &[Key::Right], &few, &mut chosen);
    assert_eq!(chosen.place(&few), 1);
}

#[test]
fn no_area_is_too_small() {
    for (_name, data) in world::all() {
        for width in [0, 1, 2, 5, 20, 45, 61, 79] {
            for height in [0, 1, 2, 4, 5, 7, 9, 18] {
                let mut view = Overview::default();
                let mut chosen = Chosen::default();
                chosen.choose(usize::MAX, &data);
                let area = Rect::new(3, 2, width, height);
                let mut canvas = Buffer::empty(area);
                view.draw(&mut Canvas::new(&mut canvas, THEME), area, &data, &chosen);
            }
        }
    }
}

#[test]
fn without_unicode_there_is_nothing_but_ascii() {
    let mut canvas = Buffer::empty(Rect::new(0, 0, 200, 50));
    let area = canvas.area;
    for number in [1, 8, 32] {
        let data = devices(number);
        let theme = Theme::new(ColourDepth::None, false);
        canvas.reset();
        Overview::default().draw(
            &mut Canvas::new(&mut canvas, theme),
            area,
            &data,
            &Chosen::default(),
        );
        theme.ascii(&mut canvas);
        let screen = text(&canvas);
        let strange = screen.chars().find(|character| !character.is_ascii());
        assert_eq!(strange, None, "{screen}");
    }
}

/// A world with one device that nothing is attached to, and what its machine says.
fn unattached() -> Data {
    let mut data = World {
        devices: 1,
        processes: 0,
        ..USUAL
    }
    .data();
    let fresh = data.snapshot.take().expect("this world has one");
    let mut snapshot = fresh.document;
    let counted = ttmem_report::UpstreamBytes {
        dram: 3 << 30,
        l1: 4 << 20,
        ..Default::default()
    };
    let device = Device {
        id: 0,
        board: Some("n150".to_owned()),
        dram: ttmem_report::ClassUsage {
            capacity_bytes: Some(12 << 30),
            ..Default::default()
        },
        names: Some(ttmem_report::DeviceNames {
            node: "/dev/tenstorrent/0".to_owned(),
            pci_address: None,
            asic_id: None,
            board_serial: None,
            tray: None,
        }),
        telemetry: Some(ttmem_report::Telemetry {
            temperature_millidegrees: Some(45_312),
            power_microwatts: Some(17_000_000),
            ai_clock_mhz: Some(1000),
            ..Default::default()
        }),
        upstream: Some(ttmem_report::Upstream {
            source: "shm".to_owned(),
            id: ttmem_report::HexId(7),
            matched_by: None,
            owner: None,
            version: Some(3),
            error: None,
            updated: None,
            bytes: Some(counted),
            left_behind: None,
            not_attached: Some(counted),
            difference: None,
            difference_text: None,
            doubts: Vec::new(),
        }),
        ..Device::default()
    };
    snapshot.machine = Some(ttmem_report::Machine {
        time: snapshot.time,
        processes: vec![ttmem_report::DeviceUser {
            pid: Some(4242),
            name: Some("trainer".to_owned()),
            names_hidden: false,
            uid: None,
            state: "alive".to_owned(),
            attached: false,
            devices: vec![ttmem_report::UsedDevice {
                id: 0,
                unique_id: None,
                scope: None,
                descriptors: Some(1),
                upstream: Some(counted),
                difference: None,
            }],
            unmatched: Vec::new(),
            difference_text: None,
        }],
        unmatched: Vec::new(),
        upstream_limits: Vec::new(),
        errors: Vec::new(),
    });
    snapshot.devices = vec![device];
    data.apply(
        crate::data::Update::Snapshot(Box::new(snapshot)),
        fresh.received,
    );
    data
}

#[test]
fn where_nothing_is_attached_the_machine_and_the_counters_are_shown() {
    let mut data = unattached();
    let machine = &mut data.snapshot.as_mut().expect("one").document;
    let upstream = machine.devices[0].upstream.clone();
    let unmatched = &mut machine.machine.as_mut().expect("one").unmatched;
    unmatched.extend(upstream);
    for size in [(80, 24), (100, 30), (200, 50)] {
        let screen = drawn(&mut Overview::default(), &data, &Chosen::default(), size);
        for words in [
            "45.3 °C",
            "17.0 W",
            "1000 MHz",
            "25.0%",
            "3.0 GiB of 12.0 GiB",
            "from TT-Metal's counters, as requested",
            "TRACE 0 B · CBs 0 B",
            "1 device; TT-Metal counts 3.0 GiB on another chip (0x7)",
            "4242",
            "trainer",
            "not attached",
        ] {
            assert!(screen.contains(words), "{words} at {size:?}: {screen}");
        }
    }
}

#[test]
fn the_manual_shows_a_machine_on_which_nothing_is_attached() {
    let mut data = unattached();
    let snapshot = &mut data.snapshot.as_mut().expect("one").document;
    snapshot.devices[0].arch = Some("wormhole_b0".to_owned());
    snapshot.devices[0].remote = Some(false);
    snapshot.devices[0].l1.capacity_bytes = Some(85 << 20);
    let mut open = snapshot.devices[0].clone();
    (open.id, open.upstream) = (1, None);
    let telemetry = open.telemetry.as_mut().expect("some");
    telemetry.temperature_millidegrees = Some(38_600);
    snapshot.devices.push(open);
    let mut holder = snapshot.processes[0].clone();
    (holder.pid, holder.name) = (Some(4311), Some("python3".to_owned()));
    holder.source = ttmem_report::Source::Other;
    holder.devices[0].id = 1;
    snapshot.processes.push(holder);
    let size = (100, 24);
    let screen = drawn(&mut Overview::default(), &data, &Chosen::default(), size);
    assert_screen("overview/not_attached_100x24", &screen);
    let manual = include_str!("../../../../../docs/top.md");
    assert!(
        manual.contains(&screen),
        "docs/top.md has another:\n{screen}"
    );
}

#[test]
fn the_device_view_has_what_the_driver_says() {
    let data = unattached();
    let mut view = crate::views::device::DeviceView::default();
    let screen = drawn(&mut view, &data, &Chosen::default(), (120, 40));
    for words in ["driver", "45.3 °C", "1000 MHz", "counters", "not attached"] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    // What nobody reports is in none of the figures, and said before them.
    let map = &mut crate::views::l1map::L1MapView::default();
    for view in [&mut view as &mut dyn View, map] {
        let screen = drawn(view, &data, &Chosen::default(), (80, 24));
        let second = screen.lines().nth(1).unwrap_or_default();
        assert_eq!(second, "besides, not attached: DRAM 3.0 GiB, L1 4.0 MiB");
        assert!(screen.starts_with("Device 0  1 of 1  n150  45.3 °C  17.0 W  1000 MHz"));
    }
}
