//! The command line: commands, options, and where defaults come from.

mod launch;
mod record;
mod remote;
mod replay;
mod top;

pub(crate) use launch::{CheckOptions, EnvOptions, LaunchOptions, RunOptions};
pub(crate) use record::{RecordFileOptions, RecordFolderOptions, RecordOptions, ReportOptions};
pub(crate) use remote::{At, HttpOptions, PrometheusOptions, RecordedOptions};
use remote::{host_name, tcp_address};
pub(crate) use replay::ReplayOptions;
pub(crate) use top::{Colour, Look, ThemeChoice, TopOptions, interval_of, view_of};

use crate::exit::EXIT_CODES;
use crate::load::{self, LoadClientOptions};
use crate::scenarios::{self, ChosenScenario};
use clap::builder::{Resettable, Styles};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use nix::unistd::{Gid, Group};
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use ttmem_event::catalogue::BoardKind;
use ttmem_machine::{NotASelector, Selector};

/// Every variable of ours and what it stands for, for `--help` and the manual.
const VARIABLES: &[(&str, &str)] = &[
    ("TTMEM_SOCKET", "--socket"),
    ("TTMEM_HTTP", "top --http"),
    ("TTMEM_HTTP", "status --http"),
    ("TTMEM_HTTP", "dump --http"),
    ("TTMEM_HTTP", "mark --http"),
    ("TTMEM_HTTP", "explain --http"),
    ("TTMEM_HTTP", "record --http"),
    ("TTMEM_HTTP_TOKEN_FILE", "top --http-token-file"),
    ("TTMEM_HTTP_TOKEN_FILE", "status --http-token-file"),
    ("TTMEM_HTTP_TOKEN_FILE", "dump --http-token-file"),
    ("TTMEM_HTTP_TOKEN_FILE", "mark --http-token-file"),
    ("TTMEM_HTTP_TOKEN_FILE", "explain --http-token-file"),
    ("TTMEM_HTTP_TOKEN_FILE", "record --http-token-file"),
    ("TTMEM_PROMETHEUS", "top --prometheus"),
    ("TTMEM_PROMETHEUS", "fleet --prometheus"),
    ("TTMEM_PROMETHEUS_TOKEN_FILE", "top --prometheus-token-file"),
    (
        "TTMEM_PROMETHEUS_TOKEN_FILE",
        "fleet --prometheus-token-file",
    ),
    ("TTMEM_INTERVAL", "top --interval"),
    ("TTMEM_VIEW", "top --view"),
    ("TTMEM_COLOUR", "top --colour"),
    ("TTMEM_THEME", "top --theme"),
    ("TTMEM_SOCKET_MODE", "serve --socket-mode"),
    ("TTMEM_BOARD", "serve --board"),
    ("TTMEM_ATTACH_LIBRARY", "run --library"),
    ("TTMEM_ATTACH_LIBRARY", "check --library"),
    ("TTMEM_ATTACH_LIBRARY", "env --library"),
    ("TTMEM_STACKS", "run --stacks"),
    ("TTMEM_STACKS", "check --stacks"),
];

/// Every variable of ours by its name.
pub(crate) fn variables() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    VARIABLES.iter().filter_map(move |(name, _option)| {
        let is_new = *name != last;
        last = name;
        is_new.then_some(*name)
    })
}

/// The most connections that can be asked for: each costs two descriptors.
const MAX_CLIENTS: u32 = 65_536;

/// Live device-memory tracking for Tenstorrent accelerators.
#[derive(Debug, Parser)]
#[command(name = "ttmem", version, about, after_help = after_help())]
pub(crate) struct Cli {
    /// The server's Unix socket.
    ///
    /// Without it, `serve` listens on ttmem.sock in the user's runtime directory and on the old
    /// protocol's /tmp/tt_allocation_server.sock; the other commands ask the first of these and of
    /// the system service's /run/ttmem/ttmem.sock on which a server listens.
    #[arg(long, global = true, value_name = "PATH", env = "TTMEM_SOCKET")]
    pub(crate) socket: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Understands a command line, and says where each value comes from.
    ///
    /// # Errors
    /// When it makes no sense; help that was asked for is an error, too.
    pub(crate) fn parsed<T: Into<OsString> + Clone>(
        line: impl IntoIterator<Item = T>,
    ) -> Result<(Self, ArgMatches), clap::Error> {
        let matches = Self::understood().try_get_matches_from(line)?;
        let mut cli =
            Self::from_arg_matches(&matches).map_err(|error| error.format(&mut Self::command()))?;
        remote::settle(&mut cli, &matches)?;
        Ok((cli, matches))
    }

