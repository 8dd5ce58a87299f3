use super::*;
use crate::prometheus::{Labels, Sample};
use std::convert::Infallible;

fn labels(words: &[(&str, &str)]) -> Labels {
    let mut labels = Labels::default();
    for (name, value) in words {
        let label = match *name {
            "instance" => &mut labels.instance,
            "device" => &mut labels.device,
            "class" => &mut labels.class,
            "workload" => &mut labels.workload,
            "user" => &mut labels.user,
            "pid" => &mut labels.pid,
            other => unreachable!("no label {other}"),
        };
        *label = (*value).to_owned();
    }
    labels
}

fn sample(words: &[(&str, &str)], value: f64) -> Sample {
    let labels = labels(words);
    Sample { labels, value }
}

/// The document of a Prometheus that has these answers and no others.
fn made(answers: &[(&str, Vec<Sample>)]) -> Fleet {
    let ask = |query: &str| {
        let answer = answers.iter().find(|(asked, _)| *asked == query);
        Ok::<_, Infallible>(answer.map_or_else(Vec::new, |(_, samples)| samples.clone()))
    };
    let Ok(fleet) = fleet_of(1.0e9, ask, || Ok(false));
    fleet
}

#[test]
fn nothing_known_is_an_empty_fleet() {
    let fleet = made(&[]);
    assert_eq!(fleet.hosts, []);
    assert_eq!(fleet.problems, []);
    assert_eq!(fleet.week_source, WeekSource::Samples);
    assert_eq!(fleet.time.to_string(), "2001-09-09T01:46:40.000000000Z");
}

#[test]
fn the_worst_problem_and_its_host_come_first() {
    let (calm, sick, gone) = ("calm:1", "sick:1", "gone:1");
    let up = |instance| sample(&[("instance", instance)], 1.0);
    let used = |instance, value| sample(&[("instance", instance), ("class", "dram")], value);
    let full = sample(
        &[("instance", calm), ("device", "3"), ("class", "l1")],
        0.96,
    );
    let fleet = made(&[
        (
            queries::UP,
            vec![up(calm), up("idle:1"), up("busy:1"), up(sick)],
        ),
        (queries::ABSENT, vec![sample(&[("instance", gone)], 0.0)]),
        (
            queries::FAILING,
            vec![sample(&[("instance", sick), ("device", "0")], 2.1)],
        ),
        (queries::EXPOSED.full, vec![full]),
        (
            queries::EXPOSED.used,
            vec![used("idle:1", 0.1), used("busy:1", 0.5), used(sick, 1.0)],
        ),
    ]);
    let kinds: Vec<FleetProblemKind> = fleet.problems.iter().map(|each| each.kind).collect();
    use FleetProblemKind::{Absent, Failing, Full};
    assert_eq!(kinds, [Failing, Full, Absent]);
    assert_eq!(fleet.problems[1].class, Some(MemoryClass::L1));
    let hosts: Vec<&str> = fleet.hosts.iter().map(|host| &*host.instance).collect();
    assert_eq!(hosts, [sick, calm, "busy:1", "idle:1", gone]);
    assert_eq!(
        (fleet.hosts[0].failures, fleet.hosts[0].dram_used),
        (2, Some(1.0))
    );
    assert!(!fleet.hosts[4].is_up);
}

#[test]
fn a_week_is_of_recording_rules_where_there_are_any() {
    let recorded = vec![sample(&[("instance", "a:1"), ("class", "l1")], 0.5)];
    let fleet = made(&[
        (queries::RECORDED.used, recorded.clone()),
        (queries::RECORDED.used_week, recorded),
    ]);
    assert_eq!(fleet.week_source, WeekSource::RecordingRules);
    assert_eq!(fleet.hosts[0].l1_used_week, Some(0.5));
    let raw = vec![sample(&[("instance", "a:1"), ("class", "dram")], 0.25)];
    let fleet = made(&[(queries::EXPOSED.used_week, raw)]);
    assert_eq!(fleet.week_source, WeekSource::Samples);
    assert_eq!(fleet.hosts[0].dram_used_week, Some(0.25));
}

#[test]
fn a_week_has_the_peaks_between_two_scrapes() {
    let of = |class, value| sample(&[("instance", "a:1"), ("class", class)], value);
    let week = vec![of("dram", 0.886), of("l1", 0.5)];
    let peaks = vec![of("dram", 0.997), of("l1", 0.4), of("trace", 1.0)];
    let recorded = (queries::RECORDED.used, vec![of("dram", 0.1)]);
    for (figures, first) in [
        (queries::RECORDED, recorded),
        (queries::EXPOSED, (queries::UP, vec![])),
    ] {
        let answers = [
            first,
            (figures.used_week, week.clone()),
            (figures.peak_week, peaks.clone()),
        ];
        let fleet = made(&answers);
        let host = &fleet.hosts[0];
        let most = (host.dram_used_week, host.l1_used_week);
        assert_eq!(most, (Some(0.997), Some(0.5)));
    }
}

