//! What people ask of the terminal view, answered within three keys; and the same moment on every
//! screen and report.

use super::support::server::{Killed, TTMEM, TestServer, ttmem};
use super::support::tmux::{PROMPT, Tmux};
use super::support::wait_until;
use super::support::workload::{Plan, Workload};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use ttmem_event::legacy::Generation;
use ttmem_report::format::bytes;
use ttmem_report::labels;
use ttmem_report::{Device, Process, Snapshot};

/// A server, and a load of a scenario on it.
struct Loaded {
    server: TestServer,
    _load: Killed,
}

impl Loaded {
    fn start(scenario: &str, rate: u32) -> Self {
        let server = TestServer::start(&["--no-legacy-socket", "--quiet"]);
        let load = ttmem()
            .args(["load", "--clients", "1", "--duration", "600"])
            .args(["--scenario", scenario, "--rate", &rate.to_string()])
            .arg("--socket")
            .arg(server.socket())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the load starts");
        let _load = Killed(load);
        Self { server, _load }
    }

    /// The words of a `ttmem top` that looks at it.
    fn top(&self, options: &str) -> String {
        let socket = self.server.socket();
        format!("top --socket {} --interval 0.1 {options}", socket.display())
    }

    fn snapshot(&self) -> Snapshot {
        serde_json::from_value(self.server.status()).expect("a snapshot")
    }

    /// The process that plays, once it holds something.
    fn player(&self) -> Process {
        let mut found = None;
        wait_until("the load holds something", || {
            let processes = self.snapshot().processes.into_iter();
            found = processes.into_iter().find(|process| {
                labels::held(&process.devices, |on| on.dram_bytes) > 0
                    && process.name.as_deref() == Some("load 0")
            });
            found.is_some()
        });
        found.expect("it was just found")
    }

