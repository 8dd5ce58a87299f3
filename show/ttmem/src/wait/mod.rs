//! `ttmem wait --released`: for scripts that start again after a crash.
//!
//! Ends when nobody holds what was named any more: by the server's account where one runs, by the driver's list and the
//! descriptors of processes, and, for a process, when it is gone. Says what it waits for whenever
//! that changes. A process is waited for by its pidfd; everything else is asked for again.

mod held;
mod process;

use crate::cli::WaitOptions;
use crate::commands::reach::{self, NoServer};
use crate::exit::UsageError;
use crate::output::Output;
use anyhow::{Context, Result, bail};
use held::{Held, Reason};
use process::Watched;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use ttmem_machine::{Chip, Processes, Reader, Roots, Selector, Unread, chips, devices, ordinals};
use ttmem_reader::{ApiClient, ApiRequestError};
use ttmem_report::Snapshot;
use ttmem_report::format::counted;

/// How often the driver and the server are asked.
const PAUSE: Duration = Duration::from_millis(200);

/// What a server may take for one answer, however short the wait.
const ONE_LOOK: Duration = Duration::from_secs(1);

/// The time was over before everything was released.
#[derive(Debug, thiserror::Error)]
#[error("not released within {seconds} s: {who}")]
pub(crate) struct StillHeld {
    seconds: f64,
    who: String,
}

/// What has to be released.
enum Target {
    Process(Watched),
    /// The chips behind a name, as far as the driver knows them.
    Device {
        name: String,
        selector: Selector,
        chips: Vec<Chip>,
    },
    Everything,
}

pub(crate) fn run(
    options: &WaitOptions,
    socket: Option<PathBuf>,
    mut output: Output<impl Write>,
) -> Result<()> {
    let begun = Instant::now();
    let mut waiting = Waiting::begin(options, socket, begun)?;
    let mut said = Vec::new();
    loop {
        let Held {
            reasons,
            hidden,
            is_reused,
        } = waiting.look()?;
        if reasons.is_empty() {
            let note = match hidden {
                0 if is_reused => "; the process that has this number now is another".to_owned(),
                0 => String::new(),
                hidden => format!(
                    ", as far as can be seen: {hidden} processes do not show this user what they have open"
                ),
            };
            output.print(&format!("released: {}{note}\n", waiting.target.name()))?;
            return Ok(output.finish()?);
        }
        let left = match options.timeout {
            Some(timeout) => {
                let left = timeout.saturating_sub(begun.elapsed());
                if left.is_zero() {
                    output.finish()?;
                    bail!(StillHeld {
                        seconds: timeout.as_secs_f64(),
                        who: joined(&reasons)
                    });
                }
                Some(left)
            }
            None => None,
        };
        let now: Vec<String> = reasons.iter().map(|reason| reason.key.clone()).collect();
        if now != said {
            output.print(&format!(
                "waiting for {}: {}\n",
                waiting.target.name(),
                joined(&reasons)
            ))?;
            output.flush()?;
            said = now;
        }
        waiting.pause(left);
    }
}

fn joined(reasons: &[Reason]) -> String {
    let texts: Vec<&str> = reasons.iter().map(|reason| reason.text.as_str()).collect();
    // Names are whatever a process calls itself.
    texts.join("; ").replace(char::is_control, "\u{fffd}")
}

impl Target {
    fn name(&self) -> String {
        match self {
            Self::Process(process) => format!("process {}", process.pid),
            Self::Device { name, .. } => format!("device {name}"),
            Self::Everything => "all devices".to_owned(),
        }
    }
}

/// Everything that is asked.
struct Waiting {
    roots: Roots,
    reader: Reader,
    processes: Processes,
    server: Option<ApiClient>,
    /// When the time is over.
    end: Option<Instant>,
    target: Target,
}

