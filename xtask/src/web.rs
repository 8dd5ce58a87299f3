//! `cargo xtask web` and `web-test`: the page, built into `show/web/dist`, and tried in a browser.
//!
//! The server embeds what is in `show/web/dist` when it is built; without it everything else is the same.

use crate::command::{build_for_tests, program, read, root, run as run_command, target_dir};
use crate::{CannotRun, tool};
use anyhow::{Context, bail};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest Node.js that the page is built with.
const NODE: (u32, u32) = (20, 19);

/// Where the pictures go that the tests take.
const PICTURES: &str = "page";

pub(crate) fn folder() -> PathBuf {
    root().join("show/web")
}

/// What the page is built of, besides what is installed: files and folders.
const SOURCES: [&str; 5] = [
    "src",
    "index.html",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
];

/// Installs what the page is built with, exactly as locked, and builds it, unless what is there was built of the same:
/// a page that is newer has the server compiled anew, beside other steps that start it.
pub(crate) fn build() -> anyhow::Result<()> {
    install(&folder())?;
    let mut hasher = DefaultHasher::new();
    for source in SOURCES {
        hash(&folder().join(source), &mut hasher)?;
    }
    let sources = format!("{:016x}", hasher.finish());
    let stamp = folder().join("node_modules/.ttmem-built");
    let is_there = folder().join("dist/index.html").is_file();
    if is_there && fs::read_to_string(&stamp).is_ok_and(|built| built == sources) {
        return Ok(());
    }
    run_command(npm().args(["run", "build"]))?;
    fs::write(&stamp, sources).with_context(|| format!("cannot write {}", stamp.display()))
}

/// Adds the contents of a file, or of all files in a folder, with their names.
fn hash(path: &Path, hasher: &mut DefaultHasher) -> anyhow::Result<()> {
    let unreadable = || format!("cannot read {}", path.display());
    path.hash(hasher);
    if path.is_dir() {
        let entries = fs::read_dir(path).with_context(unreadable)?;
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()
            .with_context(unreadable)?;
        paths.sort();
        return paths.iter().try_for_each(|each| hash(each, hasher));
    }
    fs::read(path).with_context(unreadable)?.hash(hasher);
    Ok(())
}

/// Unit tests, and the page of a real server in a real browser.
pub(crate) fn test() -> anyhow::Result<()> {
    try_out(&[], "0")
}

/// Half an hour in all views of a program that runs, and beside it ten minutes in a recording of ten million events: what the
/// page does not give back is seen then.
pub(crate) fn soak() -> anyhow::Result<()> {
    let words = [
        "--",
        "tests/browser/page",
        "tests/browser/deep",
        "-t",
        "stay bounded|nothing grows",
        "--fileParallelism",
        "--maxWorkers=2",
    ];
    try_out(&words, "30")
}

fn try_out(words: &[&str], minutes: &str) -> anyhow::Result<()> {
    tool::CHROMIUM.ensure()?;
    build()?;
    build_for_tests()?;
    let pictures = target_dir().join(PICTURES);
    fs::create_dir_all(&pictures).with_context(|| format!("cannot make {}", pictures.display()))?;
    // Its own copy: other steps may have cargo put another in its place meanwhile.
    let ttmem = target_dir().join("xtask/ttmem-of-the-page");
    fs::create_dir_all(target_dir().join("xtask")).context("no folder for the program")?;
    fs::copy(target_dir().join("debug/ttmem"), &ttmem).context("cannot copy the program")?;
    run_command(
        npm()
            .arg("test")
            .args(words)
            .env("TTMEM_SOAK_MINUTES", minutes)
            .env("TTMEM", &ttmem)
            .env("TTMEM_MACHINE", target_dir().join("debug/examples/machine"))
            .env("TTMEM_PICTURES", pictures),
    )
}

/// Not a tool that is installed here: distributions have older ones.
fn require_node() -> anyhow::Result<()> {
    let (major, minor) = NODE;
    let wanted = format!("install Node.js {major}.{minor} or newer, with npm, and run this again");
    let Ok(version) = read(program("node").arg("--version")) else {
        bail!(CannotRun(format!("{wanted}: node is not on the path")));
    };
    let mut numbers = version.trim().trim_start_matches('v').split('.');
    let mut number = || numbers.next().and_then(|part| part.parse::<u32>().ok());
    if number().zip(number()).is_none_or(|found| found < NODE) {
        bail!(CannotRun(format!("{wanted}: this is {}", version.trim())));
    }
    Ok(())
}

/// `npm ci` in a folder, unless what is installed is what its lock file says.
pub(crate) fn install(folder: &Path) -> anyhow::Result<()> {
    require_node()?;
    let lock = fs::read(folder.join("package-lock.json")).context("no package-lock.json")?;
    let stamp = folder.join("node_modules/.ttmem-lock");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    // What is installed runs no scripts of its own.
    let mut npm = program("npm");
    run_command(npm.current_dir(folder).args(["ci", "--ignore-scripts"]))?;
    fs::write(&stamp, lock).with_context(|| format!("cannot write {}", stamp.display()))
}

fn npm() -> Command {
    let mut npm = program("npm");
    npm.current_dir(folder());
    npm
}
