use super::python::{Verdict, find, verdict};
use super::*;
use std::ffi::OsString;
use std::fs;

#[test]
fn the_table_of_wheels_is_the_one_that_is_written() {
    assert_eq!(verdict("0.81.1"), Verdict::Exact);
    assert_eq!(
        verdict("0.76.0"),
        Verdict::Exact,
        "what it does not use need not be compared"
    );
    assert_eq!(verdict("0.66.0"), Verdict::Partly);
    assert_eq!(verdict("0.60.1"), Verdict::Partly);
    assert_eq!(verdict("9.9.9"), Verdict::Unknown);
    assert_eq!(
        verdict("Wheel"),
        Verdict::Partly,
        "the heading is no wheel that could be installed"
    );
}

#[test]
fn the_active_environment_wins() {
    let folder = tempfile::tempdir().unwrap();
    let make = |prefix: &str, release: &str, version: &str| {
        let site = folder
            .path()
            .join(prefix)
            .join("lib")
            .join(release)
            .join("site-packages");
        fs::create_dir_all(site.join(format!("ttnn-{version}.dist-info"))).unwrap();
        site
    };
    let active = make("active", "python3.12", "0.81.1");
    let home = make("home/.local", "python3.10", "0.76.0");
    let at = |name: &str| OsString::from(folder.path().join(name));
    let found = find(|name| match name {
        "VIRTUAL_ENV" => Some(at("active")),
        "HOME" => Some(at("home")),
        _ => None,
    });
    let found = found.unwrap();
    assert_eq!(
        (found.version.as_str(), found.minor, found.folder),
        ("0.81.1", 12, active)
    );
    let found = find(|name| (name == "HOME").then(|| at("home"))).unwrap();
    assert_eq!(found.folder, home);
    assert_eq!(find(|_name| None), None);
}

#[test]
fn an_empty_folder_is_a_machine_without_anything() {
    let folder = tempfile::tempdir().unwrap();
    let options = DoctorOptions {
        json: false,
        bundle: None,
        yes: false,
        root: Some(folder.path().to_owned()),
    };
    let findings = Facts::read(&roots(&options)).findings(&options, None);
    assert_eq!(findings.problems, 0, "{findings:?}");
    let all_say_something = findings.checks.iter().all(|check| !check.found.is_empty());
    assert!(all_say_something, "{findings:?}");
}

#[test]
fn the_first_line_is_the_answer() {
    let folder = tempfile::tempdir().unwrap();
    let options = DoctorOptions {
        json: false,
        bundle: None,
        yes: false,
        root: Some(folder.path().to_owned()),
    };
    let mut findings = Facts::read(&roots(&options)).findings(&options, None);
    let screen = Screen {
        width: 80,
        color: false,
    };
    let mut first = |states: &[(&'static str, State)]| {
        let check = |(name, state): &(&'static str, State)| Check::new(name, *state, "x");
        findings.checks = states.iter().map(check).collect();
        let text = text(&findings, screen);
        text.lines().next().unwrap().to_owned()
    };
    let well = ("iommu", State::Ok);
    assert_eq!(first(&[well]), "no problems seen; no card in this machine");
    let (full, missing) = (("shm", State::Warning), ("driver", State::Problem));
    assert_eq!(
        first(&[well, full]),
        "no problems seen; no card in this machine; warnings: shm"
    );
    assert_eq!(first(&[missing, full]), "problems: driver; warnings: shm");
}
