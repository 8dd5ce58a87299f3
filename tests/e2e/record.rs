//! `ttmem record`: a server that runs is recorded from now on, whatever ends it.

use crate::recording::{end_of, live_totals, new_folder, open, totals};
use crate::support::place::ForOthers;
use crate::support::server::{Killed, TestServer, ttmem};
use crate::support::tracked::{Tracked, wait_for_process};
use crate::support::workload::{Plan, Workload};
use crate::support::{WATCHDOG, wait_until};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
use ttmem_event::legacy::Generation;

const NOBODY: u32 = 65_534;

/// A command that records, once it has begun.
struct Recorder {
    child: Killed,
    /// What it prints.
    output: BufReader<std::process::ChildStdout>,
    file: PathBuf,
}

fn recorder(server: &TestServer, file: &Path, options: &[&str]) -> Command {
    recorder_by(ttmem(), server, file, options)
}

fn recorder_by(
    mut command: Command,
    server: &TestServer,
    file: &Path,
    options: &[&str],
) -> Command {
    command.arg("record").arg(file).args(options);
    command.arg("--socket").arg(server.socket());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Recorder {
    fn start(server: &TestServer, file: &Path, options: &[&str]) -> Self {
        let mut child = recorder(server, file, options).spawn().expect("it starts");
        let output = child.stdout.take().expect("a pipe");
        let mut output = BufReader::new(output);
        let mut line = String::new();
        output.read_line(&mut line).expect("its first line");
        assert!(
            line.starts_with("recording to "),
            "{line} {}",
            said(&mut child)
        );
        Self {
            child: Killed(child),
            output,
            file: file.to_owned(),
        }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.child.0.id().to_string()])
            .status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits until it ends: its code, what it printed, and what it complained about.
    fn ended(mut self) -> (Option<i32>, String, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.0.try_wait().expect("it is ours") {
                break status;
            }
            assert!(begun.elapsed() < 2 * WATCHDOG, "it does not end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let mut printed = String::new();
        self.output.read_to_string(&mut printed).expect("text");
        (status.code(), printed, said(&mut self.child.0))
    }

    /// Ends it as a user does.
    fn interrupted(self) -> String {
        self.signal("INT");
        let (code, printed, said) = self.ended();
        assert_eq!(code, Some(0), "{printed} {said}");
        printed
    }

    /// Waits until the file has so many events of the ledger.
    fn wait_for_events(&self, events: Option<u64>) {
        wait_until("all of it is in the file", || {
            let summary = open(&self.file).recording().summary().clone();
            Some(summary.first_event + summary.events) == events
        });
    }
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    let stderr = child.stderr.as_mut().expect("a pipe");
    stderr.read_to_string(&mut text).expect("text");
    text
}

fn refused(server: &TestServer, file: &Path, options: &[&str]) -> (Option<i32>, String) {
    let output: Output = recorder(server, file, options).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

fn events(server: &TestServer) -> Option<u64> {
    server.status()["server"]["events_applied"].as_u64()
}

fn old(server: &TestServer, device: i32, buffers: u64) -> Workload {
    Workload::start(&Plan {
        socket: server.socket(),
        generation: Generation::G4,
        device,
        buffers,
        size: 4096,
    })
}

#[test]
fn what_lives_and_what_comes_is_recorded_until_it_is_interrupted() {
    let server = TestServer::start(&["--quiet"]);
    let mut first = Tracked::start(&server.socket(), &["--threads", "2", "--events", "20000"]);
    assert_eq!(first.account()["flushed"], true);
    let before = events(&server);
    let file = server.folder().join("from-now-on.ttrec");
    let recorder = Recorder::start(&server, &file, &[]);
    let mut second = Tracked::start(&server.socket(), &["--events", "9000", "--seed", "3"]);
    let killed = old(&server, 0, 10);
    let pid = killed.pid();
    assert!(server.ask(&["mark", "half way"]).status.success());
    assert_eq!(second.account()["flushed"], true);
    killed.kill();
    wait_until("the dead process is listed as exited", || {
        server.process(pid)["state"] == "exited"
    });
    let live = live_totals(&server);
    let after = events(&server);
    let printed = recorder.interrupted();
    let count = after.zip(before).map(|(after, before)| after - before);
    let count = count.expect("numbers");
    assert!(
        printed.contains(&format!(": {count} events in ")),
        "{printed}"
    );

    let mut player = end_of(&file);
    let summary = player.recording().summary().clone();
    assert_eq!(player.recording().damage(), None);
    assert_eq!(Some(summary.first_event), before);
    assert_eq!((summary.events, summary.missing_events), (count, 0));
    let marks = summary.marks.iter();
    assert_eq!(marks.filter(|mark| &*mark.name == "half way").count(), 1);
    let view = player.view();
    assert_eq!(totals(&view), live);
    let mut departed = view.departed.iter();
    assert!(departed.any(|gone| gone.identity.pid == Some(pid)));
    // What lived when it began is there from the beginning.
    let begun = totals(&open(&file).view());
    assert_eq!(begun.pids, [u64::from(first.pid())]);
    assert!(begun.devices.values().any(|[dram, ..]| *dram > 0));
    let facts = fs::metadata(&file).expect("it is there");
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    first.end();
    second.end();
}

#[test]
fn a_killed_recorder_leaves_what_came_and_another_can_begin() {
    let server = TestServer::start(&["--quiet"]);
    let mut workload = Tracked::start(&server.socket(), &["--events", "20000"]);
    let file = server.folder().join("killed.ttrec");
    // More often than there may be at once.
    for _time in 0..6 {
        let mut recorder = Recorder::start(&server, &file, &[]);
        recorder.child.0.kill().expect("it is ours");
        recorder.child.0.wait().expect("it is ours");
    }
    let mut recorder = Recorder::start(&server, &file, &[]);
    assert_eq!(workload.account()["flushed"], true);
    let live = live_totals(&server);
    recorder.wait_for_events(events(&server));
    recorder.child.0.kill().expect("it is ours");
    recorder.child.0.wait().expect("it is ours");
    assert_eq!(totals(&end_of(&file).view()), live);
    // The server has noticed, and goes on.
    let printed = Recorder::start(&server, &file, &["--duration", "1s"]).ended();
    assert_eq!(printed.0, Some(0), "{printed:?}");
    assert_eq!(totals(&end_of(&file).view()), live);
    workload.end();
}

#[test]
fn a_killed_server_is_told_and_one_that_ends_finishes_the_file() {
    let mut server = TestServer::start(&["--quiet"]);
    let mut workload = Tracked::start(&server.socket(), &["--events", "20000"]);
    let file = server.folder().join("killed.ttrec");
    let recorder = Recorder::start(&server, &file, &[]);
    assert_eq!(workload.account()["flushed"], true);
    let live = live_totals(&server);
    recorder.wait_for_events(events(&server));
    let folder = server.kill();
    let (code, _printed, said) = recorder.ended();
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("has what was recorded until then"), "{said}");
    let file = folder.path().join("killed.ttrec");
    assert_eq!(totals(&end_of(&file).view()), live);

    server = TestServer::start_in(folder, &["--quiet"]);
    wait_for_process(&server, workload.pid());
    let recorder = Recorder::start(&server, &file, &[]);
    let live = live_totals(&server);
    server.signal("TERM");
    assert!(server.wait().success());
    let (code, printed, said) = recorder.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(printed.contains("the server has ended"), "{printed}");
    assert_eq!(open(&file).recording().damage(), None);
    assert_eq!(totals(&end_of(&file).view()).devices, live.devices);
    workload.end();
}

#[test]
fn one_process_or_one_device_is_recorded_alone() {
    let server = TestServer::start(&["--quiet"]);
    let mut tracked = Tracked::start(&server.socket(), &["--events", "5000"]);
    assert_eq!(tracked.account()["flushed"], true);
    let (on_0, on_3) = (old(&server, 0, 10), old(&server, 3, 7));
    let files = ["pid", "device"].map(|name| server.folder().join(name));
    let pid = on_3.pid().to_string();
    let of_pid = Recorder::start(&server, &files[0], &["--pid", &pid]);
    let of_device = Recorder::start(&server, &files[1], &["--device", "3"]);
    let later = old(&server, 3, 5);
    let elsewhere = old(&server, 0, 5);
    let live = live_totals(&server);
    assert_eq!(live.pids.len(), 5);
    let device_3 = live.devices[&3];
    let printed = of_device.interrupted();
    assert!(printed.contains("marks 0"), "{printed}");
    let recorded = totals(&end_of(&files[1]).view());
    let mut users = vec![u64::from(on_3.pid()), u64::from(later.pid())];
    users.sort_unstable();
    assert_eq!(recorded.pids, users);
    assert_eq!(recorded.devices.get(&3), Some(&device_3));
    assert_eq!(recorded.devices.len(), 1, "{recorded:?}");

    // It ends with the process.
    let pid = u64::from(on_3.pid());
    on_3.kill();
    let (code, printed, said) = of_pid.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        printed.contains(&format!("process {pid} has ended")),
        "{printed}"
    );
    let begun = totals(&open(&files[0]).view());
    assert_eq!(begun.pids, [pid]);
    let dram: Vec<u64> = begun.devices.values().map(|[dram, ..]| *dram).collect();
    assert_eq!(dram, [7 * 4096]);
    let mut ended = end_of(&files[0]);
    assert_eq!(ended.recording().damage(), None);
    assert!(totals(&ended.view()).pids.is_empty());
    assert_eq!(ended.view().departed.len(), 1);
    for workload in [on_0, later, elsewhere] {
        workload.kill();
    }
    tracked.end();
}

