//! `cargo xtask surroundings`: the end-to-end tests pass wherever a checkout is and however they are started.
//!
//! They are built once, into an archive of nextest. Each surrounding unpacks it beside a copy of the sources and runs all tests of
//! the inner loop there; nothing of this checkout is used. `cargo xtask test` runs the rest of them, once.

use crate::CannotRun;
use crate::command::{cargo, program, read, root, run as run_command, target_dir};
use anyhow::{Context, bail, ensure};
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The tests, as nextest names them, and its profile for them.
const TESTS: &str = "package(ttmem) & binary(e2e)";
const PROFILE: &str = "surroundings";

/// A user without a name, a home or any right.
const ORDINARY_USER: u32 = 23_461;

/// The programs that such a user finds.
const ORDINARY_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables of the caller that would reach the tests.
const OTHERS_SETTINGS: [&str; 7] = ["TTMEM_", "TT_", "NEXTEST", "CARGO_", "RUST", "CI", "XDG_"];

/// Where the checkout is, whose it is, and how the tests are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surrounding {
    BelowTmp,
    PrivateHome,
    PathWithSpaces,
    OrdinaryUser,
    NoTerminal,
    Background,
    RunningServer,
}

impl Surrounding {
    const ALL: [Self; 7] = [
        Self::BelowTmp,
        Self::PrivateHome,
        Self::PathWithSpaces,
        Self::OrdinaryUser,
        Self::NoTerminal,
        Self::Background,
        Self::RunningServer,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::BelowTmp => "below-tmp",
            Self::PrivateHome => "private-home",
            Self::PathWithSpaces => "path-with-spaces",
            Self::OrdinaryUser => "ordinary-user",
            Self::NoTerminal => "no-terminal",
            Self::Background => "background",
            Self::RunningServer => "running-server",
        }
    }

    /// The folder of the checkout, below that of the surrounding.
    fn checkout(self) -> &'static str {
        match self {
            Self::PathWithSpaces => "a path/with spaces",
            _other => "checkout",
        }
    }

    /// Only the superuser can start something as another user; any other user is an ordinary one.
    fn user(self, is_root: bool) -> Option<u32> {
        (self == Self::OrdinaryUser && is_root).then_some(ORDINARY_USER)
    }
}

/// How the tests went in one surrounding.
#[derive(Debug)]
struct Row {
    surrounding: Surrounding,
    user: String,
    counts: Counts,
    elapsed: Duration,
    /// Files that the tests left, such as those of programs that they killed; removed with the surrounding.
    left: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u32,
    failed: u32,
}

/// Runs the tests in every surrounding, or in those named, and prints a table.
pub(crate) fn run(names: &[&str]) -> anyhow::Result<()> {
    let all = Surrounding::ALL;
    if let Some(name) = names
        .iter()
        .find(|name| !all.iter().any(|surrounding| surrounding.name() == **name))
    {
        let known = all.map(Surrounding::name).join(", ");
        bail!("no surrounding {name}; there are {known}");
    }
    let chosen = all.into_iter();
    let chosen = chosen.filter(|each| names.is_empty() || names.contains(&each.name()));
    let own_user = read(program("id").arg("-u"))?.trim().to_owned();
    let archive = Archive::build()?;
    let mut rows = Vec::new();
    for surrounding in chosen {
        println!("{}", surrounding.name());
        let row = run_in(surrounding, &archive, &own_user);
        rows.push(row.with_context(|| surrounding.name().to_owned())?);
    }
    report(&rows)
}

fn report(rows: &[Row]) -> anyhow::Result<()> {
    println!("\n{:<18}user   passed  failed     time", "surrounding");
    for row in rows {
        let Counts { passed, failed } = row.counts;
        let (name, seconds) = (row.surrounding.name(), row.elapsed.as_secs());
        println!(
            "{name:<18}{:<6}{passed:>7} {failed:>7} {seconds:>6} s",
            row.user
        );
        for file in &row.left {
            println!("  left: {file}");
        }
    }
    ensure!(
        rows.iter().all(|row| row.counts.passed > 0),
        "no test ran in a surrounding"
    );
    ensure!(
        rows.iter().all(|row| row.counts.failed == 0),
        "the tests depend on where they run"
    );
    Ok(())
}

/// The tests, built, and what is needed to run them anywhere.
struct Archive {
    file: PathBuf,
    nextest: PathBuf,
    /// The files of the sources, by their paths from the root.
    sources: Vec<PathBuf>,
}

