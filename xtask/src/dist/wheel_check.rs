//! The wheel as users get it: in fresh environments, with nothing but what it brings.

use super::{Dist, GLIBC, VERSION, interpreter};
use crate::command::{program, read, root, run as run_command, target_dir};
use crate::{CannotRun, tool};
use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// A program of Python that uses the stand-in for the runtime.
const MODEL: &str = "\
import ctypes, sys
sys.exit(ctypes.CDLL(sys.argv[1]).play(sys.argv[2].encode()))
";

pub(super) fn run(dist: &Dist, wheel: &Path) -> anyhow::Result<()> {
    check_tag(dist, wheel)?;
    tool::CXX.ensure()?;
    let folder = target_dir().join("xtask/wheel-check");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let stories = StandIn::build(&folder)?;
    let mut missing = Vec::new();
    for release in RELEASES {
        match interpreter::find(release) {
            Some(python) => {
                Installed::install(&folder, release, &python, wheel)?.check(&stories)?
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

    fn check(&self, stories: &StandIn) -> anyhow::Result<()> {
        let said = read(self.program("ttmem").arg("--version"))?;
        ensure!(
            said.trim() == format!("ttmem {VERSION}"),
            "it says {said:?}"
        );
        fs::write(self.folder.join("probe.py"), PROBE)?;
        fs::write(self.folder.join("model.py"), MODEL)?;
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
        self.play(stories, "dispatches")?;
        // They are thrown through every hook of the preloaded library, whose unwinder is as it was built.
        self.play(stories, "exceptions")?;
        println!(
            "Python {}: tracked, import ttmem takes {} ms",
            self.release,
            imported.join(" and ")
        );
        Ok(())
    }

    /// Plays a story of the stand-in from Python, and looks whether it was tracked.
    fn play(&self, stories: &StandIn, story: &str) -> anyhow::Result<()> {
        let report = self.folder.join("report.json");
        let mut run = self.program("ttmem");
        run.args(["run", "--json", "--report"])
            .arg(&report)
            .arg("--")
            .arg(self.folder.join("bin/python"))
            .arg("model.py")
            .arg(&stories.stories)
            .arg(story);
        let mut child = run
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(self.folder.join("stderr"))?)
            .spawn()?;
        // Stories wait for a line at each of their stops.
        if let Some(mut lines) = child.stdin.take() {
            let _ended = lines.write_all(&b"\n".repeat(64));
        }
        let status = child.wait()?;
        let stderr = fs::read_to_string(self.folder.join("stderr"))?;
        ensure!(
            status.success(),
            "{story} under {}: {status}\n{stderr}",
            self.release
        );
        let report: Value = serde_json::from_str(&fs::read_to_string(&report)?)?;
        let is_tracked = report["tracked"] == true && report["own_server"] == true;
        let is_exact = report["anomalies"] == 0 && report["lost_events"] == 0;
        ensure!(
            is_tracked && is_exact,
            "{story} was not tracked: {report:#}"
        );
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A library with the runtime's names, and one that uses it.
struct StandIn {
    stories: PathBuf,
}

impl StandIn {
    fn build(folder: &Path) -> anyhow::Result<Self> {
        let sources = root().join("tests/standin_runtime");
        let stories = folder.join("libstories.so");
        let compile = |source: &str, made: &Path, options: &[&str]| {
            let mut compiler = program("c++");
            compiler.args(["-std=c++20", "-shared", "-fPIC"]);
            compiler.arg(sources.join(source)).arg("-o").arg(made);
            run_command(compiler.args(options))
        };
        compile("runtime.cpp", &folder.join("libtt_metal.so"), &[])?;
        let found = format!("-L{}", folder.display());
        let linked = [found.as_str(), "-ltt_metal", "-Wl,-rpath,$ORIGIN"];
        compile("stories.cpp", &stories, &linked)?;
        Ok(Self { stories })
    }
}