#[test]
fn a_file_stays_within_its_size_and_says_that_it_is_full() {
    let server = TestServer::start(&["--quiet"]);
    let file = server.folder().join("small.ttrec");
    let recorder = Recorder::start(&server, &file, &["--max-size", "64K"]);
    let options = ["--events", "400000", "--live", "64"];
    let mut workload = Tracked::start(&server.socket(), &options);
    let (code, printed, said) = recorder.ended();
    assert_eq!(code, Some(0), "{said}");
    assert!(
        printed.contains("as large as it may be (64.0 KiB)"),
        "{printed}"
    );
    let bytes = fs::metadata(&file).expect("it is there").len();
    assert!((32 << 10..=64 << 10).contains(&bytes), "{bytes} bytes");
    let player = end_of(&file);
    assert_eq!(player.recording().damage(), None);
    assert_eq!(workload.account()["flushed"], true);
    workload.end();
}

#[test]
fn what_cannot_be_recorded_is_said_and_no_file_is_touched() {
    let server = TestServer::start(&["--quiet"]);
    let file = server.folder().join("kept.ttrec");
    Recorder::start(&server, &file, &[]).interrupted();
    let before = fs::read(&file).expect("a recording");
    for (options, reason) in [
        (["--pid", "999999"], "no process 999999 is tracked"),
        (["--device", "77"], "no device 77 is known"),
    ] {
        let (code, said) = refused(&server, &file, &options);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(reason), "{said}");
    }
    assert_eq!(fs::read(&file).expect("a recording"), before);
    let text = server.folder().join("thesis");
    fs::write(&text, "a thesis").expect("written");
    let (code, said) = refused(&server, &text, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("is no recording, and is not overwritten"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(&text).expect("text"), "a thesis");
    let socket = server.folder().join("nobody.sock");
    let output = ttmem()
        .args(["record", "x.ttrec", "--socket"])
        .arg(socket)
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_folder_of_a_server_is_looked_at_as_one_recording() {
    let folder = new_folder();
    let place = folder.path().join("recorded");
    let words = place.display().to_string();
    let bounds = ["--record-max-size", "64K", "--record-total", "64M"];
    let options = [&["--quiet", "--record", &words], &bounds[..]].concat();
    let mut server = TestServer::start_in(folder, &options);
    let options = ["--events", "200000", "--live", "64"];
    let mut workload = Tracked::start(&server.socket(), &options);
    assert_eq!(workload.account()["flushed"], true);
    server.signal("TERM");
    assert!(server.wait().success());
    workload.end();
    let run = |words: &[&str]| {
        let output = ttmem().args(words).arg(&place).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, said)
    };
    assert!(fs::read_dir(&place).expect("a folder").count() > 2);
    // Whatever instant is asked for, the nearest is shown, and that is said.
    let (output, said) = run(&["top", "--once", "--at", "2001-01-01T00:00:00Z", "--file"]);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("ttmem: the recording is from "), "{said}");
    let shown = String::from_utf8_lossy(&output.stdout);
    let from = said
        .split(" to ")
        .next()
        .and_then(|text| text.split(" from ").nth(1));
    let from = from.expect("an instant");
    assert!(shown.contains(&from[11..19]), "{from}: {shown}");
    let (output, said) = run(&["explain"]);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("nothing failed in "), "{said}");
}

