//! The Python package in real interpreters: its own tests, over the libraries of this build.
//!
//! The figures are the same whether or not there is a server, and however little of the history is
//! kept: each interpreter runs the tests in all three surroundings. The inner loop has the newest interpreter and the two
//! surroundings that differ most; `cargo xtask test` has all.

#[path = "../../capture/pystack/tests/found/mod.rs"]
pub(crate) mod found;

use crate::support::c_program::built;
use crate::support::is_left_to_the_whole_run;
use crate::support::place::{TTMEM, attach_library, source};
use crate::support::server::TestServer;
use std::process::Command;

/// Runs the package's tests in every interpreter, in these surroundings.
fn pass_in_every_interpreter(tests: &str, surroundings: &[(&str, &str)]) {
    let python = source("show/python");
    let folder = tempfile::tempdir().expect("a folder");
    for (version, program) in found::interpreters() {
        let output = Command::new(program)
            .args([
                "-B",
                "-W",
                "error",
                "-W",
                "ignore::DeprecationWarning",
                "-m",
                "unittest",
            ])
            .args(["discover", "--start-directory", "tests", "--pattern", tests])
            .current_dir(&python)
            .env("PYTHONPATH", &python)
            .env("TTMEM_TESTS_LIBRARY", built("libttmem.so"))
            .env("TTMEM_TESTS_ATTACH", attach_library(folder.path()))
            .env("TTMEM_TESTS_PROGRAM", TTMEM)
            .envs(surroundings.iter().copied())
            .output()
            .expect("it was started before");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{version}: {said}");
        // Of old, no test at all is a success.
        let ran = said.lines().find(|line| line.starts_with("Ran "));
        assert!(ran.is_some_and(|ran| !ran.starts_with("Ran 0 ")), "{said}");
    }
}

const NO_SERVER: (&str, &str) = ("TTMEM_SOCKET", "/nonexistent/ttmem.sock");

#[test]
fn figures_are_exact_without_a_server() {
    if is_left_to_the_whole_run("the same with hardly any history is tried") {
        return;
    }
    pass_in_every_interpreter("test_account.py", &[NO_SERVER]);
}

#[test]
fn figures_are_exact_without_a_server_and_nearly_without_history() {
    let short = ("TTMEM_HISTORY_EVENTS", "16");
    pass_in_every_interpreter("test_account.py", &[NO_SERVER, short]);
}

#[test]
fn figures_are_exact_with_a_server() {
    let server = TestServer::start(&[]);
    let socket = server.socket().to_str().expect("a plain path").to_owned();
    pass_in_every_interpreter("test_account.py", &[("TTMEM_SOCKET", &socket)]);
}

#[test]
fn what_is_shown_is_well_formed() {
    pass_in_every_interpreter("test_shown.py", &[NO_SERVER]);
}

#[test]
fn a_program_is_attached_or_says_why_it_is_not() {
    pass_in_every_interpreter("test_process.py", &[NO_SERVER]);
}

#[test]
fn the_baseline_is_that_of_the_program() {
    pass_in_every_interpreter("test_baseline.py", &[NO_SERVER]);
}
