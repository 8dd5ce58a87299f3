//! `cargo xtask web` and `web-test`: the page, built into `web/dist`, and tried in a browser.
//!
//! The server embeds what is in `web/dist` when it is built; without it everything else is the same.

use crate::command::{build_for_tests, program, read, root, run as run_command, target_dir};
use crate::{CannotRun, tool};
use anyhow::{Context, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// The oldest Node.js that the page is built with.
const NODE: (u32, u32) = (20, 19);

/// Where the pictures go that the tests take.
const PICTURES: &str = "page";

pub(crate) fn folder() -> PathBuf {
    root().join("web")
}

/// Installs what the page is built with, exactly as locked, and builds it.
pub(crate) fn build() -> anyhow::Result<()> {
    require_node()?;
    install()?;
    run_command(npm().args(["run", "build"]))
}

/// Unit tests, and the page of a real server in a real browser.
pub(crate) fn test() -> anyhow::Result<()> {
    try_out(&[], "0")
}

/// Half an hour in all views: what the page does not give back is seen then.
pub(crate) fn soak() -> anyhow::Result<()> {
    try_out(&["--", "tests/browser/page", "-t", "bounded"], "30")
}

fn try_out(words: &[&str], minutes: &str) -> anyhow::Result<()> {
    tool::CHROMIUM.ensure()?;
    build()?;
    build_for_tests()?;
    let pictures = target_dir().join(PICTURES);
    fs::create_dir_all(&pictures).with_context(|| format!("cannot make {}", pictures.display()))?;
    run_command(
        npm()
            .arg("test")
            .args(words)
            .env("TTMEM_SOAK_MINUTES", minutes)
            .env("TTMEM", target_dir().join("debug/ttmem"))
            .env("TTMEM_PICTURES", pictures),
    )
}

/// Not a tool that is installed here: distributions have older ones.
fn require_node() -> anyhow::Result<()> {
    let (major, minor) = NODE;
    let wanted = format!("the page is built with Node.js {major}.{minor} or newer, with npm");
    let Ok(version) = read(program("node").arg("--version")) else {
        bail!(CannotRun(format!("{wanted}: there is no node here")));
    };
    let mut numbers = version.trim().trim_start_matches('v').split('.');
    let mut number = || numbers.next().and_then(|part| part.parse::<u32>().ok());
    if number().zip(number()).is_none_or(|found| found < NODE) {
        bail!(CannotRun(format!("{wanted}: here is {}", version.trim())));
    }
    Ok(())
}

/// `npm ci`, unless what is installed is what the lock file says.
fn install() -> anyhow::Result<()> {
    let lock = fs::read(folder().join("package-lock.json")).context("no package-lock.json")?;
    let stamp = folder().join("node_modules/.ttmem-lock");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    // What is installed runs no scripts of its own.
    run_command(npm().args(["ci", "--ignore-scripts"]))?;
    fs::write(&stamp, lock).with_context(|| format!("cannot write {}", stamp.display()))
}

fn npm() -> Command {
    let mut npm = program("npm");
    npm.current_dir(folder());
    npm
}