#[test]
fn who_takes_nothing_holds_up_nobody() {
    let server = TestServer::start(&["--quiet"]);
    let mut stalled = UnixStream::connect(server.socket()).expect("it listens");
    let request = "GET /api/v1/record HTTP/1.1\r\nHost: ttmem\r\n\r\n";
    stalled.write_all(request.as_bytes()).expect("it is taken");
    let file = server.folder().join("other.ttrec");
    let recorder = Recorder::start(&server, &file, &[]);
    let options = ["--events", "300000", "--live", "64"];
    let mut workload = Tracked::start(&server.socket(), &options);
    let account = workload.account();
    assert_eq!(
        (&account["flushed"], &account["lost_events"]),
        (&true.into(), &0.into())
    );
    let live = live_totals(&server);
    recorder.interrupted();
    let mut player = end_of(&file);
    assert_eq!(player.recording().summary().missing_events, 0);
    assert_eq!(totals(&player.view()), live);
    drop(stalled);
    workload.end();
}

#[test]
fn who_ends_its_side_before_the_answer_begins_gets_a_whole_recording() {
    let server = TestServer::start(&[]);
    let mut reader = UnixStream::connect(server.socket()).expect("it listens");
    let request = "GET /api/v1/record HTTP/1.1\r\nHost: ttmem\r\n\r\n";
    reader.write_all(request.as_bytes()).expect("it is taken");
    reader.shutdown(Shutdown::Write).expect("it is open");
    let mut answer = Vec::new();
    reader.read_to_end(&mut answer).expect("it ends");
    let begins = String::from_utf8_lossy(&answer);
    assert!(begins.starts_with("HTTP/1.1 200 "), "{begins}");
}

