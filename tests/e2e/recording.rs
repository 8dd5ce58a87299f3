//! Recordings of real servers and runs: they end as what they recorded did.

use crate::support::server::{Killed, TestServer, ttmem};
use crate::support::tracked::{Tracked, wait_for_process, workload};
use crate::support::wait_until;
use crate::support::workload::{Plan, Workload};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use ttmem_event::Class;
use ttmem_event::legacy::Generation;
use ttmem_ledger::{Ledger, View};
use ttmem_record::{Played, Player, Recording, Until};

pub(crate) type Opened = Player<BufReader<File>>;

pub(crate) fn open(path: &Path) -> Opened {
    let file = File::open(path).expect("the recording is there");
    let recording = Recording::open(BufReader::new(file)).expect("a recording");
    Player::new(recording).expect("its first state")
}

/// The ledger at the end of a recording.
pub(crate) fn end_of(path: &Path) -> Opened {
    let mut player = open(path);
    player.play(Until::End, |_, _, _| {}).expect("all of it");
    player.view().audit().expect("the totals add up");
    player
}

/// The recordings of a folder, oldest first.
fn recordings(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("a name").path());
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths
}

/// What is held and what was held at most, by device; and who lives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) devices: BTreeMap<u64, [u64; 4]>,
    pub(crate) pids: Vec<u64>,
}

pub(crate) fn totals(view: &View) -> Totals {
    let devices = view.devices.iter().map(|device| {
        let of = |class: Class| device.totals.class(class).charged;
        let [dram, l1] = [Class::Dram, Class::L1].map(of);
        let figures = [dram.bytes(), dram.peak().bytes, l1.bytes(), l1.peak().bytes];
        (u64::from(device.facts.logical_id), figures)
    });
    let pids = view.processes.iter();
    let mut pids: Vec<u64> = pids
        .filter_map(|process| process.facts.identity.pid.map(u64::from))
        .collect();
    pids.sort_unstable();
    Totals {
        devices: devices.collect(),
        pids,
    }
}

pub(crate) fn live_totals(server: &TestServer) -> Totals {
    let status = server.status();
    let number = |value: &Value| value.as_u64().expect("a number");
    let devices = status["devices"].as_array().expect("devices").iter();
    let devices = devices.map(|device| {
        let figures = [
            &device["dram"]["charged_bytes"],
            &device["dram"]["peak_bytes"],
            &device["l1"]["charged_bytes"],
            &device["l1"]["peak_bytes"],
        ];
        (number(&device["id"]), figures.map(number))
    });
    let processes = status["processes"].as_array().expect("processes").iter();
    let living = processes.filter(|process| process["state"] != "exited");
    let mut pids: Vec<u64> = living.map(|process| number(&process["pid"])).collect();
    pids.sort_unstable();
    Totals {
        devices: devices.collect(),
        pids,
    }
}

fn recorded_server(folder: tempfile::TempDir, options: &[&str]) -> TestServer {
    let place = folder.path().join("recorded").display().to_string();
    let options = [&["--quiet", "--record", &place], options].concat();
    TestServer::start_in(folder, &options)
}

pub(crate) fn new_folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn is_private(path: &Path) -> bool {
    let facts = fs::metadata(path).expect("the file is there");
    facts.permissions().mode() & 0o777 == 0o600
}

