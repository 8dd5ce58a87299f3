//! Developer commands: the checks, the test runs made of them, and measurements.
//!
//! Run as `cargo xtask COMMAND`. It needs nothing but Rust: what else a check needs
//! is installed where that is possible, and otherwise the check says that it
//! could not run.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program: what it says is what it is for"
)]

mod api_types;
mod arrows;
mod bench;
mod budget;
mod command;
#[path = "../../tests/dispositions.rs"]
mod dispositions;
mod dist;
mod environment;
mod examples;
mod fleet;
mod fuzz;
mod gate;
mod guide;
mod house;
mod install;
mod loom;
mod schemathesis;
mod screens;
mod server;
mod steps;
mod suite;
mod surroundings;
mod tool;
mod ttnn;
mod types;
mod web;
mod worst;

use anyhow::bail;
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

before a commit, before a change is merged, and for a release:
  check                       seconds: format, lints, arrows, house, unit tests
  test                        minutes: every check; steps that cannot run here are skipped
  ci                          test, surroundings, the Debian package, ttnn with what the wheel installs and short runs of the
                              benchmarks; a skipped step is a failure
  soak [STEP...]              an hour or more: load, property tests, fuzzing, regions, the page, churn, short, fleet-scale,
                              worst, host-unharmed, memory, ttnn-matrix; keeps the output in docs/soak/

single checks:
  arrows                      the dependencies between crates point the right way
  dist-wheel [--dev]          tries the wheel and its pytest plugin under Python 3.10, 3.12 and 3.13; --dev
                              compiles it as the tests are compiled, which is faster
  dist-ttnn                   like ttnn, with the program, the library and the Python package of the wheel
  dist-deb                    builds the Debian package and installs, upgrades and removes it in a Debian of
                              its own, without systemd and under it; needs root
  examples                    builds every example in every way, and runs it against a server, under
                              valgrind and with sanitizers
  fleet                       alerts, figures, dashboards, manifests, the TLS recipe and `ttmem fleet` on a Prometheus, an
                              Alertmanager, a VictoriaMetrics and an nginx that are started for it
  fuzz [SECONDS] [TARGET...]  every fuzz target (or those named): the same inputs as always, or for
                              so long new ones
  gate [--bless]              instructions per event against the committed baselines; --bless writes them
  guide [PAGE...]             builds the guide, follows its links, runs every command in it and compares its
                              pictures; or runs and compares what the named pages have
  house                       counts of duplicated judgements, codecs, mutators of the ledger and type names, with their
                              places; fails above the ceilings in xtask/house.txt
  loom                        the lock-free code in every interleaving of its threads
  schemathesis [ARG...]       the read API of a running server against its own description; arguments go
                              to schemathesis
  surroundings [NAME...]      the end-to-end tests below /tmp, below a private home, on a path with spaces, as an
                              ordinary user, without a terminal, in the background and beside a running server
  ttnn [BOARD|PROGRAM...]     programs on the real ttnn, compared with its allocator step by step; and
                              behaviours, compared with themselves without ttmem
  ttnn-matrix [VERSION...]    tries every published wheel of ttnn and writes docs/ttnn-wheels.md; with
                              versions, tries those and prints the table. Removes each wheel that it
                              installed (about 500 MB) after its row, but the newest
  ttnn-unharmed [VERSION...]  20,000 requests for memory and every operation of the programs, on three
                              boards and two wheels of ttnn: the answers are those without ttmem
  types                       the Python package by mypy --strict, and a file that uses it
  web-test                    the page of a real server in a real browser, and its unit tests; takes pictures into
                              target/page; needs Node.js
  worst [CASE...]             instructions per event as everything else grows; fails where they grow too

measurements:
  bench SUBJECT [--quick]     server, client, top, api, metrics, host, churn, short, fair, python or recording,
                              as JSON
  fleet-scale [--quick]       200 simulated hosts with 32 devices each in one Prometheus: series, memory, times
  ttnn-reports                programs on the real ttnn that run out of memory; writes the reports of them into
                              docs/explain.md
  ttnn-bench                  what tracking costs the real ttnn; writes docs/bench/attach*.json

