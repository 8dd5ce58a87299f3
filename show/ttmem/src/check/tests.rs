use super::*;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

fn report() -> Value {
    let group = |line: &str, bytes: u64| {
        json!({"pid": 7, "departed": true, "name": "matmul", "line": line,
               "callers": ["/home/me/train.py:9 main"], "count": 3, "bytes": bytes})
    };
    let peak = |dram: u64| {
        json!({"peak_bytes": {"dram": dram, "l1": 5, "l1_small": 0, "trace": 0, "system": 0,
                              "cb": 0, "kernel": 0}})
    };
    let left = |operation: Value, bytes: u64| {
        json!({"class": "dram", "operation": operation, "line": null, "callers": [],
               "stack": null, "buffers": 1, "bytes": bytes})
    };
    json!({
        "schema": 1, "command": ["/opt/bin/python", "model.py"], "exit_code": 0, "signal": null,
        "tracked": true, "lost_events": 0,
        "devices": [peak(1 << 30), peak(3 << 30)],
        "processes": [{"released": null}, {"released": {"buffer_bytes": 100}}],
        "leak_candidates": {"buffers": 2, "bytes": 48},
        "peaks": [{"class": "dram", "groups": [
            group("/home/me/model.py:12 forward", 1 << 20),
            group("/home/me/model.py:57 forward", 1 << 30),
        ]}],
        "left": {"at_close": [left("add".into(), 48)], "at_exit": [left(Value::Null, 100)]},
    })
}

fn figures(list: &[(&str, u64)]) -> Figures {
    let owned = |(name, size): &(&str, u64)| ((*name).to_owned(), *size);
    list.iter().map(owned).collect()
}

#[test]
fn peaks_are_of_one_device_and_what_was_left_of_all() {
    let measured = Measured::of(report()).unwrap();
    assert_eq!(measured.command_line(), "python model.py");
    let expected = [
        ("peak_dram", 3 << 30),
        ("peak_l1", 5),
        ("peak_l1_small", 0),
        ("peak_trace", 0),
        ("leaked", 148),
    ];
    assert_eq!(measured.figures().unwrap(), figures(&expected));
}

#[test]
fn the_difference_has_what_is_above_and_where_it_comes_from() {
    let measured = Measured::of(report()).unwrap();
    let now = measured.figures().unwrap();
    assert_eq!(difference(&measured, &now, &now), "");
    // As much is not more; what is not known to this version does not count.
    let before = figures(&[
        ("peak_dram", 2 << 30),
        ("peak_l1", 5),
        ("leaked", 0),
        ("other", 0),
    ]);
    let expected = "  \
  left behind 148 B, baseline 0 B (+148 B)
    100 B in 1: dram of a line that is not known
    48 B in 1: dram of add at a line that is not known
  peak dram 3.0 GiB, baseline 2.0 GiB (+1.0 GiB)
    1.0 GiB in 3: matmul at model.py:57, called from train.py:9
";
    assert_eq!(difference(&measured, &now, &before), expected);
}

#[test]
fn figures_that_say_nothing_are_not_compared() {
    let with = |field: &str, value: Value| {
        let mut report = report();
        report[field] = value;
        Measured::of(report)
    };
    let untracked = with("tracked", false.into()).unwrap().figures();
    assert!(
        untracked
            .unwrap_err()
            .to_string()
            .contains("nothing was tracked")
    );
    let lost = with("lost_events", 3.into()).unwrap().figures();
    assert!(lost.unwrap_err().to_string().contains("3 events were lost"));
    assert!(with("schema", 2.into()).is_err());
    assert!(with("devices", "none".into()).is_err());
    let killed = with("exit_code", Value::Null).unwrap();
    assert!(killed.failure().is_some());
    assert!(Measured::of(report()).unwrap().failure().is_none());
}

