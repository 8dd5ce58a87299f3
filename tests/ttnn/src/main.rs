//! The harness as a program: what `cargo xtask ttnn` starts.
//!
//! * `ttmem-ttnn provision` makes ttnn ready to run. Where there is no Python that ttnn has
//!   wheels for, or none that makes virtual environments, it says so and ends with 77, the
//!   exit code of a test that was skipped.
//! * `ttmem-ttnn variables PACKAGE FOLDER` prints `NAME=VALUE` lines: what a shell needs so that `python`, `pytest` and
//!   `mpirun` run programs on the real ttnn with one chip that is not there, whose description it puts into FOLDER, and with
//!   our package, which is in the folder PACKAGE.
//! * `ttmem-ttnn run FOLDER [BOARD | PROGRAM | BEHAVIOUR | unharmed | memory]...` runs the Python
//!   programs of a folder, or those named, on all boards, or those named; behaviours: all, or those
//!   named; some of the requests of `unharmed`, and some of the limits of `memory`.
//! * `ttmem-ttnn memory FOLDER` works under limits of address space, plain and attached.
//! * `ttmem-ttnn unharmed FOLDER [VERSION]...` makes thousands of requests of ttnn, plain and
//!   tracked, of the newest wheel and an older one, or of those named.
//! * `ttmem-ttnn reports FOLDER MANUAL` runs the programs that fail, and writes their reports into the
//!   manual.
//! * `ttmem-ttnn bench FOLDER FIGURES` measures what tracking costs, says it in a table, and
//!   puts the figures into files of a folder.
//! * `ttmem-ttnn matrix FOLDER PAGE [VERSION]...` tries every published wheel and writes the table;
//!   with versions it tries those and prints it.
//!
//! The programs and libraries it needs besides are those that cargo put beside it.

#![expect(
    clippy::print_stdout,
    reason = "a command line program: what it says is what it is for"
)]

#[path = "../../dispositions.rs"]
mod dispositions;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, bail};
use harness::behaviour::{self, Behaviour, run_behaviour};
use harness::matrix::{Matrix, all_wheels, table};
use harness::memory_limits;
use harness::programs::{BENCH_BOARD, BENCHES, Selection};
use harness::provision::{MissingPython, TtnnEnvironment, cache_folder, provision};
use harness::reports;
use harness::session::Session;
use harness::surroundings;
use harness::unharmed;
use harness::wheels::{NEWEST, OLDER, WheelVersion};

/// The exit code of a test that could not run here.
const SKIPPED: u8 = 77;

/// The word for requests that are made plain and tracked.
const UNHARMED: &str = "unharmed";

/// The word for work under limits of address space.
const MEMORY: &str = "memory";

/// The variable with a release of ttnn to run in the place of the newest.
const WHEEL_VARIABLE: &str = "TTMEM_TESTS_TTNN";

/// The variable with a seed for the programs that take one.
const SEED_VARIABLE: &str = "TTMEM_TESTS_SEED";

/// The seed when none is given: the same on every machine, so that a failure can be repeated.
const USUAL_SEED: u64 = 1;

fn main() -> ExitCode {
    // Programs here are interrupted as by Ctrl-C, also where this runs in the background.
    dispositions::restore(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT]);
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let error = match run(&words) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(error) => error,
    };
    let _closed = writeln!(std::io::stderr(), "{error:#}");
    if error.is::<MissingPython>() {
        ExitCode::from(SKIPPED)
    } else {
        ExitCode::FAILURE
    }
}