other:
  api-types                   writes the page's types of the read API, show/web/src/api.ts, from docs/openapi.json
  dist                        builds the wheel, the Debian package and the tarballs into target/dist
  install --prefix DIR        installs libttmem, its headers, and its pkg-config and CMake packages
  screens [DOCUMENT...]       captures the screens and pictures of README.md, docs/top.md and docs/guide again, or of
                              those named
  ttnn-pictures               runs a notebook on the real ttnn and takes pictures of what it shows into
                              target/notebook; one of them goes into docs/pictures
  ttnn-shell                  a shell in which `python` has the real ttnn with one chip that is not there, to try the
                              programs of the guide
  web                         builds the page into show/web/dist, which the server embeds when it is built next; needs
                              Node.js
";

/// The exit code of a check that could not run.
const SKIPPED: u8 = 77;

/// Why a check could not run, which is no failure of what it checks.
#[derive(Debug)]
struct CannotRun(String);

impl fmt::Display for CannotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CannotRun {}

fn main() -> ExitCode {
    // Commands of the guide and programs of checks are interrupted as by Ctrl-C, also where this runs in the background.
    dispositions::restore(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT]);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Err(error) = run(&words) else {
        return ExitCode::SUCCESS;
    };
    let is_skipped = error.is::<CannotRun>();
    let (what, code) = if is_skipped {
        // The last line of its output: whoever runs this as a step repeats it.
        ("could not run", ExitCode::from(SKIPPED))
    } else {
        ("error", ExitCode::FAILURE)
    };
    let _closed = writeln!(std::io::stderr(), "{what}: {error:#}");
    code
}

fn run(words: &[&str]) -> anyhow::Result<()> {
    match words {
        ["check"] => suite::check(),
        ["test"] => suite::test(),
        ["ci"] => suite::ci(),
        ["soak", steps @ ..] => suite::soak(steps),
        ["step", name] => suite::step(name),
        ["api-types"] => api_types::run(),
        ["arrows"] => arrows::run(),
        ["bench", rest @ ..] => bench::run(rest),
        ["fleet"] => fleet::run(),
        ["fleet-scale", rest @ ..] => fleet::scale(rest),
        ["fuzz", rest @ ..] => fuzz::run(&fuzz::Request::parse(rest)?),
        ["gate"] => gate::run(gate::Mode::Compare),
        ["gate", "--bless"] => gate::run(gate::Mode::Bless),
        ["guide", pages @ ..] => guide::run(pages),
        ["house"] => house::run(),
        ["worst", cases @ ..] => worst::run(cases),
        ["dist"] => dist::run(),
        ["dist-wheel"] => dist::check_wheel(dist::Profile::Release),
        ["dist-wheel", "--dev"] => dist::check_wheel(dist::Profile::Dev),
        ["dist-deb"] => dist::check_deb(),
        ["dist-ttnn"] => dist::check_ttnn(),
        ["examples"] => examples::run(),
        ["install", rest @ ..] => install::run(&install::Request::parse(rest)?),
        ["loom"] => loom::run(),
        ["schemathesis", rest @ ..] => schemathesis::run(rest),
        ["screens", documents @ ..] => screens::run(documents),
        ["ttnn", rest @ ..] => ttnn::run(rest),
        ["ttnn-bench"] => ttnn::bench(),
        ["ttnn-reports"] => ttnn::reports(),
        ["ttnn-pictures"] => ttnn::pictures(),
        ["ttnn-shell"] => ttnn::shell(),
        ["ttnn-matrix", wheels @ ..] => ttnn::run_matrix(wheels),
        ["web"] => web::build(),
        ["web-test"] => web::test(),
        ["ttnn-unharmed", wheels @ ..] => ttnn::run_unharmed(wheels),
        ["surroundings", names @ ..] => surroundings::run(names),
        ["types"] => types::run(),
        ["help" | "-h" | "--help"] => {
            print!("{USAGE}");
            Ok(())
        }
        other => bail!("no such command: {:?}\n\n{USAGE}", other.join(" ")),
    }
}
