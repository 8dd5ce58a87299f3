//! Every label on every view, at every size, is the figure of the API that it says it is.

use super::state::App;
use crate::data::Data;
use crate::input::{Input, Key};
use crate::testing::screen::{THEME, text};
use crate::testing::world::{Names, World};
use crate::views::Tab;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use ttmem_report::format::bytes;
use ttmem_report::labels;
use ttmem_report::{ClassUsage, Device};

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 50), (300, 90)];

const WORLDS: [World; 4] = [
    world(1, 1, false),
    world(8, 3, false),
    world(8, 40, true),
    world(32, 6, false),
];

const fn world(devices: u32, processes: u32, busy: bool) -> World {
    World {
        devices,
        processes,
        busy,
        names: Names::Usual,
    }
}

/// The size that stands behind each place of a label.
fn sizes_behind<'s>(screen: &'s str, label: &'s str) -> impl Iterator<Item = String> + 's {
    let places = screen.match_indices(label);
    places.filter_map(move |(at, _)| {
        let mut words = screen[at + label.len()..].split([' ', '\n']);
        let mut word = || words.by_ref().find(|word| !word.is_empty());
        let (figure, unit) = (word()?, word()?);
        // Not the beginning of a longer word, and not a heading.
        let is_size =
            figure.parse::<f64>().is_ok() && unit.trim_end_matches([',', ';']).ends_with('B');
        is_size.then(|| format!("{figure} {}", unit.trim_end_matches([',', ';'])))
    })
}

/// What stands before a label: `12.3%` of `12.3% fragmented`.
fn shares_before<'s>(screen: &'s str, label: &'s str) -> impl Iterator<Item = &'s str> + 's {
    let places = screen.match_indices(label);
    places.filter_map(|(at, _)| {
        let before = screen[..at].trim_end_matches(' ');
        before
            .rsplit([' ', '\n', '('])
            .next()
            .filter(|word| word.ends_with('%'))
    })
}

fn classes(device: &Device) -> [&ClassUsage; 4] {
    [&device.dram, &device.l1, &device.l1_small, &device.trace]
}

/// What is allowed behind a label: the figure of any device, formatted.
fn of_devices(data: &Data, figures: impl Fn(&Device) -> Vec<Option<u64>>) -> BTreeSet<String> {
    let devices = data.devices().iter();
    devices.flat_map(figures).flatten().map(bytes).collect()
}

fn screens(world: World, each: impl FnMut(Tab, &str, &Data)) {
    screens_after(&[], world, each);
}

/// Each view at each size, with some keys pressed.
fn screens_after(keys: &[Key], world: World, mut each: impl FnMut(Tab, &str, &Data)) {
    let data = world.data();
    for tab in Tab::ALL {
        for (columns, rows) in SIZES {
            let mut app = App::new("x".to_owned(), Duration::from_secs(1), tab, THEME);
            let now = Instant::now();
            for update in world.updates() {
                app.take(update, now);
            }
            let mut canvas = Buffer::empty(Rect::new(0, 0, columns, rows));
            app.draw(&mut canvas, &[], now);
            for key in keys {
                app.handle(Input::Key(*key));
                app.draw(&mut canvas, &[], now);
            }
            each(tab, &text(&canvas), &data);
        }
    }
}

#[test]
fn every_label_is_the_figure_that_it_says() {
    let mut seen = BTreeSet::new();
    for world in WORLDS {
        screens(world, |tab, screen, data| {
            let mut check = |label: &'static str, allowed: &BTreeSet<String>| {
                for size in sizes_behind(screen, label) {
                    seen.insert(label);
                    let right = allowed.contains(&size);
                    assert!(
                        right,
                        "{label} {size} in {tab:?}, not of {allowed:?}:\n{screen}"
                    );
                }
            };
            let fits = of_devices(data, |device| {
                let of_allocators = device.allocators.iter().map(|one| one.largest_fit_bytes());
                let of_classes = classes(device).map(ClassUsage::largest_fit_bytes);
                of_classes.into_iter().chain(of_allocators).collect()
            });
            let headrooms = data.devices().iter();
            let headrooms = headrooms.filter_map(|device| device.cb_headroom_bytes);
            let headrooms: BTreeSet<String> = headrooms.map(labels::headroom).collect();
            // The map is of another document, and of one core.
            if tab != Tab::L1Map {
                check(labels::LARGEST_FIT, &fits);
                check(labels::CB_HEADROOM, &headrooms);
                let resident = of_devices(data, |device| vec![device.cb.resident_bytes]);
                check("CBs ", &resident);
                let one_line = screen.split_whitespace().collect::<Vec<_>>().join(" ");
                for size in sizes_behind(&one_line, "CBs resident") {
                    assert!(resident.contains(&size), "{size} in {tab:?}:\n{screen}");
                }
            }
            let registered = of_devices(data, |device| vec![Some(device.cb.registered_bytes)]);
            check("hold CBs of", &registered);
            let occupied = of_devices(data, |device| vec![device.l1.occupied_bytes]);
            if tab == Tab::Device {
                check("occupied", &occupied);
            }
            if tab == Tab::Overview {
                check(
                    "peak ",
                    &of_devices(data, |device| vec![Some(device.dram.peak_bytes)]),
                );
            }
            let fragmented: BTreeSet<String> = data
                .devices()
                .iter()
                .flat_map(|device| classes(device).map(labels::fragmented))
                .flatten()
                .collect();
            if tab != Tab::L1Map {
                for share in shares_before(screen, " fragmented") {
                    seen.insert("fragmented");
                    let said = format!("{share} fragmented");
                    assert!(fragmented.contains(&said), "{said} in {tab:?}:\n{screen}");
                }
            }
        });
    }
    let all = [
        "CB headroom",
        "CBs ",
        "fragmented",
        "hold CBs of",
        "largest fit",
        "occupied",
        "peak ",
    ];
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        all,
        "labels that no screen had"
    );
}

