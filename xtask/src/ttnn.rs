//! `cargo xtask ttnn`: the real ttnn, tracked without a patch, step by step.
//!
//! Python programs run on boards that are not there, with the attach library preloaded,
//! and compare what ttnn's own allocator says with what our server says. The package
//! `ttmem-ttnn` does it; here it is built with all it needs, and started. Where there is
//! no Python that ttnn has wheels for, the check is skipped.
//!
//! `cargo xtask ttnn-bench`: what that costs the program, with everything built as it is
//! shipped. It judges nothing; the figures go into the repository.

use crate::command::{build_for_tests, cargo, program, read, root, run as run_command, target_dir};
use crate::{CannotRun, SKIPPED, tool};
use anyhow::{Context, bail};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Where the figures of the benchmark are kept.
const FIGURES: &str = "docs/bench";

/// The manual with the reports of failures.
const EXPLAINED: &str = "docs/explain.md";

const WHEELS: &str = "docs/ttnn-wheels.md";

/// The picture of a notebook in the manual, and how wide such pictures are.
const NOTEBOOK: &str = "docs/pictures/notebook.png";
const PICTURE_WIDTH: u32 = 820;

/// Runs every program on every board, or those that are named.
pub(crate) fn run(words: &[&str]) -> anyhow::Result<()> {
    // One program of many needs it, and says so where it is not there.
    if let Err(error) = tool::MPIRUN.ensure() {
        println!("{error:#}");
    }
    build_for_tests()?;
    run_harness("debug", |harness| {
        harness.arg("run").arg(programs()).args(words)
    })
}

/// Tries every published wheel and writes the table of them, or prints that of those named.
pub(crate) fn run_matrix(wheels: &[&str]) -> anyhow::Result<()> {
    build_for_tests()?;
    run_harness("debug", |harness| {
        let page = root().join(WHEELS);
        harness.arg("matrix").arg(programs()).arg(page).args(wheels)
    })
}

/// Makes every request of ttnn plain and tracked, of the newest wheel and an older one, or of those
/// named, and compares the answers.
pub(crate) fn run_unharmed(wheels: &[&str]) -> anyhow::Result<()> {
    build_for_tests()?;
    run_harness("debug", |harness| {
        harness.arg("unharmed").arg(programs()).args(wheels)
    })
}

/// Works under limits of address space, plain and tracked.
pub(crate) fn run_memory() -> anyhow::Result<()> {
    build_for_tests()?;
    run_harness("debug", |harness| harness.arg("memory").arg(programs()))
}

/// Runs the programs that fail, and writes the reports of them into the manual.
pub(crate) fn reports() -> anyhow::Result<()> {
    build_for_tests()?;
    run_harness("debug", |harness| {
        let manual = root().join(EXPLAINED);
        harness.arg("reports").arg(programs()).arg(manual)
    })
}

pub(crate) fn bench() -> anyhow::Result<()> {
    let packages = ["ttmem", "ttmem-attach", "ttmem-ttnn"];
    let named = packages.iter().flat_map(|name| ["--package", name]);
    run_command(&mut cargo(["build", "--release"].into_iter().chain(named)))?;
    run_harness("release", |harness| {
        harness
            .arg("bench")
            .arg(programs())
            .arg(root().join(FIGURES))
    })
}

/// Runs the notebook, and takes pictures of what it shows, one of which is kept.
pub(crate) fn pictures() -> anyhow::Result<()> {
    tool::CHROMIUM.ensure()?;
    let boards = ["n150", "t3000"];
    run(&[&["notebook"][..], &boards].concat())?;
    let folder = target_dir().join("notebook");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for board in boards {
        let ran = target_dir().join(format!("debug/ttmem-ttnn-runs/{board}-notebook"));
        let page = format!("file://{}", ran.join("notebook.html").display());
        for (theme, fragment) in [("light", ""), ("dark", "#dark")] {
            let picture = folder.join(format!("{board}-{theme}.png"));
            take_picture(&format!("{page}{fragment}"), &picture)?;
            println!("{}", picture.display());
        }
    }
    let kept = root().join(NOTEBOOK);
    fs::copy(folder.join("n150-light.png"), &kept)
        .with_context(|| format!("cannot write {}", kept.display()))?;
    Ok(())
}

/// Takes a picture of a page, as high as the page says that it is.
fn take_picture(page: &str, picture: &Path) -> anyhow::Result<()> {
    let chromium = |height: &str| {
        let mut chromium = program("chromium");
        chromium
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
            ])
            .arg(format!("--window-size={PICTURE_WIDTH},{height}"));
        chromium
    };
    let laid_out = read(chromium("600").args(["--dump-dom", page]))?;
    let height = laid_out.split_once("data-height=\"");
    let height = height.and_then(|(_before, rest)| Some(rest.split_once('"')?.0));
    let height = height.with_context(|| format!("{page} does not say how high it is"))?;
    let mut taken = chromium(height);
    taken.arg(format!("--screenshot={}", picture.display()));
    run_command(taken.arg(page))
}

