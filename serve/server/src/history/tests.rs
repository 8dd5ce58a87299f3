use super::*;
use ttmem_ledger::DeviceKey;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_794_731_100 * SECOND;

fn key(id: u32) -> DeviceKey {
    DeviceKey::Logical {
        visible: "".into(),
        id,
    }
}

fn dram(bytes: u64) -> Sample {
    Sample {
        dram: bytes,
        dram_largest_free: Some(1000 - bytes),
        dispatches: 1,
        ..Sample::default()
    }
}

fn observed(id: u32, sample: Sample) -> Observed {
    Observed {
        key: key(id),
        id,
        unique_id: None,
        sample,
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_nanos(START + seconds * SECOND)
}

#[test]
fn a_wide_step_has_the_highest_of_its_seconds() {
    let histories = Histories::default();
    for second in 0..60 {
        let bytes = if second == 33 { 900 } else { second };
        let found = [observed(0, dram(bytes))];
        histories.book(START + second * SECOND, &found);
    }
    let fine = histories.document(at(60), 60);
    assert_eq!((fine.step_seconds, fine.times.len()), (1, 60));
    assert_eq!(fine.devices[0].dram_bytes[33], Some(900));
    assert_eq!(fine.devices[0].dram_bytes[34], Some(34));
    let wide = histories.document(at(60), 3600);
    assert_eq!((wide.step_seconds, wide.times.len()), (10, 6));
    let expected = [9, 19, 29, 900, 49, 59].map(Some);
    assert_eq!(wide.devices[0].dram_bytes, expected);
    assert_eq!(wide.devices[0].dram_largest_free_bytes[3], Some(100));
    assert_eq!(wide.devices[0].dispatches, [10; 6].map(Some));
    let widest = histories.document(at(60), 86_400);
    assert_eq!((widest.step_seconds, widest.times.len()), (60, 1));
    assert_eq!(widest.devices[0].dispatches, [Some(60)]);
}

#[test]
fn what_was_not_seen_is_unknown() {
    let histories = Histories::default();
    histories.book(START, &[observed(0, dram(5))]);
    histories.book(START + SECOND, &[]);
    let both = [observed(0, dram(6)), observed(1, dram(7))];
    histories.book(START + 2 * SECOND, &both);
    let history = histories.document(at(3), 600);
    assert_eq!(history.devices[0].dram_bytes, [Some(5), None, Some(6)]);
    assert_eq!(history.devices[1].dram_bytes, [None, None, Some(7)]);
}

#[test]
fn no_more_steps_and_devices_are_kept_than_there_is_room_for() {
    let histories = Histories::default();
    for second in 0..700 {
        histories.book(START + second * SECOND, &[observed(0, dram(second))]);
    }
    let history = histories.document(at(700), 600);
    assert_eq!(history.times.len(), 600);
    assert_eq!(history.devices[0].dram_bytes[0], Some(100));
    let many: Vec<_> = (0..1000).map(|id| observed(id, dram(1))).collect();
    histories.book(START + 700 * SECOND, &many);
    let history = histories.document(at(701), 600);
    assert_eq!(history.devices.len(), MAX_DEVICES);
    assert!(
        history
            .devices
            .iter()
            .all(|device| device.dram_bytes.len() == 600)
    );
}

#[test]
fn a_clock_that_is_set_back_stops_no_history() {
    let histories = Histories::default();
    let book = |second: u64, bytes| {
        histories.book(START + second * SECOND, &[observed(0, dram(bytes))]);
    };
    (0..300).for_each(|second| book(7200 + second, 1));
    (0..300).for_each(|second| book(second, 2));
    let fine = histories.document(at(300), 600);
    // The second in which it was set back may have two samples.
    assert!(fine.times.len() >= 599, "{} steps", fine.times.len());
    let newest = fine.times[fine.times.len() - 1];
    assert!(newest.unix_nanos() <= START + 301 * SECOND);
    let series = &fine.devices[0].dram_bytes;
    assert_eq!(series[0], Some(1));
    assert_eq!(series[series.len() - 299..], [Some(2); 299]);
    for seconds in [600, 7200, 86_400] {
        let history = histories.document(at(300), seconds);
        assert!(history.times.is_sorted_by(|one, next| one < next));
        let step = u64::from(history.step_seconds);
        assert!(history.times.len() as u64 >= 600 / step - 1);
    }
}