#[test]
fn a_recording_of_a_server_ends_as_the_server_did() {
    let mut server = recorded_server(new_folder(), &[]);
    let mut first = Tracked::start(&server.socket(), &["--threads", "2", "--events", "20000"]);
    let mut second = Tracked::start(&server.socket(), &["--events", "9000", "--seed", "3"]);
    let killed = Workload::start(&Plan {
        socket: server.socket(),
        generation: Generation::G4,
        device: 0,
        buffers: 10,
        size: 4096,
    });
    let pid = killed.pid();
    assert_eq!(first.account()["flushed"], true);
    assert!(server.ask(&["mark", "half way"]).status.success());
    assert_eq!(second.account()["flushed"], true);
    killed.kill();
    wait_until("the dead process is listed as exited", || {
        server.process(pid)["state"] == "exited"
    });
    let live = live_totals(&server);
    assert_eq!(live.pids.len(), 2);
    let events = server.status()["server"]["events_applied"].clone();
    server.signal("TERM");
    assert!(server.wait().success());

    let files = recordings(&server.folder().join("recorded"));
    assert_eq!(files.len(), 1);
    assert!(is_private(&files[0]));
    let mut player = end_of(&files[0]);
    let summary = player.recording().summary().clone();
    assert_eq!(player.recording().damage(), None);
    assert_eq!((summary.missing_events, summary.first_event), (0, 0));
    assert_eq!(Some(summary.events), events.as_u64());
    let marks = summary.marks.iter();
    assert_eq!(marks.filter(|mark| &*mark.name == "half way").count(), 1);
    let view = player.view();
    assert_eq!(totals(&view), live);
    let mut departed = view.departed.iter();
    assert!(departed.any(|gone| gone.identity.pid == Some(pid)));
    first.end();
    second.end();
}

#[test]
fn a_killed_server_leaves_what_it_recorded_and_the_next_goes_on() {
    let server = recorded_server(new_folder(), &[]);
    let mut workload = Tracked::start(&server.socket(), &["--events", "20000"]);
    assert_eq!(workload.account()["flushed"], true);
    let live = live_totals(&server);
    let folder = server.folder().join("recorded");
    let first = recordings(&folder).remove(0);
    let events = server.status()["server"]["events_applied"].as_u64();
    wait_until("all of it is in the file", || {
        Some(open(&first).recording().summary().events) == events
    });
    let mut server = recorded_server(server.kill(), &[]);
    assert_eq!(totals(&end_of(&first).view()), live);

    // The program tells the new server all that it holds.
    wait_for_process(&server, workload.pid());
    wait_until("it holds what it held", || {
        let now = live_totals(&server).devices;
        now.iter().all(|(id, [dram, ..])| {
            live.devices
                .get(id)
                .is_some_and(|[before, ..]| before == dram)
        })
    });
    let resynced = live_totals(&server);
    server.signal("TERM");
    assert!(server.wait().success());
    let folder = server.folder().join("recorded");
    let files = recordings(&folder);
    assert_eq!(files.len(), 2);
    assert_eq!(totals(&end_of(&files[1]).view()), resynced);
    workload.end();
}

#[test]
fn files_follow_each_other_and_stay_within_their_bounds() {
    let bounds = ["--record-max-size", "64K", "--record-total", "384K"];
    let mut server = recorded_server(new_folder(), &bounds);
    let options = ["--events", "400000", "--live", "64"];
    let mut workload = Tracked::start(&server.socket(), &options);
    assert_eq!(workload.account()["flushed"], true);
    let live = live_totals(&server);
    server.signal("TERM");
    assert!(server.wait().success());
    let files = recordings(&server.folder().join("recorded"));
    assert!(files.len() > 2, "{files:?}");
    let bytes = files
        .iter()
        .map(|file| fs::metadata(file).expect("it is there").len());
    // The last block of a file may go beyond, and a state.
    let bytes: u64 = bytes.sum();
    assert!(bytes <= 512 << 10, "{bytes} bytes in {files:?}");
    let mut before: Option<u64> = None;
    for file in &files {
        assert!(is_private(file));
        let mut player = open(file);
        let begins = player.recording().summary().first_event;
        assert!(before.is_none_or(|ended| ended == begins), "{file:?}");
        player.play(Until::End, |_, _, _| {}).expect("all of it");
        before = Some(player.ledger().events());
    }
    assert!(open(&files[0]).recording().summary().first_event > 0);
    let last = files.last().expect("there are files");
    assert_eq!(totals(&end_of(last).view()), live);
    workload.end();
}

fn demo(scenario: &str, options: &[&str], file: &Path) -> std::process::Output {
    ttmem()
        .args(["demo", "--headless", "--scenario", scenario, "--record"])
        .arg(file)
        .args(options)
        .output()
        .expect("the demo runs")
}

