//! README's first command does what README says.

use crate::support::server::ttmem;

/// Every line of README's captured screen is one that the demo prints.
#[test]
fn the_captured_screen_is_what_the_demo_prints() {
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
    let screen = readme
        .split("```text\n")
        .nth(1)
        .expect("README shows a screen");
    let screen = screen.split("```").next().expect("the screen ends");
    let missing: Vec<&str> = screen
        .lines()
        .filter(|line| !line.is_empty() && !printed.lines().any(|other| other == *line))
        .collect();
    assert!(missing.is_empty(), "not printed any more: {missing:#?}");
}
