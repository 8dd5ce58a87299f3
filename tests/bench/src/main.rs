//! `ttmem-bench`: the command line of the measurements; `cargo xtask bench` builds and starts it.

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use ttmem_bench::{
    AttackOptions, Programs, RecordOptions, RecordingOptions, Subject, WorkloadOptions,
};

/// Measurements of the ttmem program, printed as JSON.
#[derive(Debug, Parser)]
#[command(name = "ttmem-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The server: events per second, memory per buffer, time per read.
    Server(Measurement),
    /// The client: nanoseconds per event, the pump, totals at full speed.
    Client(Measurement),
    /// The terminal view: processor time, frames, keys to screen.
    Top(Measurement),
    /// The read API under load: from event to reader, a crowd that stalls, hostile requests.
    Api(Measurement),
    /// A scrape of `/metrics` with 64 processes on 32 devices: time and size.
    Metrics(Measurement),
    /// A look at a machine with 32 devices: the driver's files and TT-Metal's counters.
    Host(Measurement),
    /// A thousand processes that come and go for an hour, and the terminal view: does memory grow?
    Churn(Measurement),
    /// Ten thousand processes that live for a moment, hostile labels, stalled scrapers: do series grow?
    Short(Measurement),
    /// Fairness: an honest client's round trip beside each of many attacks.
    Fair(Measurement),
    /// Recordings: events per second and bytes per event, time to open and to go to an instant.
    Recording {
        #[command(flatten)]
        measurement: Measurement,

        #[command(flatten)]
        options: RecordingOptions,
    },
    /// A workload for `server` to kill: allocates, prints a line, and waits.
    #[command(hide = true)]
    Hold {
        #[arg(long)]
        socket: PathBuf,
    },
    /// A process for `metrics`: reports what it holds, prints a line, and waits.
    #[command(hide = true)]
    Member {
        #[arg(long)]
        socket: PathBuf,
        #[arg(long)]
        number: u32,
    },
    /// A process for `fair`: attacks a server, or keeps it busy, until its input ends.
    #[command(hide = true)]
    Attack(AttackOptions),
    /// A workload for `client` and `api`: allocates, frees, and keeps its own account.
    #[command(hide = true)]
    Workload(WorkloadOptions),
    /// What a tracker call costs, measured in a process of its own for `client`.
    #[command(hide = true)]
    Record(RecordOptions),
}

#[derive(Debug, Args)]
struct Measurement {
    /// The `ttmem` program to measure.
    #[arg(long, value_name = "PATH")]
    ttmem: PathBuf,

    /// A part of the work, mostly a tenth: a check that it runs, not a figure to quote.
    #[arg(long)]
    quick: bool,
}

fn main() -> Result<()> {
    let (subject, options) = match Cli::parse().command {
        Command::Server(options) => (Subject::Server, options),
        Command::Client(options) => (Subject::Client, options),
        Command::Top(options) => (Subject::Top, options),
        Command::Api(options) => (Subject::Api, options),
        Command::Metrics(options) => (Subject::Metrics, options),
        Command::Host(options) => (Subject::Host, options),
        Command::Churn(options) => (Subject::Churn, options),
        Command::Short(options) => (Subject::Short, options),
        Command::Fair(options) => (Subject::Fair, options),
        Command::Recording {
            measurement,
            options,
        } => (Subject::Recording(options), measurement),
        Command::Attack(options) => return ttmem_bench::attack(&options),
        Command::Member { socket, number } => {
            return ttmem_bench::hold_as_member(&socket, number);
        }
        Command::Hold { socket } => return ttmem_bench::hold(&socket),
        Command::Workload(options) => return ttmem_bench::workload(&options),
        Command::Record(options) => {
            let found = ttmem_bench::record(&options)?;
            return writeln!(std::io::stdout(), "{found:#}").context("cannot print");
        }
    };
    let programs = Programs {
        ttmem: options.ttmem,
        workload: |words| {
            let this = std::env::current_exe().context("cannot find this program")?;
            let mut command = std::process::Command::new(this);
            command.arg("workload").args(words);
            Ok(command)
        },
    };
    let found = ttmem_bench::measure(subject, &programs, options.quick)?;
    writeln!(std::io::stdout(), "{found:#}").context("cannot print")
}
