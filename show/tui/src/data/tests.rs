//! When figures are old, how rates are counted, and that nothing grows for ever.

use super::*;
use crate::input::Key;
use crate::testing::screen::{SIZES, drawn};
use crate::testing::world::{Names, World};
use crate::views::{Chosen, Outcome, Tab};
use ttmem_report::{EventFields, LastEvent};

fn data(devices: u32) -> Data {
    let world = World {
        devices,
        processes: 1,
        busy: false,
        names: Names::Usual,
    };
    world.data()
}

#[test]
fn totals_are_stale_when_no_snapshot_came_for_long() {
    let mut data = data(1);
    let received = data.snapshot.as_ref().expect("totals").received;
    assert_eq!(data.stale(received), None);
    data.now += Duration::from_secs(20);
    assert_eq!(data.stale(received), Some(Duration::from_secs(20)));
    data.interval = Duration::from_secs(10);
    assert_eq!(data.stale(received), None);
}

#[test]
fn the_rate_of_events_is_from_one_snapshot_to_the_next() {
    let mut data = data(1);
    let mut next = data.totals().expect("totals").clone();
    next.server.events_applied += 300;
    let later = data.now + Duration::from_millis(500);
    data.apply(Update::Snapshot(Box::new(next.clone())), later);
    assert_eq!(data.events_per_second, Some(600));
    // Another server, which counts from its own start.
    next.server.events_applied = 0;
    data.apply(
        Update::Snapshot(Box::new(next)),
        later + Duration::from_secs(1),
    );
    assert_eq!(data.events_per_second, Some(0));
}

#[test]
fn devices_are_in_the_order_of_their_numbers() {
    let mut data = data(8);
    let mut snapshot = data.totals().expect("totals").clone();
    snapshot.devices.reverse();
    data.apply(Update::Snapshot(Box::new(snapshot)), data.now);
    let ids: Vec<u32> = data.devices().iter().map(|device| device.id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn the_tail_has_an_end_however_much_comes() {
    let event = |id| StreamEvent {
        id,
        applied: Timestamp::from_unix_nanos(id),
        event: LastEvent {
            time: Timestamp::from_unix_nanos(id),
            pid: Some(1),
            process: None,
            recovered: false,
            event: "dispatched".to_owned(),
            fields: EventFields::default(),
        },
    };
    let mut tail = Tail::default();
    let mut id = 0;
    for batch in [3, TAIL_EVENTS * 2, 5, TAIL_EVENTS] {
        let events = (0..batch).map(|_event| {
            id += 1;
            event(id)
        });
        tail.take(events.collect());
        assert!(tail.events.len() <= TAIL_EVENTS);
        assert_eq!(tail.events.back().map(|event| event.id), Some(id));
    }
    assert_eq!(tail.events.len(), TAIL_EVENTS);
}

const WORLD: World = World {
    devices: 8,
    processes: 3,
    busy: true,
    names: Names::Usual,
};

#[test]
fn a_document_is_old_after_three_intervals_and_at_least_three_seconds() {
    let mut data = WORLD.data();
    let document = Fresh {
        document: (),
        received: data.now,
    };
    data.now += Duration::from_secs(3);
    assert_eq!(data.age_note(Some(&document)), None);
    data.now += Duration::from_secs(1);
    assert_eq!(
        data.age_note(Some(&document)).as_deref(),
        Some("as of 4 s ago")
    );
    data.interval = Duration::from_secs(2);
    assert_eq!(data.age_note(Some(&document)), None);
    data.now += Duration::from_secs(120);
    assert_eq!(
        data.age_note(Some(&document)).as_deref(),
        Some("as of 2 min 4 s ago")
    );
    data.paused = true;
    assert_eq!(data.age_note(Some(&document)), None);
}

#[test]
fn every_view_with_a_document_of_its_own_says_how_old_it_is() {
    let views = [
        (Tab::Device, ""),
        (Tab::L1Map, ""),
        (Tab::L1Map, "d"),
        (Tab::Programs, ""),
        (Tab::Programs, "v"),
        (Tab::Programs, "vv"),
        (Tab::Buffers, ""),
        (Tab::Leaks, ""),
    ];
    for (tab, keys) in views {
        let (mut data, mut chosen) = (WORLD.data(), Chosen::default());
        let mut view = tab.view();
        for key in keys.chars() {
            let outcome = view.handle(Key::Char(key), &data, &mut chosen);
            assert_eq!(outcome, Outcome::Handled);
        }
        for size in SIZES {
            let mut says = |data: &Data| {
                let screen = drawn(&mut *view, data, &chosen, size);
                (screen.contains("as of 12 s ago"), screen)
            };
            let (said, screen) = says(&data);
            assert!(!said, "{tab:?} {keys}\n{screen}");
            data.now += Duration::from_secs(12);
            let (said, screen) = says(&data);
            assert!(said, "{tab:?} {keys}\n{screen}");
            data.now -= Duration::from_secs(12);
        }
    }
}
