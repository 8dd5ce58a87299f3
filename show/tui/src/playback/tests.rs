//! Where the cursor goes, and when it moves by itself.

use super::*;
use crate::testing::world::{Names, World};
use ttmem_report::RecordingSource;

fn recording(seconds: u64) -> Recording {
    let world = World {
        devices: 2,
        processes: 1,
        busy: false,
        names: Names::Usual,
    };
    Recording {
        from: at(0.0),
        to: Timestamp::from_unix_nanos(BEGIN + seconds * SECOND),
        ..world.recording(RecordingSource::File)
    }
}

const BEGIN: u64 = 1_000 * SECOND;

/// An instant so many seconds into the recording.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few seconds"
)]
fn at(seconds: f64) -> Timestamp {
    Timestamp::from_unix_nanos(BEGIN + (seconds * 1000.0).round() as u64 * 1_000_000)
}

#[test]
fn a_step_fits_the_length_of_the_recording_and_stays_inside() {
    for (length, step) in [(2, 0.01), (3, 0.1), (20, 0.1), (21, 1.0)] {
        let recording = recording(length);
        let mut playback = Playback::default();
        let end = f64::from(u32::try_from(length).expect("short"));
        playback.step(&recording, true);
        assert_eq!(playback.at(), None, "nothing is behind the end");
        playback.step(&recording, false);
        assert_eq!(playback.at(), Some(at(end - step)));
        playback.step(&recording, false);
        assert_eq!(playback.at(), Some(at(end - 2.0 * step)));
        playback.step(&recording, true);
        playback.step(&recording, true);
        assert_eq!(playback.at(), None, "the end has no instant of its own");
        playback.jump(&recording, at(0.005));
        playback.step(&recording, false);
        assert_eq!(playback.at(), Some(at(0.0)));
        playback.step(&recording, false);
        assert_eq!(playback.at(), Some(at(0.0)));
    }
}

#[test]
fn it_plays_from_the_beginning_at_its_speed_and_stops_at_the_end() {
    let (recording, mut playback) = (recording(100), Playback::default());
    let mut now = Instant::now();
    playback.toggle(&recording, now);
    assert_eq!(
        (playback.at(), playback.is_playing()),
        (Some(at(0.0)), true)
    );
    let mut pass = |playback: &mut Playback, millis: u64| {
        now += Duration::from_millis(millis);
        let shown = playback.at();
        playback.tick(&recording, shown, now)
    };
    assert!(!pass(&mut playback, 100), "too early");
    assert!(pass(&mut playback, 100));
    assert_eq!(playback.at(), Some(at(0.2)));
    for (faster, speed) in [(true, "2"), (false, "1"), (false, "0.5"), (false, "0.25")] {
        playback.change_speed(faster);
        assert_eq!(playback.speed(), speed);
    }
    assert!(pass(&mut playback, 400));
    assert_eq!(playback.at(), Some(at(0.3)));
    for _ in 0..20 {
        playback.change_speed(false);
    }
    assert_eq!(playback.speed(), "0.1");
    for _ in 0..20 {
        playback.change_speed(true);
    }
    assert_eq!(playback.speed(), "300");
    assert!(pass(&mut playback, 200));
    assert_eq!(playback.at(), Some(at(60.3)));
    assert!(pass(&mut playback, 200));
    assert_eq!((playback.at(), playback.is_playing()), (None, false));
    assert!(!pass(&mut playback, 200));
}

#[test]
fn it_waits_for_the_answer_and_makes_up_for_no_long_one() {
    let (recording, mut playback) = (recording(100), Playback::default());
    let now = Instant::now();
    playback.toggle(&recording, now);
    let later = now + Duration::from_secs(30);
    for shown in [None, Some(at(7.0))] {
        assert!(!playback.tick(&recording, shown, later));
        assert_eq!(playback.at(), Some(at(0.0)));
    }
    assert!(playback.tick(&recording, Some(at(0.0)), later));
    assert_eq!(playback.at(), Some(at(1.0)));
    playback.toggle(&recording, later);
    assert!(!playback.is_playing());
    let later = later + Duration::from_secs(1);
    assert!(!playback.tick(&recording, Some(at(1.0)), later));
    // From where it stands, not from the beginning.
    playback.toggle(&recording, later);
    assert_eq!(playback.at(), Some(at(1.0)));
}

