//! `ttmem run`: a program, tracked as it is, and the account of what it used.
//!
//! This process stands between the shell and the program and must not be noticed: the program has
//! the shell's streams, gets every signal once, and its exit code is ours. What it reports goes to
//! the server that runs, or to one in this process that nobody else can reach. `ttmem env` gives
//! the same environment to programs that are started by other means.

mod captured;
mod child;
mod contents;
mod library;
mod ranks;
mod report;
mod watch;
mod witness;

pub(crate) use child::{Ended, StartChildError};
pub(crate) use contents::PeakOfClass;
pub(crate) use library::find as attach_library;
pub(crate) use ranks::Ranks;
pub(crate) use report::{DeviceUse, Region, Report, command_line};
pub(crate) use witness::{is_meant as is_witness, serve as serve_as_witness};

use crate::cli::{EnvOptions, LaunchOptions, Look, RunOptions};
use crate::commands::reach;
use crate::embedded::{EmbeddedServer, Target, private_folder};
use crate::exit;
use crate::output::{Screen, create_report};
use crate::render;
use crate::report_file;
use anyhow::{Context, Result, anyhow, ensure};
use captured::CapturedOutput;
use child::{Child, Signals, Streams};
use library::PRELOAD;
use report::Ran;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};
use ttmem_server::{RecordConfig, RecordTarget};
use watch::{TAG_VARIABLE, Watch, Whose};

/// The variable by which clients find their server.
const SOCKET_VARIABLE: &str = "TTMEM_SOCKET";

/// The variable that selects whose call stacks the library records.
const STACKS_VARIABLE: &str = "TTMEM_STACKS";

/// The variable that has the library record lines of Python: 1 = yes.
const PYTHON_VARIABLE: &str = "TTMEM_PYTHON";

/// Connections that a server of one run takes: a process has one.
const MAX_CLIENTS: usize = 4096;

/// Runs a program and reports what it used; its exit code.
pub(crate) fn run(options: &RunOptions, socket: Option<PathBuf>) -> Result<ExitCode> {
    let library = find_library(&options.launch)?;
    // A report that cannot be written is better known before an hour's work than after it.
    let mut destination = Destination::open(options.report.as_deref())?;
    if options.html.is_some() {
        // The same goes for the page.
        report_file::page()?;
    }
    let tracked = Tracked {
        command: &options.command,
        library,
        launch: &options.launch,
        look: options.top.then_some(&options.look),
    };
    // Of the recording that the page is made of nothing stays but the page, unless it is wanted as well.
    let scratch = (options.html.is_some() && options.record.record.is_none())
        .then(private_folder)
        .transpose()?;
    let recording = match &scratch {
        Some(folder) => Some(folder.path().join("run.ttrec")),
        None => options.record.record.clone(),
    };
    let record = recording.clone().map(|path| RecordConfig {
        target: RecordTarget::File(path),
        redact: options.record.redact,
    });
    ensure!(
        record.is_none() || socket.is_none(),
        "a run that is recorded has a server of its own: leave --socket and TTMEM_SOCKET out"
    );
    let target = || match record {
        Some(record) => own_server(Some(record)).map(Target::own),
        // Whoever it is that listens on a default socket, it is no server of ours.
        None => Target::find(socket, |_unusable| Some(own_server(None))),
    };
    let (ended, report) = tracked.run(target)?;
    let reported = report.and_then(|report| destination.write(&report, options.json));
    if let Err(error) = reported {
        // The program has ended as it has, whatever becomes of our words about it.
        exit::say(format_args!("no report: {error:#}"));
    }
    if let (Some(html), Some(recording)) = (&options.html, recording)
        && let Err(error) = report_file::write(&recording, html)
    {
        exit::say(format_args!("no page: {error:#}"));
    }
    Ok(ExitCode::from(ended.code()))
}

/// Runs a program for its figures: its report as JSON.
///
/// They are to be the same in every run. So it has a server of its own unless one is named: where
/// others report as well, peaks are those of one process and not of the device.
pub(crate) fn measure(
    command: &[OsString],
    launch: &LaunchOptions,
    socket: Option<PathBuf>,
) -> Result<Value> {
    let tracked = Tracked {
        command,
        library: find_library(launch)?,
        launch,
        look: None,
    };
    let (_ended, report) = tracked.run(|| match socket {
        Some(named) => Target::find(Some(named), |_unusable| None),
        None => own_server(None).map(Target::own),
    })?;
    Ok(report?.json())
}

fn find_library(launch: &LaunchOptions) -> Result<Option<PathBuf>> {
    let is_wanted = !launch.no_attach;
    let find = || library::find(launch.attach.library.as_deref());
    is_wanted.then(find).transpose()
}

fn own_server(record: Option<RecordConfig>) -> Result<EmbeddedServer> {
    EmbeddedServer::start(None, MAX_CLIENTS, None, record)
}

/// A program to be tracked, and how.
struct Tracked<'a> {
    command: &'a [OsString],
    library: Option<PathBuf>,
    launch: &'a LaunchOptions,
    /// How the terminal view beside it looks, if there is to be one.
    look: Option<&'a Look>,
}

