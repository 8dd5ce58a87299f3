use super::screen::{Flow, Shown};
use super::*;
use crate::input::{Input, Key};
use crate::testing::screen::{SIZES, THEME, assert_screen, text};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::sync::LazyLock;
use std::time::Instant;
use ttmem_report::{SCHEMA, Timestamp};

/// When everything happens: screens have ages.
static NOW: LazyLock<Instant> = LazyLock::new(Instant::now);

fn problem(kind: FleetProblemKind, value: f64) -> FleetProblem {
    FleetProblem {
        kind,
        instance: "node-2.example:9400".to_owned(),
        device: Some("3".to_owned()),
        class: Some(MemoryClass::Dram),
        pid: None,
        name: None,
        job: None,
        value,
    }
}

fn host(instance: &str, used: f64) -> FleetHost {
    FleetHost {
        instance: instance.to_owned(),
        is_up: true,
        devices: 8,
        dram_charged_bytes: Some(9 << 30),
        dram_capacity_bytes: Some(96 << 30),
        dram_used: Some(used),
        dram_used_week: Some(0.8),
        l1_used: Some(0.25),
        dram_fragmented: Some(0.031),
        dram_grown_hour_bytes: Some(-(3 << 20)),
        dram_grown_week_bytes: Some(1 << 30),
        failures_week: Some(0),
        ..FleetHost::default()
    }
}

fn fleet() -> Fleet {
    let growing = FleetProblem {
        device: None,
        class: None,
        pid: Some("4711".to_owned()),
        name: Some("python".to_owned()),
        job: Some("41".to_owned()),
        ..problem(FleetProblemKind::Growing, 1_048_576.0)
    };
    let absent = FleetHost {
        instance: "node-3.example:9400".to_owned(),
        ..FleetHost::default()
    };
    Fleet {
        schema: SCHEMA,
        prometheus: "http://127.0.0.1:9090".to_owned(),
        time: Timestamp::from_unix_nanos(1_763_430_000_000_000_000),
        devices_known: 16,
        problems: vec![
            problem(FleetProblemKind::Failing, 2.0),
            problem(FleetProblemKind::Full, 0.95),
            growing,
        ],
        problems_cut: false,
        hosts: vec![
            FleetHost {
                failures: 2,
                failures_week: Some(7),
                ..host("node-2.example:9400", 0.95)
            },
            absent,
            host("node-1.example:9400", 0.1),
        ],
        jobs: vec![FleetJob {
            job: "41".to_owned(),
            user: Some("ada".to_owned()),
            hosts: 2,
            dram_bytes: Some(5 << 30),
            l1_bytes: Some(3 << 20),
            dram_week_bytes: None,
            grows_per_mark_bytes: Some(1 << 20),
        }],
        devices: vec![FleetDevice {
            instance: "node-2.example:9400".to_owned(),
            device: "3".to_owned(),
            class: MemoryClass::Dram,
            used: 0.95,
        }],
        week_source: WeekSource::RecordingRules,
        impossible_values: 0,
        impossible_example: None,
    }
}

fn shown(fleet: Fleet) -> Shown {
    let mut shown = Shown::new("http://127.0.0.1:9090".to_owned(), THEME);
    shown.take(Ok(fleet), *NOW);
    shown
}

fn drawn(shown: &mut Shown, (width, height): (u16, u16)) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    shown.draw(&mut buffer, *NOW);
    text(&buffer)
}

fn press(shown: &mut Shown, key: Key) -> Flow {
    shown.handle(Input::Key(key))
}

#[test]
fn every_problem_is_a_sentence() {
    let said = |kind, value| sentence(&problem(kind, value));
    let at = "node-2.example:9400 device 3";
    assert_eq!(
        said(FleetProblemKind::Failing, 0.4),
        format!("{at}: 1 request refused in 10 minutes")
    );
    assert_eq!(
        said(FleetProblemKind::Full, 0.95),
        format!("{at}: DRAM 95.0% full")
    );
    assert_eq!(
        said(FleetProblemKind::Fragmented, 0.9),
        format!("{at}: DRAM 90.0% fragmented")
    );
    assert_eq!(
        sentence(&fleet().problems[2]),
        "node-2.example:9400: pid 4711 python, job 41 grows by 1.0 MiB at every mark"
    );
    assert_eq!(counted_share(0.999_999_9), "100.0%");
    assert_eq!(counted_share(0.9999), "99.9%");
}

#[test]
fn screens_and_text() {
    for size in SIZES {
        let name = format!("fleet/hosts_{}x{}", size.0, size.1);
        assert_screen(&name, &drawn(&mut shown(fleet()), size));
    }
    let lines = in_full(&fleet(), 120, 20);
    let lines: Vec<&str> = lines.iter().map(|(_style, line)| &**line).collect();
    assert_screen("fleet/text", &(lines.join("\n") + "\n"));
}

#[test]
fn a_list_is_cut_where_it_is_asked_to_be() {
    let lines = in_full(&fleet(), 120, 1);
    let more = "2 more: `ttmem fleet --limit 3` lists them";
    let more = lines.iter().filter(|(_style, line)| line == more);
    assert_eq!(more.count(), 2, "{lines:?}");
}