    fn text(&self, arguments: &[&str]) -> String {
        let output = self.server.ask(arguments);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

/// A scenario of 32 devices, written into a folder.
fn galaxy(folder: &tempfile::TempDir) -> PathBuf {
    let scenario = r#"
about = "some tensors on every chip of a Galaxy"
boards = ["galaxy-wormhole"]
steps = [
  { tensor = "w", shape = [1, 1, 4096, 4096], type = "bfloat8_b" },
  { run = "step", for = "i", times = 1000 },
]
[blocks]
step = [
  { tensor = "x", shape = [1, 1, 32, 4096] },
  { op = "rms_norm", inputs = ["x"], out = "n" },
  { free = ["x", "n"] },
]
"#;
    let path = folder.path().join("galaxy.toml");
    std::fs::write(&path, scenario).expect("it can be written");
    path
}

#[test]
fn which_process_grows_is_in_the_first_line() {
    let loaded = Loaded::start("leak", 60);
    let steady = Workload::start(&Plan {
        socket: loaded.server.socket(),
        generation: Generation::G4,
        device: 0,
        buffers: 8,
        size: 1 << 26,
    });
    let Some(terminal) = Tmux::with_ttmem(120, 40, &loaded.top("")) else {
        return;
    };
    let grows = loaded.player().pid.expect("it is seen");
    let screen = terminal.wait_for(" grows: +");
    let line = screen.lines().find(|line| line.contains(" grows: +"));
    let line = line.expect("just seen");
    assert!(line.contains(&format!("pid {grows} ")), "{line}");
    assert!(!line.contains(&steady.pid().to_string()), "{line}");
    assert!(
        line.trim_end().ends_with("[8]"),
        "the key that shows more: {line}"
    );
    // Which operation it is takes that one key.
    terminal.press(&["8"]);
    terminal.wait_for("softmax");
}

#[test]
fn what_splits_the_free_memory_takes_two_keys() {
    let Some(terminal) = Tmux::with_ttmem(120, 40, "demo --scenario fragmentation --speed 100")
    else {
        return;
    };
    terminal.wait_for("stopped at the failure");
    terminal.press(&["4"]);
    terminal.wait_for("Memory map");
    terminal.press(&["d"]);
    let screen = terminal.wait_until("the banks, block by block", |screen| {
        screen.contains("largest fit") && screen.contains("OWNER") && screen.contains("FREE AT")
    });
    assert!(screen.contains(" fragmented"), "{screen}");
    // Each block between holes has its line of Python, a process and an age.
    let named = |line: &&str| line.contains("fragmentation.toml:") && line.contains(" s ");
    assert!(screen.lines().filter(named).count() >= 2, "{screen}");
}

#[test]
fn how_large_the_trace_region_must_be_takes_one_key() {
    let loaded = Loaded::start("trace-too-small", 5_000);
    let explained = || {
        let output = loaded.server.ask(&["explain", "--json"]);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
        document["failures"][0]["setting"]["value"].as_u64()
    };
    let mut needed = None;
    wait_until("a trace is refused", || {
        needed = explained();
        needed.is_some()
    });
    let needed = needed.expect("just found");
    let Some(terminal) = Tmux::with_ttmem(100, 30, &loaded.top("")) else {
        return;
    };
    terminal.wait_for("live, every");
    terminal.press(&["3"]);
    let screen = terminal.wait_for("trace_region_size=");
    assert!(
        screen.contains(&format!("trace_region_size={needed} ")),
        "{needed}:\n{screen}"
    );
}

#[test]
fn a_galaxy_fits_a_small_terminal_on_dark_and_light() {
    let folder = tempfile::tempdir().expect("a folder");
    let loaded = Loaded::start(galaxy(&folder).to_str().expect("text"), 3_000);
    let player = loaded.player().pid.expect("it is seen").to_string();
    let mut looks = Vec::new();
    for theme in ["dark", "light"] {
        let top = loaded.top(&format!("--theme {theme} --colour 256"));
        let Some(terminal) = Tmux::with_ttmem(80, 24, &top) else {
            return;
        };
        let screen = terminal.wait_until("all devices, and who holds them", |screen| {
            screen.contains("32 devices") && screen.contains(&player)
        });
        assert!(!screen.contains("more: 3 shows one"), "{screen}");
        assert_eq!(screen.matches("tray ").count(), 4, "{screen}");
        let devices = (0..32).filter(|device| {
            let place = format!("{device}");
            screen
                .split_whitespace()
                .any(|word| word.trim_matches('│') == place)
        });
        assert_eq!(devices.count(), 32, "{screen}");
        looks.push(terminal.styled_screen());
    }
    assert_ne!(
        colours(&looks[0]),
        colours(&looks[1]),
        "both are for one background"
    );
}

/// The colours of a screen, each once.
fn colours(styled: &str) -> std::collections::BTreeSet<&str> {
    let sequences = styled.split('\u{1b}').skip(1);
    let ends = sequences.filter_map(|sequence| sequence.split_once('m'));
    ends.map(|(colour, _text)| colour).collect()
}

#[test]
fn a_pipe_gets_all_devices_and_is_not_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let loaded = Loaded::start(galaxy(&folder).to_str().expect("text"), 3_000);
    loaded.player();
    let text = loaded.text(&["top", "--once"]);
    assert!(
        text.contains("32 devices") && !text.contains("more: 3 shows one"),
        "{text}"
    );
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest > Some(80), "{text}");
    let csv = loaded.text(&["top", "--once", "--csv"]);
    assert_eq!(csv.lines().count(), 1 + 32, "{csv}");
    let json = loaded.text(&["top", "--once", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        json["snapshot"]["devices"].as_array().map(Vec::len),
        Some(32)
    );
}

#[test]
fn buffers_are_printed_in_groups_if_asked() {
    let (loaded, _snapshot) = frozen();
    let buffers = ["top", "--once", "--view", "buffers"];
    let grouped = |by| loaded.text(&[&buffers[..], &["--group", by]].concat());
    let list = loaded.text(&buffers);
    assert!(list.contains("ADDRESS"), "{list}");
    for (by, heading) in [("line", "PYTHON LINE"), ("operation", "OPERATION")] {
        let groups = grouped(by);
        let is_grouped = groups.contains(" group") && !groups.contains("ADDRESS");
        let mut lines = groups.lines();
        let is_headed = lines.any(|line| line.starts_with(heading) && line.contains("SHARE"));
        assert!(is_grouped && is_headed, "{groups}");
    }
}

#[test]
fn a_dumb_terminal_gets_text_and_no_screen() {
    let loaded = Loaded::start("leak", 60);
    loaded.player();
    let Some(terminal) = Tmux::with_shell(100, 40) else {
        return;
    };
    terminal.run(&format!(
        "clear; TERM=dumb {TTMEM} {}; echo code=$?",
        loaded.top("")
    ));
    let screen = terminal.wait_for("code=0");
    assert!(
        screen.contains("1 device") && screen.contains(PROMPT),
        "{screen}"
    );
    assert_eq!(terminal.knows("alternate_on"), "0");
}

/// One moment that lasts: the process that plays is stopped, and all it said was applied.
fn frozen() -> (Loaded, Snapshot) {
    let loaded = Loaded::start("transformer-8b", 20_000);
    let pid = loaded.player().pid.expect("it is seen").to_string();
    wait_until("there is some of everything", || {
        let devices = loaded.snapshot().devices;
        let has_all = |device: &Device| {
            device.l1.charged_bytes > 0
                && device.cb.resident_bytes > Some(0)
                && device.cb_headroom_bytes.is_some()
        };
        let is_it = devices.first().is_some_and(has_all);
        if is_it {
            let sent = Command::new("kill").args(["-s", "STOP", &pid]).status();
            assert!(sent.expect("kill runs").success());
        }
        is_it
    });
    let mut last = loaded.snapshot();
    let mut unchanged = 0;
    // What was sent may still wait on a busy machine.
    wait_until("nothing comes any more", || {
        std::thread::sleep(Duration::from_millis(50));
        let now = loaded.snapshot();
        let is_same = now.server.events_applied == last.server.events_applied;
        unchanged = if is_same { unchanged + 1 } else { 0 };
        last = now;
        unchanged >= 10
    });
    (loaded, last)
}

#[test]
fn figures_of_one_moment_agree_everywhere() {
    let (loaded, snapshot) = frozen();
    let overview = loaded.text(&["top", "--once"]);
    let status = loaded.text(&["status"]);
    let processes = loaded.text(&["top", "--once", "--view", "processes"]);
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (overview, status) = (one_line(&overview), one_line(&status));
    for device in &snapshot.devices {
        let dram = &device.dram;
        let l1 = &device.l1;
        let fit = labels::largest_fit(dram).expect("its allocator is known");
        let cbs = bytes(device.cb.resident_bytes.expect("programs are resident"));
        let occupied = l1.occupied_bytes.expect("known");
        // Those that lie inside of L1 buffers are part of these in what is occupied.
        let others = [l1.reserved_bytes.expect("known"), l1.used_bytes()];
        let others = others.iter().sum::<u64>() + device.l1_small.used_bytes();
        let occupied_by_cbs = bytes(occupied - others);
        assert!(occupied <= l1.physical_bytes.expect("known"));
        assert!(
            device.cb.resident_bytes <= l1.physical_bytes,
            "CBs are resident ones"
        );
        let free = dram.free_bytes().expect("known");
        assert!(dram.largest_fit_bytes().expect("known") <= free);
        let sizes = |used: u64, whole: Option<u64>| {
            format!("{} of {}", bytes(used), bytes(whole.expect("known")))
        };
        for (text, name) in [(&overview, "overview"), (&status, "status")] {
            for figure in [
                sizes(dram.used_bytes(), dram.capacity_bytes),
                sizes(occupied, l1.physical_bytes),
                format!("largest fit {fit}"),
                labels::fragmented(dram).expect("known"),
                format!("CBs {occupied_by_cbs}"),
            ] {
                assert!(
                    text.contains(&figure),
                    "{figure} of device {} in {name}:\n{text}",
                    device.id
                );
            }
        }
        assert!(status.contains(&format!("CBs {cbs} resident")), "{status}");
        if let Some(headroom) = device.cb_headroom_bytes {
            let said = format!("CB headroom {}", labels::headroom(headroom));
            assert!(overview.contains(&said) && status.contains(&said), "{said}");
        }
    }
    // The device view shows the first one.
    let device = snapshot
        .devices
        .iter()
        .min_by_key(|device| device.id)
        .expect("one");
    let shown = one_line(&loaded.text(&["top", "--once", "--view", "device"]));
    for (name, class) in [
        (labels::DRAM, &device.dram),
        (labels::L1_BUFFERS, &device.l1),
        (labels::TRACE, &device.trace),
    ] {
        let row = format!(
            "{name} {} {} ",
            bytes(class.used_bytes()),
            bytes(class.capacity_bytes.expect("known"))
        );
        assert!(shown.contains(&row), "{row}:\n{shown}");
        assert!(
            shown.contains(&bytes(class.peak_bytes)),
            "peak of {name}:\n{shown}"
        );
    }
    let occupied = bytes(device.l1.occupied_bytes.expect("known"));
    assert!(shown.contains(&format!("occupied {occupied} ")), "{shown}");
    let resident = bytes(device.cb.resident_bytes.expect("known"));
    assert!(
        shown.contains(&format!("CBs resident {resident} ")),
        "{shown}"
    );
    assert_processes_agree(&snapshot, &processes, &status);
}

/// Sums over devices, the fullest device and its peak, in the list and in `status`.
fn assert_processes_agree(snapshot: &Snapshot, processes: &str, status: &str) {
    let process = snapshot
        .processes
        .iter()
        .find(|process| !labels::is_gone(process));
    let process = process.expect("it is only stopped");
    let pid = process.pid.expect("it is seen").to_string();
    let row = processes
        .lines()
        .find(|line| line.trim_start().starts_with(&pid));
    let row = row.expect("it is listed");
    let (fullest, peak) = labels::fullest(&process.devices).expect("it has devices");
    let dram = labels::held(&process.devices, |on| on.dram_bytes);
    let of_devices: u64 = snapshot
        .devices
        .iter()
        .map(|device| device.dram.charged_bytes)
        .sum();
    assert_eq!(dram, of_devices, "it is the only one");
    for figure in [dram, fullest.dram_bytes, peak.expect("kept")] {
        assert!(row.contains(&bytes(figure)), "{} in {row}", bytes(figure));
        assert!(
            status.contains(&bytes(figure)),
            "{} in\n{status}",
            bytes(figure)
        );
    }
    assert!(
        peak >= Some(fullest.dram_bytes),
        "a peak is never below what is there"
    );
}
