//! `ttmem run`: a program that must not notice, and the account of what it used.

use crate::support::c_program::{Linked, Story, Workshop, is_there};
use crate::support::server::{Killed, TestServer, machine_has_server, ttmem};
use crate::support::wait_until;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What the program holds at most of each class, on its one chip.
const PEAKS: [(&str, u64); 3] = [
    ("dram", 10 * 12 * 4096),
    ("trace", 12 * 10_000),
    ("l1_small", 64 * 1000),
];

/// A compiled program, and a folder in which no server listens.
struct Bench {
    workshop: Workshop,
    program: PathBuf,
    /// The machine has a server for everybody, which is found where none is named.
    shared: bool,
}

impl Bench {
    /// `None`, after saying so, where nothing can be compiled.
    fn open() -> Option<Self> {
        let workshop = Workshop::open()?;
        let program = workshop.program("ran.c", Linked::Dynamically);
        Some(Self {
            workshop,
            program,
            shared: machine_has_server(),
        })
    }

    /// `ttmem run` with these options, of the program with these arguments.
    fn run(&self, options: &[&str], arguments: &[&str]) -> Command {
        let mut command = self.run_only(options);
        command.arg(&self.program).args(arguments);
        command
    }

    fn run_only(&self, options: &[&str]) -> Command {
        let mut command = ttmem();
        command.env("XDG_RUNTIME_DIR", self.workshop.path("empty"));
        command.args(["run", "--no-attach"]).args(options).arg("--");
        command
    }
}

/// Runs to the end; a line on its input lets the program go on.
fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that does not read has ended.
    let _unread = stdin.write_all(b"\n");
    child.wait_with_output().expect("it is ours")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn assert_peaks(report: &Value) {
    let devices = report["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 1, "{report}");
    for (class, bytes) in PEAKS {
        assert_eq!(devices[0]["peak_bytes"][class], bytes, "{class}: {report}");
        assert_eq!(devices[0]["end_bytes"][class], 0, "{class}: {report}");
    }
    assert_eq!(report["leak_candidates"]["buffers"], 1, "{report}");
    assert_eq!(report["leak_candidates"]["bytes"], 12 * 4096, "{report}");
    let is_exact = report["exit_code"] == 0;
    // Each bank's part in whole pages of 8192; one bank's part aligned.
    let regions = serde_json::json!([
        {"name": "trace_region_size", "enough": 12 * 16_384, "given": 12 << 20,
         "unused": (12 << 20) - 12 * 16_384, "is_exact": is_exact},
        {"name": "l1_small_size", "enough": 1024, "given": 1 << 20, "unused": (1 << 20) - 1024,
         "is_exact": is_exact},
    ]);
    assert_eq!(report["regions"], regions, "{report}");
    assert_peak_contents(report);
    for figure in ["anomalies", "lost_events", "elided_events"] {
        assert_eq!(report[figure], 0, "{report}");
    }
}

/// What was live at each peak, however short the program was, and who asked for what was left.
fn assert_peak_contents(report: &Value) {
    let peaks = report["peaks"].as_array().expect("a list");
    let classes: Vec<&Value> = peaks.iter().map(|peak| &peak["class"]).collect();
    assert_eq!(classes, ["dram", "l1_small", "trace"], "{report}");
    let groups = |peak: &Value| -> Vec<(Value, Value, Value)> {
        let groups = peak["groups"].as_array().expect("a list").iter();
        let group = |group: &Value| {
            let [name, count, bytes] = ["name", "count", "bytes"].map(|field| group[field].clone());
            (name, count, bytes)
        };
        groups.map(group).collect()
    };
    let per_buffer = 12 * 4096;
    assert_eq!(
        groups(&peaks[0]),
        [
            (Value::Null, 9.into(), (9 * per_buffer).into()),
            ("matmul".into(), 1.into(), per_buffer.into())
        ],
        "{report}"
    );
    assert_eq!(
        groups(&peaks[1]),
        [("conv2d".into(), 1.into(), 64_000.into())]
    );
    assert_eq!(
        groups(&peaks[2]),
        [("capture".into(), 1.into(), 120_000.into())]
    );
    let left = &report["left"];
    let at_close = serde_json::json!([{
        "class": "dram", "operation": "matmul", "line": null, "callers": [], "stack": null, "buffers": 1, "bytes": per_buffer,
    }]);
    assert_eq!(left["at_close"], at_close, "{report}");
    assert_eq!(left["at_exit"], serde_json::json!([]), "{report}");
    assert_eq!(report["failures"], serde_json::json!([]), "{report}");
}

#[test]
fn the_program_is_itself_and_the_report_comes_after_it() {
    let Some(bench) = Bench::open() else { return };
    for code in [0, 3] {
        let ended = output(&mut bench.run(&[], &["exit", &code.to_string()]));
        assert_eq!(ended.status.code(), Some(code));
        assert_eq!(text(&ended.stdout), "holding\n");
        let said = text(&ended.stderr);
        let at_least = if code == 0 { "" } else { "at least " };
        let report = said
            .strip_prefix("its own complaint\n")
            .expect("first the program's words");
        assert!(report.starts_with("ttmem: "), "{report}");
        for part in [
            &format!("ended with code {code} after"),
            "1 process tracked",
            "480.0 KiB",
            "held at close: 1 buffer, 48.0 KiB",
            "DRAM at its peak: 480.0 KiB on device 0",
            "  48.0 KiB        1   DRAM of matmul",
            &format!("set {at_least}trace_region_size=196608 (192.0 KiB, 11.8 MiB never used)"),
            &format!("set {at_least}l1_small_size=1024 (1.0 KiB per bank, 1023.0 KiB never"),
            "anomalies 0, lost 0 events, elided 0 events",
        ] {
            assert!(report.contains(part), "{part} is missing in\n{report}");
        }
        let widest = report.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{report}");
        assert!(!report.contains('\u{1b}'), "no colours in a pipe");
    }
}

#[test]
fn variables_that_do_not_count_are_named_beside_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    for (value, said) in [
        (
            "maybe",
            "TTMEM_DISABLE: \"maybe\" is neither 0 nor 1; tracking is on",
        ),
        ("1", "TTMEM_DISABLE: \"1\" turns tracking off"),
    ] {
        let output = ttmem()
            .args(["run", "--no-attach", "--", "true"])
            .env("XDG_RUNTIME_DIR", folder.path())
            .env("TTMEM_DISABLE", value)
            .output()
            .expect("it runs");
        let report = text(&output.stderr);
        assert!(report.lines().any(|line| line == said), "{report}");
        assert_eq!(output.status.code(), Some(0), "{report}");
    }
}

