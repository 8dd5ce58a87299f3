//! Running other programs, always from the root of the repository.

use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
///
/// `cargo run` says where the package lies now. What was true when this program
/// was compiled may be another checkout that shares the build directory, whose
/// files would then be checked instead.
pub(crate) fn root() -> PathBuf {
    let compiled = || env!("CARGO_MANIFEST_DIR").into();
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(compiled);
    let parent = Path::new(&package).parent();
    parent.expect("the package lies below the root").to_owned()
}

/// Where cargo puts what it builds for the workspace.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// A program, to be started at the root.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    command
}

/// The cargo that runs this program, with some words.
pub(crate) fn cargo<'w>(words: impl IntoIterator<Item = &'w str>) -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words);
    if std::env::var("CI").as_deref() == Ok("true") {
        // Nothing is built twice there: what is kept for the next build only takes time.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// Builds the programs, libraries and examples that checks start, together with the tests.
///
/// With the tests some dependencies have more features: what is built without them would be
/// built a second time.
pub(crate) fn build_for_tests() -> anyhow::Result<()> {
    run(&mut cargo([
        "build",
        "--workspace",
        "--lib",
        "--bins",
        "--tests",
        "--examples",
    ]))
}

/// Runs a program to its end, with its output where ours goes.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = show(command);
    // Not to stdout: that is for what the program prints, which may be kept in a file.
    eprintln!("$ {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// Runs a program to its end and takes what it writes to stdout.
pub(crate) fn read(command: &mut Command) -> anyhow::Result<String> {
    let shown = show(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stderr);
        bail!(
            "`{shown}` failed: {}\n{}",
            output.status,
            printed.trim_end()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` wrote no UTF-8"))
}

/// The triple that rustc compiles for when it is not told.
pub(crate) fn host_triple() -> anyhow::Result<String> {
    let version = read(program("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

/// The command line, without the path of the program.
fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = command.get_args().map(OsStr::to_string_lossy);
    std::iter::once(name.to_string_lossy())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}