    fn understood() -> clap::Command {
        without_empty_variables(Self::command(), &|name| std::env::var_os(name))
    }

    /// What is wrong with a command line, without a style of ours: what would drive a terminal is in its words.
    pub(crate) fn complaint<T: Into<OsString> + Clone>(
        line: impl IntoIterator<Item = T>,
    ) -> Option<String> {
        let command = Self::understood().styles(Styles::plain());
        let error = command.try_get_matches_from(line).err()?;
        Some(error.render().ansi().to_string())
    }
}

/// A variable that is set to nothing is not set: so it is with shells and other tools.
fn without_empty_variables(
    command: clap::Command,
    variable: &dyn Fn(&OsStr) -> Option<OsString>,
) -> clap::Command {
    let is_empty = |arg: &clap::Arg| {
        let value = arg.get_env().and_then(variable);
        value.is_some_and(|value| value.is_empty())
    };
    command
        .mut_args(|arg| {
            if is_empty(&arg) {
                arg.env(Resettable::<clap::builder::OsStr>::Reset)
            } else {
                arg
            }
        })
        .mut_subcommands(|command| without_empty_variables(command, variable))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server until it is interrupted.
    Serve(ServeOptions),
    /// Show everything live on the terminal: devices, processes, programs, buffers, events.
    Top(TopOptions),
    /// Show what is used on every device, and by whom.
    Status(StatusOptions),
    /// List live buffers, or kernels or circular buffers, or the last events.
    Dump(DumpOptions),
    /// Explain why an allocation or a program was refused.
    ///
    /// The newest failure that the server knows; or those of a log, from any machine: TT-Metal's
    /// messages in it, of every version, and the line of Python where a traceback has it.
    Explain(ExplainOptions),
    /// Show which hosts, jobs and devices of a fleet are full, fragmented, failing or growing.
    ///
    /// Asks the Prometheus that scrapes their servers, for now and for the last week.
    Fleet(FleetOptions),
    /// Drop everything the server holds for a process.
    ///
    /// Allowed to the process's user, the server's user and the superuser.
    Forget(ForgetOptions),
    /// Set a mark: peaks are counted from it as well, and what grows from mark to mark is named.
    ///
    /// A program that sets one in each of its steps, as by running `ttmem mark step`, has its leaks
    /// reported with their line and how much each step leaves behind.
    Mark(MarkOptions),
    /// Run a program and report what it used on every device.
    ///
    /// The program is tracked as it is, and so are the processes that it starts. Its streams,
    /// its signals and its exit code are its own.
    Run(RunOptions),
    /// Run a program and fail if it takes or leaves behind more than a baseline says.
    ///
    /// For CI. The file is that of `pytest --ttmem-baseline`. What the program took is not compared
    /// if it fails by itself.
    Check(CheckOptions),
    /// Record what happens on a server from now on, until Ctrl-C.
    ///
    /// The file begins with all that is live. It can be read at any time, also if this command or the server
    /// is killed: `top --file`, `replay` and `report` show it.
    Record(RecordOptions),
    /// Serve a recording: every view of it at any of its instants, on a page and in the read API.
    Replay(ReplayOptions),
    /// Write the page of a recording as one file, which needs neither a server nor a network.
    ///
    /// It has everything at the peaks, marks and failures of the recording, and at as many instants between them
    /// as go into some megabytes.
    Report(ReportOptions),
    /// Print the variables that track programs which are started by other means.
    Env(EnvOptions),
    /// Play a workload against a server of its own and show it; needs no hardware.
    Demo(DemoOptions),
    /// Say where the configuration file is, or write one to begin with.
    Config(ConfigOptions),
    /// Put a load on a server with processes that play workloads; needs no hardware.
    Load(LoadOptions),
    /// Have systemd run a server of yours.
    Service(ServiceOptions),
    /// Check that this machine is set up correctly, and say how to fix what is not.
    ///
    /// Nothing is changed and no device is opened.
    Doctor(DoctorOptions),
    /// Wait until a process or a device holds no memory any more, for scripts after a crash.
    ///
    /// By the server's account where one runs, by the driver and by the descriptors of processes; and a process has
    /// to be gone. No device is opened.
    Wait(WaitOptions),
    /// One process of `load`.
    #[command(hide = true)]
    LoadClient(LoadClientOptions),
    /// Write the pages of the manual and the completions of shells; for packages.
    #[command(hide = true)]
    GenerateManual(GenerateManualOptions),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ServeOptions {
    /// Do not listen on the old protocol's /tmp/tt_allocation_server.sock.
    #[arg(long)]
    pub(crate) no_legacy_socket: bool,

    /// Permission bits of the sockets, in octal; connecting takes write permission.
    #[arg(
        long,
        value_name = "OCTAL",
        default_value = "0660",
        value_parser = octal_mode,
        env = "TTMEM_SOCKET_MODE"
    )]
    pub(crate) socket_mode: u32,

    /// Group to give the sockets to, by name or number.
    #[arg(long, value_name = "NAME|GID", value_parser = group)]
    pub(crate) socket_group: Option<Gid>,

    /// Also serve readers over TCP, on an address such as 127.0.0.1:9400; port 0 = any that is free.
    ///
    /// Everybody on this machine can read there then. On an address that other machines can reach,
    /// --http-token-file is needed.
    #[arg(long, value_name = "ADDR", value_parser = tcp_address)]
    pub(crate) http: Option<SocketAddr>,

    /// The file with the token that readers over TCP have to show.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub(crate) http_token_file: Option<PathBuf>,

    /// Another name under which readers over TCP know this machine; may be repeated.
    #[arg(
        long,
        value_name = "NAME",
        requires = "http_token_file",
        value_parser = host_name
    )]
    pub(crate) http_host: Vec<String>,

    /// Show readers over TCP the names, command lines and Python lines of every user's processes.
    ///
    /// Without it they see sizes: who they are is not known. Readers on the socket see those of
    /// their own processes, root and the server's user those of all.
    #[arg(long, requires = "http")]
    pub(crate) http_names: bool,

    /// The board in this machine; without it, sysfs is asked.
    #[arg(long, value_name = "NAME", value_parser = scenarios::board, env = "TTMEM_BOARD")]
    pub(crate) board: Option<BoardKind>,

    /// Look at a copy of another machine's /sys, /proc and /dev below this folder.
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(crate) host_root: Option<PathBuf>,

    /// Write the event log to this file instead of standard output.
    #[arg(long, value_name = "PATH")]
    pub(crate) log_file: Option<PathBuf>,

    /// How the event log looks.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = LogForm::Plain)]
    pub(crate) log_format: LogForm,

    /// Begin a new log file at this size; K, M and G are binary.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size, requires = "log_file")]
    pub(crate) log_max_size: u64,

    /// Log files to keep, the one being written included.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=1000),
        requires = "log_file"
    )]
    pub(crate) log_keep: u32,

    /// Log no events, only errors.
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Also log dispatches and what the caches do.
    #[arg(short, long)]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) record: RecordFolderOptions,

    /// Connections of clients at once.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4096,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CLIENTS))
    )]
    pub(crate) max_clients: u32,

    /// Old clients number buffer types as the old Python client does: 2 L1_SMALL, 3 TRACE.
    #[arg(long)]
    pub(crate) python_buffer_types: bool,
}

