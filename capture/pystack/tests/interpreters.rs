//! Stacks read in real interpreters equal Python's own: every one that this machine has.

mod found;

use std::path::PathBuf;
use std::process::Command;

const STACKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stacks.py");
const DENIED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/denied.py");
const ODD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/odd.py");
const OTHERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/subinterpreters.py");
const ENDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ending.py");

/// The library that `examples/pystack_probe.rs` becomes.
fn probe() -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    let built = test.ancestors().nth(2).expect("it lies in deps");
    built.join("examples/libpystack_probe.so")
}

/// Runs a script in every interpreter; what each of them printed has to have a text in it.
fn in_every_interpreter(script: &str, expected: &str) {
    for (version, program) in found::interpreters() {
        let output = Command::new(program)
            .arg(script)
            .arg(probe())
            .output()
            .expect("it was started before");
        let (out, err) = (output.stdout, output.stderr);
        let said = String::from_utf8_lossy(&out) + String::from_utf8_lossy(&err);
        assert!(
            output.status.success(),
            "{version}: {}: {said}",
            output.status
        );
        assert!(said.contains(expected), "{version}: {said}");
    }
}

#[test]
fn every_interpreter_gives_the_stacks_that_python_gives() {
    in_every_interpreter(STACKS, "ok of ");
}

#[test]
fn a_thread_that_outlives_its_interpreter_is_not_walked() {
    in_every_interpreter(ENDING, "late: Ok(Ok(None))");
}

#[test]
fn an_odd_code_object_costs_its_own_frame() {
    in_every_interpreter(ODD, "ok");
}

#[test]
fn subinterpreters_have_their_own_lines_or_none() {
    in_every_interpreter(OTHERS, "ok: ");
}

#[test]
fn where_memory_cannot_be_checked_there_are_no_lines_and_the_reason_is_said() {
    in_every_interpreter(DENIED, "unsupported: the kernel refuses process_vm_readv");
}