#[test]
fn names_are_left_out_if_asked_and_kept_from_other_users() {
    let folder = new_folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("ours");
    let options = ["--quiet", "--socket-mode", "0666", "--http", "127.0.0.1:0"];
    let server = TestServer::start_in(folder, &options);
    let mut workload = Tracked::start(&server.socket(), &["--events", "2000"]);
    assert_eq!(workload.account()["flushed"], true);
    let name = server.process(workload.pid())["name"].clone();
    let name = name.as_str().expect("a name").to_owned();
    let names = |file: &Path| -> Vec<String> {
        let view = end_of(file).view();
        let identities = view.processes.iter().map(|it| &it.facts.identity);
        identities
            .map(|identity| identity.name.to_string())
            .collect()
    };
    let (open, hidden) = (server.folder().join("open"), server.folder().join("hidden"));
    Recorder::start(&server, &open, &[]).interrupted();
    Recorder::start(&server, &hidden, &["--redact"]).interrupted();
    assert_eq!(names(&open), [name.as_str()]);
    assert_ne!(names(&hidden), [name.as_str()]);
    assert_eq!(
        totals(&end_of(&open).view()),
        totals(&end_of(&hidden).view())
    );

    // Over TCP, without a token, nothing is recorded.
    let status = server.status();
    let places = status["server"]["sockets"]
        .as_array()
        .expect("a list")
        .iter();
    let mut places = places.filter_map(|place| place.as_str());
    let url = places
        .rfind(|place| place.starts_with("http"))
        .expect("a URL");
    let output = ttmem()
        .args(["record", "--redact", "--http", url])
        .arg(server.folder().join("tcp"))
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("without a token"), "{said}");

    if nix::unistd::geteuid().is_root() {
        // Nobody else can ask as another user.
        let others = ForOthers::new();
        let pid = workload.pid().to_string();
        let theirs = server.folder().join("theirs");
        for (options, reason) in [
            (&[][..], "names of other users' programs"),
            (&["--pid", &pid], "belongs to another user"),
        ] {
            let mut command = recorder_by(others.ttmem_as(NOBODY), &server, &theirs, options);
            let output = command.output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(reason), "{said}");
        }
        let options = ["--redact", "--duration", "1s"];
        let mut command = recorder_by(others.ttmem_as(NOBODY), &server, &theirs, &options);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert_ne!(names(&theirs), [name.as_str()]);
    }
    workload.end();
}