/// The part of a line below a heading, which ends where the heading ends.
fn cell<'s>(line: &'s str, headings: &str, heading: &str) -> Option<&'s str> {
    let end = headings[..headings.find(heading)? + heading.len()]
        .chars()
        .count();
    let end = line
        .char_indices()
        .nth(end)
        .map_or(line.len(), |(at, _)| at);
    let mut words = line[..end].rsplit(' ');
    let unit = words.next()?;
    Some(&line[end - unit.len() - 1 - words.next()?.len()..end])
}

/// What a process has on its fullest device, and its peak: of that device, not of another one.
#[test]
fn the_peak_of_a_process_is_of_the_device_beside_it() {
    let mut seen = 0;
    for world in WORLDS {
        screens(world, |tab, screen, data| {
            let headings = screen.lines().find(|line| line.contains("ITS PEAK"));
            let Some(headings) = headings.filter(|_| tab == Tab::Processes) else {
                return;
            };
            for process in data.processes().iter().filter(|one| one.released.is_none()) {
                let pid = format!(" {} ", process.pid.unwrap());
                let mut rows = screen.lines().skip_while(|line| *line != headings);
                let line = rows.find(|line| line.contains(&pid));
                let Some((line, (on, peak))) = line.zip(labels::fullest(&process.devices)) else {
                    continue;
                };
                seen += 1;
                let cell = |heading| cell(line, headings, heading);
                assert_eq!(
                    cell("ON FULLEST"),
                    Some(bytes(on.dram_bytes).as_str()),
                    "{screen}"
                );
                assert_eq!(cell("ITS PEAK"), peak.map(bytes).as_deref(), "{screen}");
            }
        });
    }
    assert!(seen > 50, "{seen} rows");
}

/// Of what was held at exit, buffers stand apart from storage of programs.
#[test]
fn what_was_held_at_exit_is_of_buffers() {
    let mut seen = 0;
    for world in WORLDS {
        // The last process has ended.
        screens_after(&[Key::End], world, |tab, screen, data| {
            let mut ended = data.processes().iter().rev();
            let released = ended.find_map(|one| one.released.as_ref());
            let Some(released) = released.filter(|_| tab == Tab::Processes) else {
                return;
            };
            let (count, size) = (released.buffers, bytes(released.buffer_bytes));
            let said = format!("held at exit {count} buffers: {size}");
            assert!(screen.contains(&said), "{said}:\n{screen}");
            seen += 1;
        });
    }
    assert!(seen > 0, "none has ended");
}

/// `used of whole`, of devices or of all of them together.
#[test]
fn what_is_used_is_of_one_device_or_says_of_how_many() {
    for world in WORLDS {
        screens(world, |tab, screen, data| {
            if tab != Tab::Overview {
                return;
            }
            let devices = data.devices();
            let all: u64 = devices.iter().map(|device| device.dram.used_bytes()).sum();
            let whole: u64 = devices
                .iter()
                .filter_map(|device| device.dram.capacity_bytes)
                .sum();
            let pairs: BTreeSet<String> = devices
                .iter()
                .filter_map(|device| {
                    let (dram, l1) = (&device.dram, &device.l1);
                    let of = |used: u64, whole: u64| format!("{} of {}", bytes(used), bytes(whole));
                    Some([
                        of(dram.used_bytes(), dram.capacity_bytes?),
                        of(l1.occupied_bytes?, l1.physical_bytes?),
                    ])
                })
                .flatten()
                .collect();
            if devices.len() > 1 && screen.contains("DRAM") {
                let title = format!(
                    "{} of {} on {} devices",
                    bytes(all),
                    bytes(whole),
                    devices.len()
                );
                let short = format!(" on {} devices", devices.len());
                let heading = screen.lines().find(|line| line.contains("─ DRAM "));
                let is_said =
                    heading.is_none_or(|line| line.contains(&title) || line.contains(&short));
                assert!(is_said, "{title}:\n{screen}");
            }
            // Cards say it of each device.
            for line in screen.lines().filter(|line| line.contains("│DRAM ")) {
                let mut words = line.split("%  ").skip(1);
                let said = words.next().and_then(|rest| rest.split("  ").next());
                if let Some(said) = said.filter(|said| said.contains(" of ")) {
                    let said = said
                        .split(" · ")
                        .next()
                        .unwrap_or(said)
                        .trim_end_matches(['│', ' ']);
                    assert!(pairs.contains(said), "{said}:\n{screen}");
                }
            }
        });
    }
}