fn run(words: &[&str]) -> anyhow::Result<()> {
    let tools = tools_folder()?;
    match words {
        ["provision"] => {
            let ttnn = provisioned(&tools)?;
            println!("ttnn is ready: {}", ttnn.python.display());
            Ok(())
        }
        ["variables", package, folder] => {
            let (ttnn, package) = (provisioned(&tools)?, Path::new(package));
            let variables = surroundings::variables(&ttnn, &tools, package, Path::new(folder))?;
            for (name, value) in variables {
                println!("{name}={value}");
            }
            Ok(())
        }
        ["run", programs, words @ ..] => {
            let session = session(&tools, Path::new(programs))?;
            let (behaviours, mut others) = behaviour::select(words);
            others.retain(|word| ![UNHARMED, MEMORY].contains(word));
            if words.is_empty() || !others.is_empty() {
                match Selection::parse(&others) {
                    Ok(selection) => run_programs(&session, &selection)?,
                    Err(word) => bail!("neither a board nor a program nor a behaviour: {word}"),
                }
            }
            run_behaviours(&session, &behaviours)?;
            if words.is_empty() || words.contains(&UNHARMED) {
                run_unharmed(std::slice::from_ref(&session), unharmed::FEW_REQUESTS)?;
            }
            if words.is_empty() || words.contains(&MEMORY) {
                run_memory(&session, memory_limits::SAMPLE)?;
            }
            Ok(())
        }
        [MEMORY, programs] => {
            let session = session(&tools, Path::new(programs))?;
            run_memory(&session, memory_limits::ALL)
        }
        [UNHARMED, programs, wheels @ ..] => {
            let named = wheels.iter().map(|wheel| wheel.parse());
            let mut named: Vec<WheelVersion> = named.collect::<Result<_, _>>()?;
            if named.is_empty() {
                named.extend([NEWEST, OLDER]);
            }
            let sessions = named.into_iter();
            let sessions = sessions.map(|wheel| session_of(&tools, Path::new(programs), wheel));
            let sessions: Vec<Session> = sessions.collect::<anyhow::Result<_>>()?;
            run_unharmed(&sessions, unharmed::ALL_REQUESTS)
        }
        ["reports", programs, manual] => {
            let session = session(&tools, Path::new(programs))?;
            let written = reports::write(&session, Path::new(manual))?;
            println!("{written} reports are in {manual}");
            Ok(())
        }
        ["bench", programs, figures] => bench(&tools, Path::new(programs), Path::new(figures)),
        ["matrix", programs, page, wheels @ ..] => {
            run_matrix(&tools, Path::new(programs), Path::new(page), wheels)
        }
        _ => bail!(
            "usage: ttmem-ttnn provision | ttmem-ttnn variables PACKAGE FOLDER | ttmem-ttnn run FOLDER [WORD]... \
             | ttmem-ttnn memory FOLDER | ttmem-ttnn unharmed FOLDER [VERSION]... | ttmem-ttnn reports FOLDER MANUAL | ttmem-ttnn bench FOLDER FIGURES | ttmem-ttnn matrix FOLDER PAGE [VERSION]..."
        ),
    }
}

/// Where cargo put this program, and the others beside it.
fn tools_folder() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("no path of this program")?;
    let folder = own.parent().context("this program is in no folder")?;
    Ok(folder.to_path_buf())
}

fn provisioned(tools: &Path) -> anyhow::Result<TtnnEnvironment> {
    provision(chosen_wheel()?, &standin(tools))
}

/// The program that stands in for the kernel compiler.
fn standin(tools: &Path) -> PathBuf {
    tools.join("ttmem-standin-compiler")
}

/// The release to run: the newest, if no other is asked for.
fn chosen_wheel() -> anyhow::Result<WheelVersion> {
    match std::env::var(WHEEL_VARIABLE) {
        Ok(text) => text.parse().context(WHEEL_VARIABLE),
        Err(_unset) => Ok(NEWEST),
    }
}

/// A session with the programs of a folder, on the release to run.
fn session(tools: &Path, programs: &Path) -> anyhow::Result<Session> {
    session_of(tools, programs, chosen_wheel()?)
}

fn session_of(tools: &Path, programs: &Path, wheel: WheelVersion) -> anyhow::Result<Session> {
    Ok(Session {
        ttnn: provision(wheel, &standin(tools))?,
        ttmem: existing(tools, "ttmem")?,
        attach: existing(tools, "libttmem_attach.so")?,
        programs: std::path::absolute(programs).context("no absolute path of the programs")?,
        folder: tools.join("ttmem-ttnn-runs"),
        seed: seed()?,
    })
}

fn bench(tools: &Path, programs: &Path, figures: &Path) -> anyhow::Result<()> {
    let session = session(tools, programs)?;
    for bench in BENCHES {
        println!("{}", session.run(BENCH_BOARD, bench.program)?);
        let folder = session.run_folder(BENCH_BOARD, bench.program);
        let (written, kept) = (folder.join(bench.figures), figures.join(bench.figures));
        std::fs::copy(&written, &kept)
            .with_context(|| format!("cannot copy {} to {}", written.display(), kept.display()))?;
    }
    Ok(())
}