#[test]
fn the_report_goes_to_a_file_and_may_be_json() {
    let Some(bench) = Bench::open() else { return };
    let file = bench.workshop.path("report");
    let name = file.to_str().expect("text").to_owned();
    let plain = output(&mut bench.run(&["--report", &name], &["exit", "0"]));
    assert_eq!(text(&plain.stderr), "its own complaint\n");
    let report = fs::read_to_string(&file).expect("a report");
    assert!(report.contains("held at close"), "{report}");

    let json = output(&mut bench.run(&["--json", "--report", &name], &["exit", "3"]));
    assert_eq!(json.status.code(), Some(3));
    assert_eq!(text(&json.stdout), "holding\n");
    let report = fs::read_to_string(&file).expect("a report");
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["schema"], 1);
    assert_eq!(
        (&report["exit_code"], &report["signal"]),
        (&3.into(), &Value::Null)
    );
    assert_eq!(report["own_server"], !bench.shared);
    assert_eq!(report["attached"], false);
    assert_eq!(report["processes"][0]["pid"], report["pid"]);
    assert_eq!(report["processes"][0]["state"], "exited");
    assert_peaks(&report);

    let nowhere = output(&mut bench.run(&["--report", "/nonexistent/x"], &["exit", "0"]));
    assert_eq!(nowhere.status.code(), Some(1));
    assert_eq!(text(&nowhere.stdout), "", "it was not even started");
    assert!(text(&nowhere.stderr).contains("/nonexistent/x"));
}

/// A program that tells of every signal, under `ttmem run`.
struct Listening {
    run: Killed,
    lines: BufReader<std::process::ChildStdout>,
    program: String,
}