/// Runs the programs with what a wheel installs, instead of what is built for tests.
///
/// `pip` is one of any release of Python: the wheel is for all of them.
pub(crate) fn run_packaged(wheel: &Path, mut pip: Command) -> anyhow::Result<()> {
    build_for_tests()?;
    // The harness looks for everything where it is itself.
    let tools = target_dir().join("xtask/packaged");
    if tools.exists() {
        fs::remove_dir_all(&tools).with_context(|| format!("cannot remove {}", tools.display()))?;
    }
    let installed = tools.join("site-packages");
    pip.args(["install", "--quiet", "--no-index", "--target"])
        .arg(&installed)
        .arg(wheel);
    run_command(&mut pip)?;
    for (from, name) in [
        ("bin/ttmem", "ttmem"),
        ("ttmem/lib/libttmem_attach.so", "libttmem_attach.so"),
    ] {
        symlink(installed.join(from), tools.join(name))
            .with_context(|| format!("cannot link {name}"))?;
    }
    for name in ["ttmem-ttnn", "ttmem-standin-compiler"] {
        let from = target_dir().join("debug").join(name);
        fs::copy(&from, tools.join(name))
            .with_context(|| format!("cannot copy {}", from.display()))?;
    }
    run_harness_of(&tools, |harness| harness.arg("run").arg(programs()))
}

/// The variables of a shell in which `python` has the real ttnn, with one chip that is not there, described in a folder. What is
/// built for tests has to be there.
///
/// # Errors
/// Where there is no Python for ttnn, [`CannotRun`].
pub(crate) fn variables(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut harness = program(target_dir().join("debug/ttmem-ttnn"));
    harness.arg("variables").arg(root().join("show/python"));
    let output = harness.arg(folder).stdin(Stdio::null()).output();
    let output = output.context("cannot start ttmem-ttnn")?;
    provisioned(&output)?;
    let printed = String::from_utf8(output.stdout).context("paths are text")?;
    let pairs = printed.lines().filter_map(|line| line.split_once('='));
    Ok(pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

/// A shell for whoever wants to try a program on the real ttnn without a card.
pub(crate) fn shell() -> anyhow::Result<()> {
    build_for_tests()?;
    let folder = target_dir().join("ttnn-shell");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut shell = Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()));
    shell.envs(variables(&folder)?);
    // With our program before any that is installed.
    let path = shell.get_envs().find(|(name, _value)| *name == "PATH");
    let path = path.and_then(|(_name, value)| value).unwrap_or_default();
    let built = std::iter::once(target_dir().join("debug"));
    let path = std::env::join_paths(built.chain(std::env::split_paths(path)))?;
    shell.env("PATH", path);
    // Its code is that of the last command in it.
    let _code = shell.status().context("cannot start a shell")?;
    Ok(())
}

/// Makes ttnn ready, and runs the harness of a profile with some words.
fn run_harness(
    profile: &str,
    with_words: impl FnOnce(&mut Command) -> &mut Command,
) -> anyhow::Result<()> {
    run_harness_of(&target_dir().join(profile), with_words)
}

fn run_harness_of(
    tools: &Path,
    with_words: impl FnOnce(&mut Command) -> &mut Command,
) -> anyhow::Result<()> {
    let harness = || program(tools.join("ttmem-ttnn"));
    let provision = harness()
        .arg("provision")
        .stdin(Stdio::null())
        .output()
        .context("cannot start ttmem-ttnn")?;
    provisioned(&provision)?;
    run_command(with_words(&mut harness()))
}

/// The folder with the Python programs.
fn programs() -> PathBuf {
    root().join("tests/ttnn/python")
}

/// What came of `ttmem-ttnn provision`.
fn provisioned(output: &Output) -> anyhow::Result<()> {
    let printed = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(()),
        Some(code) if code == i32::from(SKIPPED) => bail!(CannotRun(printed)),
        _ => bail!("ttnn cannot be made ready: {printed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provisioned_by(script: &str) -> anyhow::Result<()> {
        provisioned(&program("sh").args(["-c", script]).output()?)
    }

    #[test]
    fn only_a_missing_python_is_skipped() {
        assert!(provisioned_by("exit 0").is_ok());
        let skipped = provisioned_by("echo no Python >&2; exit 77").unwrap_err();
        assert!(skipped.is::<CannotRun>() && skipped.to_string() == "no Python");
        let failed = provisioned_by("echo no network >&2; exit 1").unwrap_err();
        assert!(!failed.is::<CannotRun>());
        assert_eq!(failed.to_string(), "ttnn cannot be made ready: no network");
    }
}
