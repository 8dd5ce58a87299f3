//! `ttmem report`: the page with the data of a recording inside, as one file.
//!
//! It asks a recording what the page asks a server, at the instants that matter and at some in between, and
//! puts the answers into the file. `show/web/src/embedded.ts` reads them there.

mod data;
mod instants;
mod requests;

use crate::cli::ReportOptions;
use crate::exit;
use crate::recording_file::Source;
use anyhow::{Context, Result, anyhow};
use data::Data;
use instants::Instants;
use requests::{Request, of_instant, over_time};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use ttmem_reader::{ApiClient, ApiRequestError};
use ttmem_report::{Timestamp, size_text};
use ttmem_server::ReportPage;

/// What the data of a report may take in the file; the page itself takes some 200 KB more.
const MOST_DATA_BYTES: usize = 14_000_000;

/// The same of one file: so much, and more for each of its bytes. A few bytes can make documents of any length.
const BASE_DATA_BYTES: u64 = 4_000_000;
const DATA_BYTES_PER_STORED_BYTE: u64 = 100;

/// Documents of one report: with 32 devices an instant has some hundred, with one some dozen.
const MOST_DOCUMENTS: usize = 12_000;

/// What is drawn over a long time is computed from every event in it.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn run(options: &ReportOptions) -> Result<()> {
    let output = options
        .output
        .clone()
        .unwrap_or_else(|| options.file.with_extension("html"));
    write(&options.file, &output)
}

/// Writes the report of a recording, and says so.
pub(crate) fn write(recording: &Path, output: &Path) -> Result<()> {
    // Before the work: it must not end up in place of what it is made of, nor of another recording.
    if begins_as_a_recording(output) {
        return Err(anyhow!(
            "{} is a recording: name another file with -o or --html",
            output.display()
        ));
    }
    let page = page()?;
    let source = Source::drawn(recording, true)?;
    let data = collect(&source, most_data_bytes(recording))?;
    let instants = data.instants();
    let page = page.with(&data.finish()?);
    replace(output, page.as_bytes())?;
    exit::say(format_args!(
        "{} has {instants} instants in {}: open it in a browser",
        output.display(),
        size_text(page.len() as u64),
    ));
    Ok(())
}

/// The page that shows a report: looked for before any work.
///
/// # Errors
/// When this build has none.
pub(crate) fn page() -> Result<ReportPage> {
    ReportPage::of_this_build().map_err(|missing| anyhow!(missing))
}

/// What the data of a recording may take.
fn most_data_bytes(recording: &Path) -> usize {
    let stored = fs::metadata(recording).ok().filter(fs::Metadata::is_file);
    let most = stored.map_or(u64::MAX, |file| {
        BASE_DATA_BYTES.saturating_add(file.len().saturating_mul(DATA_BYTES_PER_STORED_BYTE))
    });
    usize::try_from(most).map_or(MOST_DATA_BYTES, |most| most.min(MOST_DATA_BYTES))
}

/// The documents, those that matter most first, as far as there is room, and work that the size of the
/// recording allows.
fn collect(source: &Source, most_bytes: usize) -> Result<Data> {
    let recording = &source.client().clone().with_timeout(PATIENCE);
    let about = recording.recording()?;
    let mut data = Data::new()?;
    let end = recording.clone().at_instant(Some(about.to)).snapshot()?;
    for request in over_time(&about, &end) {
        if !source.affords(0) {
            break;
        }
        put(&mut data, (source, recording), &request, None)?;
    }
    let mut instants = Instants::of(&about);
    while data.bytes() < most_bytes && data.documents() < MOST_DOCUMENTS {
        // One instant at least, if it can be reached.
        if data.instants() > 0 && !source.affords(0) {
            break;
        }
        let Some(instant) = instants.next() else {
            break;
        };
        let then = recording.clone().at_instant(Some(instant));
        let snapshot = match then.snapshot() {
            Ok(snapshot) => snapshot,
            // A part of the recording that cannot be read is no reason to have none of it.
            Err(ApiRequestError::Status { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        for request in of_instant(&snapshot) {
            put(&mut data, (source, &then), &request, Some(instant))?;
        }
        data.add_instant(instant);
    }
    if data.instants() == 0 {
        return Err(anyhow!("no instant of the recording can be read"));
    }
    Ok(data)
}

/// Adds a document, unless there is none.
fn put(
    data: &mut Data,
    (source, recording): (&Source, &ApiClient),
    request: &Request,
    instant: Option<Timestamp>,
) -> Result<()> {
    // What it is asked for besides may not be there; the rest is.
    for target in [&request.target, &request.key] {
        match recording.text(target) {
            Ok(document) => {
                source.affords(document.len());
                return data.put(&request.key, instant, &document);
            }
            Err(ApiRequestError::Status { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether a path is one of recordings: of a file, or of a folder.
pub(crate) fn is_recorded(path: &Path) -> bool {
    path.is_dir() || begins_as_a_recording(path)
}

fn begins_as_a_recording(path: &Path) -> bool {
    let mut beginning = [0; 64];
    let read = fs::metadata(path)
        .ok()
        .filter(fs::Metadata::is_file)
        .and_then(|_file| fs::File::open(path).ok()?.read(&mut beginning).ok());
    read.is_some_and(|count| ttmem_server::is_recording(&beginning[..count]))
}

/// Writes a file whole or not at all. It has names and lines: it is for its owner alone.
fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _here => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".ttmem-report-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(folder)
        .with_context(cannot)?;
    file.write_all(bytes).with_context(cannot)?;
    if fs::metadata(path).is_ok_and(|known| !known.is_file()) {
        return Err(anyhow!("{}: not a file", path.display()));
    }
    file.persist(path).with_context(cannot)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_page_is_reported_first() {
        let missing = Path::new("/nonexistent/recording.ttrec");
        let error = write(missing, Path::new("/nonexistent/report.html")).unwrap_err();
        let is_of_page = format!("{error:#}").contains("cargo xtask web");
        assert_eq!(
            is_of_page,
            ReportPage::of_this_build().is_err(),
            "{error:#}"
        );
    }
}
