//! What is shown over time, against what a ledger had after every event.

use super::*;
use crate::recorded::{OverTime, RecordedError, Window};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use ttmem_event::Class;
use ttmem_ledger::{Audience, Batch, BufferRow, Change, DeviceKey, View};
use ttmem_record::{Player, Recording, Until};
use ttmem_report::{Allocations, GroupBy, HexId, Rectangle, Timeline};

const SEEDS: [u64; 4] = [2, 7, 11, 19];

/// What was there after each event and each other input.
struct Instant {
    time: u64,
    view: View,
}

fn instants(inputs: &[Timed]) -> Vec<Instant> {
    let bytes = written((START, &Ledger::default()), inputs, small_blocks());
    let recording = Recording::open(std::io::Cursor::new(bytes)).unwrap();
    let mut player = Player::new(recording).unwrap();
    let mut all = vec![Instant {
        time: START,
        view: player.view(),
    }];
    while player.step().unwrap() {
        all.push(Instant {
            time: player.time(),
            view: player.view(),
        });
    }
    player
        .play(Until::End, |_, _, _| panic!("steps lead to the end"))
        .unwrap();
    all
}

/// The rows of a class on a device, by process and id.
fn rows(view: &View, key: &DeviceKey, class: Class) -> BTreeMap<(u32, u64), BufferRow> {
    let mut found = BTreeMap::new();
    for process in &view.processes {
        for (_slot, row) in process.rows.buffers.iter() {
            let mesh = &process.account.meshes[row.mesh as usize];
            let is_there = mesh.devices.iter().any(|slot| {
                let number = process.devices[*slot as usize];
                view.devices[number as usize].key == *key
            });
            if is_there && row.class == class {
                found.insert((process.index, row.id), *row);
            }
        }
    }
    found
}

fn keys(instants: &[Instant]) -> Vec<(DeviceKey, u32)> {
    let last = &instants[instants.len() - 1].view;
    let devices = last.devices.iter();
    devices
        .map(|device| (device.key.clone(), device.facts.logical_id))
        .collect()
}

fn over(window: Window, (key, logical_id): &(DeviceKey, u32), class: Class) -> OverTime {
    OverTime {
        window,
        key: key.clone(),
        logical_id: *logical_id,
        capacity_bytes: None,
        class,
        gone: None,
    }
}

fn total(view: &View, key: &DeviceKey, class: Class) -> u64 {
    let device = view.devices.iter().find(|device| device.key == *key);
    device.map_or(0, |device| device.totals.class(class).charged.bytes())
}

fn check_timeline(instants: &[Instant], over: &OverTime, timeline: &Timeline) {
    assert_eq!(timeline.times.len(), timeline.total_max.len() + 1);
    assert_eq!(timeline.unseen_events, 0);
    let edges: Vec<u64> = timeline
        .times
        .iter()
        .map(|time| time.unix_nanos())
        .collect();
    assert_eq!(
        (edges[0], edges[edges.len() - 1]),
        (over.window.from, over.window.to)
    );
    for (step, edge) in edges.windows(2).enumerate() {
        // What there is when a step begins belongs to it.
        let before = instants
            .iter()
            .rposition(|each| each.time <= edge[0])
            .unwrap();
        let within = instants[before..]
            .iter()
            .take_while(|each| each.time <= edge[1]);
        let within: Vec<&Instant> = within.collect();
        let totals = within
            .iter()
            .map(|each| total(&each.view, &over.key, over.class));
        let highest = totals.max().unwrap();
        assert_eq!(timeline.total_max[step], highest, "step {step} of {over:?}");
        let at = within
            .iter()
            .find(|each| total(&each.view, &over.key, over.class) == highest);
        let view = &at.unwrap().view;
        let mut by_process: HashMap<String, u64> = HashMap::new();
        for ((process, _id), row) in rows(view, &over.key, over.class) {
            let identity = &view.process(process).unwrap().facts.identity;
            let key = format!("{} {}", identity.pid.unwrap(), identity.name);
            *by_process.entry(key).or_default() += row.charged_bytes();
        }
        for layer in &timeline.series {
            let expected = by_process
                .remove(layer.key.as_deref().unwrap())
                .unwrap_or(0);
            assert_eq!(
                layer.values[step], expected,
                "{:?} in step {step}",
                layer.key
            );
        }
        assert_eq!(timeline.other[step], by_process.values().sum::<u64>());
    }
    let dispatches = |time: u64| {
        let view = &instants
            .iter()
            .rfind(|each| each.time <= time)
            .unwrap()
            .view;
        let device = view.devices.iter().find(|device| device.key == over.key);
        device.map_or(0, |device| device.caches.dispatches)
    };
    let ran: u64 = timeline.dispatches.iter().sum();
    assert_eq!(
        ran,
        dispatches(over.window.to) - dispatches(over.window.from)
    );
}

