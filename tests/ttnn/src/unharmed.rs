//! The host is unharmed: what ttnn answers must not depend on whether it is tracked.
//!
//! Thousands of requests for memory, sensible and not, and every operation are made of plain ttnn
//! and of ttnn under `ttmem run`. Each answer must be the same: addresses, shapes, layouts, or the
//! exception; and so must be how the process ends. The runtime dies of some requests by itself: it
//! has to do so both times, and a further process goes on behind that request.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use tempfile::TempDir;

use crate::behaviour::Outcome;
use crate::own_board::OwnBoard;
use crate::process::{self, Output, run_to_end};
use crate::programs::{BOARDS, TestBoard};
use crate::session::Session;

/// The boards on which the host is looked at: of cards with two chips T3000 is made.
pub fn boards() -> impl Iterator<Item = TestBoard> {
    use ttmem_event::catalogue::BoardKind::{N150, P150, T3000};
    BOARDS
        .into_iter()
        .filter(|board| [N150, T3000, P150].contains(&board.kind))
}

/// Requests of each board and release: all of them, and as many as a run of the tests has time for.
pub const ALL_REQUESTS: u32 = 20_000;
pub const FEW_REQUESTS: u32 = 1000;

/// Requests of one process, if it lives so long.
const REQUESTS_OF_PROCESS: u32 = 2000;

const REQUESTS: &str = "memory_requests.py";
const OPERATIONS: &str = "operation_answers.py";

/// How lines of answers name themselves, in the programs.
const ASKS: &str = " asks\"";
const IS_ANSWERED: &str = " is answered\": ";
const GRANTED: &str = "[\"tensor\"";

/// What became of all that was asked of a board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u32,
    granted: u32,
    /// Requests of which the process died, both times.
    deadly: u32,
    processes: u32,
    /// Answers of operations.
    operations: usize,
    /// Where the two runs parted.
    pub differences: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            requests,
            granted,
            deadly,
            processes,
            operations,
            differences,
        } = self;
        let refused = requests.saturating_sub(granted + deadly);
        write!(
            formatter,
            "{requests} requests in {processes} processes ({granted} tensors, {refused} other answers, \
             {deadly} end ttnn by themselves), {operations} answers of operations: {} differences",
            differences.len()
        )
    }
}

/// Asks a board, plain and tracked, and compares.
///
/// # Errors
///
/// When something cannot be run; what differs is in the tally.
pub fn ask(session: &Session, board: TestBoard, requests: u32) -> anyhow::Result<Tally> {
    let pair = Pair::prepare(session, board)?;
    let mut tally = Tally::default();
    let mut first = 0;
    while first < requests {
        let end = requests.min(first.saturating_add(REQUESTS_OF_PROCESS));
        while first < end {
            let words = [session.seed, first.into(), (end - first).into()];
            let [plain, tracked] = pair.run(REQUESTS, &words)?;
            first = add(&mut tally, &plain, &tracked, first, end);
        }
    }
    let [plain, tracked] = pair.run(OPERATIONS, &[])?;
    // A text in an answer may have lines of its own.
    let answers = plain.result().lines().filter(|line| line.starts_with('{'));
    tally.operations = answers.count();
    let difference = plain.difference_of_answers(&tracked);
    // Operations are such that run: whoever dies of one has a mistake.
    let failed = (!plain.succeeded()).then(|| "the operations end in a failure".to_owned());
    tally.differences.extend(difference.or(failed));
    Ok(tally)
}

/// Adds the requests that one process has made, plain and tracked; with which to go on.
fn add(tally: &mut Tally, plain: &Outcome, tracked: &Outcome, first: u32, end: u32) -> u32 {
    tally.processes += 1;
    let answers = |line: &&str| line.contains(IS_ANSWERED);
    let answered = plain.result().lines().filter(answers).count();
    let granted = |line: &&str| line.contains(&format!("{IS_ANSWERED}{GRANTED}"));
    let granted = plain.result().lines().filter(granted).count();
    let last = plain.result().lines().filter_map(asked).next_back();
    tally.requests += u32::try_from(answered).unwrap_or(u32::MAX);
    tally.granted += u32::try_from(granted).unwrap_or(u32::MAX);
    let next = match (plain.succeeded(), last) {
        (true, _) => end,
        (false, Some(last)) => {
            tally.requests += 1;
            tally.deadly += 1;
            last.saturating_add(1)
        }
        (false, None) => {
            let why = format!("from {first} on nothing was asked");
            tally.differences.push(why);
            end
        }
    };
    if let Some(difference) = plain.difference_of_answers(tracked) {
        let what = format!("requests from {first} on: {difference}");
        tally.differences.push(what);
    }
    next.max(first + 1)
}

