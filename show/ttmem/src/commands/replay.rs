//! `ttmem replay`: a recording behind the read API and the page, until it is interrupted.

use crate::cli::ReplayOptions;
use crate::output::Output;
use crate::{exit, interrupt};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use ttmem_reader::Token;
use ttmem_report::Recording;
use ttmem_server::{HttpConfig, Replay, ReplayConfig, missing_page};

pub(super) fn run(options: &ReplayOptions, mut output: Output<impl Write>) -> Result<()> {
    let (stop, stopped) = sync_channel(1);
    interrupt::watch(stop)?;
    let token = options.http_token_file.as_deref().map(Token::read);
    let replay = Replay::start(ReplayConfig {
        path: options.file.clone(),
        sockets: Vec::new(),
        http: Some(HttpConfig {
            address: options.http,
            token: token.transpose()?,
            hosts: options.http_host.clone(),
            shows_names: options.http_names,
        }),
        draws_all: false,
    })?;
    output.print(&described(&options.file, replay.recording()))?;
    let url = replay.places().first();
    let url = url.context("the recording is not served anywhere")?;
    if let Some(why) = missing_page() {
        exit::say(why);
    }
    output.print(&format!("the page is at {url}; Ctrl-C ends it\n"))?;
    if !options.http_names && !replay.recording().redacted {
        output.print("names and lines are not shown there; --http-names shows them\n")?;
    }
    output.finish()?;
    // Whoever could interrupt it is gone only with it.
    let _interrupted = stopped.recv();
    replay.stop();
    Ok(())
}

/// What a recording has, in a few lines.
pub(super) fn described(file: &Path, recording: &Recording) -> String {
    let nanos = recording
        .to
        .unix_nanos()
        .saturating_sub(recording.from.unix_nanos());
    let seconds = nanos / 1_000_000_000;
    let tenths = nanos / 100_000_000 % 10;
    let mut text = format!(
        "{}: {} events in {seconds}.{tenths} s\nfrom {}\nto   {}\n",
        file.display(),
        recording.events,
        recording.from,
        recording.to,
    );
    // Writing to a string does not fail.
    let _written = writeln!(
        text,
        "marks {}, failures {}{}",
        recording.marks.len(),
        recording.failures.len(),
        match recording.left_out {
            0 => String::new(),
            more => format!(", {more} more of both"),
        },
    );
    if recording.missing_events > 0 {
        let missing = recording.missing_events;
        let _written = writeln!(text, "missing: {missing} events that could not be recorded");
    }
    if let Some(damage) = &recording.damage {
        let _written = writeln!(text, "damaged: {damage}");
    }
    if recording.redacted {
        text.push_str("names, paths and command lines were left out\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_report::{RecordingSource, SCHEMA, Timestamp};

    #[test]
    fn all_that_is_wrong_with_a_recording_is_said() {
        let sound = Recording {
            schema: SCHEMA,
            source: RecordingSource::File,
            from: Timestamp::from_unix_nanos(1_000_000_000),
            to: Timestamp::from_unix_nanos(62_250_000_000),
            events: 12_345,
            missing_events: 0,
            damage: None,
            redacted: false,
            marks: Vec::new(),
            failures: Vec::new(),
            peaks: Vec::new(),
            left_out: 0,
        };
        let file = Path::new("a.ttmem");
        assert_eq!(
            described(file, &sound),
            "a.ttmem: 12345 events in 61.2 s\n\
             from 1970-01-01T00:00:01.000000000Z\nto   1970-01-01T00:01:02.250000000Z\n\
             marks 0, failures 0\n"
        );
        let damaged = Recording {
            missing_events: 7,
            damage: Some("at byte 90: the file ends in a block".to_owned()),
            redacted: true,
            left_out: 3,
            ..sound
        };
        let text = described(file, &damaged);
        for line in [
            "marks 0, failures 0, 3 more of both\n",
            "missing: 7 events that could not be recorded\n",
            "damaged: at byte 90: the file ends in a block\n",
            "names, paths and command lines were left out\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
