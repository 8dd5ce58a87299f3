//! `ttmem explain`: why an allocation or a program was refused.

use super::reach::patiently;
use crate::cli::ExplainOptions;
use crate::exit::NothingFound;
use crate::output::{Output, Screen};
use crate::recording_file::Source;
use crate::{render, report_file};
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;
use ttmem_reader::ApiClient;
use ttmem_report::{Failures, escape_json};

/// Read at once: large logs are read once from end to end.
const READ_BYTES: usize = 256 << 10;

/// Failures of a recording that are explained, the newest.
const MOST_RECORDED: u32 = 64;

/// The failures of a log, or of a recording.
pub(super) fn of_log(path: &Path) -> Result<Failures> {
    if path == Path::new("-") {
        let log = BufReader::with_capacity(READ_BYTES, io::stdin().lock());
        return ttmem_report::explain::log::read(log).context("cannot read standard input");
    }
    if report_file::is_recorded(path) {
        let source = Source::open(path)?;
        return Ok(source.client().failures(MOST_RECORDED)?);
    }
    let name = path.display();
    let log = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let log = BufReader::with_capacity(READ_BYTES, log);
    ttmem_report::explain::log::read(log).with_context(|| format!("cannot read {name}"))
}

/// The newest failure that a server knows.
pub(super) fn newest(client: &ApiClient) -> Result<Failures> {
    Ok(patiently(|| client.failures(1))?)
}

pub(super) fn print(
    failures: &Failures,
    options: &ExplainOptions,
    screen: Screen,
    output: &mut Output<impl Write>,
) -> Result<()> {
    let text = if options.json {
        escape_json(format!("{}\n", serde_json::to_string_pretty(failures)?))
    } else {
        render::explained(failures, screen)
    };
    Ok(output.print(&text)?)
}

/// Fails, with a code of its own, if there was nothing to explain.
pub(super) fn found(failures: &Failures, log: Option<&Path>) -> Result<(), NothingFound> {
    if !failures.failures.is_empty() {
        return Ok(());
    }
    let reason = match log {
        Some(log) => {
            let name = if log == Path::new("-") {
                "standard input".to_owned()
            } else {
                log.display().to_string()
            };
            if report_file::is_recorded(log) {
                return Err(NothingFound(format!("nothing failed in {name}")));
            }
            format!(
                "no message about memory in {name}: nothing that TT-Metal prints when an \
                 allocation, a program or a trace does not fit"
            )
        }
        None => "the server knows of no failure since it started; \
                 `ttmem explain FILE` reads a log"
            .to_owned(),
    };
    Err(NothingFound(reason))
}