/// The number of the request that a line announces.
fn asked(line: &str) -> Option<u32> {
    let (before, _way) = line.split_once(ASKS)?;
    before.trim_start_matches(['{', '"']).parse().ok()
}

/// Where both runs take place: the same board.
struct Pair<'s> {
    session: &'s Session,
    board: TestBoard,
    folder: PathBuf,
    own_board: OwnBoard,
    /// Short, as the path of a socket must be.
    socket_folder: TempDir,
}

impl<'s> Pair<'s> {
    fn prepare(session: &'s Session, board: TestBoard) -> anyhow::Result<Self> {
        let name = format!("unharmed-{}-{}", session.ttnn.wheel, board.kind.name());
        let folder = session.folder.join(name);
        process::make_empty(&folder)?;
        let own_board = OwnBoard::describe(board.kind, &folder)?;
        Ok(Self {
            session,
            board,
            folder,
            own_board,
            socket_folder: tempfile::tempdir().context("no folder for a socket")?,
        })
    }

    /// Runs a program plain and tracked.
    fn run(&self, program: &str, words: &[u64]) -> anyhow::Result<[Outcome; 2]> {
        let plain = self.folder.join("plain");
        let plain = self.run_once(&plain, Vec::new(), program, words)?;
        let tracked = self.folder.join("tracked");
        let report = tracked.join("report");
        let ttmem = [self.session.ttmem.as_os_str(), OsStr::new("run")];
        let options = ["--json", "--report"].map(OsStr::new);
        let before = ttmem.into_iter().chain(options);
        let before = before.chain([report.as_os_str(), OsStr::new("--")]);
        let before = before.map(OsStr::to_owned).collect();
        let mut tracked = self.run_once(&tracked, before, program, words)?;
        let report: serde_json::Value = serde_json::from_slice(&process::read(&report)?)?;
        if report["processes"].as_array().is_none_or(Vec::is_empty) {
            tracked.tell("and nothing was tracked");
        }
        Ok([plain, tracked])
    }

    fn run_once(
        &self,
        folder: &Path,
        mut command: Vec<OsString>,
        program: &str,
        words: &[u64],
    ) -> anyhow::Result<Outcome> {
        process::make_empty(folder)?;
        let (session, board) = (self.session, self.board);
        command.push(session.ttnn.python.clone().into_os_string());
        let path = session.programs.join("behaviours").join(program);
        command.push(path.into_os_string());
        command.extend(["result", "expected"].map(|name| folder.join(name).into_os_string()));
        let sizes = [board.rows, board.columns].map(u64::from);
        let words = sizes.iter().chain(words);
        command.extend(words.map(|word| OsString::from(word.to_string())));
        let mut command = command.into_iter();
        let mut run = process::command_in(folder, command.next().unwrap_or_default());
        run.args(command)
            .stdin(Stdio::null())
            .env("XDG_RUNTIME_DIR", self.socket_folder.path())
            .env("TT_METAL_CACHE", &session.ttnn.kernel_cache)
            .env(
                "TT_METAL_MOCK_CLUSTER_DESC_PATH",
                self.own_board.descriptor(),
            );
        let output = Output {
            stdout: folder.join("stdout"),
            stderr: folder.join("stderr"),
        };
        let status = run_to_end(program, &output, &mut run, |_child| {})?;
        Ok(Outcome::read(status, folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "{\"4 asks\": \"empty\"}\n{\"4 is answered\": [\"tensor\", [1]]}\n\
                       {\"5 asks\": \"like\"}\n{\"5 is answered\": [\"RuntimeError\", \"no\"]}";

    #[test]
    fn equal_answers_are_counted_and_the_next_process_goes_on_behind() {
        let run = Outcome::of(0, TWO);
        let mut tally = Tally::default();
        assert_eq!(add(&mut tally, &run, &run, 4, 6), 6);
        assert_eq!((tally.requests, tally.granted, tally.deadly), (2, 1, 0));
        assert!(tally.differences.is_empty());
    }

    #[test]
    fn whoever_dies_both_times_dies_of_one_request() {
        let run = Outcome::of(136, &format!("{TWO}\n{{\"6 asks\": \"empty\"}}"));
        let mut tally = Tally::default();
        assert_eq!(add(&mut tally, &run, &run, 4, 100), 7);
        assert_eq!((tally.requests, tally.granted, tally.deadly), (3, 1, 1));
        assert!(tally.differences.is_empty());
    }

    #[test]
    fn another_answer_or_another_end_is_a_difference() {
        let plain = Outcome::of(0, TWO);
        let other = TWO.replace("[1]", "[2]");
        for tracked in [Outcome::of(136, TWO), Outcome::of(0, &other)] {
            let mut tally = Tally::default();
            add(&mut tally, &plain, &tracked, 4, 6);
            assert_eq!(tally.differences.len(), 1);
        }
    }
}