#[test]
fn a_jump_goes_to_the_next_and_from_the_last_to_the_first() {
    let (recording, mut playback) = (recording(100), Playback::default());
    let times = [at(70.0), at(10.0), at(100.0), at(40.0)];
    let mut went = Vec::new();
    for _ in 0..5 {
        assert!(playback.jump_to_next(&recording, times.into_iter()));
        went.push(playback.at().expect("an instant"));
    }
    assert_eq!(went, [10.0, 40.0, 70.0, 100.0, 10.0].map(at));
    assert!(!playback.jump_to_next(&recording, [].into_iter()));
    assert_eq!(playback.at(), Some(at(10.0)));
}

#[test]
fn what_continues_is_told_from_what_does_not() {
    let (recording, mut playback) = (recording(100), Playback::default());
    playback.jump(&recording, at(10.0));
    assert!(!playback.continues(Some(at(10.0))));
    playback.step(&recording, true);
    assert!(playback.continues(playback.at()));
    playback.step(&recording, false);
    // An answer to what was asked before the step back, then the one to the step.
    assert!(!playback.continues(Some(at(11.0))));
    assert!(!playback.continues(playback.at()));
    assert!(playback.continues(playback.at()));
    playback.go_to_end();
    assert!(!playback.continues(None));
    playback.jump(&recording, at(99.5));
    assert!(!playback.continues(playback.at()));
    playback.step(&recording, true);
    assert_eq!(playback.at(), None);
    assert!(playback.continues(None), "the end follows the last step");
}

#[test]
fn the_cursor_follows_when_the_oldest_is_dropped() {
    let (mut recording, mut playback) = (recording(100), Playback::default());
    playback.jump(&recording, at(10.0));
    recording.from = at(20.0);
    playback.keep_inside(Some(&recording));
    assert_eq!(playback.at(), Some(at(20.0)));
    playback.toggle(&recording, Instant::now());
    playback.keep_inside(None);
    assert_eq!((playback.at(), playback.is_playing()), (None, false));
}

#[test]
fn peaks_are_those_of_the_view_and_then_of_the_other_classes() {
    let mut recording = recording(100);
    let peak = |seconds, device, of, bytes| RecordedPeak {
        time: at(seconds),
        device,
        unique_id: None,
        of,
        bytes,
    };
    recording.peaks = vec![
        peak(10.0, 0, PeakOf::Dram, 100),
        peak(20.0, 1, PeakOf::Dram, 900),
        peak(25.0, 1, PeakOf::Dram, 900),
        peak(30.0, 0, PeakOf::L1, 7),
        peak(40.0, 1, PeakOf::L1, 5),
        peak(20.0, 1, PeakOf::Trace, 1),
        peak(50.0, 0, PeakOf::Cb, 9_999),
    ];
    let of = |device: Option<u32>, class| {
        let device = device.map(|id| DeviceKey::Number(id, None));
        let subject = Subject { device, class };
        let mut playback = Playback::default();
        let mut went = Vec::new();
        for _ in 0..=peaks(&recording, &subject).len() {
            assert!(playback.jump_to_peak(&recording, subject.clone()));
            went.push((playback.at().expect("an instant").unix_nanos() - BEGIN) / SECOND);
        }
        went
    };
    // The largest of DRAM, then of L1; that of TRACE was at the instant of the first.
    assert_eq!(of(None, None), [20, 30, 20]);
    let highest = highest_peak(&recording).map(|peak| peak.time);
    assert_eq!(
        highest,
        Some(at(20.0)),
        "also where programs registered more than that"
    );
    assert_eq!(of(Some(0), None), [10, 30, 10]);
    assert_eq!(of(Some(1), Some(MemoryClass::L1)), [40, 20, 40]);
    recording.peaks.clear();
    assert!(!Playback::default().jump_to_peak(&recording, Subject::default()));
}