#[test]
fn absent_hosts_are_one_line_however_little_room_there_is() {
    let mut many = fleet();
    for place in 1..30 {
        many.problems.push(FleetProblem {
            instance: format!("gone-{place}:9400"),
            ..problem(FleetProblemKind::Absent, 0.0)
        });
    }
    let said =
        "! 29 hosts have no server that answers: gone-1:9400, gone-2:9400, gone-3:9400 and 26 more";
    let lines = in_full(&many, 120, 1);
    let absent: Vec<&str> = { lines.iter().map(|(_style, line)| &**line) }
        .filter(|line| line.contains("gone-"))
        .collect();
    assert_eq!(absent, [said]);
    for height in [12, 24] {
        let screen = drawn(&mut shown(many.clone()), (120, height));
        assert!(screen.contains(said), "{screen}");
        assert!(screen.contains("2 requests refused"), "{screen}");
    }
    many.problems.truncate(4);
    let one = FleetProblem {
        device: None,
        ..many.problems.remove(3)
    };
    many.problems.push(one);
    let (_others, absent) = problem_lines(&many);
    assert_eq!(absent.unwrap().1, "gone-1:9400: no server answers");
}

#[test]
fn enter_opens_the_chosen_host() {
    let mut shown = shown(fleet());
    drawn(&mut shown, SIZES[0]);
    press(&mut shown, Key::Down);
    let open = |host: &str| Flow::Open(format!("http://{host}").parse().unwrap());
    assert_eq!(press(&mut shown, Key::Enter), open("node-3.example:9400"));
    // What is found is what is opened.
    for key in "/node-1".chars() {
        press(&mut shown, Key::Char(key));
    }
    press(&mut shown, Key::Enter);
    drawn(&mut shown, SIZES[0]);
    assert_eq!(press(&mut shown, Key::Enter), open("node-1.example:9400"));
    press(&mut shown, Key::Escape);
    // A job is on several.
    press(&mut shown, Key::Tab);
    assert!(drawn(&mut shown, SIZES[0]).contains("ada"));
    assert_eq!(press(&mut shown, Key::Enter), Flow::On);
    assert_eq!(press(&mut shown, Key::Char('q')), Flow::Quit);
}

#[test]
fn a_host_that_is_no_address_is_said_to_be_none_and_the_view_stays() {
    for name in ["rack 7", "node-1:9400/x", "user@node-1", "a:0", ""] {
        let mut shown = shown(Fleet {
            hosts: vec![host(name, 0.5)],
            ..fleet()
        });
        drawn(&mut shown, SIZES[0]);
        assert_eq!(press(&mut shown, Key::Enter), Flow::On, "{name}");
        let screen = drawn(&mut shown, SIZES[1]);
        let said = format!("{name} is not the address of a server");
        assert!(screen.contains(&said), "{screen}");
        press(&mut shown, Key::Down);
        assert!(!drawn(&mut shown, SIZES[1]).contains(&said));
    }
}

#[test]
fn nothing_known_says_what_to_do_and_help_explains() {
    let empty = Fleet {
        hosts: Vec::new(),
        problems: Vec::new(),
        jobs: Vec::new(),
        devices: Vec::new(),
        devices_known: 0,
        ..fleet()
    };
    let lines = in_full(&empty, 120, 20);
    assert!(
        lines[0]
            .1
            .starts_with("Prometheus knows no ttmem server yet")
    );
    assert!(
        !lines
            .iter()
            .any(|(_style, line)| line.contains("no problems"))
    );
    let mut shown = shown(empty);
    assert!(drawn(&mut shown, SIZES[0]).contains("knows no ttmem server"));
    press(&mut shown, Key::Char('?'));
    let help = drawn(&mut shown, SIZES[1]);
    assert!(help.contains("largest fit"));
    // Keys that do nothing here are not offered.
    assert!(!help.contains("pause") && !help.contains("Keys of a recording"));
    assert_screen("fleet/help_200x50", &help);
    press(&mut shown, Key::Escape);
    for size in [(1, 1), (40, 8), (39, 8), (300, 90)] {
        drawn(&mut shown, size);
    }
}

#[test]
fn every_column_is_explained() {
    let lists = [
        (HOSTS, columns::HOSTS),
        (JOBS, columns::JOBS),
        (DEVICES, columns::DEVICES),
    ];
    for (columns, meanings) in lists {
        let explained: Vec<&str> = { meanings.iter() }
            .flat_map(|(names, _meaning)| names.split(", "))
            .collect();
        let columns: Vec<&str> = columns.iter().map(|column| column.title).collect();
        assert_eq!(explained, columns);
    }
}

#[test]
fn notes_say_what_the_figures_are_worth() {
    let of = |week_source, impossible_values| {
        let example = (impossible_values > 0).then(|| "-1.0 of a:1 for `x`".to_owned());
        let fleet = Fleet {
            week_source,
            impossible_values,
            impossible_example: example,
            ..fleet()
        };
        notes(&fleet)
    };
    assert_eq!(of(WeekSource::RecordingRules, 0), [""; 0]);
    assert_eq!(
        of(WeekSource::RecordingRules, 2),
        ["left out 2 values that cannot be, such as -1.0 of a:1 for `x`"]
    );
    let mut left_out = shown(Fleet {
        impossible_values: 2,
        ..fleet()
    });
    assert!(drawn(&mut left_out, SIZES[0]).contains("left out 2 values that cannot be"));
    assert!(of(WeekSource::Samples, 0)[0].starts_with("without the recording rules"));
    assert!(of(WeekSource::RulesWithoutValues, 0)[0].contains("which are loaded"));
}
