//! Recordings that are looked at: by `ttmem replay`, and in a server that goes on recording.

use crate::support::server::{Killed, TestServer, ttmem};
use crate::support::tracked::Tracked;
use crate::support::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use ttmem_reader::{Address, ApiClient, ApiRequestError};
use ttmem_report::{BufferQuery, GroupBy, MemoryClass, PeakOf, Recording, RecordingSource};

/// A recording of a program that came, worked and went.
fn recorded_program() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("recorded").display().to_string();
    let mut server = TestServer::start_in(folder, &["--quiet", "--record", &place]);
    let mut workload = Tracked::start(&server.socket(), &["--events", "20000"]);
    assert_eq!(workload.account()["flushed"], true);
    workload.end();
    server.signal("TERM");
    assert!(server.wait().success());
    let mut files = fs::read_dir(&place).expect("the recordings");
    let file = files.next().expect("a recording").expect("its name").path();
    (server.kill(), file)
}

/// A replay that runs, what it printed, and a client of it.
fn replay(file: &Path) -> (Killed, String, ApiClient) {
    let mut command: Command = ttmem();
    command.arg("replay").arg(file).arg("--http-names");
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = Killed(child.expect("it starts"));
    let mut lines = BufReader::new(child.0.stdout.take().expect("its output")).lines();
    let mut printed = String::new();
    let url = loop {
        let line = lines.next().expect("it says where it is");
        let line = line.expect("text");
        printed.push_str(&line);
        printed.push('\n');
        if let Some(rest) = line.strip_prefix("the page is at ") {
            let (url, _rest) = rest.split_once(';').expect("the address alone");
            break url.to_owned();
        }
    };
    let url = Address::Http(url.parse().expect("a URL"));
    (child, printed, ApiClient::at(url))
}

fn dram_peak(recording: &Recording, device: u32) -> (ttmem_report::Timestamp, u64) {
    let peaks = recording.peaks.iter();
    let mut peaks = peaks.filter(|peak| peak.of == PeakOf::Dram && peak.device == device);
    let peak = peaks.next().expect("a peak of DRAM");
    (peak.time, peak.bytes)
}

#[test]
fn a_replay_shows_the_peak_at_its_instant_and_over_time() {
    let (_folder, file) = recorded_program();
    let (mut child, printed, client) = replay(&file);
    let recording = client.recording().expect("a recording");
    assert!(printed.contains(&format!("{} events", recording.events)));
    assert_eq!(recording.source, RecordingSource::File);
    assert_eq!(
        (recording.damage.clone(), recording.missing_events),
        (None, 0)
    );
    let end = client.snapshot().expect("the end");
    assert_eq!(end.time, recording.to);
    assert_eq!(end.server.events_applied, recording.events);

    let device = end.devices[0].id;
    let (time, bytes) = dram_peak(&recording, device);
    assert_eq!(end.devices[0].dram.peak_bytes, bytes);
    let name = device.to_string();
    let then = client.clone().at_instant(Some(time));
    let at_peak = then.snapshot().expect("the peak");
    assert_eq!(at_peak.time, time);
    // What was recorded before the server knew of the process shares the instant at which it came.
    assert_eq!(at_peak.devices[0].dram.peak_bytes, bytes);
    let all = (None, None);
    for by in [GroupBy::Line, GroupBy::Operation, GroupBy::Process] {
        let timeline = client.timeline(&name, MemoryClass::Dram, by, all, Some(50));
        let timeline = timeline.expect("a timeline");
        assert_eq!(timeline.total_max.iter().max(), Some(&bytes));
        let step = timeline.times.partition_point(|edge| *edge < time) - 1;
        assert_eq!(timeline.total_max[step], bytes);
        for (step, total) in timeline.total_max.iter().enumerate() {
            let layers = timeline.series.iter().map(|layer| layer.values[step]);
            assert_eq!(layers.sum::<u64>() + timeline.other[step], *total);
        }
    }
    // What lay there at the peak is what was live then.
    let query = BufferQuery {
        class: Some(MemoryClass::Dram),
        device: Some(device),
        limit: Some(10_000),
        ..BufferQuery::default()
    };
    let live: Vec<(u64, u64)> = then
        .buffers_where(&query)
        .expect("buffers")
        .rows
        .iter()
        .map(|row| (row.address.unwrap_or(0), row.per_bank_bytes.unwrap_or(0)))
        .collect();
    let window = (Some(recording.from), Some(recording.to));
    let allocations = client.allocations(&name, MemoryClass::Dram, window, Some(20_000));
    let allocations = allocations.expect("allocations");
    assert_eq!((allocations.left_out, allocations.unseen_events), (0, 0));
    let mut lying: Vec<(u64, u64)> = allocations
        .rectangles
        .iter()
        .filter(|each| each.from <= time && each.to.is_none_or(|to| to > time))
        .map(|each| (each.address, each.per_bank_bytes))
        .collect();
    // A buffer is drawn from its own time on. What was recorded before the server knew of the process has later
    // instants than that: of these, some are drawn at the peak that came after it.
    lying.sort_unstable();
    assert!(!live.is_empty());
    for buffer in &live {
        let place = lying.binary_search(buffer);
        lying.remove(place.expect("what was live at the peak is drawn there"));
    }
    let history = then.history(600).expect("a history");
    let highest = history.devices[0].dram_bytes.iter().flatten().max();
    assert_eq!(highest, Some(&bytes));
    assert!(!then.last(20, None).expect("events").events.is_empty());

    assert_refused(client.mark("no"), 403, "not_allowed");
    assert_refused(client.events(None), 404, "no_events");
    let pid = i32::try_from(child.0.id()).expect("a pid");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("it lives");
    assert!(child.0.wait().expect("it ends").success());
}

