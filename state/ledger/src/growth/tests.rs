use super::*;

/// Marks of one name, one second apart, numbered from 0.
fn series(marks: u64) -> Series {
    let mut series = Series::default();
    let name = Arc::from("step");
    for number in 0..marks {
        series.push(number * 1000, &name, number);
    }
    series
}

/// One buffer of a size for each of these steps.
fn births(series: &Series, size: u64, steps: impl IntoIterator<Item = u64>) -> Births {
    let (mut births, mut room) = (Births::default(), usize::MAX);
    for step in steps {
        births.add(step * 1000 + 500, size, series, &mut room);
    }
    births
}

fn growth(series: &Series, steps: impl IntoIterator<Item = u64>) -> Option<Growth> {
    births(series, 1024, steps).growth(series, 0)
}

#[test]
fn a_buffer_that_each_step_leaves_behind_grows_since_the_first_that_did() {
    let series = series(10);
    let found = growth(&series, 3..10).unwrap();
    assert_eq!((found.since.number, found.since.ordinal), (3, 4));
    // The last step is not over.
    assert_eq!((found.steps, found.sum.buffers), (6, 6));
    assert_eq!(found.sum.bytes / found.steps, 1024);
}

#[test]
fn what_was_placed_once_or_is_replaced_does_not_grow() {
    let series = series(10);
    for steps in [
        vec![],
        vec![0; 50],
        vec![4],
        vec![9],
        vec![8, 9],
        vec![0, 9],
    ] {
        assert_eq!(growth(&series, steps.clone()), None, "{steps:?}");
    }
    // Weights of an early step, and nothing since.
    assert_eq!(growth(&series, [0, 1, 2, 3]), None);
}

#[test]
fn what_lives_for_some_steps_does_not_grow() {
    let series = series(100);
    assert_eq!(growth(&series, 90..100), None);
    assert_eq!(growth(&series, 60..100), None);
    assert!(growth(&series, 40..100).is_some());
}

#[test]
fn one_in_some_steps_grows_as_well() {
    let series = series(101);
    let found = growth(&series, (0..100).step_by(10)).unwrap();
    assert_eq!((found.since.number, found.steps), (0, 100));
    assert_eq!(found.sum.buffers, 10);
    assert_eq!(growth(&series, (0..100).step_by(30)), None, "too seldom");
}

#[test]
fn few_steps_say_nothing() {
    assert_eq!(growth(&series(0), []), None);
    for marks in 1..6 {
        assert_eq!(growth(&series(marks), 0..marks), None, "{marks}");
    }
    assert!(growth(&series(6), 0..6).is_some());
}

#[test]
fn a_cache_that_fills_does_not_grow() {
    let marks = series(41);
    // Something new in ever fewer steps, at every moment of it.
    let new = [0, 1, 2, 3, 4, 6, 8, 11, 14, 19, 25, 32];
    for over in [12, 16, 20, 24, 28, 34, 40] {
        let steps = new.into_iter().filter(|step| *step < over);
        assert_eq!(growth(&series(over + 1), steps), None, "{over}");
    }
    // A leak beside it is found.
    assert!(growth(&marks, 0..40).is_some());
}

#[test]
fn what_was_loaded_once_is_not_in_the_rate() {
    for marks in [6, 7, 12, 40, 1000] {
        let series = series(marks);
        for loaded_in in [0, marks / 2, marks - 2] {
            let mut births = births(&series, 1024, 0..marks);
            let mut room = usize::MAX;
            births.add(loaded_in * 1000 + 600, 1 << 40, &series, &mut room);
            let found = births.growth(&series, 0).expect("it leaks as well");
            assert_eq!(found.per_step, 1024, "{marks} marks, loaded in {loaded_in}");
        }
    }
}

#[test]
fn a_rate_is_that_of_all_steps_where_they_differ() {
    let series = series(101);
    let found = growth(&series, (0..100).step_by(10)).unwrap();
    assert!((81..=123).contains(&found.per_step), "{found:?}");
    let (mut births, mut room) = (Births::default(), usize::MAX);
    for step in 0..101 {
        births.add(step * 1000 + 500, 1024 * (1 + step % 3), &series, &mut room);
    }
    let found = births.growth(&series, 0).unwrap();
    assert!((1900..=2200).contains(&found.per_step), "{found:?}");
    assert!(found.per_step <= births.sum.bytes);
}

