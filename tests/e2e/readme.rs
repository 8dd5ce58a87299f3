//! README's commands do what README says.

use crate::support::server::ttmem;

/// Every line of README's report is one that the demo prints.
#[test]
fn the_report_is_what_the_demo_prints() {
    let output = ttmem()
        .arg("demo")
        .env("COLUMNS", "80")
        .output()
        .expect("the demo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let printed = String::from_utf8(output.stdout).expect("text");
    let readme = include_str!("../../README.md");
    let (_before, report) = readme
        .split_once("In part:\n\n```text\n")
        .expect("README shows a report");
    let report = report.split("```").next().expect("the report ends");
    assert!(report.lines().count() > 5, "{report}");
    let missing: Vec<&str> = report
        .lines()
        .filter(|line| !line.is_empty() && !printed.lines().any(|other| other == *line))
        .collect();
    assert!(missing.is_empty(), "not printed any more: {missing:#?}");
}

/// A fresh checkout has no page, and a build script does not make one: it would need the network.
#[test]
fn the_browser_line_builds_the_page_first() {
    let readme = include_str!("../../README.md");
    let lines = readme.lines().filter(|line| line.contains("cargo run"));
    let lines: Vec<&str> = lines.filter(|line| line.contains("--http")).collect();
    assert!(!lines.is_empty(), "README has no line for a browser");
    for line in lines {
        assert!(line.starts_with("cargo xtask web && "), "{line}");
    }
}
