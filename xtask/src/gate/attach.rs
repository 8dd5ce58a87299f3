//! The preloaded library: what it adds to a program that calls the runtime.
//!
//! The program and the runtime are small stand-ins in C, which call each other in the
//! order in which the real ones do. Each workload runs without the library, with tracking
//! disabled, and with tracking; what the first one takes is subtracted from the others.
//! So it is the library as it is preloaded that is counted, with its thread-local
//! variables and its calls through tables, and nothing else.

use super::{Mode, count, judge};
use crate::command::{cargo, program, read, root, run as run_command, target_dir};
use crate::gate::baseline::PerEvent;
use crate::tool;
use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const BASELINES: &str = "capture/attach/benches/instructions.txt";

/// Runs of a workload: more than there are between two looks at the allocator's statistics.
const RUNS: u64 = 2000;

/// Events that fit into the ring: all of a workload, so that no thread waits for another.
const RING_EVENTS: &str = "524288";

/// What the name of a workload ends with while tracking is disabled.
const DISABLED: &str = "_off";

/// Measures every workload with tracking, and with tracking disabled.
pub(super) fn run(mode: Mode) -> anyhow::Result<()> {
    tool::CC.ensure()?;
    let calls = Calls::build()?;
    let workloads = read(&mut program(&calls.program))?;
    let names: Vec<String> = workloads
        .lines()
        .flat_map(|name| [name.to_owned(), format!("{name}{DISABLED}")])
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    judge(BASELINES, mode, &names, |name| calls.measure(name))?;
    Ok(())
}

/// The stand-ins, and the library that is measured.
struct Calls {
    program: PathBuf,
    library: PathBuf,
}

impl Calls {
    /// Builds them, the library as it is shipped.
    fn build() -> anyhow::Result<Self> {
        run_command(&mut cargo([
            "build",
            "--release",
            "--package",
            "ttmem-attach",
        ]))?;
        let folder = target_dir().join("ttmem-attach-bench");
        fs::create_dir_all(&folder).context("no folder for the stand-ins")?;
        let sources = root().join("capture/attach/benches");
        let runtime = folder.join("libtt_metal.so");
        let calls = folder.join("calls");
        // Calls inside of the runtime's library must be such as a preloaded one can catch.
        compile(|cc| {
            cc.args(["-fPIC", "-fsemantic-interposition", "-shared"])
                .arg(sources.join("runtime.c"))
                .arg("-o")
                .arg(&runtime)
        })?;
        compile(|cc| {
            cc.arg(sources.join("calls.c"))
                .arg(&runtime)
                .arg("-ldl")
                .arg("-o")
                .arg(&calls)
        })?;
        Ok(Self {
            program: calls,
            library: target_dir().join("release/libttmem_attach.so"),
        })
    }

    /// What the library adds to one run of a workload.
    fn measure(&self, name: &str) -> anyhow::Result<PerEvent> {
        let workload = name.strip_suffix(DISABLED).unwrap_or(name);
        let disabled = if workload == name { "0" } else { "1" };
        let variables: [(&str, &OsStr); 4] = [
            ("LD_PRELOAD", self.library.as_os_str()),
            ("TTMEM_DISABLE", disabled.as_ref()),
            ("TTMEM_RING_EVENTS", RING_EVENTS.as_ref()),
            ("TTMEM_SOCKET", "/nonexistent/ttmem.sock".as_ref()),
        ];
        let bare = count(&self.program, workload, RUNS, &[])?;
        let with_library = count(&self.program, workload, RUNS, &variables)?;
        let Some(added) = with_library.checked_sub(bare).filter(|added| *added > 0) else {
            bail!("{name} takes {with_library} instructions with the library, {bare} without");
        };
        Ok(PerEvent::new(added, RUNS))
    }
}

fn compile(with: impl FnOnce(&mut Command) -> &mut Command) -> anyhow::Result<()> {
    let mut cc = program("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2"]);
    run_command(with(&mut cc))
}
