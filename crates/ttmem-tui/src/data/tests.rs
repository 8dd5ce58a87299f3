//! What changes do to totals, when figures are old, and that nothing grows for ever.

use super::*;
use crate::testing::world::{Names, World};
use ttmem_api::{EventFields, LastEvent};

fn data(devices: u32) -> Data {
    let world = World {
        devices,
        processes: 1,
        busy: false,
        names: Names::Usual,
    };
    world.data()
}

fn change(device: &Device, dram_bytes: u64, time: Timestamp) -> Update {
    Update::Changes(StreamChanges {
        id: 1,
        time,
        events_applied: 1,
        devices: vec![StreamDevice {
            id: device.id,
            unique_id: device.unique_id,
            scope: device.scope.clone(),
            dram_bytes,
            l1_bytes: 7,
            l1_small_bytes: 7,
            trace_bytes: 0,
            cb_bytes: 7,
            kernel_bytes: 7,
            buffers: 7,
            dispatches: 12_345,
        }],
    })
}

fn later(data: &Data, seconds: u64) -> Timestamp {
    let time = data.totals().expect("totals").time.unix_nanos();
    Timestamp::from_unix_nanos(time + seconds * 1_000_000_000)
}

#[test]
fn a_change_moves_what_it_tells_and_leaves_the_parts_of_l1() {
    let mut data = data(2);
    let before = data.devices()[1].clone();
    let highest = before.dram.peak_bytes + 1;
    let time = later(&data, 1);
    data.apply(change(&before, highest, time), data.now);
    let after = &data.devices()[1];
    assert_eq!(after.dram.union_bytes, Some(highest));
    assert_eq!(
        (after.dram.peak_bytes, after.dram.peak_time),
        (highest, Some(time))
    );
    assert_eq!(
        (after.l1, after.cb, after.kernel),
        (before.l1, before.cb, before.kernel)
    );
    assert_eq!(data.totals().expect("totals").time, time);
}

#[test]
fn a_change_that_is_older_or_comes_long_after_a_snapshot_is_left_out() {
    let mut data = data(1);
    let before = data.devices()[0].clone();
    let old = Timestamp::from_unix_nanos(1);
    data.apply(change(&before, 1, old), data.now);
    assert_eq!(data.devices()[0], before);
    let long_after = data.now + Duration::from_secs(10);
    data.apply(change(&before, 1, later(&data, 10)), long_after);
    assert_eq!(data.devices()[0], before);
}

#[test]
fn a_change_of_a_name_that_two_devices_have_moves_neither() {
    let mut data = data(2);
    let snapshot = data.snapshot.as_mut().expect("totals");
    for (device, scope) in snapshot.document.devices.iter_mut().zip(["0", "1"]) {
        device.id = 0;
        device.unique_id = None;
        device.scope = Some(scope.to_owned());
    }
    let before = data.devices().to_vec();
    let mut nobody = before[0].clone();
    nobody.scope = None;
    data.apply(change(&nobody, 1, later(&data, 1)), data.now);
    assert_eq!(data.devices(), before);
    data.apply(change(&before[1], 1, later(&data, 1)), data.now);
    assert_eq!(data.devices()[0], before[0]);
    assert_eq!(data.devices()[1].dram.charged_bytes, 1);
}

#[test]
fn changes_do_not_make_old_totals_live() {
    let mut data = data(1);
    assert_eq!(data.stale(), None);
    let device = data.devices()[0].clone();
    data.now += Duration::from_secs(20);
    data.apply(change(&device, 1, later(&data, 20)), data.now);
    assert_eq!(data.stale(), Some(Duration::from_secs(20)));
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