impl Tracked<'_> {
    /// Runs it: how it ended, and what it used.
    fn run(self, target: impl FnOnce() -> Result<Target>) -> Result<(Ended, Result<Report>)> {
        // Before the server: its threads inherit what is blocked.
        let signals = Signals::block()?;
        let target = target()?;
        let tag = watch::new_tag();
        // The program may change its folder before it connects.
        let place = std::path::absolute(&target.socket)?;
        let environment = self.environment(&tag, &place);
        let whose = match &target.own {
            Some(_server) => Whose::All,
            None => Whose::Tagged(tag),
        };
        let watch = Watch::begin(&target.server, whose)?;
        let (begun, begun_at) = (Instant::now(), SystemTime::now());
        let beside = self
            .look
            .and_then(|look| Some((capture(self.command)?, look)));
        let streams = beside
            .as_ref()
            .map_or(Ok(Streams::default()), |(captured, _look)| {
                captured.streams()
            })?;
        let environment = environment.into_iter();
        let child = Child::start(self.command, environment, &streams, &signals)?;
        drop(streams);
        let pid = child.pid();
        let ended = match beside {
            Some((captured, look)) => captured.show(child, &signals, &target.server, look)?,
            None => child.wait(&signals)?,
        };
        let ran = Ran {
            command: self.command.to_vec(),
            pid,
            ended,
            took: begun.elapsed(),
            begun: begun_at.into(),
            socket: place,
            own_server: target.own.is_some(),
            attached: self.library.is_some(),
            warnings: ttmem_client::environment_warnings(|name| std::env::var_os(name)),
        };
        let report = watch
            .end(pid)
            .map(|(watched, after)| Report::new(ran, watched, &after, &target.server));
        let stopped = target.own.map_or(Ok(()), EmbeddedServer::stop);
        if let Err(error) = stopped {
            // The program has ended as it has, whatever became of the server and its recording.
            exit::say(format_args!("{error:#}"));
        }
        Ok((ended, report))
    }

    /// What it finds in its environment: all of ours, and what has it tracked.
    fn environment(&self, tag: &str, socket: &Path) -> BTreeMap<OsString, OsString> {
        let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let tags = watch::tagged(environment.remove(&OsString::from(TAG_VARIABLE)), tag);
        environment.insert(TAG_VARIABLE.into(), tags);
        environment.insert(SOCKET_VARIABLE.into(), socket.into());
        if let Some(library) = &self.library {
            let before = environment.remove(&OsString::from(PRELOAD));
            let preloaded = library::preloaded(library, before.as_deref());
            environment.insert(PRELOAD.into(), preloaded);
        }
        if let Some(least_bytes) = self.launch.stacks {
            environment.insert(STACKS_VARIABLE.into(), least_bytes.to_string().into());
        }
        let python = if self.launch.no_python { "0" } else { "1" };
        environment.insert(PYTHON_VARIABLE.into(), python.into());
        environment
    }
}

/// Room for the terminal view beside a program; none, and a word why, where it cannot be.
fn capture(command: &[OsString]) -> Option<CapturedOutput> {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let made = match captured::obstacle() {
        Some(obstacle) => Err(anyhow!(obstacle)),
        None => CapturedOutput::new(words.join(" ")),
    };
    // The program matters more than the view of it.
    let made = made.inspect_err(|reason| {
        exit::say(format_args!("no view: {reason:#}"));
    });
    made.ok()
}

/// The lines that make a shell's programs tracked.
pub(crate) fn environment(options: &EnvOptions, socket: Option<PathBuf>) -> Result<String> {
    let library = library::find(options.attach.library.as_deref())?;
    let before = std::env::var_os(PRELOAD);
    let preloaded = library::preloaded(&library, before.as_deref());
    let socket = match socket {
        Some(socket) => socket,
        // Where a server would be if none runs yet: clients wait for it.
        None => reach::socket(None).unwrap_or_else(|_not_yet| reach::default_path()),
    };
    let socket = std::path::absolute(socket)?.into_os_string();
    let mut lines = String::new();
    let mut variables = vec![(PRELOAD, preloaded), (SOCKET_VARIABLE, socket)];
    if options.python {
        variables.push((PYTHON_VARIABLE, "1".into()));
    }
    for (name, value) in variables {
        let value = value
            .to_str()
            .with_context(|| format!("{} cannot be written as text", value.display()))?;
        lines.push_str(&format!("export {name}={}\n", quoted(value)));
    }
    Ok(lines)
}

/// A word that a shell reads as it is.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

enum Destination {
    Stderr,
    File(File, PathBuf),
}

impl Destination {
    fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::Stderr);
        };
        Ok(Self::File(create_report(path)?, path.to_owned()))
    }

    fn write(&mut self, report: &Report, json: bool) -> Result<()> {
        let stderr = std::io::stderr();
        let mut screen = Screen::detect(&stderr);
        if matches!(self, Self::File(..)) {
            screen.color = false;
        }
        let text = if json {
            ttmem_report::escape_json(format!("{:#}\n", report.json()))
        } else {
            render::ran(report, screen)
        };
        match self {
            Self::Stderr => {
                // Whoever closed standard error does not want to know.
                let _closed = stderr.lock().write_all(text.as_bytes());
                Ok(())
            }
            Self::File(file, path) => file
                .write_all(text.as_bytes())
                .with_context(|| format!("cannot write to {}", path.display())),
        }
    }
}

#[cfg(test)]
mod tests;