impl Listening {
    fn begin(mut command: Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut run = Killed(command.spawn().expect("the program starts"));
        let lines = BufReader::new(run.0.stdout.take().expect("a pipe"));
        let mut listening = Self {
            run,
            lines,
            program: String::new(),
        };
        let line = listening.line();
        let program = line.strip_prefix("waiting ").expect("its first line");
        listening.program = program.to_owned();
        listening
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Sends a signal to `ttmem run`.
    fn send(&self, signal: &str) {
        send(signal, &self.run.0.id().to_string());
    }

    fn end(mut self) -> (Option<i32>, String, String) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).expect("text");
        let mut said = String::new();
        let mut stderr = self.run.0.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut said).expect("text");
        (self.run.0.wait().expect("it is ours").code(), rest, said)
    }
}

fn send(signal: &str, pid: &str) {
    let sent = Command::new("kill").args(["-s", signal, pid]).status();
    assert!(sent.expect("kill runs").success());
}

fn state(pid: &str) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
    let (_name, rest) = stat.rsplit_once(") ").expect("a state");
    rest.chars().next().expect("a letter")
}

#[test]
fn signals_are_passed_on_each_once_and_one_ends_it() {
    let Some(bench) = Bench::open() else { return };
    let mut listening = Listening::begin(bench.run(&[], &["signals"]));
    for signal in ["INT", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT"] {
        listening.send(signal);
        assert_eq!(listening.line(), signal);
    }
    listening.send("TERM");
    let (code, rest, said) = listening.end();
    assert_eq!((code, rest.as_str()), (Some(128 + 15), ""));
    assert!(said.contains("was ended by signal 15 after"), "{said}");
}

#[test]
fn it_stops_and_goes_on_with_the_program() {
    let Some(bench) = Bench::open() else { return };
    let mut listening = Listening::begin(bench.run(&[], &["signals"]));
    let (run, program) = (listening.run.0.id().to_string(), listening.program.clone());
    for _time in 0..2 {
        listening.send("TSTP");
        assert_eq!(listening.line(), "TSTP");
        wait_until("both are stopped", || {
            state(&run) == 'T' && state(&program) == 'T'
        });
        listening.send("CONT");
        assert_eq!(listening.line(), "CONT");
    }
    // Whoever stops the program alone continues it alone.
    send("STOP", &program);
    wait_until("the program is stopped", || state(&program) == 'T');
    send("USR1", &run);
    send("CONT", &program);
    let mut came = [listening.line(), listening.line()];
    came.sort();
    assert_eq!(came, ["CONT", "USR1"]);
    listening.send("TERM");
    assert_eq!(listening.end().0, Some(128 + 15));
}

#[test]
fn a_key_of_the_terminal_comes_once() {
    let Some(bench) = Bench::open() else { return };
    if !is_there("setsid") {
        return;
    }
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("a terminal");
    unlockpt(&terminal).expect("a terminal");
    let name = ptsname(&terminal, Vec::new()).expect("a name");
    let keyboard = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().expect("text"))
        .expect("the other end");
    let inner = bench.run(&[], &["signals"]);
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(inner.get_program());
    command.args(inner.get_args()).stdin(keyboard);
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut listening = Listening::begin(command);
    let mut hands = File::from(terminal);
    for (key, signal) in [(b"\x03", "INT"), (b"\x1c", "QUIT"), (b"\x03", "INT")] {
        hands.write_all(key).expect("a key");
        assert_eq!(listening.line(), signal);
    }
    // Had one come twice, it would be there by now, or before this one.
    send("USR1", &listening.program);
    assert_eq!(listening.line(), "USR1");
    send("KILL", &listening.program);
    let (code, rest, _said) = listening.end();
    assert_eq!((code, rest.as_str()), (Some(128 + 9), ""));
}

#[test]
fn a_program_that_dies_leaves_its_whole_account() {
    let Some(bench) = Bench::open() else { return };
    let dies = bench.workshop.program("ends.c", Linked::Dynamically);
    for (how, code) in [("_exit", 5), ("abort", 128 + 6), ("kill", 128 + 9)] {
        let ended = output(bench.run_only(&["--json"]).arg(&dies).arg(how));
        assert_eq!(ended.status.code(), Some(code), "{how}");
        let report: Value = serde_json::from_slice(&ended.stderr).expect("JSON");
        let peak = &report["devices"][0]["peak_bytes"]["dram"];
        assert_eq!(*peak, 500 * 12 * 4096, "{how}: {report}");
        let released = &report["processes"][0]["released"];
        assert_eq!(released["reason"], "ended", "{how}: {report}");
        assert_eq!(released["buffers"], 500, "{how}: {report}");
        assert_eq!(report["lost_events"], 0, "{how}: {report}");
    }
}

