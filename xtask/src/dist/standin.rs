//! The stand-in for the runtime, compiled: what packages are tried on where ttnn has no wheel.

use crate::command::{program, root, run as run_command};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program of Python that plays a story.
const MODEL: &str = "\
import ctypes, sys
sys.exit(ctypes.CDLL(sys.argv[1]).play(sys.argv[2].encode()))
";

/// A library with the runtime's names, and two that use it.
pub(crate) struct StandIn {
    folder: PathBuf,
    /// What an operation library would do, by name.
    pub(crate) stories: PathBuf,
    /// A chip to fill from Python.
    pub(crate) board: PathBuf,
}

impl StandIn {
    /// The folder with what Python finds as ttnn; `TTMEM_TESTS_BOARD` names its library.
    pub(crate) const TTNN: &str = "tests/standin_runtime/ttnn";

    pub(crate) fn build(folder: &Path) -> anyhow::Result<Self> {
        let sources = root().join("tests/standin_runtime");
        let compile = |source: &str, made: &str, options: &[&str]| -> anyhow::Result<PathBuf> {
            let made = folder.join(made);
            let mut compiler = program("c++");
            compiler.args(["-std=c++20", "-shared", "-fPIC"]);
            compiler.arg(sources.join(source)).arg("-o").arg(&made);
            run_command(compiler.args(options))?;
            Ok(made)
        };
        compile("runtime.cpp", "libtt_metal.so", &[])?;
        let found = format!("-L{}", folder.display());
        let linked = [found.as_str(), "-ltt_metal", "-Wl,-rpath,$ORIGIN"];
        fs::write(folder.join("model.py"), MODEL)?;
        Ok(Self {
            folder: folder.to_owned(),
            stories: compile("stories.cpp", "libstories.so", &linked)?,
            board: compile("board.cpp", "libboard.so", &linked)?,
        })
    }

    /// Has a `ttmem` run a story in Python, and looks whether it was tracked.
    pub(crate) fn play(
        &self,
        mut ttmem: Command,
        python: &Path,
        story: &str,
    ) -> anyhow::Result<()> {
        let [report, said] = ["report.json", "stderr"].map(|name| self.folder.join(name));
        ttmem
            .args(["run", "--json", "--report"])
            .arg(&report)
            .arg("--")
            .arg(python)
            .arg(self.folder.join("model.py"))
            .arg(&self.stories)
            .arg(story);
        let mut child = ttmem
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(File::create(&said)?)
            .spawn()
            .with_context(|| format!("cannot start {ttmem:?}"))?;
        // Stories wait for a line at each of their stops.
        if let Some(mut lines) = child.stdin.take() {
            let _ended = lines.write_all(&b"\n".repeat(64));
        }
        let status = child.wait()?;
        let said = fs::read_to_string(said)?;
        ensure!(status.success(), "{story}: {status}\n{said}");
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