impl Waiting {
    fn begin(options: &WaitOptions, socket: Option<PathBuf>, begun: Instant) -> Result<Self> {
        let roots = match &options.root {
            Some(root) => {
                std::fs::read_dir(root)
                    .with_context(|| format!("cannot read {}", root.display()))?;
                Roots::below(root)
            }
            None => Roots::this_machine(),
        };
        let mut reader = Reader::default();
        let processes = Processes::new(&roots, &mut reader);
        let is_named = socket.is_some();
        let end = options.timeout.and_then(|time| begun.checked_add(time));
        // A copy of another machine's files has no server, unless one is named.
        let (server, none) = match options.root.is_none() || is_named {
            false => (None, None),
            true => match reach::server(socket, |server| within(server, end)) {
                Ok((server, _socket)) => (Some(server), None),
                Err(error) if error.is::<NoServer>() && !is_named => (None, Some(error)),
                Err(error) => return Err(error),
            },
        };
        let (snapshot, _silent) = asked(server.as_ref(), end)?;
        let target = if let Some(pid) = options.pid {
            Target::Process(Watched::find(
                pid,
                &roots,
                &processes,
                &mut reader,
                snapshot.as_ref(),
            )?)
        } else if let Some(name) = &options.device {
            device(name, &roots, &mut reader, snapshot.as_ref())?
        } else {
            // A script is not to go on because nobody could be asked.
            if let Some(error) = none
                && ordinals(&roots, &mut reader) == Err(Unread::Missing)
            {
                return Err(error.context("nothing is known of any device: there is no driver"));
            }
            Target::Everything
        };
        Ok(Self {
            roots,
            reader,
            processes,
            server,
            end,
            target,
        })
    }

    /// Who holds it now.
    fn look(&mut self) -> Result<Held> {
        let (snapshot, silent) = asked(self.server.as_ref(), self.end)?;
        let snapshot = snapshot.as_ref();
        let Self {
            roots,
            reader,
            processes,
            target,
            ..
        } = self;
        let mut held = match target {
            Target::Process(process) => {
                let state = process.state(processes, reader);
                held::by_process(process, &state, roots, reader, snapshot)
            }
            Target::Device {
                selector, chips, ..
            } => {
                let is_meant =
                    |device: &ttmem_report::Device| held::is_meant(selector, chips, device);
                let ordinals = chips.iter().map(|chip| chip.ordinal).collect();
                held::by_anybody(ordinals, is_meant, roots, reader, snapshot)
            }
            Target::Everything => held::by_anybody_of_all(roots, reader, snapshot),
        };
        held.reasons.extend(silent);
        Ok(held)
    }

    /// Waits for the process as long as it runs, and otherwise for a moment.
    fn pause(&self, left: Option<Duration>) {
        if let Target::Process(process) = &self.target
            && process.wait(left)
        {
            return;
        }
        std::thread::sleep(left.map_or(PAUSE, |left| left.min(PAUSE)));
    }
}

/// A server that answers slowly does not make the wait longer.
fn within(server: ApiClient, end: Option<Instant>) -> ApiClient {
    match end {
        // Also the last look, when the time is over, is one.
        Some(end) => server.until(end.max(Instant::now() + ONE_LOOK)),
        None => server,
    }
}

/// What the server counts, or why it does not say; of one that ended meanwhile there is no account.
fn asked(
    server: Option<&ApiClient>,
    end: Option<Instant>,
) -> Result<(Option<Snapshot>, Option<Reason>)> {
    let Some(server) = server else {
        return Ok((None, None));
    };
    match within(server.clone(), end).snapshot() {
        Ok(snapshot) => Ok((Some(snapshot), None)),
        Err(ApiRequestError::NotRunning { .. }) => Ok((None, None)),
        Err(ApiRequestError::Timeout { .. } | ApiRequestError::Status { code: 503, .. }) => {
            let silent = Reason {
                key: "silent".to_owned(),
                text: "the server does not answer".to_owned(),
            };
            Ok((None, Some(silent)))
        }
        Err(error) => Err(error.into()),
    }
}

/// The device of a name that the driver or the server knows.
fn device(
    name: &str,
    roots: &Roots,
    reader: &mut Reader,
    snapshot: Option<&Snapshot>,
) -> Result<Target> {
    let selector: Selector = name
        .parse()
        .map_err(|error| UsageError(format!("{error}")))?;
    let all = match devices(roots, reader) {
        Ok(devices) => chips(&devices),
        Err(Unread::Missing) => Vec::new(),
        Err(error) => bail!("the driver does not say which devices there are: {error}"),
    };
    let chips: Vec<Chip> = all
        .iter()
        .filter(|chip| selector.means(chip))
        .cloned()
        .collect();
    let known = snapshot
        .map(|snapshot| snapshot.devices.as_slice())
        .unwrap_or_default();
    if chips.is_empty()
        && !known
            .iter()
            .any(|device| held::is_meant(&selector, &chips, device))
    {
        bail!(UsageError(format!(
            "there is no device {name}: the driver lists {}, and {}",
            counted(all.len() as u64, "chip"),
            match snapshot {
                Some(snapshot) => format!(
                    "the server knows {}",
                    counted(snapshot.devices.len() as u64, "device")
                ),
                None => "no server runs".to_owned(),
            }
        )));
    }
    Ok(Target::Device {
        name: name.to_owned(),
        selector,
        chips,
    })
}