#[test]
fn where_files_may_not_grow_the_program_runs_and_its_code_is_passed_on() {
    let Some(bench) = Bench::open() else { return };
    if !is_there("bash") {
        return;
    }
    let inner = bench.run(&[], &["exit", "7"]);
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""]);
    command.arg(inner.get_program()).args(inner.get_args());
    let (code, _stdout, stderr) = variables(&mut command);
    assert_eq!(code, Some(7), "{stderr}");
}

#[test]
fn where_children_are_ignored_it_says_so_rather_than_wait_for_ever() {
    let Some(bench) = Bench::open() else { return };
    if !is_there("bash") {
        return;
    }
    let inner = bench.run(&[], &["exit", "0"]);
    let mut command = Command::new("bash");
    command.args(["-c", "trap '' CHLD; exec \"$0\" \"$@\""]);
    command.arg(inner.get_program()).args(inner.get_args());
    let (code, stdout, stderr) = variables(&mut command);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("SIGCHLD is ignored"), "{stderr}");
}

#[test]
fn what_it_forks_is_tracked() {
    let Some(bench) = Bench::open() else { return };
    let ended = output(&mut bench.run(&["--json"], &["fork"]));
    assert_eq!(ended.status.code(), Some(7));
    let report: Value = serde_json::from_slice(&ended.stderr).expect("JSON");
    assert_peaks(&report);
    let processes = report["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 1, "{report}");
    assert_ne!(processes[0]["pid"], report["pid"], "it is the child");
}

#[test]
fn on_a_server_of_others_it_finds_its_own() {
    let Some(bench) = Bench::open() else { return };
    let server = TestServer::start(&[]);
    let mut other = Story::begin(&bench.program, &["exit", "0"], &server.socket());
    other.reaches("holding");
    let socket = server.socket();
    let options = ["--socket", socket.to_str().expect("text"), "--json"];
    let mut run = bench.run(&options, &["exit", "0"]);
    let run = run.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut run = Killed(run.stderr(Stdio::piped()).spawn().expect("it starts"));
    let mut lines = BufReader::new(run.0.stdout.take().expect("a pipe"));
    lines.read_line(&mut String::new()).expect("it holds");
    drop(run.0.stdin.take());
    let mut said = String::new();
    let mut stderr = run.0.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut said).expect("text");
    assert!(run.0.wait().expect("it is ours").success());
    let report = said.strip_prefix("its own complaint\n").expect("its words");
    let report: Value = serde_json::from_str(report).expect("JSON");
    assert_eq!(report["own_server"], false);
    let processes = report["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 1, "{report}");
    assert_eq!(processes[0]["pid"], report["pid"], "{report}");
    assert_eq!(report["leak_candidates"]["buffers"], 1, "{report}");
    // The other process holds as much on the same device.
    let peak = &report["devices"][0]["peak_bytes"]["dram"];
    assert_eq!(*peak, 10 * 12 * 4096, "{report}");
    assert_eq!(report["devices"][0]["end_bytes"]["dram"], 0, "{report}");
    assert_peaks(&report);
    assert!(other.end().code == Some(0));
}

#[test]
fn when_nothing_is_reported_it_says_what_to_check() {
    let Some(bench) = Bench::open() else { return };
    let ended = output(&mut bench.run(&[], &["nothing"]));
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(text(&ended.stdout), "nothing to report\n");
    let said = text(&ended.stderr);
    assert!(said.contains("not tracked: nothing was reported"), "{said}");
    assert!(said.contains("linked with libttmem"), "{said}");
    let mut off = bench.run(&[], &["nothing"]);
    let ended = output(off.env("TTMEM_DISABLE", "1"));
    assert!(text(&ended.stderr).contains("TTMEM_DISABLE=1"));
}

#[test]
fn a_command_that_cannot_be_started_has_a_shells_code() {
    let Some(bench) = Bench::open() else { return };
    let plain = bench.workshop.path("plain");
    fs::write(&plain, "exit $1\n").expect("a file");
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).expect("ours");
    for (command, code) in [
        (Path::new("no-such-command-anywhere"), 127),
        (Path::new("/nonexistent/program"), 127),
        (&plain, 126),
    ] {
        let ended = output(bench.run_only(&[]).arg(command));
        assert_eq!(ended.status.code(), Some(code), "{command:?}");
        let said = text(&ended.stderr);
        assert!(said.contains(command.to_str().expect("text")), "{said}");
        assert_eq!(said.lines().count(), 1, "no report: {said}");
    }
    // A shell would run it, although it does not say by what.
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o755)).expect("ours");
    let ended = output(bench.run_only(&[]).arg(&plain).arg("9"));
    assert_eq!(ended.status.code(), Some(9));
}

