//! `ttmem run --top`: the terminal view on the terminal of a program that runs.

use super::support::server::{TTMEM, TestServer, ttmem};
use super::support::tmux::{PROMPT, Tmux};

/// A line that runs a script under the view; the shell says its code at the end.
fn run(server: &TestServer, script: &str) -> String {
    format!(
        "clear; {TTMEM} run --no-attach --top --socket {} -- sh -c '{script}'; echo code=$?",
        server.socket().display()
    )
}

#[test]
fn the_view_has_the_terminal_while_the_program_runs_and_its_output_comes_after() {
    let server = TestServer::start(&["--no-legacy-socket", "--quiet"]);
    let Some(terminal) = Tmux::with_shell(120, 40) else {
        return;
    };
    let gate = server.folder().join("gate");
    let script = format!(
        "echo first words; while [ ! -e {} ]; do sleep 0.05; done; echo last words >&2; exit 7",
        gate.display()
    );
    terminal.run(&run(&server, &script));
    let screen = terminal.wait_for("> first words");
    assert!(
        screen.contains("1 Overview") && screen.contains("runs for"),
        "{screen}"
    );
    std::fs::write(&gate, "").expect("the gate opens");
    // Nobody touched the view, so it goes when the program does.
    let screen = terminal.wait_for("code=7");
    assert!(!screen.contains("1 Overview"), "{screen}");
    for text in ["first words", "last words"] {
        assert!(screen.lines().any(|line| line == text), "{text}\n{screen}");
    }
    assert_eq!(terminal.knows("alternate_on"), "0");
}

#[test]
fn leaving_the_view_leaves_the_program_alone() {
    let server = TestServer::start(&["--no-legacy-socket", "--quiet"]);
    let Some(terminal) = Tmux::with_shell(120, 40) else {
        return;
    };
    let gate = server.folder().join("gate");
    let script = format!(
        "while [ ! -e {} ]; do echo working; sleep 0.05; done; echo done with it",
        gate.display()
    );
    terminal.run(&run(&server, &script));
    terminal.wait_for("> working");
    terminal.press(&["q"]);
    terminal.wait_until("the program writes to the terminal", |screen| {
        !screen.contains("1 Overview")
            && screen.lines().filter(|line| *line == "working").count() > 3
    });
    std::fs::write(&gate, "").expect("the gate opens");
    let screen = terminal.wait_for("code=0");
    assert!(
        screen.lines().any(|line| line == "done with it"),
        "{screen}"
    );
    terminal.wait_for(PROMPT);
}

#[test]
fn a_program_that_ends_while_the_user_looks_leaves_the_view_to_the_user() {
    let server = TestServer::start(&["--no-legacy-socket", "--quiet"]);
    let Some(terminal) = Tmux::with_shell(120, 40) else {
        return;
    };
    let gate = server.folder().join("gate");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    terminal.run(&run(&server, &script));
    terminal.wait_for("runs for");
    terminal.press(&["2"]);
    terminal.wait_until("the key was taken", |screen| screen.contains("process"));
    std::fs::write(&gate, "").expect("the gate opens");
    terminal.wait_for("ended with code 0");
    terminal.press(&["q"]);
    terminal.wait_for("code=0");
}

#[test]
fn without_a_terminal_the_program_runs_all_the_same() {
    let server = TestServer::start(&["--no-legacy-socket", "--quiet"]);
    let output = ttmem()
        .args(["run", "--no-attach", "--top", "--socket"])
        .arg(server.socket())
        .args(["--", "sh", "-c", "cat; exit 5"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(5));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        complaint.contains("no view: standard input is not a terminal"),
        "{complaint}"
    );
}