impl Archive {
    fn build() -> anyhow::Result<Self> {
        let Some(nextest) = on_path("cargo-nextest") else {
            bail!(CannotRun(
                "cargo-nextest is not installed: `cargo install --locked cargo-nextest`".to_owned()
            ));
        };
        let folder = target_dir().join("xtask/surroundings");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file = folder.join("e2e.tar.zst");
        // With the whole workspace: dependencies have the features that they have in every other step.
        let mut archive = cargo(["nextest", "archive", "--workspace", "--profile", PROFILE]);
        archive.args(["--zstd-level", "1", "-E", TESTS, "--archive-file"]);
        run_command(archive.arg(&file))?;
        let listed = read(program("git").args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]));
        let listed = listed.context("the files of the checkout")?;
        let sources = listed.split('\0').filter(|path| !path.is_empty());
        let sources = sources.map(PathBuf::from);
        Ok(Self {
            file,
            nextest,
            sources: sources.filter(|path| root().join(path).is_file()).collect(),
        })
    }

    /// Puts a copy of the sources into a folder; nextest unpacks what was built beside them.
    fn copy_sources(&self, to: &Path) -> anyhow::Result<()> {
        for path in &self.sources {
            let (from, to) = (root().join(path), to.join(path));
            let folder = to.parent().context("a file is in a folder")?;
            fs::create_dir_all(folder)?;
            if from.is_symlink() {
                symlink(fs::read_link(&from)?, &to)?;
            } else {
                fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            }
        }
        Ok(())
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        let _gone = fs::remove_file(&self.file);
    }
}

/// A folder of a surrounding, removed with everything in it.
struct Place(PathBuf);

