//! A stand-in for `riscv-tt-elf-g++`, the compiler of device kernels.
//!
//! The compiler is on no package registry, and on a mock cluster nothing ever runs
//! a kernel: what counts is that the runtime finds a compiler whose version it
//! knows, and ELF files its loader accepts. The runtime starts this program once
//! per source and once per link, often several at a time; each run touches only the
//! files its command line names.
//!
//! * [`invocation`]: what a command line asks for.
//! * [`version`]: the version line of the wheel it is installed in.
//! * [`kernel`]: whose text it is and how long it is to be.
//! * [`text_base`]: where the linker would have placed it.
//! * [`executable`]: the ELF file.
//! * [`witness`]: what the process looked like, for tests of what is preloaded into it.

mod executable;
mod invocation;
mod kernel;
mod text_base;
mod version;
mod witness;

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use crate::invocation::{Invocation, Link};
use crate::kernel::LinkedKernel;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    let arguments: Vec<String> = arguments.collect();
    witness::testify()?;
    match Invocation::parse(&arguments)? {
        Invocation::Version => {
            let line = version::version_line(Path::new(&program))?;
            writeln!(std::io::stdout(), "{line}").context("cannot print the version")
        }
        Invocation::Compile(compile) => {
            create_empty(&compile.output)?;
            match compile.dependencies {
                Some(path) => {
                    // A rule without prerequisites: nothing the runtime could find changed.
                    let rule = format!("{}:\n", compile.output.display());
                    fs::write(&path, rule)
                        .with_context(|| format!("cannot write {}", path.display()))
                }
                None => Ok(()),
            }
        }
        Invocation::Link(link) => write_executable(&link),
    }
}

fn create_empty(path: &Path) -> anyhow::Result<()> {
    fs::write(path, b"").with_context(|| format!("cannot create {}", path.display()))
}

fn write_executable(link: &Link) -> anyhow::Result<()> {
    let output = std::path::absolute(&link.output)
        .with_context(|| format!("no absolute path for {}", link.output.display()))?;
    let kernel = LinkedKernel::of_output(&output)
        .with_context(|| format!("{} is no kernel's place", output.display()))?;
    let base = text_base::text_base(link)?;
    let image = executable::executable(base, kernel.text_bytes())
        .with_context(|| format!("cannot lay out {}", output.display()))?;
    fs::write(&output, image).with_context(|| format!("cannot write {}", output.display()))
}
