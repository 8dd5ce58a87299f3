//! What cargo has no word for: the whole test run, and the checks it is made of.
//!
//! Run as `cargo xtask WORD`. It needs nothing but Rust: what else a check needs
//! is installed where that is possible, and otherwise the check says that it
//! could not run.

#![expect(
    clippy::print_stdout,
    reason = "a command line program: what it says is what it is for"
)]

mod arrows;
mod command;
mod examples;
mod fuzz;
mod gate;
mod install;
mod loom;
mod schemathesis;
mod screens;
mod server;
mod suite;
mod tool;
mod ttnn;
mod worst;

use anyhow::bail;
use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask WORD

  test                        every check, cheap ones first; what CI runs
  arrows                      the dependencies between crates point the right way
  fuzz [SECONDS] [TARGET...]  every fuzz target (or those named) for a bounded time
  loom                        the lock-free code in every interleaving of its threads
  gate [--bless]              instructions per event against the committed baselines;
                              --bless writes new baselines
  worst [CASE...]             instructions per event beside more and more of everything; fails where
                              they grow and should not
  examples                    builds every example in every way there is, and runs it against a
                              server, under valgrind and with sanitizers
  ttnn [BOARD|PROGRAM...]     programs on the real ttnn, compared with its allocator step by step;
                              and behaviours, compared with themselves without ttmem
  ttnn-bench                  what tracking costs the real ttnn; writes docs/bench/attach.json
  ttnn-matrix [VERSION...]    tries every published wheel of ttnn and writes docs/ttnn-wheels.md; with
                              versions it tries those and prints the table. A wheel that it installs
                              it removes again after its row (about 500 MB each), but the newest
  schemathesis [WORD...]      the read API of a running server held against its own description, with
                              more words for schemathesis if there are any
  screens                     the screens in README.md and docs/top.md, captured anew from the program
  install --prefix DIR        libttmem, its headers, and its pkg-config and CMake packages
";

/// How a check that did not fail ended.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It ran.
    Passed,
    /// It could not run, for this reason.
    Skipped(String),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // There is nobody left to tell when stderr is closed.
            let _told = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> anyhow::Result<()> {
    let outcome = match words {
        ["test"] => return suite::run(),
        ["arrows"] => arrows::run()?,
        ["fuzz", rest @ ..] => fuzz::run(&fuzz::Request::parse(rest)?)?,
        ["gate"] => gate::run(gate::Mode::Compare)?,
        ["gate", "--bless"] => gate::run(gate::Mode::Bless)?,
        ["worst", cases @ ..] => worst::run(cases)?,
        ["examples"] => examples::run()?,
        ["install", rest @ ..] => install::run(&install::Request::parse(rest)?)?,
        ["loom"] => loom::run()?,
        ["schemathesis", rest @ ..] => schemathesis::run(rest)?,
        ["screens"] => screens::run()?,
        ["ttnn", rest @ ..] => ttnn::run(rest)?,
        ["ttnn-bench"] => ttnn::bench()?,
        ["ttnn-matrix", wheels @ ..] => ttnn::run_matrix(wheels)?,
        ["help" | "-h" | "--help"] => {
            print!("{USAGE}");
            return Ok(());
        }
        other => bail!("no such word: {:?}\n\n{USAGE}", other.join(" ")),
    };
    match outcome {
        Outcome::Passed => Ok(()),
        // Asked for by name, so not running it is no success.
        Outcome::Skipped(reason) => bail!("could not run: {reason}"),
    }
}