fn assert_refused<T>(outcome: Result<T, ApiRequestError>, code: u16, error: &str) {
    let refused = match outcome {
        Err(ApiRequestError::Status { code, problem, .. }) => {
            Some((code, problem.expect("a reason").error))
        }
        _other => None,
    };
    assert_eq!(refused, Some((code, error.to_owned())));
}

#[test]
fn a_file_that_was_cut_is_shown_as_far_as_it_goes_and_what_is_none_is_refused() {
    let (folder, file) = recorded_program();
    let whole = fs::read(&file).expect("its bytes");
    let cut = folder.path().join("cut.ttrec");
    fs::write(&cut, &whole[..whole.len() - 8]).expect("a file");
    let (_child, printed, client) = replay(&cut);
    assert!(
        printed.contains("\ndamaged: cut.ttrec: at byte "),
        "{printed}"
    );
    let recording = client.recording().expect("a recording");
    assert!(recording.damage.is_some() && recording.events > 0);
    let end = client.snapshot().expect("the end");
    assert_eq!(end.server.events_applied, recording.events);

    let none = folder.path().join("none.ttrec");
    fs::write(&none, "nothing of the kind").expect("a file");
    for path in [none, folder.path().join("missing.ttrec")] {
        let refused = ttmem().arg("replay").arg(&path).output().expect("it runs");
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{said}");
        assert!(said.contains(&path.display().to_string()), "{said}");
    }
}

#[test]
fn a_server_that_records_is_looked_back_into_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("recorded").display().to_string();
    let server = TestServer::start_in(folder, &["--quiet", "--record", &place]);
    let mut workload = Tracked::start(&server.socket(), &["--events", "20000"]);
    assert_eq!(workload.account()["flushed"], true);
    let client = ApiClient::new(server.socket());
    let live = client.snapshot().expect("a snapshot");
    let pid = workload.pid();
    workload.end();
    wait_until("the workload is gone", || {
        server.process(pid)["state"] == "exited"
    });
    let recording = client.recording().expect("a recording");
    assert_eq!(recording.source, RecordingSource::Live);
    assert_eq!(recording.damage, None);
    let now = client.snapshot().expect("now");
    assert_eq!(recording.events, now.server.events_applied);
    let then = client.clone().at_instant(Some(live.time));
    let then = then.snapshot().expect("the past");
    assert_eq!(then.devices.len(), live.devices.len());
    for (then, live) in then.devices.iter().zip(&live.devices) {
        assert_eq!(then.dram.charged_bytes, live.dram.charged_bytes);
        assert_eq!(then.l1.charged_bytes, live.l1.charged_bytes);
    }
    let device = &now.devices[0];
    let all = (None, None);
    let timeline = client.timeline(
        &device.id.to_string(),
        MemoryClass::Dram,
        GroupBy::Operation,
        all,
        None,
    );
    let timeline = timeline.expect("a timeline");
    assert_eq!(
        timeline.total_max.iter().max(),
        Some(&device.dram.peak_bytes)
    );
}

#[test]
fn a_report_never_takes_the_place_of_a_recording_and_a_pipe_is_none() {
    let (folder, file) = recorded_program();
    let before = fs::read(&file).expect("a recording");
    let renamed = file.with_extension("html");
    fs::copy(&file, &renamed).expect("a copy");
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    let report = |recording: &Path, output: Option<&Path>| {
        let mut command: Command = ttmem();
        command.arg("report").arg(recording);
        output.map(|output| command.arg("-o").arg(output));
        let output = command.output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(report(&file, Some(&file)).contains("is a recording"));
    assert!(report(&renamed, None).contains("is a recording"));
    assert!(fs::read(&file).is_ok_and(|after| after == before));
    assert!(fs::read(&renamed).is_ok_and(|after| after == before));
    // A build without a page reads nothing.
    let why = ttmem_server::missing_page().unwrap_or("no recording");
    assert!(report(&pipe, Some(&folder.path().join("r.html"))).contains(why));
}
