//! `ttmem top` on what was recorded: the real program on a real terminal, held against the read API at the same instant.

use super::support::server::{Killed, TestServer, ttmem};
use super::support::tmux::Tmux;
use super::support::wait_until;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use ttmem_reader::ApiClient;
use ttmem_report::{Device, Timestamp};
use ttmem_report::{format, labels};
use ttmem_server::{Replay, ReplayConfig, SocketConfig};

/// A recording of some seconds: DRAM is filled, given back in part, and refused.
fn recorded(folder: &Path) -> PathBuf {
    let file = folder.join("run.ttrec");
    let played = ttmem()
        .args(["demo", "--scenario", "fragmentation", "--headless"])
        .args(["--speed", "1", "--record"])
        .arg(&file)
        .output()
        .expect("the demo runs");
    assert!(file.exists(), "{}", String::from_utf8_lossy(&played.stderr));
    file
}

/// The read API over a recording, beside the one that the view has for itself.
fn served(file: &Path, folder: &Path) -> (Replay, ApiClient) {
    let socket = folder.join("replay.sock");
    let replay = Replay::start(ReplayConfig {
        path: file.to_owned(),
        sockets: vec![SocketConfig {
            path: socket.clone(),
            mode: 0o600,
            group: None,
        }],
        http: None,
        draws_all: false,
    });
    (replay.expect("a recording"), ApiClient::new(socket))
}

/// The time of an instant as the header has it.
fn instant(time: Timestamp) -> String {
    format!("{} UTC", &time.to_string()[11..23])
}

fn device_at(api: &ApiClient, at: Option<Timestamp>) -> Device {
    let snapshot = api.clone().at_instant(at).snapshot().expect("an instant");
    snapshot.devices.into_iter().next().expect("a device")
}

/// Waits until the overview is of an instant, with the figures that the API has of it.
fn wait_for_figures(terminal: &Tmux, api: &ApiClient, at: Timestamp, state: &str) {
    let dram = device_at(api, Some(at)).dram;
    let used = format::bytes(dram.used_bytes());
    let whole = format::bytes(dram.capacity_bytes.expect("the board is known"));
    let header = format!("{}, {state}", instant(at));
    let figures = format!("{used} of {whole}");
    let fit = labels::largest_fit(&dram).expect("banks are known");
    terminal.wait_until(&format!("{header} with {figures}, {fit}"), |screen| {
        screen.contains(&header) && screen.contains(&figures) && screen.contains(&fit)
    });
}

#[test]
fn a_recording_is_stepped_played_and_jumped_through() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recorded(folder.path());
    let (replay, api) = served(&file, folder.path());
    let recording = replay.recording();
    let command = format!("top --file {}", file.display());
    let Some(terminal) = Tmux::with_ttmem(120, 40, &command) else {
        return;
    };
    terminal.wait_for(&format!("{}, the end", instant(recording.to)));

    let step = |count: u64| {
        let nanos = recording.to.unix_nanos() - count * 100_000_000;
        Timestamp::from_unix_nanos(nanos)
    };
    terminal.press(&[","]);
    wait_for_figures(&terminal, &api, step(1), "paused");
    terminal.press(&[",", ","]);
    wait_for_figures(&terminal, &api, step(3), "paused");
    terminal.press(&["."]);
    wait_for_figures(&terminal, &api, step(2), "paused");

    let failed = recording.failures.first().expect("it was refused").time;
    terminal.press(&["f"]);
    terminal.wait_for("failure 1 of 1, refused, device 0");
    wait_for_figures(&terminal, &api, failed, "paused");
    terminal.press(&["9"]);
    let failures = api.clone().at_instant(Some(failed)).failures(1);
    let failures = failures.expect("an instant").failures;
    assert_eq!(failures.len(), 1);
    terminal.wait_for("FRAGMENTATION");
    terminal.press(&["4", "d"]);
    let dram = device_at(&api, Some(failed)).dram;
    terminal.wait_for(&labels::largest_fit(&dram).expect("banks are known"));
    terminal.wait_for("DRAM bank");

    terminal.press(&["1", "p"]);
    let peak = recording.peaks.iter();
    let peak = peak.filter(|peak| peak.of == ttmem_report::PeakOf::Dram);
    let peak = peak.max_by_key(|peak| peak.bytes).expect("a peak");
    let words = format!("DRAM peak {}, device 0", format::bytes(peak.bytes));
    terminal.wait_for(&words);
    wait_for_figures(&terminal, &api, peak.time, "paused");

    terminal.press(&["'"]);
    let marks = recording.marks.iter().map(|mark| mark.time);
    let next = marks.clone().filter(|time| *time > peak.time).min();
    let next = next.or_else(|| marks.min()).expect("marks");
    wait_for_figures(&terminal, &api, next, "paused");

    terminal.press(&["7"]);
    terminal.wait_for("up to this instant");
    terminal.press(&["Space"]);
    terminal.wait_for("playing ×1");
    terminal.press(&[">", ">"]);
    terminal.wait_for(&format!("{}, the end", instant(recording.to)));
    terminal.press(&["1"]);
    terminal.wait_until("nothing is live any more", |screen| {
        screen.contains("0 processes, 1 ended")
    });
}

#[test]
fn damage_is_shown_and_what_is_no_recording_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = recorded(folder.path());
    let bytes = fs::read(&file).expect("a file");
    let cut = folder.path().join("cut.ttrec");
    fs::write(&cut, &bytes[..bytes.len() * 3 / 4]).expect("a file");
    let command = format!("top --file {}", cut.display());
    if let Some(terminal) = Tmux::with_ttmem(120, 40, &command) {
        terminal.wait_for("! the recording is damaged: ");
    }
    let other = folder.path().join("other");
    fs::write(&other, "no recording").expect("a file");
    for (path, reason) in [
        (other, "this is no recording of ttmem"),
        (folder.path().join("nothing"), "No such file or directory"),
    ] {
        let refused = ttmem()
            .args(["top", "--once", "--file"])
            .arg(&path)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(reason), "{said}");
        assert!(said.contains(&path.display().to_string()), "{said}");
    }
}

#[test]
fn a_server_that_records_is_looked_back_into() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().to_str().expect("a path");
    let server = TestServer::start(&["--no-legacy-socket", "--quiet", "--record", record]);
    let load = ttmem()
        .args(["load", "--clients", "1", "--rate", "300"])
        .args(["--duration", "300", "--socket"])
        .arg(server.socket())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _load = Killed(load.expect("the load starts"));
    wait_until("something is held", || {
        server.device(0)["dram"]["charged_bytes"].as_u64() > Some(0)
    });
    let command = format!("top --socket {} --interval 0.2", server.socket().display());
    let Some(terminal) = Tmux::with_ttmem(120, 40, &command) else {
        return;
    };
    terminal.wait_for("live, every");
    terminal.wait_for(", looks back");
    terminal.press(&[","]);
    let screen = terminal.wait_until("an instant", |screen| {
        screen.contains("recorded ") && screen.contains(", paused")
    });
    assert!(!screen.contains("STALE"), "{screen}");
    terminal.press(&["n"]);
    terminal.wait_for("live, every");
}
