//! Limits of address space, set once a device is open.
//!
//! Under each the same work is done plain and attached. Where ttnn ends well under a limit, it does so
//! attached under one that is 24 MiB higher; and where it dies attached, it dies plain, too, not of us.
//! ttnn itself dies of some limits, by chance: what it did once is tried again.

use std::fmt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::Context as _;

use crate::own_board::OwnBoard;
use crate::process::{self, Output, run_to_end};
use crate::programs::TestBoard;
use crate::session::Session;

/// Limits in MiB above what is mapped; a sample of them, and all.
pub const SAMPLE: [u32; 5] = [0, 2, 9, 26, 64];
pub const ALL: std::ops::RangeInclusive<u32> = 0..=64;

/// What being attached may cost, in MiB.
const COST: u32 = 24;

/// How often plain ttnn is tried where it was better than attached.
const TRIES: u32 = 4;

const PROGRAM: &str = "memory_limit.py";

/// The exit code where ttnn was refused memory and said so.
const REFUSED: i32 = 3;

/// What Rust and the C library print when code of ours ends a process.
const OURS: [&str; 4] = [
    "memory allocation of",
    "panicked",
    "failed to register TLS destructor",
    "non-unwinding",
];

/// What became of all limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    limits: u32,
    /// Those under which the attached program ended well, was refused memory, or died.
    well: u32,
    refused: u32,
    died: u32,
    pub failures: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            limits,
            well,
            refused,
            died,
            failures,
        } = self;
        write!(
            formatter,
            "{limits} limits: attached, {well} end well, {refused} are refused memory, {died} end as plain \
             ttnn does: {} failures",
            failures.len()
        )
    }
}

/// Works under each of some limits.
///
/// # Errors
///
/// When something cannot be run; what is not as it should be is in the tally.
pub fn compare(
    session: &Session,
    board: TestBoard,
    limits: impl IntoIterator<Item = u32>,
) -> anyhow::Result<Tally> {
    let folder = session.folder.join("memory-limits");
    process::make_empty(&folder)?;
    let own_board = OwnBoard::describe(board.kind, &folder)?;
    let run = |limit, is_attached| work(session, &folder, &own_board, limit, is_attached);
    let plain_ends_well = |limit| -> anyhow::Result<bool> {
        for _try in 0..TRIES {
            if !run(limit, false)?.0.success() {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let mut tally = Tally::default();
    for limit in limits {
        tally.limits += 1;
        let (status, said) = run(limit, true)?;
        let mut fail = |what: &str| {
            let failure = format!("{limit} MiB: {what}: {status}\n{said}");
            tally.failures.push(failure);
        };
        if OURS.iter().any(|words| said.contains(words)) {
            fail("ended by us");
        }
        match status.code() {
            Some(0) => {
                tally.well += 1;
                continue;
            }
            Some(REFUSED) => tally.refused += 1,
            _died => {
                if plain_ends_well(limit)? {
                    fail("dies only attached");
                }
                tally.died += 1;
            }
        }
        if let Some(lower) = limit.checked_sub(COST)
            && plain_ends_well(lower)?
        {
            tally.failures.push(format!(
                "{limit} MiB: {status}, and plain ttnn ends well with {lower}\n{said}"
            ));
        }
    }
    Ok(tally)
}

/// Runs the program under a limit: how it ended, and the end of what it said.
fn work(
    session: &Session,
    folder: &Path,
    board: &OwnBoard,
    limit: u32,
    is_attached: bool,
) -> anyhow::Result<(ExitStatus, String)> {
    let name = format!("{limit}-{}", if is_attached { "attached" } else { "plain" });
    let output = Output {
        stdout: folder.join(format!("{name}.stdout")),
        stderr: folder.join(format!("{name}.stderr")),
    };
    let mut command = process::command_in(folder, &session.ttnn.python);
    command
        .arg(session.programs.join("behaviours").join(PROGRAM))
        .arg(folder.join("result"))
        .arg(limit.to_string())
        .stdin(Stdio::null())
        .env("TTMEM_SOCKET", folder.join("no-server"))
        .env("TT_METAL_CACHE", &session.ttnn.kernel_cache)
        .env("TT_METAL_MOCK_CLUSTER_DESC_PATH", board.descriptor());
    if is_attached {
        command.env("LD_PRELOAD", &session.attach);
    }
    let status = run_to_end(&name, &output, &mut command, |_child| {});
    let status = status.with_context(|| format!("{name} cannot be run"))?;
    Ok((status, output.last_lines()))
}