/// Everything that a recording has, as bytes.
fn unpacked(path: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    let mut player = open(path);
    player.ledger().save(&mut all);
    let take = |_ledger: &Ledger, _time: u64, played: Played<'_>| {
        if let Played::Change(input) = played {
            all.extend_from_slice(format!("{input:?}").as_bytes());
        }
    };
    player.play(Until::End, take).expect("all of it");
    player.ledger().save(&mut all);
    all.extend_from_slice(format!("{:?}", player.recording().summary()).as_bytes());
    all
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

#[test]
fn a_scenario_becomes_a_recording_with_its_failure_and_without_names_if_asked() {
    let folder = new_folder();
    let [plain, redacted] = ["plain", "redacted"].map(|name| folder.path().join(name));
    let output = demo("fragmentation", &[], &plain);
    assert!(output.status.success(), "{output:?}");
    assert!(
        demo("fragmentation", &["--redact"], &redacted)
            .status
            .success()
    );
    assert!(is_private(&plain) && is_private(&redacted));
    let [shown, hidden] = [&plain, &redacted].map(|path| {
        let player = end_of(path);
        assert_eq!(player.recording().damage(), None);
        player.recording().summary().clone()
    });
    assert_eq!(shown.failures.len(), hidden.failures.len());
    assert!(!shown.failures.is_empty());
    assert_eq!(shown.events, hidden.events);
    let (shown, hidden) = (unpacked(&plain), unpacked(&redacted));
    let program = crate::support::place::TTMEM.as_str();
    for name in ["fragmentation", program, "demo"] {
        assert!(has(&shown, name), "{name}");
        assert!(!has(&hidden, name), "{name}");
    }
    assert!(has(&hidden, "n150"), "hardware is no secret");

    // A recording is replaced, anything else is not.
    assert!(
        demo("fragmentation", &["--redact"], &plain)
            .status
            .success()
    );
    assert!(!has(&unpacked(&plain), "fragmentation"));
    fs::write(&plain, "a thesis").expect("a file");
    let refused = demo("fragmentation", &[], &plain);
    assert!(!refused.status.success());
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        complaint.contains("is no recording, and is not overwritten"),
        "{complaint}"
    );
    assert_eq!(fs::read(&plain).expect("a file"), b"a thesis");
}

/// `ttmem run --record FILE` of the workload of the tests.
fn recorded_run(file: &Path, options: &[&str]) -> Command {
    let program = workload(options);
    let mut command = ttmem();
    command.args(["run", "--no-attach", "--record"]).arg(file);
    command
        .arg("--")
        .arg(program.get_program())
        .args(program.get_args());
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
}

#[test]
fn a_run_is_recorded_from_its_beginning_to_its_end() {
    let folder = new_folder();
    let file = folder.path().join("run.ttrec");
    let output = recorded_run(&file, &["--events", "5000"]).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let mut player = end_of(&file);
    assert_eq!(player.recording().damage(), None);
    assert!(player.recording().summary().events >= 5000);
    let view = player.view();
    assert_eq!((view.processes.iter().count(), view.departed.len()), (0, 1));
    let mut named = recorded_run(&file, &["--events", "5000"]);
    let refused = named.env("TTMEM_SOCKET", "/nonexistent/socket").output();
    let refused = refused.expect("it answers");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a server of its own"));
}

#[test]
fn a_killed_run_leaves_a_recording_that_can_be_read() {
    let folder = new_folder();
    let file = folder.path().join("run.ttrec");
    let mut command = recorded_run(&file, &["--hold", "--events", "5000"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut run = Killed(command.spawn().expect("it starts"));
    wait_until("what the program did is in the file", || {
        let opened = File::open(&file).ok().map(Recording::open);
        let recording = opened.and_then(Result::ok);
        recording.is_some_and(|recording| recording.summary().events >= 5000)
    });
    run.0.kill().expect("it is ours");
    run.0.wait().expect("it is ours");
    let player = end_of(&file);
    assert!(player.recording().summary().events >= 5000);
}
