//! Options of the commands that start programs, or say how to start them.

use super::{Look, RecordFileOptions};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// How a program is tracked.
#[derive(Debug, Default, Args)]
pub(crate) struct LaunchOptions {
    #[command(flatten)]
    pub(crate) attach: AttachOptions,

    /// Do without that library, for programs that are linked with libttmem.
    #[arg(long)]
    pub(crate) no_attach: bool,

    /// Report the native call stacks of buffers from this size on; 0 = of all.
    ///
    /// Also those of allocations that are refused and of kernels that are loaded. Each costs the
    /// program microseconds.
    #[arg(long, value_name = "BYTES", env = "TTMEM_STACKS")]
    pub(crate) stacks: Option<u64>,

    /// Leave out the line of Python behind each allocation, program and failure.
    #[arg(long)]
    pub(crate) no_python: bool,
}

#[derive(Debug, Default, Args)]
pub(crate) struct AttachOptions {
    /// The library that tracks programs; without it, looked for where this program was installed.
    #[arg(long, value_name = "PATH", env = "TTMEM_ATTACH_LIBRARY")]
    pub(crate) library: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Write the report to this file instead of standard error.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    /// The report as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) record: RecordFileOptions,

    /// Also write the page with everything that happened inside, as `report` does of a recording.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) launch: LaunchOptions,

    /// Show the terminal view while the program runs.
    ///
    /// The view takes the terminal and its keys. What the program writes to the terminal comes out
    /// when the view is left, which does not end the program; its input is empty.
    #[arg(long)]
    pub(crate) top: bool,

    #[arg(skip)]
    pub(crate) look: Look,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// The file with the figures to compare with.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: PathBuf,

    /// The name of the run in that file; without it, the command without its folder.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Write the figures into the file instead of comparing them; other names in it stay.
    #[arg(long)]
    pub(crate) update: bool,

    /// Compare a report that `ttmem run --json` wrote; runs nothing.
    #[arg(
        long,
        value_name = "REPORT",
        conflicts_with_all = ["command", "report", "library", "no_attach", "stacks", "no_python"]
    )]
    pub(crate) from: Option<PathBuf>,

    /// Also write the report of the run to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) launch: LaunchOptions,

    /// The program and its arguments.
    #[arg(
        required_unless_present = "from",
        trailing_var_arg = true,
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct EnvOptions {
    #[command(flatten)]
    pub(crate) attach: AttachOptions,

    /// Record the line of Python behind each allocation, program and failure, as `run` does.
    #[arg(long)]
    pub(crate) python: bool,
}