/// How the event log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogForm {
    /// Lines for people, as the old server wrote them.
    Plain,
    /// One JSON object per line.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct StatusOptions {
    /// Print the whole snapshot as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) chosen: ChosenDevice,

    #[command(flatten)]
    pub(crate) http: HttpOptions,
}

/// Which device a command is about.
#[derive(Debug, Default, Args)]
pub(crate) struct ChosenDevice {
    /// Show this device alone: its number (3), its node (/dev/tenstorrent/3), its PCI address (0000:0a:00.0), the
    /// number of its chip or board in hex, or its place in a Galaxy (tray1/chip5). Of a card, all its chips.
    #[arg(long = "device", value_name = "DEVICE", value_parser = device_name)]
    pub(crate) device: Option<String>,
}

/// Any name of a device; the server knows which device has it.
pub(crate) fn device_name(text: &str) -> Result<String, NotASelector> {
    let _selector: Selector = text.parse()?;
    Ok(text.to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct DumpOptions {
    /// Kernels instead of buffers.
    #[arg(long)]
    pub(crate) kernels: bool,

    /// Circular buffers instead of buffers; with --kernels, both.
    #[arg(long)]
    pub(crate) cbs: bool,

    /// The last N events instead, one per line.
    ///
    /// The server keeps 256 of every process that lives and of the 64 that departed last, with
    /// what it found in the memory of those that died.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000),
        conflicts_with_all = ["kernels", "cbs", "limit"]
    )]
    pub(crate) last: Option<u32>,

    /// Only events of this process.
    #[arg(
        long,
        value_name = "PID",
        value_parser = clap::value_parser!(u32).range(1..),
        requires = "last"
    )]
    pub(crate) pid: Option<u32>,

    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,

    /// At most this many rows of each kind.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,

    #[command(flatten)]
    pub(crate) http: HttpOptions,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainOptions {
    /// The log, or a recording, or a folder of recordings; - is standard input. Without it the server is asked.
    #[arg(value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,

    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) http: HttpOptions,
}

