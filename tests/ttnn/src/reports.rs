//! Failures as a user meets them: small programs that end with one, and the report of each.
//!
//! The manual has both. A place in it is `<!-- failure NAME -->` up to `<!-- end of failure -->`, and
//! the program is `failures/NAME.py`. It runs under `ttmem run` on one chip; of the report the part
//! is shown that explains the failure.

use crate::own_board::OwnBoard;
use crate::process::{self, Output, run_to_end};
use crate::programs::BOARDS;
use crate::session::Session;
use anyhow::{Context as _, bail, ensure};
use std::path::Path;

const BEGIN: &str = "<!-- failure ";
const END: &str = "<!-- end of failure -->";

/// What the program is called in the manual, and where it runs.
const PROGRAM: &str = "model.py";

/// How wide a report is in the manual, like the other reports there.
const COLUMNS: &str = "80";

/// What is shown instead of the folder that it runs in.
const HOME: &str = "/home/me";

/// What comes behind the explanations in a report.
const AFTER_FAILURES: &str = "\nPEAK";

/// Runs every program that a manual names, and writes what was reported into it.
///
/// # Errors
///
/// When a program does not fail as it should, or the manual names none.
pub fn write(session: &Session, manual: &Path) -> anyhow::Result<usize> {
    let old = String::from_utf8(process::read(manual)?)?;
    let mut parts = old.split(BEGIN);
    let mut new = parts.next().unwrap_or_default().to_owned();
    let mut written = 0;
    for part in parts {
        let (name, _rest) = part.split_once(" -->").context("a mark without an end")?;
        let (_old, rest) = part.split_once(END).context("no end of a failure")?;
        let (program, report) = run(session, name).with_context(|| name.to_owned())?;
        new.push_str(&format!(
            "{BEGIN}{name} -->\n```python\n{program}```\n\n```text\n{report}```\n{END}{rest}"
        ));
        written += 1;
    }
    ensure!(written > 0, "{} names no failure", manual.display());
    process::write(manual, &new)?;
    Ok(written)
}

/// A program, and the explanation of its failure.
fn run(session: &Session, name: &str) -> anyhow::Result<(String, String)> {
    let file = session.programs.join("failures").join(name);
    let program = String::from_utf8(process::read(&file.with_extension("py"))?)?;
    // With a short name, wherever the repository is: a report cuts paths that are too long for its lines.
    let place = tempfile::tempdir().context("no folder to run in")?;
    let folder = place.path();
    process::write(&folder.join(PROGRAM), &program)?;
    let own_board = OwnBoard::describe(BOARDS[0].kind, folder)?;
    let report = folder.join("report");
    let mut command = process::command_in(folder, &session.ttmem);
    command
        .args(["run", "--library"])
        .arg(&session.attach)
        .arg("--report")
        .arg(&report)
        .arg("--")
        .arg(&session.ttnn.python)
        .arg(PROGRAM)
        // Where no server is: the run has its own.
        .env("XDG_RUNTIME_DIR", folder)
        .env("COLUMNS", COLUMNS)
        .env("TT_METAL_CACHE", &session.ttnn.kernel_cache)
        .env("TT_METAL_MOCK_CLUSTER_DESC_PATH", own_board.descriptor());
    let output = Output {
        stdout: folder.join("stdout"),
        stderr: folder.join("stderr"),
    };
    let status = run_to_end(name, &output, &mut command, |_child| {})?;
    if status.success() {
        bail!("it should have failed");
    }
    let report = String::from_utf8(process::read(&report)?)?;
    // The manual has no paths of this machine.
    let shown = explanation(&report)?.replace(&folder.display().to_string(), HOME);
    Ok((program, shown))
}

/// The part of a report that explains: behind its title, before the peaks.
fn explanation(report: &str) -> anyhow::Result<&str> {
    let (title, rest) = report
        .split_once("\n\n")
        .context("a report without parts")?;
    ensure!(title.contains("1 process tracked"), "{title}");
    let (failures, _peaks) = rest.split_once(AFTER_FAILURES).context("no peaks")?;
    ensure!(failures.contains(" · pid "), "nothing failed: {report}");
    Ok(failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_explanation_is_between_title_and_peaks() {
        let report =
            "ttmem: python x\n1 process tracked\n\nCLASH · pid 1 x\nIt met.\n\nPEAK DRAM\n0\n";
        assert_eq!(explanation(report).unwrap(), "CLASH · pid 1 x\nIt met.\n");
        let fine = "ttmem: python x\n1 process tracked\n\nPEAK DRAM\n0\n";
        assert!(explanation(fine).is_err());
    }
}