impl Place {
    fn make(surrounding: Surrounding) -> anyhow::Result<Self> {
        // Short: sockets in it have paths of at most 107 bytes.
        let name = format!("ttmem-{}-{}", surrounding.name(), std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let place = Self(path);
        place.folder("", 0o755)?;
        Ok(place)
    }

    /// Makes a folder in it that has exactly this mode.
    fn folder(&self, name: &str, mode: u32) -> anyhow::Result<PathBuf> {
        let path = self.0.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        Ok(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            println!("cannot remove {}: {error}", self.0.display());
        }
    }
}

fn run_in(surrounding: Surrounding, archive: &Archive, own_user: &str) -> anyhow::Result<Row> {
    let place = Place::make(surrounding)?;
    let home_mode = if surrounding == Surrounding::PrivateHome {
        0o700
    } else {
        0o755
    };
    let home = place.folder("home", home_mode)?;
    let temporary = place.folder("tmp", 0o1777)?;
    let checkout = home.join(surrounding.checkout());
    archive.copy_sources(&checkout)?;
    let user = surrounding.user(own_user == "0");
    if let Some(user) = user {
        give(&home, user)?;
    }
    // Whoever runs it has to be able to enter its folder.
    let tools = place.folder("tools", 0o755)?;
    let nextest = tools.join("cargo-nextest");
    fs::copy(&archive.nextest, &nextest).context("cannot copy nextest")?;
    let tests = tools.join("e2e.tar.zst");
    fs::hard_link(&archive.file, &tests)
        .or_else(|_other_disk| fs::copy(&archive.file, &tests).map(drop))
        .context("cannot copy the archive")?;
    fs::set_permissions(&tests, Permissions::from_mode(0o644))?;

    let mut words: Vec<OsString> = start_of(surrounding, user);
    words.push(nextest.into());
    words.extend(["nextest", "run", "--no-fail-fast", "--profile", PROFILE].map(Into::into));
    words.extend(["--archive-file".into(), tests.into()]);
    words.extend(["--extract-to".into(), checkout.clone().into()]);
    words.extend(["--extract-overwrite".into(), "--workspace-remap".into()]);
    words.push(checkout.clone().into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(&checkout);
    set_variables(&mut command, &home, &temporary, user.is_some());
    if surrounding == Surrounding::Background {
        // nextest handles these signals, and so its children have the defaults again: each test is started like this, too.
        let runner = tools.join("ignoring");
        fs::write(&runner, "trap '' INT QUIT; exec \"$@\"\n")?;
        let variable = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER";
        command.env(variable, format!("sh {}", runner.display()));
    }
    let _server = (surrounding == Surrounding::RunningServer)
        .then(|| DefaultServer::start(&place, &mut command))
        .transpose()?;

    let log = target_dir().join(format!("xtask/surroundings/{}.log", surrounding.name()));
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let began = Instant::now();
    let status = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .context("cannot start nextest")?;
    let elapsed = began.elapsed();
    let printed = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let Some(counts) = counts(&printed) else {
        bail!("nextest ran no tests ({status}): {printed}");
    };
    if counts.failed > 0 || !status.success() {
        print!("{printed}");
    }
    Ok(Row {
        surrounding,
        user: user.map_or_else(|| own_user.to_owned(), |user| user.to_string()),
        counts,
        elapsed,
        left: names_in(&temporary)?,
    })
}

/// The words before the command: how it is started.
fn start_of(surrounding: Surrounding, user: Option<u32>) -> Vec<OsString> {
    let words: &[&str] = match surrounding {
        Surrounding::NoTerminal => &["setsid", "--wait"],
        Surrounding::Background => &["sh", "-c", "trap '' INT QUIT; exec \"$@\"", "sh"],
        _other => &[],
    };
    let mut words: Vec<OsString> = words.iter().map(Into::into).collect();
    if let Some(user) = user {
        words.extend(["setpriv".into(), format!("--reuid={user}").into()]);
        words.push(format!("--regid={user}").into());
        // Without new privileges sudo does nothing.
        words.extend(["--clear-groups", "--no-new-privs", "--"].map(Into::into));
    }
    words
}

fn set_variables(command: &mut Command, home: &Path, temporary: &Path, is_ordinary: bool) {
    for (name, _value) in std::env::vars_os() {
        let shown = name.to_string_lossy();
        if OTHERS_SETTINGS
            .iter()
            .any(|prefix| shown.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
    command.env("TMPDIR", temporary);
    if is_ordinary {
        command.env("HOME", home).env("PATH", ORDINARY_PATH);
    }
}

/// A server where programs look for one that is not named.
struct DefaultServer(Child);

impl DefaultServer {
    /// Starts one in the runtime directory of the tests, with the socket of old clients unless another server has it.
    fn start(place: &Place, tests: &mut Command) -> anyhow::Result<Self> {
        let runtime = place.folder("run", 0o700)?;
        tests.env("XDG_RUNTIME_DIR", &runtime);
        let ttmem = || {
            let mut command = program(target_dir().join("debug/ttmem"));
            command.env("XDG_RUNTIME_DIR", &runtime);
            for (name, _value) in std::env::vars_os() {
                if name.to_string_lossy().starts_with("TTMEM_") {
                    command.env_remove(&name);
                }
            }
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command
        };
        let server = ttmem().args(["serve", "--quiet"]).spawn();
        let server = Self(server.context("cannot start a server")?);
        let began = Instant::now();
        while !ttmem().arg("status").status()?.success() {
            ensure!(
                began.elapsed() < Duration::from_secs(30),
                "no server came up"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }
}

impl Drop for DefaultServer {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Gives a folder with everything in it to a user.
fn give(path: &Path, user: u32) -> anyhow::Result<()> {
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    if !path.is_symlink() {
        chown(path, Some(user), Some(user))
            .with_context(|| format!("cannot give {}", path.display()))?;
    }
    Ok(())
}

fn names_in(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.filter_map(Result::ok);
    Ok(entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect())
}

/// What nextest says at its end: `Summary [  84.1s] 412 tests run: 410 passed (1 slow), 2 failed, 3 skipped`.
fn counts(printed: &str) -> Option<Counts> {
    let summary = printed
        .lines()
        .rev()
        .find(|line| line.trim_start().starts_with("Summary ["))?;
    let (_ran, outcomes) = summary.split_once(" run: ")?;
    let count = |what: &str| {
        let of = outcomes.split(", ").find(|part| part.contains(what))?;
        of.split_whitespace().next()?.parse().ok()
    };
    Some(Counts {
        passed: count("passed").unwrap_or(0),
        failed: count("failed").unwrap_or(0) + count("timed out").unwrap_or(0),
    })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::home_dir().map(|home| home.join(".cargo/bin"));
    let mut folders = std::env::split_paths(&path).chain(own);
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_summary() {
        let text = "  FAIL [ 1.0s] ttmem::e2e a\n     Summary [  84.1s] 412 tests run: 410 passed (1 slow), 1 failed, 1 timed out, 3 skipped\n  FAIL a\n";
        let expected = Counts {
            passed: 410,
            failed: 2,
        };
        assert_eq!(counts(text), Some(expected));
        let all = "Summary [   0.1s] 2 tests run: 2 passed, 0 skipped";
        assert_eq!(counts(all).map(|counts| counts.failed), Some(0));
        assert_eq!(counts("error: no tests to run"), None);
    }

    #[test]
    fn one_failure_fails_the_whole() {
        let row = |passed, failed| Row {
            surrounding: Surrounding::BelowTmp,
            user: "0".to_owned(),
            counts: Counts { passed, failed },
            elapsed: Duration::ZERO,
            left: vec!["socket".to_owned()],
        };
        assert!(report(&[row(3, 0)]).is_ok());
        assert!(report(&[row(3, 0), row(2, 1)]).is_err());
        assert!(report(&[row(0, 0)]).is_err());
    }
}
