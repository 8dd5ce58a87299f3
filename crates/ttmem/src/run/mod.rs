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
mod report;
mod watch;

pub(crate) use child::{Ended, StartChildError};
pub(crate) use contents::PeakOfClass;
pub(crate) use report::{DeviceUse, Region, Report};

use crate::cli::{EnvOptions, RunOptions};
use crate::commands::reach;
use crate::embedded::{EmbeddedServer, Target};
use crate::output::Screen;
use crate::render;
use anyhow::{Context, Result, anyhow};
use captured::CapturedOutput;
use child::{Child, Signals, Streams};
use library::PRELOAD;
use report::Ran;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};
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
    let library = if options.no_attach {
        None
    } else {
        Some(library::find(options.attach.library.as_deref())?)
    };
    // A report that cannot be written is better known before an hour's work than after it.
    let mut destination = Destination::open(options.report.as_deref())?;
    let signals = Signals::block()?;
    // Whoever it is that listens on a default socket, it is no server of ours.
    let target = Target::find(socket, |_unusable| {
        Some(EmbeddedServer::start(None, MAX_CLIENTS))
    })?;
    let tag = watch::new_tag();
    let mut environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    let tags = watch::tagged(environment.remove(&OsString::from(TAG_VARIABLE)), &tag);
    environment.insert(TAG_VARIABLE.into(), tags);
    // The program may change its folder before it connects.
    let place = std::path::absolute(&target.socket)?;
    environment.insert(SOCKET_VARIABLE.into(), place.clone().into());
    if let Some(library) = &library {
        let before = environment.remove(&OsString::from(PRELOAD));
        let preloaded = library::preloaded(library, before.as_deref());
        environment.insert(PRELOAD.into(), preloaded);
    }
    if let Some(least_bytes) = options.stacks {
        environment.insert(STACKS_VARIABLE.into(), least_bytes.to_string().into());
    }
    let python = if options.no_python { "0" } else { "1" };
    environment.insert(PYTHON_VARIABLE.into(), python.into());
    let whose = match &target.own {
        Some(_server) => Whose::All,
        None => Whose::Tagged(tag),
    };
    let watch = Watch::begin(&target.server, whose)?;
    let (begun, begun_at) = (Instant::now(), SystemTime::now());
    let captured = options.top.then(|| capture(&options.command)).flatten();
    let streams = captured
        .as_ref()
        .map_or(Ok(Streams::default()), CapturedOutput::streams)?;
    let child = Child::start(
        &options.command,
        environment.into_iter(),
        &streams,
        &signals,
    )?;
    drop(streams);
    let pid = child.pid();
    let ended = match captured {
        Some(captured) => captured.show(child, &signals, &target.server, &options.look)?,
        None => child.wait(&signals)?,
    };
    let ran = Ran {
        command: options.command.clone(),
        pid,
        ended,
        took: begun.elapsed(),
        begun: begun_at.into(),
        socket: place,
        own_server: target.own.is_some(),
        attached: library.is_some(),
    };
    let reported = watch.end(pid).and_then(|(watched, after)| {
        let report = Report::new(ran, watched, &after, &target.server);
        destination.write(&report, options.json)
    });
    if let Err(error) = reported {
        // The program has ended as it has, whatever becomes of our words about it.
        let _closed = writeln!(std::io::stderr(), "ttmem: no report: {error:#}");
    }
    Ok(ExitCode::from(ended.code()))
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
        let _closed = writeln!(std::io::stderr(), "ttmem: no view: {reason:#}");
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
fn quoted(text: &str) -> String {
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
        let file = File::create(path);
        let file = file.with_context(|| format!("cannot write to {}", path.display()))?;
        Ok(Self::File(file, path.to_owned()))
    }

    fn write(&mut self, report: &Report, json: bool) -> Result<()> {
        let stderr = std::io::stderr();
        let mut screen = Screen::detect(&stderr);
        if matches!(self, Self::File(..)) {
            screen.color = false;
        }
        let text = if json {
            ttmem_api::escape_json(format!("{:#}\n", report.json()))
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