/// Windows of a session: all of it, parts, and single instants.
fn windows(instants: &[Instant]) -> Vec<Window> {
    let (first, last) = (instants[0].time, instants[instants.len() - 1].time);
    let middle = instants[instants.len() / 2].time;
    let pairs = [
        (first, last),
        (first, middle),
        (middle, last),
        (middle - 400, middle + 400),
        (middle, middle),
    ];
    pairs.map(|(from, to)| Window { from, to }).to_vec()
}

#[test]
fn each_step_of_a_timeline_is_the_instant_at_which_most_was_held() {
    for seed in SEEDS {
        let inputs = session(seed, 200);
        let instants = instants(&inputs);
        let (_folder, one) = recorded(&inputs);
        let (_files, many) = in_files(&inputs, 3);
        for device in keys(&instants) {
            for (class, points) in [(Class::Dram, 40), (Class::L1, 7), (Class::System, 1)] {
                for window in windows(&instants) {
                    let how = (points, Audience::Everything);
                    // Drawn alone, and together with all that may be asked for next.
                    let next: Vec<OverTime> = keys(&instants)
                        .iter()
                        .flat_map(|device| {
                            let classes = [Class::System, Class::L1, Class::Dram];
                            classes.map(|class| over(window, device, class))
                        })
                        .collect();
                    let over = over(window, &device, class);
                    for (source, next) in [(&one, &next[..]), (&many, &[])] {
                        source.recording().unwrap();
                        let timeline = source.timeline((&over, next), GroupBy::Process, how);
                        let timeline = timeline.unwrap();
                        assert!(timeline.total_max.len() <= points as usize);
                        check_timeline(&instants, &over, &timeline);
                        // What is kept is what was worked out.
                        let again = source.timeline((&over, &[]), GroupBy::Process, how);
                        assert_eq!(again.unwrap(), timeline);
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_is_worked_out_for_who_is_gone() {
    let inputs = session(1, 200);
    let instants = instants(&inputs);
    let (_folder, one) = recorded(&inputs);
    one.recording().unwrap();
    let device = keys(&instants).remove(0);
    let gone = Arc::new(AtomicBool::new(true));
    let over = OverTime {
        gone: Some(Arc::clone(&gone)),
        ..over(windows(&instants)[0], &device, Class::Dram)
    };
    let how = (40, Audience::Everything);
    let given_up = one.timeline((&over, &[]), GroupBy::Line, how);
    assert!(matches!(given_up, Err(RecordedError::Gone)));
    assert!(matches!(
        one.allocations(&over, how),
        Err(RecordedError::Gone)
    ));
    // The next one finds nothing half done.
    gone.store(false, Ordering::Relaxed);
    let timeline = one.timeline((&over, &[]), GroupBy::Process, how).unwrap();
    check_timeline(&instants, &over, &timeline);
}

/// Every buffer that lived in a window, as views after each event show them.
fn lived(instants: &[Instant], over: &OverTime) -> Vec<Rectangle> {
    let same = |one: &BufferRow, other: &BufferRow| {
        let of = |row: &BufferRow| {
            (
                row.address,
                row.per_bank_bytes,
                row.charged_bytes(),
                row.operation,
            )
        };
        of(one) == of(other)
    };
    let mut live: BTreeMap<(u32, u64), (Rectangle, BufferRow)> = BTreeMap::new();
    let mut ended = Vec::new();
    let begin = instants
        .iter()
        .rposition(|each| each.time <= over.window.from)
        .unwrap();
    for instant in &instants[begin..] {
        if instant.time > over.window.to {
            break;
        }
        let now = rows(&instant.view, &over.key, over.class);
        let gone: Vec<_> = live
            .iter()
            .filter(|(key, (_rectangle, row))| !now.get(key).is_some_and(|now| same(now, row)))
            .map(|(key, _live)| *key)
            .collect();
        for key in gone {
            let (mut rectangle, _row) = live.remove(&key).unwrap();
            rectangle.to = Some(Timestamp::from_unix_nanos(instant.time));
            ended.push(rectangle);
        }
        for (key, row) in now {
            let process = instant.view.process(key.0).unwrap();
            // What a process told later it had placed before.
            let from = row.time.clamp(START, instant.time);
            live.entry(key).or_insert_with(|| {
                let rectangle = Rectangle {
                    address: row.address,
                    per_bank_bytes: row.per_bank_bytes,
                    from: Timestamp::from_unix_nanos(from),
                    to: None,
                    id: HexId(row.id),
                    pid: process.facts.identity.pid,
                    operation: None,
                    line: None,
                };
                (rectangle, row)
            });
        }
    }
    ended.extend(live.into_values().map(|(rectangle, _row)| rectangle));
    ended
}

fn sorted(mut rectangles: Vec<Rectangle>) -> Vec<Rectangle> {
    for each in &mut rectangles {
        // Names are another test's.
        (each.operation, each.line) = (None, None);
    }
    rectangles.sort_by_key(|each| (each.from, each.to, each.pid, each.id.0, each.address));
    rectangles
}

fn area(each: &Rectangle, window: Window) -> u128 {
    let from = each.from.unix_nanos().max(window.from);
    let to = each.to.map_or(window.to, Timestamp::unix_nanos);
    u128::from(each.per_bank_bytes) * u128::from(to - from)
}

fn check_allocations(expected: &[Rectangle], window: Window, limit: usize, told: Allocations) {
    assert_eq!(told.unseen_events, 0);
    assert_eq!(
        told.rectangles.len() as u64 + told.left_out,
        expected.len() as u64
    );
    assert_eq!(told.rectangles.len(), expected.len().min(limit));
    assert!(told.rectangles.is_sorted_by_key(|each| each.from));
    let mut areas: Vec<u128> = expected.iter().map(|each| area(each, window)).collect();
    areas.sort_unstable_by(|one, other| other.cmp(one));
    let mut largest: Vec<u128> = told
        .rectangles
        .iter()
        .map(|each| area(each, window))
        .collect();
    largest.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(largest, areas[..largest.len()]);
    if limit >= expected.len() {
        assert_eq!(sorted(told.rectangles), sorted(expected.to_vec()));
    }
}

#[test]
fn allocations_are_what_lived_and_how_long() {
    for seed in SEEDS {
        let inputs = session(seed, 160);
        let instants = instants(&inputs);
        let (_folder, one) = recorded(&inputs);
        let (_files, many) = in_files(&inputs, 3);
        for device in keys(&instants) {
            for class in [Class::Dram, Class::L1] {
                for window in windows(&instants) {
                    let over = over(window, &device, class);
                    let expected = lived(&instants, &over);
                    for source in [&one, &many] {
                        source.recording().unwrap();
                        for limit in [1, 5, 20_000] {
                            let how = (limit, Audience::Everything);
                            let told = source.allocations(&over, how).unwrap();
                            check_allocations(&expected, window, limit as usize, told);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_history_has_the_highest_totals_of_its_steps() {
    let inputs = session(13, 200);
    // A session takes microseconds; here an event takes a tenth of a second or so.
    let slow: Vec<Timed> = inputs
        .into_iter()
        .map(|(time, input)| (time * 5_000_000, slowed(input)))
        .collect();
    let instants = instants(&slow);
    let (_folder, source) = recorded(&slow);
    let last = instants[instants.len() - 1].time;
    let first = slow[0].0;
    for time in [last, first + (last - first) / 2, first + (last - first) / 3] {
        let moment = source.moment(at(time), None).unwrap();
        let asked = [5, 600, 7200, 86_400].map(|seconds| (seconds, None));
        let fine = [(5, Some(1)), (600, Some(7)), (86_400, Some(100))];
        for (seconds, points) in asked.into_iter().chain(fine) {
            let history = source.history(&moment, (seconds, points), None).unwrap();
            assert_eq!(
                history,
                source.history(&moment, (seconds, points), None).unwrap()
            );
            let width = match history.times[..] {
                [first, second, ..] => second.unix_nanos() - first.unix_nanos(),
                _ => u64::from(history.step_seconds) * 1_000_000_000,
            };
            assert_eq!(
                u64::from(history.step_seconds),
                width.div_ceil(1_000_000_000)
            );
            // Steps begin at multiples of their width: one more than there is room for.
            let most = points.map_or(usize::MAX, |points| points as usize + 1);
            assert!(history.times.len() <= most, "{seconds} s, {points:?}");
            assert!(!history.times.is_empty() && !history.devices.is_empty());
            for (step, end) in history.times.iter().enumerate() {
                let (from, to) = (end.unix_nanos() - width, end.unix_nanos().min(time));
                let before = instants.iter().rposition(|each| each.time <= from);
                let within = instants[before.unwrap_or(0)..].iter();
                let within = within.take_while(|each| each.time <= to);
                let within: Vec<&Instant> = within.collect();
                for device in &history.devices {
                    let key = keys(&instants).into_iter().find(|(key, id)| match key {
                        DeviceKey::Unique(id) => device.unique_id == Some(HexId(*id)),
                        DeviceKey::Logical { .. } => {
                            let scope = crate::read::snapshot::scope(key);
                            (*id, scope) == (device.id, device.scope.clone())
                        }
                    });
                    let (key, _id) = key.unwrap();
                    let expected = within
                        .iter()
                        .map(|each| total(&each.view, &key, Class::Dram));
                    // A device that came later is not known before.
                    let told = device.dram_bytes[step].unwrap_or(0);
                    assert_eq!(Some(told), expected.max(), "step {step} of {seconds} s");
                }
            }
        }
    }
}

/// The same with the times of events as slow as those of inputs.
fn slowed(input: ttmem_ledger::Change) -> ttmem_ledger::Change {
    match input {
        Change::Apply(batch) => {
            let events = batch.events.iter().map(|event| ttmem_event::Event {
                time: event.time * 5_000_000,
                ..*event
            });
            let events = Arc::new(events.collect());
            Change::Apply(Batch { events, ..batch })
        }
        other => other,
    }
}
