//! The wheel as users get it: in fresh environments, with nothing but what it brings.

use super::{Dist, GLIBC, StandIn, VERSION, interpreter, tarball};
use crate::command::{program, read, root, run as run_command, target_dir};
use crate::environment::Environment;
use crate::{CannotRun, tool};
use anyhow::{Context, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The releases of Python that it is tried with.
const RELEASES: [&str; 3] = ["3.10", "3.12", "3.13"];

/// What says whether the library is loaded, and how long the package takes to be imported.
const PROBE: &str = "\
import sys, time
begun = time.perf_counter()
import ttmem
took = time.perf_counter() - begun
maps = open('/proc/self/maps').read()
print(ttmem.__version__, 'libttmem_attach.so' in maps, round(took * 1e3, 2))
sys.exit(7)
";

/// A program whose fourth line takes so many rows.
const HELD: &str = "\
import sys, ttnn
device = ttnn.open_device(device_id=0)
shape = [1, 1, int(sys.argv[1]), 64]
held = ttnn.zeros(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)
del held
ttnn.close_device(device)
";

/// What the tests of the package need, in exact versions.
const REQUIREMENTS: &str = "show/python/tests/requirements.txt";

pub(super) fn run(dist: &Dist, wheel: &Path) -> anyhow::Result<()> {
    check_tag(dist, wheel)?;
    tool::CXX.ensure()?;
    let folder = target_dir().join("xtask/wheel-check");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let standin = StandIn::build(&folder)?;
    tarball::check(dist, &tarball::make(dist)?, &standin, &folder)?;
    let mut missing = Vec::new();
    for release in RELEASES {
        match interpreter::find(release) {
            Some(python) => {
                let installed = Installed::install(&folder, release, &python, wheel)?;
                installed.check(&standin)?;
                installed.check_plugin(&standin, &python)?;
                installed.check_baseline(&standin)?;
            }
            None => missing.push(release),
        }
    }
    fs::remove_dir_all(&folder)?;
    if !missing.is_empty() {
        bail!(CannotRun(format!(
            "no Python {} with venv here (looked at PATH, pyenv and uv); the wheel works with the others",
            missing.join(" and ")
        )));
    }
    Ok(())
}

/// Holds the wheel's tag against what auditwheel finds in its files.
fn check_tag(dist: &Dist, wheel: &Path) -> anyhow::Result<()> {
    let shown = read(
        dist.environment
            .program("auditwheel")
            .arg("show")
            .arg(wheel),
    )?;
    let found = shown
        .split('"')
        .filter_map(|word| {
            let (major, rest) = word.strip_prefix("manylinux_")?.split_once('_')?;
            let minor = rest.strip_suffix("_x86_64")?;
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        })
        .max();
    let found = found.with_context(|| format!("auditwheel names no tag:\n{shown}"))?;
    ensure!(found <= GLIBC, "auditwheel asks for {found:?}:\n{shown}");
    println!("auditwheel: manylinux_{}_{}", found.0, found.1);
    Ok(())
}

/// The wheel in an environment of its own.
struct Installed {
    release: &'static str,
    folder: PathBuf,
}

impl Installed {
    fn install(
        above: &Path,
        release: &'static str,
        python: &Path,
        wheel: &Path,
    ) -> anyhow::Result<Self> {
        let folder = above.join(format!("python{release}"));
        run_command(program(python).args(["-m", "venv"]).arg(&folder))?;
        let mut pip = program(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--no-index"])
            .args(["--disable-pip-version-check"])
            .arg(wheel);
        run_command(&mut pip)?;
        Ok(Self { release, folder })
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join("bin").join(name));
        // A server of this run only, and nothing of what was set here.
        command
            .env_clear()
            .env("HOME", &self.folder)
            .env("XDG_RUNTIME_DIR", &self.folder)
            .env("PATH", "/usr/bin:/bin")
            .current_dir(&self.folder);
        command
    }

    fn check(&self, standin: &StandIn) -> anyhow::Result<()> {
        let said = read(self.program("ttmem").arg("--version"))?;
        ensure!(
            said.trim() == format!("ttmem {VERSION}"),
            "it says {said:?}"
        );
        fs::write(self.folder.join("probe.py"), PROBE)?;
        let python = self.folder.join("bin/python");

        let mut imported = Vec::new();
        for (by, words) in [
            ("ttmem", &["run", "--"][..]),
            ("python", &["-m", "ttmem", "run"]),
        ] {
            let mut command = self.program(by);
            command.args(words);
            if by == "ttmem" {
                command.arg(&python);
            }
            let output = command.arg("probe.py").output()?;
            let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
            let expected = format!("{VERSION} True ");
            ensure!(
                output.status.code() == Some(7) && stdout.starts_with(&expected),
                "{command:?}: {} {stdout} {stderr}",
                output.status
            );
            ensure!(stderr.contains("ended with code 7"), "no report: {stderr}");
            imported.push(stdout.trim()[expected.len()..].to_owned());
        }
        // Exceptions are thrown through every hook of the preloaded library, whose unwinder is as it
        // was built.
        for story in ["dispatches", "exceptions"] {
            standin
                .play(self.program("ttmem"), &python, story)
                .with_context(|| format!("under {}", self.release))?;
        }
        println!(
            "Python {}: tracked, import ttmem takes {} ms",
            self.release,
            imported.join(" and ")
        );
        Ok(())
    }

    /// Runs the tests of the plugin, which pytest finds by the entry point of the wheel.
    fn check_plugin(&self, standin: &StandIn, python: &Path) -> anyhow::Result<()> {
        let requirements = root().join(REQUIREMENTS);
        let tools = Environment::of("python", python, self.release, &requirements)?;
        let own = format!("lib/python{}/site-packages/tools.pth", self.release);
        fs::write(
            self.folder.join(own),
            format!("{}\n", tools.packages.display()),
        )?;
        let summary = self.folder.join("summary");
        let mut tests = self.with_ttnn("python", standin);
        tests
            .arg(root().join("tests/ttnn/python/pytest_plugin.py"))
            .arg(&summary)
            .args(["1", "1", "0"]);
        let output = tests.output()?;
        ensure!(
            output.status.success(),
            "the plugin under {}: {}",
            self.release,
            text(&output.stderr)
        );
        println!("Python {}: {}", self.release, fs::read_to_string(summary)?);
        Ok(())
    }

    /// Holds a program against a baseline, and looks for the line that took more.
    fn check_baseline(&self, standin: &StandIn) -> anyhow::Result<()> {
        fs::write(self.folder.join("held.py"), HELD)?;
        for (rows, options, code) in [
            ("32", &["--update"][..], 0),
            ("32", &[], 0),
            ("960", &[], 6),
        ] {
            let mut check = self.with_ttnn("python", standin);
            check
                .args(["-m", "ttmem", "check", "--baseline", "held.json"])
                .args(["--name", "held"])
                .args(options)
                .args(["held.py", rows]);
            let output = check.output()?;
            let said = text(&output.stderr);
            ensure!(output.status.code() == Some(code), "{check:?}: {said}");
            let is_named = said.contains("  peak dram 120.0 KiB, baseline 24.0 KiB (+96.0 KiB)\n")
                && said.contains(": held.py:4\n");
            ensure!(is_named == (code == 6), "no line in: {said}");
        }
        Ok(())
    }

    /// A program that finds the stand-in for ttnn.
    fn with_ttnn(&self, name: &str, standin: &StandIn) -> Command {
        let mut command = self.program(name);
        command
            .env("PYTHONPATH", root().join(StandIn::TTNN))
            .env("TTMEM_TESTS_BOARD", &standin.board)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