#[derive(Debug, Args)]
pub(crate) struct FleetOptions {
    #[command(flatten)]
    pub(crate) prometheus: PrometheusOptions,

    /// Print one JSON document, with every row.
    #[arg(long)]
    pub(crate) json: bool,

    /// At most this many rows of each list, 20 unless said.
    #[arg(long, value_name = "N", value_parser = rows)]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigOptions {
    /// What to do.
    #[arg(value_enum, value_name = "ACTION")]
    pub(crate) action: ConfigAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigAction {
    /// Print the path of the file.
    Path,
    /// Write a file with every key and its default, unless there is one.
    Init,
}

#[derive(Debug, Args)]
pub(crate) struct ServiceOptions {
    /// What to do.
    #[arg(value_enum, value_name = "ACTION")]
    pub(crate) action: ServiceAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceAction {
    /// Write the unit, and start it where systemd runs for this user.
    Install,
    /// Say whether it is installed and whether its server answers.
    Status,
    /// Stop it and remove the unit.
    Uninstall,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,

    /// Look at a copy of another machine's /sys, /proc and /dev below this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,

    /// Write a support archive (tar.gz) with all of this to a new file, without secrets.
    ///
    /// What is in it is listed first. There are no values of the environment in it, no tokens, no command lines and
    /// names of processes, no names of users and of this host, and no paths below home folders.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) bundle: Option<PathBuf>,

    /// Write the archive without a question; needed where standard input is not a terminal.
    #[arg(long, requires = "bundle")]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WaitOptions {
    /// Wait until everything is released.
    #[arg(long, required = true)]
    pub(crate) released: bool,

    /// Wait for this process to end and for its memory to be released.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Option<u32>,

    /// Wait until nobody has this device: a number, a node, a PCI address, an id or a place in a Galaxy.
    ///
    /// Without this and --pid: until nobody has any device.
    #[arg(long, value_name = "DEVICE", conflicts_with = "pid")]
    pub(crate) device: Option<String>,

    /// Give up after so many seconds, with code 9; 0 asks once. Without it, there is no limit.
    #[arg(long, value_name = "SECONDS", value_parser = timeout)]
    pub(crate) timeout: Option<Duration>,

    /// Look at a copy of another machine's /sys, /proc and /dev below this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateManualOptions {
    /// The folder to write them to.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ForgetOptions {
    /// The process.
    #[arg(value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: u32,
}

#[derive(Debug, Args)]
pub(crate) struct MarkOptions {
    /// Its name: at most 128 characters, none of them a control character.
    #[arg(value_name = "NAME", default_value = "")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) http: HttpOptions,
}

/// What the model of the runtime plays.
#[derive(Debug, Args)]
pub(crate) struct PlayOptions {
    /// What to play: a name of `demo --list`, or a file of your own; `load` plays it again and again.
    #[arg(
        long,
        value_name = "NAME|FILE",
        default_value = scenarios::DEFAULT,
        value_parser = scenarios::parse
    )]
    pub(crate) scenario: ChosenScenario,

    /// Where random choices begin: the same number plays the same.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    #[command(flatten)]
    pub(crate) play: PlayOptions,

    /// The board to play it on; without it, the scenario's own.
    #[arg(long, value_name = "NAME", value_parser = scenarios::board)]
    pub(crate) board: Option<BoardKind>,

    /// Speed: 1 is normal, 0 as fast as possible, which is the default of --headless.
    #[arg(long, value_name = "X", value_parser = speed)]
    pub(crate) speed: Option<f64>,

    /// Show nothing meanwhile, only what happened; also when there is no terminal.
    #[arg(long)]
    pub(crate) headless: bool,