#[test]
fn jobs_are_put_together_of_their_classes() {
    let job = |class| [("workload", "41"), ("user", "ada"), ("class", class)];
    let fleet = made(&[
        (
            queries::JOBS,
            vec![
                sample(&[("workload", "7"), ("class", "dram")], 5.0),
                sample(&job("l1"), 2.0),
                sample(&job("dram"), 9.0),
            ],
        ),
        (
            queries::JOB_HOSTS,
            vec![sample(&[("workload", "41"), ("user", "ada")], 2.0)],
        ),
    ]);
    let first = &fleet.jobs[0];
    assert_eq!((&*first.job, first.user.as_deref()), ("41", Some("ada")));
    assert_eq!(
        (first.dram_bytes, first.l1_bytes, first.hosts),
        (Some(9), Some(2), 2)
    );
    assert_eq!((&*fleet.jobs[1].job, &fleet.jobs[1].user), ("7", &None));
}

#[test]
fn what_cannot_be_is_left_out_and_said_once() {
    let at = |value| vec![sample(&[("instance", "a:1"), ("class", "dram")], value)];
    let answers = [
        (queries::UP, at(1.0)),
        (queries::DEVICES, at(0.97)),
        (queries::EXPOSED.charged, at(-7.0)),
        (queries::EXPOSED.capacity, at(1e300)),
        (queries::EXPOSED.used, at(1.2)),
        (queries::EXPOSED.fragmented, at(f64::NAN)),
        (queries::EXPOSED.grown_hour, at(-1e300)),
        (queries::FAILED_WEEK, at(f64::INFINITY)),
        (queries::FAILING, at(-1.0)),
        (queries::EXPOSED.full, at(0.3)),
        (queries::GROWING, at(0.97)),
        (queries::INCOMPLETE, at(0.97)),
        (queries::ABSENT, at(1.0)),
    ];
    let fleet = made(&answers);
    let host = FleetHost {
        instance: "a:1".to_owned(),
        is_up: true,
        ..FleetHost::default()
    };
    assert_eq!(fleet.hosts, [host]);
    assert_eq!(fleet.problems, []);
    assert_eq!(fleet.impossible_values, answers.len() as u64 - 1);
    let example = fleet.impossible_example.unwrap();
    assert!(example.starts_with("1.0 of a:1 for `max"), "{example}");
    // An unknown class is no reason to be silent about a problem.
    let full = sample(&[("instance", "a:1"), ("class", "new")], 0.99);
    let fleet = made(&[(queries::EXPOSED.full, vec![full])]);
    assert_eq!(fleet.problems[0].class, None);
    assert_eq!(fleet.impossible_values, 0);
}

#[test]
fn a_server_that_two_scrape_jobs_know_has_each_line_once() {
    let of = |value| {
        let labels = [("instance", "a:1"), ("device", "0"), ("class", "dram")];
        sample(&labels, value)
    };
    let growing = |value| sample(&[("instance", "a:1"), ("pid", "7")], value);
    let fleet = made(&[
        (queries::EXPOSED.full, vec![of(0.96), of(0.97)]),
        (queries::EXPOSED.fullest, vec![of(0.97), of(0.96)]),
        (queries::GROWING, vec![growing(5.0), growing(5.0)]),
    ]);
    let problems: Vec<(FleetProblemKind, f64)> = { fleet.problems.iter() }
        .map(|it| (it.kind, it.value))
        .collect();
    use FleetProblemKind::{Full, Growing};
    assert_eq!(problems, [(Full, 0.97), (Growing, 5.0)]);
    assert_eq!(fleet.devices.len(), 1);
}

/// What Prometheus adds up it adds up before anybody here sees that a series is there twice.
#[test]
fn every_sum_takes_a_device_or_a_process_once() {
    let mut asked = Vec::new();
    for has_rules in [false, true] {
        let ask = |query: &str| {
            asked.push(query.to_owned());
            let recorded = has_rules && query == queries::RECORDED.used;
            let used = sample(&[("instance", "a:1"), ("class", "dram")], 0.5);
            Ok::<_, Infallible>(if recorded { vec![used] } else { Vec::new() })
        };
        let Ok(_fleet) = fleet_of(1.0e9, ask, || Ok(false));
    }
    let sums: Vec<&str> = { asked.iter() }
        .flat_map(|query| query.split("sum by (").skip(1))
        .collect();
    assert!(!sums.is_empty());
    for sum in sums {
        let (_labels, of) = sum.split_once(") (").expect("what is added up");
        // A process of another pid namespace has no pid: its name, rank or container tells it from others.
        let once = match of.contains("ttmem_process_") {
            true => "max by (instance, pid, name, rank, container, exported_container",
            false => "max by (instance, ",
        };
        assert!(of.starts_with(once), "{sum}");
    }
}

#[test]
fn rules_that_recorded_nothing_yet_are_not_missing() {
    let nothing = |_query: &str| Ok::<_, Infallible>(Vec::new());
    let Ok(fleet) = fleet_of(1.0e9, nothing, || Ok(true));
    assert_eq!(fleet.week_source, WeekSource::RulesWithoutValues);
}

#[test]
fn the_largest_values_overflow_nowhere() {
    let everything = |_query: &str| {
        let of = |instance| {
            let labels = [("instance", instance), ("class", "dram")];
            sample(&labels, 9.223_372_036_854_775e18)
        };
        Ok::<_, Infallible>(vec![of("one:1"), of("two:1"), of("one:1")])
    };
    let Ok(fleet) = fleet_of(1.0e9, everything, || Ok(true));
    assert!(fleet.devices_known > i64::MAX.unsigned_abs());
}
