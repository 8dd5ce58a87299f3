//! The terminal view as people use it: the real program on a real terminal, driven by keys.

use super::support::server::{Killed, TTMEM, TestServer, ttmem};
use super::support::tmux::{PROMPT, Tmux};
use super::support::wait_until;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// The views in the order of their keys, and something that each of them shows.
const VIEWS: [(&str, &str); 9] = [
    ("Overview", "8 devices"),
    ("Processes", "1 process"),
    ("Device", "history"),
    ("Memory map", "CB headroom"),
    ("Programs", "[programs]"),
    ("Buffers", "ADDRESS"),
    ("Events", "following"),
    ("Leaks", "since mark"),
    ("Failures", "was refused since"),
];

/// A server, and a workload that never ends.
struct Busy {
    server: TestServer,
    _load: Killed,
}

impl Busy {
    fn start() -> Self {
        let server = TestServer::start(&["--no-legacy-socket", "--quiet"]);
        let load = ttmem()
            .args(["load", "--clients", "1", "--rate", "300"])
            .args(["--duration", "300", "--socket"])
            .arg(server.socket())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the load starts");
        let busy = Self {
            server,
            _load: Killed(load),
        };
        wait_until("something is held", || {
            busy.server.device(0)["dram"]["charged_bytes"].as_u64() > Some(0)
        });
        busy
    }

    /// The words of a `ttmem top` that looks at it.
    fn top(&self, options: &str) -> String {
        top(&self.server.socket(), options)
    }
}

fn top(socket: &Path, options: &str) -> String {
    format!("top --socket {} --interval 0.2 {options}", socket.display())
}

/// Waits until a view is the chosen one: its tab is reversed.
fn wait_for_view(terminal: &Tmux, number: usize, title: &str) {
    let tab = format!("{number} {title}");
    wait_until(&tab, || {
        let styled = terminal.styled_screen();
        let before = styled.split_once(&tab).map(|(before, _after)| before);
        before.is_some_and(|before| before.ends_with("7m"))
    });
}

/// Whether a process runs; one that only waits to be reaped does not.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

/// Fails unless the terminal is as a shell wants it.
fn assert_given_back(terminal: &Tmux) {
    terminal.wait_for(PROMPT);
    for (variable, value) in [
        ("alternate_on", "0"),
        ("cursor_flag", "1"),
        ("mouse_any_flag", "0"),
    ] {
        assert_eq!(terminal.knows(variable), value, "{variable}");
    }
    terminal.run("clear; stty -a");
    let settings = terminal.wait_for("icanon");
    for off in ["-icanon", "-echo ", "-isig", "-opost"] {
        assert!(!settings.contains(off), "{off}\n{settings}");
    }
}

#[test]
fn every_view_is_reached_by_its_number_and_by_tab() {
    let busy = Busy::start();
    let Some(terminal) = Tmux::with_ttmem(160, 45, &busy.top("")) else {
        return;
    };
    terminal.wait_for("live, every");
    for (number, (title, shown)) in (1..).zip(VIEWS) {
        terminal.press(&[&number.to_string()]);
        wait_for_view(&terminal, number, title);
        let screen = terminal.wait_for(shown);
        let widest = screen.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(160), "{screen}");
    }
    terminal.press(&["Tab"]);
    wait_for_view(&terminal, 1, "Overview");
    terminal.press(&["BTab"]);
    wait_for_view(&terminal, 9, "Failures");
    terminal.press(&["1"]);
    terminal.wait_until("a device with what it holds", |screen| {
        screen.contains("DRAM") && screen.contains("GiB")
    });
}

#[test]
fn a_view_can_be_begun_with_and_left() {
    let busy = Busy::start();
    let Some(terminal) = Tmux::with_shell(120, 40) else {
        return;
    };
    for (key, view) in [("q", "events"), ("q", "leaks"), ("C-c", "device")] {
        terminal.run(&format!(
            "clear; {TTMEM} {}",
            busy.top(&format!("--view {view}"))
        ));
        terminal.wait_for("live, every");
        // Goes back, and never out.
        terminal.press(&["Escape"]);
        terminal.press(&["?"]);
        terminal.wait_for("Keys everywhere");
        terminal.press(&["?"]);
        terminal.press(&[key]);
        assert_given_back(&terminal);
    }
}

#[test]
fn events_are_filtered_paused_and_explained() {
    let busy = Busy::start();
    let Some(terminal) = Tmux::with_ttmem(140, 40, &busy.top("--view events")) else {
        return;
    };
    terminal.wait_until("events come", |screen| {
        screen.contains("following") && screen.contains("dispatched")
    });

    terminal.press(&["/"]);
    terminal.type_text("dispatched");
    terminal.wait_for("/dispatched");
    terminal.press(&["Enter"]);
    let screen = terminal.wait_until("only these are left", |screen| {
        // They begin with a time.
        let mut rows = screen.lines().filter(|line| line.get(2..3) == Some(":"));
        screen.contains("match") && rows.all(|line| line.contains("dispatched"))
    });
    assert!(!screen.contains("buffer_freed"), "{screen}");

    terminal.press(&["Space"]);
    terminal.wait_until("newer ones are counted while it stands", |screen| {
        screen.contains("paused") && !screen.contains(" 0 came since")
    });
    terminal.press(&["Space"]);
    terminal.wait_for("following");
    terminal.press(&["Escape"]);
    terminal.wait_until("the filter is gone", |screen| !screen.contains("match"));

    terminal.press(&["?"]);
    terminal.wait_for("Keys of this view");
    terminal.press(&["G"]);
    terminal.wait_for("the end");
    terminal.press(&["q"]);
    terminal.wait_until("the help is closed", |screen| {
        screen.contains("following") && !screen.contains("Help")
    });
}

