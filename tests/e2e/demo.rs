//! The demo as users and scripts call it: a model's story, the server's account of it.

use super::support::WATCHDOG;
use super::support::server::{Killed, ttmem};
use super::support::wait_until;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// To the terminal's second screen, and back to the first.
const ENTERS: &str = "\u{1b}[?1049h";
const LEAVES: &str = "\u{1b}[?1049l";
const SHOWS_CURSOR: &str = "\u{1b}[?25h";

/// A story of a user's own.
const OWN_STORY: &str = r#"
about = "two tensors and what one makes of the other"
boards = ["n300"]
steps = [
  { tensor = "a", shape = [1, 1, 256, 256] },
  { mark = "made", number = 1 },
  { op = "relu", inputs = ["a"], out = "b" },
  { free = ["a", "b"] },
]
"#;

fn demo(arguments: &[&str]) -> Output {
    ttmem()
        .env("COLUMNS", "80")
        .arg("demo")
        .args(arguments)
        .output()
        .expect("the demo runs")
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    (text(&output.stdout), text(&output.stderr))
}

/// The JSON report of a demo that went well.
fn report(arguments: &[&str]) -> Value {
    let output = demo(&[&["--json"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_story_leaves_nothing_behind_and_says_what_is_next() {
    for scenario in ["transformer-8b", "matmul-slow"] {
        let output = demo(&["--headless", "--scenario", scenario]);
        let (printed, complaint) = said(&output);
        assert_eq!(output.status.code(), Some(0), "{complaint}");
        for line in [
            " events, none lost; nothing is held at the end",
            "what next:",
            "  ttmem run -- python model.py  the same of your own program",
        ] {
            let found = printed.lines().any(|other| other.ends_with(line));
            assert!(found, "{line} is missing in\n{printed}");
        }
        for jargon in ["anomalies", "agree", "held at close"] {
            assert!(!printed.contains(jargon), "{jargon} in\n{printed}");
        }
        assert!(!printed.contains('\u{1b}'), "no colours in a pipe");
        let widest = printed.lines().map(|line| line.chars().count()).max();
        assert!(widest.is_some_and(|width| width <= 80), "{printed}");
        assert!(complaint.is_empty(), "{complaint}");
    }
}

#[test]
fn the_report_has_what_every_device_held_and_ran() {
    let report = report(&["--scenario", "transformer-8b"]);
    let devices = report["devices"].as_array().expect("a list");
    assert_eq!(devices.len(), 8, "a T3000");
    for device in devices {
        for class in ["dram", "l1", "l1_small", "trace", "cb", "kernel"] {
            assert!(
                device["peaks"][class].as_u64() > Some(0),
                "{class}: {device}"
            );
        }
        for figure in ["dispatches", "trace_replays"] {
            assert!(device[figure].as_u64() > Some(0), "{figure}: {device}");
        }
        for cache in ["program_cache_hits", "binary_reuses", "prefetch_hits"] {
            assert!(
                device["caches"][cache].as_u64() > Some(0),
                "{cache}: {device}"
            );
        }
        assert!(device["ring"]["wraps"].as_u64() > Some(0), "{device}");
    }
    for figure in ["events", "dispatches", "trace_replays"] {
        let both = &report["compared"][figure];
        assert!(both["server"].as_u64() > Some(0), "{figure}: {report}");
        assert_eq!(both["server"], both["recorded"], "{figure}");
    }
}

#[test]
fn a_program_cache_that_warms_up_is_no_growth_and_a_leak_is() {
    for seed in ["1", "2", "3"] {
        let warm = report(&["--scenario", "transformer-8b", "--seed", seed]);
        assert_eq!(warm["growing"], Value::Array(Vec::new()), "seed {seed}");
    }
    let leak = report(&["--scenario", "leak"]);
    let growing = leak["growing"].as_array().expect("a list");
    let operations: Vec<_> = growing.iter().map(|each| &each["operation"]).collect();
    assert_eq!(operations, ["softmax"], "{growing:?}");
    let per_step = growing[0]["bytes_per_step"].as_u64().expect("a figure");
    let held = growing[0]["bytes"].as_u64().expect("a figure");
    assert!(per_step > 1 << 20 && per_step < held, "{growing:?}");
}

#[test]
fn what_is_planted_comes_and_is_reported() {
    let clash = report(&["--scenario", "cb-clash"]);
    assert_eq!(clash["failures"][0]["kind"], "clash");
    let text = clash["failures"][0]["text"].as_str().expect("a text");
    assert!(text.contains("clash with L1 buffers"), "{text}");
    assert!(clash["compared"]["failures"]["server"].as_u64() > Some(0));

    let leak = report(&["--scenario", "leak"]);
    assert!(leak["planted_leaks"].as_u64() > Some(0));
    assert_eq!(leak["leak_candidates"]["buffers"], leak["planted_leaks"]);
    assert!(leak["leak_candidates"]["bytes"].as_u64() > Some(0));
    assert_eq!(leak["left_bytes"], 0);
}

#[test]
fn a_seed_makes_a_story_and_a_board_a_machine() {
    let events = |arguments: &[&str]| report(arguments)["compared"]["events"]["server"].clone();
    let first = events(&["--scenario", "leak", "--seed", "5"]);
    assert_eq!(events(&["--scenario", "leak", "--seed", "5"]), first);
    let two_chips = report(&["--scenario", "leak", "--board", "n300"]);
    assert_eq!(two_chips["board"], "n300");
    assert_eq!(two_chips["devices"].as_array().map(Vec::len), Some(2));
    let elsewhere = demo(&["--scenario", "leak", "--board", "galaxy-blackhole"]);
    assert_eq!(elsewhere.status.code(), Some(2));
    let (_nothing, complaint) = said(&elsewhere);
    assert!(complaint.contains("only for n150, n300"), "{complaint}");
}

#[test]
fn the_list_names_every_story_its_boards_and_what_is_planted() {
    let output = demo(&["--list"]);
    assert!(output.status.success());
    let (list, _nothing) = said(&output);
    for text in [
        "transformer-8b ",
        "matmul-slow",
        "t3000",
        "planted: clash",
        "planted: leak",
    ] {
        assert!(list.contains(text), "{text} is missing in\n{list}");
    }
    assert!(
        list.lines().all(|line| line.chars().count() <= 80),
        "{list}"
    );
}

/// Reports name lines of a file that only the program has.
#[test]
fn the_file_of_a_story_can_be_read_and_its_lines_are_those_that_reports_name() {
    let output = demo(&["--scenario", "leak", "--print"]);
    assert!(output.status.success());
    let (file, _nothing) = said(&output);
    let line = file.lines().nth(20).unwrap_or_default();
    assert!(
        line.contains("forgotten"),
        "leak.toml:21 is the leak: {line}"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("own.toml");
    std::fs::write(&own, &file).expect("written");
    let own = own.to_str().expect("a path in ASCII");
    let again = demo(&["--scenario", own, "--print"]);
    assert_eq!(said(&again).0, file);
    assert_eq!(demo(&["--print", "--json"]).status.code(), Some(2));
}

#[test]
fn a_story_that_there_is_not_is_a_usage_error_with_the_names() {
    let output = demo(&["--headless", "--scenario", "no-such-story"]);
    let (printed, complaint) = said(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(printed.is_empty(), "{printed}");
    for name in ["transformer-8b", "fragmentation", "leak"] {
        assert!(complaint.contains(name), "{complaint}");
    }
}

#[test]
fn a_story_of_ones_own_is_played_and_a_mistake_in_it_has_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("own.toml");
    let name = path.to_str().expect("text");
    std::fs::write(&path, OWN_STORY).expect("a file");
    let own = report(&["--scenario", name]);
    assert_eq!(own["board"], "n300");
    assert!(
        own["devices"][0]["peaks"]["dram"].as_u64() > Some(0),
        "{own}"
    );

    let mistaken = OWN_STORY.replace("{ mark", "{ marc");
    std::fs::write(&path, mistaken).expect("a file");
    let output = demo(&["--scenario", name]);
    let (_nothing, complaint) = said(&output);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert!(complaint.contains(name), "{complaint}");
    assert!(complaint.contains("line 6"), "{complaint}");
    assert!(complaint.contains("marc"), "{complaint}");
}

/// The demo on a terminal of its own.
struct OnTerminal {
    demo: Killed,
    keys: File,
    shown: Arc<Mutex<String>>,
    columns: Cell<u16>,
}

fn resize(terminal: &File, columns: u16) {
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).expect("a size");
}

impl OnTerminal {
    fn start(arguments: &[&str]) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&controller).expect("the terminal is ours");
        unlockpt(&controller).expect("the terminal is ours");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let terminal = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().expect("text"))
            .expect("the terminal");
        resize(&terminal, 80);
        let demo = ttmem()
            .arg("demo")
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::from(terminal.try_clone().expect("twice")))
            .stdout(Stdio::from(terminal.try_clone().expect("twice")))
            .stderr(Stdio::from(terminal))
            .spawn()
            .expect("the demo starts");
        let shown = Arc::new(Mutex::new(String::new()));
        let collected = Arc::clone(&shown);
        let controller = File::from(controller);
        let keys = controller.try_clone().expect("twice");
        // Ends by itself: reading fails when the last user of the terminal is gone.
        std::thread::spawn(move || {
            let mut controller = controller;
            let mut bytes = [0; 4096];
            let mut pending = Vec::new();
            while let Ok(count @ 1..) = controller.read(&mut bytes) {
                pending.extend_from_slice(&bytes[..count]);
                let valid = match std::str::from_utf8(&pending) {
                    Ok(text) => text.len(),
                    Err(error) => error.valid_up_to(),
                };
                let text: Vec<u8> = pending.drain(..valid).collect();
                let text = String::from_utf8(text).expect("valid so far");
                collected.lock().expect("no panic").push_str(&text);
            }
        });
        Self {
            demo: Killed(demo),
            keys,
            shown,
            columns: Cell::new(80),
        }
    }

    /// Whether a text is on the screen.
    ///
    /// Only cells that change are written: with another width all of them are.
    fn shows(&self, text: &str) -> bool {
        self.columns.set(80 + (self.columns.get() + 1) % 20);
        resize(&self.keys, self.columns.get());
        self.shown().contains(text)
    }

    fn shown(&self) -> String {
        self.shown.lock().expect("no panic").clone()
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it reads keys");
    }

    fn signal(&self, name: &str) {
        let pid = self.demo.0.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits for its end; what it showed altogether.
    fn end(mut self) -> (Option<i32>, String) {
        let status = ended(&mut self.demo.0);
        wait_until("the report is read", || {
            self.shown().contains("your own program\r\n")
        });
        (status, self.shown())
    }
}

fn ended(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            return status.code();
        }
        assert!(begun.elapsed() < WATCHDOG, "the demo did not end");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Fails unless the second screen was left, and the report stands on the first.
fn assert_restored(shown: &str) {
    assert_eq!(shown.matches(ENTERS).count(), 1, "{shown:?}");
    let (_frames, after) = shown.split_once(LEAVES).expect("the screen is given back");
    assert!(shown.contains(SHOWS_CURSOR), "{shown:?}");
    assert!(after.contains("PEAKS"), "{after:?}");
    assert!(!after.contains(ENTERS), "{after:?}");
}

#[test]
fn on_a_terminal_the_story_is_drawn_and_the_screen_given_back() {
    let mut terminal = OnTerminal::start(&["--scenario", "cb-clash", "--speed", "20"]);
    // It waits at what it shows until a key, and so does its end.
    wait_until("it stops at the failure", || {
        terminal.shows("stopped at the failure")
    });
    assert!(terminal.demo.0.try_wait().expect("it is ours").is_none());
    assert!(!terminal.shown().contains("ended; q shows"));
    terminal.press("c");
    wait_until("it has ended", || {
        terminal.shows("ended; q shows the report")
    });
    assert!(terminal.demo.0.try_wait().expect("it is ours").is_none());
    terminal.press("q");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    for text in ["ttmem demo: cb-clash on n150", "DRAM", "live, every 0.5 s"] {
        assert!(shown.contains(text), "{text} is missing in {shown:?}");
    }
    assert_restored(&shown);
}

#[test]
fn a_signal_ends_the_story_in_order() {
    for signal in ["INT", "TERM"] {
        let terminal = OnTerminal::start(&["--scenario", "leak", "--speed", "0.01"]);
        wait_until("a frame is drawn", || {
            terminal.shown().contains("ttmem demo: leak on n150")
        });
        terminal.signal(signal);
        let (code, shown) = terminal.end();
        assert_eq!(code, Some(0), "{signal}: {shown}");
        assert_restored(&shown);
        assert!(shown.contains("ended early"), "{signal}: {shown}");
        assert!(shown.contains("nothing is held"), "{signal}: {shown}");
    }
}

#[test]
fn the_private_server_can_be_looked_at_and_is_gone_afterwards() {
    let terminal = OnTerminal::start(&["--scenario", "leak", "--speed", "0.01"]);
    let socket = || -> Option<String> {
        let shown = terminal.shown();
        let end = shown.find("/ttmem.sock")?;
        let start = shown.get(..end)?.rfind("/ttmem-")?;
        let folder = std::env::temp_dir().join(shown.get(start + 1..end)?);
        Some(folder.join("ttmem.sock").to_str()?.to_owned())
    };
    wait_until("the socket is shown", || socket().is_some());
    let socket = socket().expect("it was there");
    wait_until("the story is seen from outside", || {
        let status = ttmem()
            .args(["status", "--json", "--socket", &socket])
            .output()
            .expect("the command runs");
        let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
        let process = &status["processes"][0];
        process["name"] == "leak" && process["source"] == "model"
    });
    let folder = std::path::Path::new(&socket).parent().expect("a folder");
    let mode = folder.metadata().expect("the folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else may look");
    terminal.signal("INT");
    terminal.end();
    assert!(!folder.exists(), "{}", folder.display());
}