    /// Print what happened as JSON; headless, too.
    #[arg(long)]
    pub(crate) json: bool,

    /// Also serve the page, on an address such as 127.0.0.1:9400; port 0 = any that is free.
    ///
    /// Without a terminal, or with --headless, it is played at its normal speed, and what has ended stays
    /// on the page until Ctrl-C.
    #[arg(long, value_name = "ADDR", value_parser = tcp_address)]
    pub(crate) http: Option<SocketAddr>,

    #[command(flatten)]
    pub(crate) record: RecordFileOptions,

    #[arg(skip)]
    pub(crate) look: Look,

    /// Print the file of the scenario, whose lines views and reports name, and play nothing.
    #[arg(
        long,
        conflicts_with_all = ["board", "seed", "speed", "headless", "json", "http", "record"]
    )]
    pub(crate) print: bool,

    /// List what there is to play.
    #[arg(
        long,
        conflicts_with_all = [
            "scenario", "print", "board", "seed", "speed", "headless", "json", "http", "record",
        ]
    )]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadOptions {
    /// Processes that play at the same time.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(load::MAX_CLIENTS))
    )]
    pub(crate) clients: u32,

    /// Events per second of all clients together; 0 = as fast as they go.
    #[arg(long, value_name = "EVENTS", default_value_t = 0)]
    pub(crate) rate: u64,

    /// Seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(load::MAX_SECONDS))
    )]
    pub(crate) duration: u32,

    #[command(flatten)]
    pub(crate) play: PlayOptions,

    /// Print one JSON document.
    #[arg(long)]
    pub(crate) json: bool,
}

fn octal_mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    let octal = !digits.is_empty() && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    octal
        .then(|| u32::from_str_radix(digits, 8).ok())
        .flatten()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| "expected permission bits in octal, such as 0660".to_owned())
}

fn group(text: &str) -> Result<Gid, String> {
    if let Ok(gid) = text.parse() {
        return Ok(Gid::from_raw(gid));
    }
    match Group::from_name(text) {
        Ok(Some(group)) => Ok(group.gid),
        Ok(None) => Err("there is no such group".to_owned()),
        Err(error) => Err(format!("cannot look it up: {error}")),
    }
}

fn rows(text: &str) -> Result<usize, String> {
    let rows = text.parse().ok().filter(|rows| *rows > 0);
    rows.ok_or_else(|| "expected a number from 1".to_owned())
}

fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|seconds| (0.0..=1e9).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected seconds from 0".to_owned())
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok();
    // Slower than that, a scenario would not end within a day; faster, it does not wait at all.
    let sensible = |speed: &f64| *speed == 0.0 || (0.001..=1000.0).contains(speed);
    speed
        .filter(sensible)
        .ok_or_else(|| "expected 0, or a factor from 0.001 to 1000".to_owned())
}

fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.split_at_checked(text.len().saturating_sub(1)) {
        Some((digits, "K" | "k")) => (digits, 1 << 10),
        Some((digits, "M" | "m")) => (digits, 1 << 20),
        Some((digits, "G" | "g")) => (digits, 1 << 30),
        _ => (text, 1),
    };
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    plain
        .then(|| digits.parse::<u64>().ok()?.checked_mul(unit))
        .flatten()
        .filter(|bytes| *bytes >= 4096)
        .ok_or_else(|| "expected at least 4K, such as 500K, 64M or 2G".to_owned())
}

fn after_help() -> String {
    let mut text = String::from("Environment:\n");
    let mut named: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, stands_for) in VARIABLES {
        match named.last_mut().filter(|(last, _options)| last == name) {
            Some((_name, options)) => options.push(stands_for),
            None => named.push((name, vec![stands_for])),
        }
    }
    for (name, options) in named {
        // `top --http`, `status --http`: the option once, behind the commands that have it.
        let (first, option) = options[0].split_once(' ').unwrap_or(("", options[0]));
        let others = options[1..].iter().filter_map(|it| it.split_once(' '));
        let commands: Vec<&str> = [first].into_iter().chain(others.map(|it| it.0)).collect();
        let line = format!("  {name:<21} {} {option}", commands.join(", "));
        text.push_str(&format!("{}\n", line.replace("  --", " --")));
    }
    text.push_str("\nExit codes:\n");
    for (code, meaning) in EXIT_CODES {
        text.push_str(&format!("  {code:>3}  {meaning}\n"));
    }
    text
}

#[cfg(test)]
mod tests;