#[test]
fn a_mark_is_set_and_a_pause_lasts() {
    let busy = Busy::start();
    let Some(terminal) = Tmux::with_ttmem(120, 40, &busy.top("")) else {
        return;
    };
    terminal.wait_for("live, every");
    terminal.press(&["m"]);
    wait_until("the server has the mark", || {
        let status = busy.server.status();
        let mut marks = status["marks"].as_array().expect("a list").iter();
        marks.any(|mark| mark["name"] == "top 1")
    });
    terminal.wait_for("live, every");
    terminal.press(&["Space"]);
    terminal.wait_for("PAUSED for");
    terminal.press(&["Space"]);
    terminal.wait_for("live, every");
    terminal.press(&["-"]);
    terminal.wait_for("every 0.5 s");
}

#[test]
fn a_server_that_dies_is_waited_for() {
    let busy = Busy::start();
    let socket = busy.server.socket();
    let Some(terminal) = Tmux::with_ttmem(120, 40, &busy.top("")) else {
        return;
    };
    terminal.wait_for("live, every");
    let Busy { server, _load } = busy;
    let folder = server.kill();
    terminal.wait_for("STALE for");
    let server = TestServer::start_in(folder, &["--no-legacy-socket", "--quiet"]);
    assert_eq!(server.socket(), socket);
    terminal.wait_for("live, every");
    // The stream has found the new server, too.
    terminal.press(&["7"]);
    terminal.wait_for("dispatched");
}

#[test]
fn any_size_is_drawn_and_another_one_at_once() {
    let busy = Busy::start();
    let Some(terminal) = Tmux::with_ttmem(200, 50, &busy.top("")) else {
        return;
    };
    terminal.wait_for("live, every");
    for (columns, rows) in [(80, 24), (30, 5), (200, 50), (80, 24)] {
        terminal.resize(columns, rows);
        if columns < 40 {
            terminal.wait_for("at least 40x8 needed");
            continue;
        }
        terminal.wait_until("the keys are in the last line", |screen| {
            let lines: Vec<&str> = screen.lines().collect();
            lines.len() == usize::from(rows)
                && lines[0].contains("9 Failures")
                && lines[usize::from(rows) - 1].contains(" help")
        });
    }
}

#[test]
fn suspended_it_gives_the_terminal_back_and_takes_it_again() {
    let busy = Busy::start();
    let Some(terminal) = Tmux::with_shell(120, 40) else {
        return;
    };
    terminal.run(&format!("clear; {TTMEM} {}", busy.top("")));
    terminal.wait_for("live, every");
    terminal.press(&["C-z"]);
    assert_given_back(&terminal);
    terminal.run("clear; fg");
    terminal.wait_for("live, every");
    assert_eq!(terminal.knows("alternate_on"), "1");
    terminal.press(&["7"]);
    terminal.wait_for("following");
    terminal.press(&["q"]);
    assert_given_back(&terminal);
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_given_back() {
    let busy = Busy::start();
    let Some(terminal) = Tmux::with_shell(120, 40) else {
        return;
    };
    let note = busy.server.folder().join("pid");
    for signal in ["TERM", "INT", "HUP"] {
        let top = busy.top("");
        // What has quotes of its own stays outside of these.
        let script = r#"echo $$ > "$0"; exec "$@""#;
        let command = format!("sh -c '{script}' '{}' {TTMEM} {top}", note.display());
        terminal.run(&format!("clear; {command}; echo code=$?"));
        terminal.wait_for("live, every");
        let pid = std::fs::read_to_string(&note).expect("it was noted");
        let sent = Command::new("kill")
            .args(["-s", signal, pid.trim()])
            .status();
        assert!(sent.expect("kill runs").success());
        terminal.wait_for("code=0");
        assert_given_back(&terminal);
    }
}

#[test]
fn without_its_terminal_it_ends() {
    let busy = Busy::start();
    let Some(terminal) = Tmux::with_ttmem(120, 40, &busy.top("")) else {
        return;
    };
    terminal.wait_for("live, every");
    let pid = terminal.knows("pane_pid");
    assert!(is_alive(&pid));
    terminal.close();
    wait_until("it is gone", || !is_alive(&pid));
}

#[test]
fn once_is_text_and_a_reader_that_leaves_is_no_failure() {
    let busy = Busy::start();
    let once = |options: &[&str]| {
        let output = busy.server.ask(&[&["top", "--once"], options].concat());
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), complaint.as_str()), (Some(0), ""));
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(!text.contains('\u{1b}'), "{text}");
        text
    };
    // No terminal cuts it: all devices are there.
    let overview = once(&[]);
    for device in 0..8 {
        assert!(
            overview.contains(&format!("device {device} ")),
            "{overview}"
        );
    }
    assert!(once(&["--view", "events"]).contains("EVENT"));
    // A pipe is no terminal: nothing needs to be said for text.
    let piped = busy.server.ask(&["top", "--colour", "true"]);
    assert!(piped.status.success() && !piped.stdout.contains(&b'\x1b'));

    let mut child = ttmem()
        .args(["top", "--once", "--socket"])
        .arg(busy.server.socket())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let mut complaint = String::new();
    let mut stderr = child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut complaint).expect("text");
    let code = child.wait().expect("it is ours").code();
    assert_eq!((code, complaint.as_str()), (Some(0), ""));
}

#[test]
fn without_a_server_it_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = ttmem()
        .args(["top", "--socket"])
        .arg(folder.path().join("none.sock"))
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("ttmem serve"), "{complaint}");
}