fn run_programs(session: &Session, selection: &Selection) -> anyhow::Result<()> {
    let (began, mut ran) = (Instant::now(), 0);
    for (board, program) in selection.runs() {
        let start = Instant::now();
        let what = || format!("{} on {}", program.name, board.kind.name());
        let summary = session.run(board, program).with_context(what)?;
        let (board, program) = (board.kind.name(), program.name);
        let seconds = start.elapsed().as_secs_f64();
        println!("{board:<6} {program:<15} {seconds:>5.1} s  {summary}");
        ran += 1;
    }
    if ran == 0 {
        bail!("none of these programs runs on any of these boards");
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{ran} runs in {seconds:.0} s, and the accounts were equal after every step");
    Ok(())
}

/// Runs each, plain and tracked; all of them, so that one failure does not hide another.
fn run_behaviours(session: &Session, behaviours: &[Behaviour]) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for &behaviour in behaviours {
        let start = Instant::now();
        let ran = run_behaviour(session, behaviour);
        let seconds = start.elapsed().as_secs_f64();
        match ran {
            Ok(()) => println!("{:<22} {seconds:>5.1} s  as without", behaviour.name),
            Err(error) => {
                println!("{:<22} {seconds:>5.1} s  {error:#}", behaviour.name);
                failed.push(behaviour.name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("not as without ttmem: {}", failed.join(", "));
    }
    if !behaviours.is_empty() {
        println!("{} behaviours are as without ttmem", behaviours.len());
    }
    Ok(())
}

/// Makes so many requests of each board in each session; whatever differs, all are made.
fn run_unharmed(sessions: &[Session], requests: u32) -> anyhow::Result<()> {
    let mut differences = 0;
    for session in sessions {
        for board in unharmed::boards() {
            let start = Instant::now();
            let (wheel, kind) = (session.ttnn.wheel, board.kind.name());
            let asked = unharmed::ask(session, board, requests);
            let tally = asked.with_context(|| format!("ttnn {wheel} on {kind}"))?;
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "{wheel} {kind:<6} {seconds:>5.0} s  seed {}: {tally}",
                session.seed
            );
            for difference in &tally.differences {
                println!("  {difference}");
            }
            differences += tally.differences.len();
        }
    }
    if differences > 0 {
        bail!("{differences} answers are not as without ttmem");
    }
    println!("every answer is as without ttmem");
    Ok(())
}

/// Works under limits of address space, on one board.
fn run_memory(session: &Session, limits: impl IntoIterator<Item = u32>) -> anyhow::Result<()> {
    let start = Instant::now();
    let tally = memory_limits::compare(session, BENCH_BOARD, limits)?;
    println!("{:>5.0} s  {tally}", start.elapsed().as_secs_f64());
    if !tally.failures.is_empty() {
        bail!("not as without ttmem:\n{}", tally.failures.join("\n"));
    }
    Ok(())
}

/// Runs the matrix: all wheels into the page, or those that are named onto standard output.
fn run_matrix(tools: &Path, programs: &Path, page: &Path, wheels: &[&str]) -> anyhow::Result<()> {
    let matrix = Matrix {
        cache: cache_folder()?,
        standin: existing(tools, "ttmem-standin-compiler")?,
        ttmem: existing(tools, "ttmem")?,
        attach: existing(tools, "libttmem_attach.so")?,
        programs: std::path::absolute(programs).context("no absolute path of the programs")?,
        folder: tools.join("ttmem-ttnn-runs"),
    };
    let named = wheels.iter().map(|wheel| wheel.parse());
    let named: Vec<WheelVersion> = named.collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for (wheel, release) in all_wheels() {
        if !named.is_empty() && !named.contains(&wheel) {
            continue;
        }
        let start = Instant::now();
        let row = matrix.row(wheel, release);
        let row = row.with_context(|| format!("ttnn {wheel} on Python {}", release.name()))?;
        let seconds = start.elapsed().as_secs_f64();
        let how = if row.is_wrong { "wrong" } else { "done" };
        println!("{wheel} {} {seconds:>6.1} s  {how}", release.name());
        rows.push(row);
    }
    if rows.is_empty() {
        bail!("no such wheel for a Python that is here");
    }
    if named.is_empty() {
        std::fs::write(page, table(&rows))
            .with_context(|| format!("cannot write {}", page.display()))?;
    } else {
        print!("{}", table(&rows));
    }
    if rows.iter().any(|row| row.is_wrong) {
        bail!("the table has a mistake of ours");
    }
    Ok(())
}

/// A preloaded library that is not there would be no error, but a program that is not tracked.
fn existing(tools: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = tools.join(name);
    if !path.exists() {
        bail!("{} is not there: build it first", path.display());
    }
    Ok(path)
}

fn seed() -> anyhow::Result<u64> {
    match std::env::var(SEED_VARIABLE) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{SEED_VARIABLE} is {text:?}, which is no number")),
        Err(_unset) => Ok(USUAL_SEED),
    }
}