#[test]
fn a_server_that_was_named_and_is_not_there_is_an_error() {
    let Some(bench) = Bench::open() else { return };
    let ended = output(&mut bench.run(&["--socket", "/nonexistent/s"], &["exit", "0"]));
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!(text(&ended.stdout), "");
}

/// A program that prints the variables of a run.
fn variables(command: &mut Command) -> (Option<i32>, String, String) {
    let ended = output(command);
    let [stdout, stderr] = [&ended.stdout, &ended.stderr].map(|bytes| text(bytes).to_owned());
    (ended.status.code(), stdout, stderr)
}

#[test]
fn the_library_is_preloaded_before_what_was_there() {
    let Some(bench) = Bench::open() else { return };
    // Any library does: here, one that does nothing by itself.
    let library = bench.workshop.path("libttmem.so");
    let library = library.to_str().expect("text");
    let print = ["sh", "-c", "echo \"$LD_PRELOAD\"; echo \"$TTMEM_SOCKET\""];
    let mut command = ttmem();
    command
        .args(["run", "--library", library, "--"])
        .args(print);
    command.env("LD_PRELOAD", "libc.so.6");
    command.env("XDG_RUNTIME_DIR", bench.workshop.path("empty"));
    let (code, stdout, stderr) = variables(&mut command);
    assert_eq!(code, Some(0), "{stderr}");
    let mut lines = stdout.lines();
    assert_eq!(lines.next(), Some(format!("{library}:libc.so.6").as_str()));
    let socket = Path::new(lines.next().expect("a socket"));
    assert!(socket.is_absolute(), "{socket:?}");
    assert!(bench.shared || !socket.exists(), "gone with its server");
    assert!(stderr.contains("opens no device with TT-Metal"), "{stderr}");

    let server = TestServer::start(&[]);
    let socket = server.socket();
    let mut command = ttmem();
    command
        .args(["env", "--library", library, "--socket"])
        .arg(&socket);
    let (code, stdout, _stderr) = variables(command.env_remove("LD_PRELOAD"));
    let lines = format!(
        "export LD_PRELOAD='{library}'\nexport TTMEM_SOCKET='{}'\n",
        socket.display()
    );
    assert_eq!((code, stdout), (Some(0), lines.clone()));
    let (code, stdout, _stderr) = variables(command.arg("--python"));
    let lines = format!("{lines}export TTMEM_PYTHON='1'\n");
    assert_eq!((code, stdout), (Some(0), lines));
}

#[test]
fn without_the_library_it_names_the_places() {
    let Some(bench) = Bench::open() else { return };
    // A program of its own folder, beside which there is none.
    let alone = bench.workshop.path("ttmem");
    fs::hard_link(crate::support::server::TTMEM, &alone)
        .or_else(|_other_disk| fs::copy(crate::support::server::TTMEM, &alone).map(drop))
        .expect("a program");
    for arguments in [&["run", "--", "true"][..], &["env"]] {
        let mut command = Command::new(&alone);
        let (code, stdout, stderr) = variables(command.args(arguments).env_clear());
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        let folder = alone.parent().expect("a folder").display().to_string();
        for part in [
            format!("{folder}/libttmem_attach.so"),
            "lib/libttmem_attach.so".to_owned(),
            "--library".to_owned(),
            "TTMEM_ATTACH_LIBRARY".to_owned(),
        ] {
            assert!(stderr.contains(&part), "{part} is missing in {stderr}");
        }
    }
    let mut named = Command::new(&alone);
    named.args(["run", "--", "true"]).env_clear();
    let named = named.env("TTMEM_ATTACH_LIBRARY", "/nonexistent/a.so");
    let (code, _stdout, stderr) = variables(named);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("/nonexistent/a.so"), "{stderr}");
}
