//! `ttmem record`: what a running server sees from now on, in a file.
//!
//! The server makes the recording, this command puts it into the file as it comes: whatever is killed, the file
//! can be read up to the last block that came.

use super::{reach, replay};
use crate::cli::RecordOptions;
use crate::interrupt;
use crate::output::Output;
use crate::recording_file::Source;
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use ttmem_reader::{RecordRequest, RecordedPart, RecordingReader};
use ttmem_server::open_recording;

/// How long the server may take until it begins: it may have to save millions of rows.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(60);

/// How often it is looked whether to end.
const LOOK: Duration = Duration::from_millis(100);

/// How long the rest may take once the end is asked for.
const END_TIMEOUT: Duration = Duration::from_secs(30);

const BUFFER_BYTES: usize = 256 << 10;

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It was interrupted, or its time was over.
    Asked,
    /// The server ended it.
    Server,
}

pub(super) fn run(
    options: &RecordOptions,
    socket: Option<PathBuf>,
    mut output: Output<impl Write>,
) -> Result<()> {
    let (stop, stopped) = sync_channel(1);
    interrupt::watch(stop)?;
    let client = reach::client(socket, &options.http)?.with_timeout(BEGIN_TIMEOUT);
    let request = RecordRequest {
        pid: options.pid,
        device: options.device.clone(),
        redact: options.redact,
        max_bytes: Some(options.max_size),
    };
    let mut reader = client.record(&request)?;
    // Not before: what is there stays if the server refuses.
    let mut file = open_recording(&options.file)?;
    let shown = options.file.display();
    output.print(&format!("recording to {shown}; Ctrl-C ends it\n"))?;
    output.flush()?;
    let end = options.duration.map(|duration| Instant::now() + duration);
    let received = receive(&mut reader, end, &stopped, |bytes| {
        file.write_all(bytes)
            .with_context(|| format!("cannot write to {shown}: what came before can be read"))
    });
    drop(file);
    let ended = received.with_context(|| format!("{shown} has what was recorded until then"));
    let ended = ended?;
    let source = Source::open(&options.file)?;
    let recording = source.client().recording()?;
    output.print(&replay::described(&options.file, &recording))?;
    if recording.damage.is_some() {
        bail!("the server ended the recording before it was finished");
    }
    if ended == End::Server {
        output.print(&why_ended(options, &client))?;
    }
    Ok(output.finish()?)
}

/// Hands over what comes until the end, which is asked for at a time or when it is interrupted.
fn receive<S>(
    reader: &mut RecordingReader,
    end: Option<Instant>,
    stopped: &Receiver<S>,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<End> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut asked: Option<Instant> = None;
    loop {
        let is_over = end.is_some_and(|end| Instant::now() >= end);
        if asked.is_none() && (is_over || stopped.try_recv().is_ok()) {
            reader.end();
            asked = Some(Instant::now());
        }
        if asked.is_some_and(|asked| asked.elapsed() > END_TIMEOUT) {
            bail!("the server does not end the recording");
        }
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
        match reader.wait(left.min(LOOK), &mut buffer)? {
            RecordedPart::Bytes(count) => take(&buffer[..count])?,
            RecordedPart::Quiet => {}
            RecordedPart::Ended if asked.is_some() => return Ok(End::Asked),
            RecordedPart::Ended => return Ok(End::Server),
        }
    }
}

/// Why the server ended a recording in order.
fn why_ended(options: &RecordOptions, client: &ttmem_reader::ApiClient) -> String {
    let Ok(processes) = client.clone().with_timeout(LOOK * 20).processes() else {
        return "the server has ended\n".to_owned();
    };
    let lives = |pid: u32| {
        let mut processes = processes.processes.iter();
        processes.any(|process| {
            process.pid == Some(pid) && process.state != ttmem_report::ProcessState::Exited
        })
    };
    match options.pid {
        Some(pid) if !lives(pid) => format!("process {pid} has ended\n"),
        _full => format!(
            "the file is as large as it may be ({})\n",
            ttmem_report::size_text(options.max_size)
        ),
    }
}