#[test]
fn of_many_marks_some_are_kept_and_growth_is_the_same() {
    let series = series(10_000);
    let steps = series.steps(0);
    assert!(steps.kept.len() <= MAX_STEPS, "{}", steps.kept.len());
    assert!(series.all.kept.len() <= MAX_STEPS);
    let found = growth(&series, 0..10_000).unwrap();
    assert_eq!(found.since.number, 0);
    assert_eq!(found.sum.bytes / found.steps, 1024);
    let found = growth(&series, 3000..10_000).unwrap();
    // To the width of what is kept.
    assert!(
        found.since.number.abs_diff(3000) <= steps.every,
        "{found:?}"
    );
    assert_eq!(growth(&series, 9_000..10_000), None);
}

#[test]
fn marks_of_one_name_count_before_all() {
    let mut series = series(5);
    let step: Arc<str> = Arc::from("step");
    assert_eq!(series.steps(0).name, Some(Arc::clone(&step)));
    for number in 0..100 {
        let name = Arc::from(format!("request {number}"));
        series.push(10_000 + number, &name, number);
    }
    assert!(series.named.len() <= MAX_NAMES);
    assert_eq!(series.steps(0).name, Some(step));
    let mut others = Series::default();
    for number in 0..5_u64 {
        others.push(number, &Arc::from(format!("{number}")), 0);
    }
    assert_eq!(others.steps(0).name, None);
    assert_eq!(others.steps(0).count, 5);
}

#[test]
fn a_mark_from_before_the_last_one_is_left_out() {
    let mut series = series(3);
    series.push(10, &Arc::from("step"), 9);
    assert_eq!(series.steps(0).count, 3);
}

#[test]
fn births_outlive_the_thinning_of_their_marks() {
    let mut series = series(100);
    let (mut births, mut room) = (Births::default(), usize::MAX);
    for number in 0..1000 {
        if number >= 100 {
            series.push(number * 1000, &Arc::from("step"), number);
        }
        births.add(number * 1000 + 500, 1024, &series, &mut room);
    }
    let found = births.growth(&series, 0).unwrap();
    assert_eq!(found.since.number, 0);
    assert_eq!(found.sum.bytes / found.steps, 1024);
}

#[test]
fn without_room_for_steps_buffers_are_counted_and_growth_is_not_known() {
    let series = series(10);
    let (mut births, mut room) = (Births::default(), 2);
    for step in 0..10 {
        births.add(step * 1000 + 500, 1024, &series, &mut room);
    }
    assert_eq!(
        (births.sum.buffers, births.sum.bytes, room),
        (10, 10 * 1024, 0)
    );
    assert_eq!(births.growth(&series, 0), None);
}

#[test]
fn marks_from_before_a_process_began_do_not_count() {
    let mut series = Series::of_readers();
    for number in 0..50 {
        series.push(number * 1000, &Arc::from("of the last process"), number);
    }
    for number in 50..57 {
        series.push(number * 1000, &Arc::from("step"), number);
    }
    let births = births(&series, 1024, 50..57);
    let began = 49_500;
    assert_eq!(series.steps(began).name.as_deref(), Some("step"));
    let found = births.growth(&series, began).unwrap();
    assert_eq!((found.since.number, found.steps), (50, 6));
    assert_eq!(births.growth(&series, 0), None);
    // Marks of any names count as well.
    let mut series = Series::of_readers();
    for number in 0..22 {
        series.push(number * 1000, &Arc::from(format!("mark {number}")), number);
    }
    let births = self::births(&series, 1024, 15..22);
    assert!(births.growth(&series, 14_500).is_some());
    assert_eq!(births.growth(&series, 0), None);
}

#[test]
fn a_buffer_that_some_steps_leave_behind_grows_as_well() {
    let series = series(30);
    let found = growth(&series, (0..30).step_by(5)).unwrap();
    assert_eq!((found.since.number, found.sum.buffers), (0, 6));
    assert_eq!(growth(&series, [0, 10, 20]), None);
}

#[test]
fn marks_count_for_the_processes_of_their_user() {
    const ALICE: u32 = 1000;
    const BOB: u32 = 1001;
    let mut readers = ReaderSeries::default();
    let count = |readers: &ReaderSeries, user| readers.of(user).all.count;
    assert_eq!(count(&readers, ALICE), 0);
    let name: Arc<str> = Arc::from("step");
    for number in 0..10_000 {
        readers.push(BOB, number, &name, number);
    }
    readers.push(ROOT, 1, &name, 1);
    assert_eq!([ALICE, BOB].map(|user| count(&readers, user)), [1, 10_000]);
    readers.push(ALICE, 20_000, &name, 1);
    readers.push(ALICE, 20_001, &name, 2);
    assert_eq!(count(&readers, ALICE), 2);
    for user in 2000..3000 {
        readers.push(user, 10_000, &name, 1);
    }
    assert_eq!(readers.by_user.len(), MAX_USERS);
    // Who set the last one is not the one to go.
    assert_eq!(count(&readers, ALICE), 2);
}