#[test]
fn a_file_that_is_no_baseline_is_refused_and_others_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baseline.json");
    assert!(
        Baseline::read(&path, false)
            .unwrap_err()
            .to_string()
            .contains("--update")
    );
    for text in [
        "",
        "[]",
        "{}",
        r#"{"schema": 2, "tests": {}}"#,
        r#"{"schema": "1", "tests": {}}"#,
        r#"{"schema": 1, "tests": {}} more"#,
        r#"{"schema": 1, "schema": 1, "tests": {}}"#,
        r#"{"schema": 1, "tests": {"a": {"peak_l1": 18446744073709551616}}}"#,
        &format!(r#"{{"schema": 1, "tests": {}"#, "[".repeat(1_000_000)),
        &format!(
            r#"{{"other": {}, "schema": 1, "tests": []}}"#,
            "[[]],".repeat(1000)
        ),
        r#"{"schema": 1, "tests": []}"#,
        r#"{"schema": 1, "tests": {"a": {"peak_l1": -1}}}"#,
        r#"{"schema": 1, "tests": {"a": {"peak_l1": 1.5}}}"#,
    ] {
        std::fs::write(&path, text).unwrap();
        assert!(Baseline::read(&path, true).is_err(), "{text}");
    }
    let text =
        "{\n \"schema\": 1,\n \"tests\": {\n  \"t.py::a\": {\n   \"leaked\": 3\n  }\n }\n}\n";
    std::fs::write(&path, text).unwrap();
    Baseline::update(&path, "t.py::a".to_owned(), figures(&[("leaked", 3)])).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    Baseline::update(&path, "b".to_owned(), figures(&[("leaked", 0)])).unwrap();
    let again = Baseline::read(&path, false).unwrap();
    assert_eq!(again.get("t.py::a"), Some(&figures(&[("leaked", 3)])));
    assert_eq!(again.get("b"), Some(&figures(&[("leaked", 0)])));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_keeps_its_place_and_mode_and_what_others_put_into_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baseline.json");
    std::fs::write(&path, r#"{"schema": 1, "tests": {}}"#).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let beside = tempfile::tempdir().unwrap();
    let link = beside.path().join("link.json");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            let link = &link;
            scope.spawn(move || {
                for number in 0..20 {
                    let leaked = figures(&[("leaked", number)]);
                    Baseline::update(link, format!("{name}{number}"), leaked).unwrap();
                }
            });
        }
    });
    let tests: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(tests["tests"].as_object().unwrap().len(), 80);
    assert!(link.is_symlink() && std::fs::read_dir(beside.path()).unwrap().count() == 1);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baseline.json");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    for path in [path.as_path(), folder.path(), "/dev/zero".as_ref()] {
        assert!(Baseline::read(path, true).is_err(), "{}", path.display());
    }
}

#[test]
fn a_link_that_leads_to_nothing_yet_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("kept")).unwrap();
    let link = folder.path().join("link.json");
    std::os::unix::fs::symlink("middle.json", &link).unwrap();
    std::os::unix::fs::symlink("kept/baseline.json", folder.path().join("middle.json")).unwrap();
    Baseline::check_target(&link).unwrap();
    Baseline::update(&link, "a".to_owned(), figures(&[("leaked", 3)])).unwrap();
    let written = Baseline::read(&folder.path().join("kept/baseline.json"), false).unwrap();
    assert_eq!(written.get("a"), Some(&figures(&[("leaked", 3)])));
    assert!(link.is_symlink());
    let circle = folder.path().join("circle.json");
    std::os::unix::fs::symlink("circle.json", &circle).unwrap();
    assert!(Baseline::read(&circle, true).is_err() && Baseline::check_target(&circle).is_err());
}

#[test]
fn a_place_that_cannot_be_written_is_known_before() {
    let folder = tempfile::tempdir().unwrap();
    let writable = folder.path().join("baseline.json");
    Baseline::check_target(&writable).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    for place in ["/proc/baseline.json", "/", "/dev/null/x", ""] {
        assert!(Baseline::check_target(place.as_ref()).is_err(), "{place}");
    }
    let missing = folder.path().join("none/baseline.json");
    assert!(Baseline::check_target(&missing).is_err());
}
