//! The preloaded library over a stand-in for the runtime: what no mock board ever does.
//!
//! The stand-in (`tests/standin_runtime`) has the runtime's names and none of its contents. Its
//! stories say a word on stdout and wait for a line on stdin, so that the account is looked at
//! while they hold something.

mod memory;

use crate::support::c_program::is_there;
use crate::support::place::{attach_library, kept, source};
use crate::support::server::{Killed, TestServer};
use serde_json::Value;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// Bytes that the stand-in's programs take in the ring: their text in whole 16 bytes, and 208.
const SMALL: u64 = 3008 + 208;
const LARGE: u64 = 20_000 + 208;

struct StandIn {
    /// For what its stories write.
    folder: tempfile::TempDir,
    /// What was compiled: for all tests that build alike.
    made: PathBuf,
}

/// How the runtime comes: in a library of which name, built with which options.
#[derive(Clone, Copy)]
struct Build<'a> {
    library: &'a str,
    options: &'a [&'a str],
}

const AS_IT_IS: Build<'_> = Build {
    library: "tt_metal",
    options: &[],
};

impl StandIn {
    /// `None`, after saying so, where nothing can be compiled.
    fn build(build: Build<'_>) -> Option<Self> {
        if !is_there("c++") {
            return None;
        }
        Some(Self {
            folder: tempfile::tempdir().expect("a folder"),
            made: build.made(),
        })
    }

    /// Begins a story under the preloaded library.
    fn begin(&self, server: &TestServer, story: &str) -> Story {
        let stderr = self.folder.path().join(format!("{story}.stderr"));
        let mut child = Command::new(self.made.join("driver"))
            .arg(self.made.join("libstories.so"))
            .arg(story)
            .env("LD_PRELOAD", attach_library(self.folder.path()))
            .env("TTMEM_SOCKET", server.socket())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&stderr).expect("a file"))
            .spawn()
            .expect("the driver starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Story {
            child: Killed(child),
            stdin,
            stdout,
            stderr,
        }
    }
}

impl Build<'_> {
    /// The folder with what this build makes, compiled by the first test that needs it: ten tests would take the compiler
    /// three seconds each.
    fn made(self) -> PathBuf {
        let kept = kept();
        let folder = kept.join(format!("standin-{:016x}", self.fingerprint()));
        if folder.is_dir() {
            return folder;
        }
        std::fs::create_dir_all(&kept).expect("a folder of this build");
        // Tests that need the same wait for the one that compiles it. Released with the file, also by a death.
        let lock = File::create(folder.with_extension("lock")).expect("a file");
        lock.lock().expect("a file can be locked");
        if !folder.is_dir() {
            let begun = tempfile::tempdir_in(&kept).expect("a folder");
            self.compile_into(begun.path());
            std::fs::rename(begun.path(), &folder).expect("one file system");
        }
        folder
    }

    /// Of everything that what is compiled depends on.
    fn fingerprint(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.library, self.options).hash(&mut hasher);
        let compiler = Command::new("c++").arg("--version").output();
        compiler.expect("it is there").stdout.hash(&mut hasher);
        let sources = std::fs::read_dir(sources()).expect("the sources");
        let mut sources: Vec<PathBuf> = sources
            .map(|entry| entry.expect("a file").path())
            .filter(|path| path.is_file())
            .collect();
        sources.sort();
        for path in sources {
            let text = std::fs::read(&path).expect("readable");
            (path, text).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn compile_into(self, folder: &Path) {
        let shared = ["-shared", "-fPIC"];
        let runtime = folder.join(format!("lib{}.so", self.library));
        compile("runtime.cpp", &runtime, &[&shared, self.options].concat());
        let found = format!("-L{}", folder.display());
        let linked = format!("-l{}", self.library);
        let beside = [found.as_str(), &linked, "-Wl,-rpath,$ORIGIN"];
        let options = [&shared, self.options, &beside].concat();
        compile("stories.cpp", &folder.join("libstories.so"), &options);
        compile("driver.cpp", &folder.join("driver"), &["-ldl"]);
    }
}

fn sources() -> PathBuf {
    source("tests/standin_runtime")
}

fn compile(source: &str, made: &Path, options: &[&str]) {
    let output = Command::new("c++")
        .args(["-std=c++20", "-Wall", "-Wextra", "-Werror"])
        .arg(sources().join(source))
        .arg("-o")
        .arg(made)
        .args(options)
        .output()
        .expect("the compiler runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{source}:\n{said}");
}

struct Story {
    child: Killed,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: PathBuf,
}

impl Story {
    /// Waits for a word.
    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a word");
        assert_eq!(line.trim_end(), word, "{}", self.complaints());
    }

    fn go_on(&mut self) {
        self.stdin.write_all(b"\n").expect("it listens");
    }

    /// Lets it end; what it said on stderr.
    fn end(mut self) -> String {
        self.go_on();
        let status = self.child.0.wait().expect("it is ours");
        assert!(status.success(), "{status}: {}", self.complaints());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "");
        self.complaints()
    }

    fn complaints(&self) -> String {
        std::fs::read_to_string(&self.stderr).expect("text")
    }

    fn pid(&self) -> u32 {
        self.child.0.id()
    }
}

/// Waits until the account is as it should be; what it is then.
fn account(server: &TestServer, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    crate::support::wait_until(what, || {
        last = server.status();
        is_so(&last)
    });
    last
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn sum(value: &Value, list_name: &str, figure: &str) -> u64 {
    let figures = list(&value[list_name]).iter();
    figures.filter_map(|each| each[figure].as_u64()).sum()
}

/// The events of a process so far, by name.
fn events(server: &TestServer, pid: u32, name: &str) -> Vec<Value> {
    let output = server.ask(&["dump", "--last", "256", "--json", "--pid", &pid.to_string()]);
    let text = String::from_utf8(output.stdout).expect("text");
    let events = serde_json::from_str::<Value>(&text).expect("JSON");
    let named = |event: &&Value| event["event"] == name;
    let events = list(&events["events"]).iter().filter(named);
    events.map(|event| event["fields"].clone()).collect()
}

/// What was opened and closed, and what there was of each class then, in bytes per bank.
fn openings(server: &TestServer, pid: u32) -> Vec<(String, Value)> {
    let output = server.ask(&["dump", "--last", "256", "--json", "--pid", &pid.to_string()]);
    let text = String::from_utf8(output.stdout).expect("text");
    let events = serde_json::from_str::<Value>(&text).expect("JSON");
    let told = list(&events["events"]).iter().filter_map(|event| {
        let (name, fields) = (event["event"].as_str()?, &event["fields"]);
        match name {
            "device_opened" | "device_closed" | "mesh_opened" | "mesh_closed" => {
                Some((name.to_owned(), Value::Null))
            }
            // Of the mesh: what a chip alone has is told when it is first used.
            "capacity_reported" if list(&fields["devices"]).len() == 2 => {
                let class = fields["class"].as_str()?;
                Some((class.to_owned(), fields["per_bank_bytes"].clone()))
            }
            _other => None,
        }
    });
    told.collect()
}

fn assert_no_anomalies(status: &Value) {
    for process in list(&status["processes"]) {
        assert_eq!(process["anomalies"], 0, "{process} {}", status["anomalies"]);
        assert_eq!(process["lost_events"], 0, "{process}");
    }
}

/// Lets twenty programs be sent and looks at all that this leaves.
fn assert_dispatches(server: &TestServer, stand_in: &StandIn, has_prefetcher: bool) -> String {
    let mut story = stand_in.begin(server, "dispatches");
    story.expect("open");
    let open = account(server, "both devices have rings", |status| {
        let devices = list(&status["devices"]);
        devices.len() == 2
            && devices
                .iter()
                .all(|device| list(&device["ring"]).len() == 3)
    });
    for device in list(&open["devices"]) {
        let caches = usize::from(has_prefetcher);
        assert_eq!(list(&device["prefetch"]).len(), caches, "{device}");
        assert_eq!(device["ring"][0]["capacity_bytes"], 70_656);
    }
    story.go_on();
    story.expect("sent");
    let sent = account(server, "all were sent", |status| {
        list(&status["devices"])
            .iter()
            .all(|device| sum(device, "ring", "reserves") == 20)
    });
    assert_no_anomalies(&sent);
    for device in list(&sent["devices"]) {
        let ring = &device["ring"][0];
        assert_eq!(ring["core_type"], "tensix");
        // Three of each fit before the ring begins anew.
        assert_eq!(ring["wraps"], 3, "{ring}");
        assert_eq!(ring["stalls"], 19, "{ring}");
        let entries = list(&ring["entries"]);
        assert_eq!(
            entries.len(),
            1,
            "all before the last were waited for: {ring}"
        );
        assert_eq!(entries[0]["size_bytes"], LARGE);
        if has_prefetcher {
            let cache = &device["prefetch"][0];
            assert_eq!(cache["capacity_bytes"], 4096);
            assert_eq!((&cache["hits"], &cache["misses"]), (&18.into(), &2.into()));
            assert_eq!(cache["used_bytes"], 4096);
        }
    }
    let sizes: Vec<_> = events(server, story.pid(), "config_ring_allocated")
        .iter()
        .map(|fields| fields["size_bytes"].as_u64())
        .collect();
    assert_eq!(sizes, [Some(SMALL), Some(LARGE)].repeat(10));
    for (name, figure, expected) in [
        ("program_finalized", "binary_bytes", 6144_u64),
        ("binary_sent", "bytes", 6144),
        ("commands_cached", "bytes", 1360),
    ] {
        let told = events(server, story.pid(), name);
        assert_eq!(told.len(), 2, "{name}: {told:?}");
        for fields in told {
            assert_eq!(fields[figure], expected, "{name}: {fields}");
        }
    }
    let states: Vec<_> = events(server, story.pid(), "binary_status_changed")
        .iter()
        .map(|fields| fields["status"].clone())
        .collect();
    let once = ["in_flight", "committed"];
    assert_eq!(states, [once, once].concat());
    assert_eq!(events(server, story.pid(), "kernel_loaded").len(), 2);
    assert_eq!(events(server, story.pid(), "cb_allocated").len(), 4);
    story.go_on();
    story.expect("closed");
    account(server, "nothing is left", |status| {
        list(&status["devices"])
            .iter()
            .all(|device| list(&device["ring"]).is_empty() && list(&device["prefetch"]).is_empty())
    });
    story.end()
}

#[test]
fn programs_that_nobody_announced_are_followed_with_rings_caches_and_binaries() {
    let Some(stand_in) = StandIn::build(AS_IT_IS) else {
        return;
    };
    let server = TestServer::start(&[]);
    assert_eq!(assert_dispatches(&server, &stand_in, true), "");
}

#[test]
fn a_runtime_in_a_library_of_another_name_is_found_by_its_symbols() {
    let build = Build {
        library: "bundle",
        ..AS_IT_IS
    };
    let Some(stand_in) = StandIn::build(build) else {
        return;
    };
    let server = TestServer::start(&[]);
    assert_eq!(assert_dispatches(&server, &stand_in, true), "");
}

#[test]
fn a_missing_symbol_turns_off_its_family_alone_and_is_said_once() {
    let build = Build {
        options: &["-DWITHOUT_PREFETCHER"],
        ..AS_IT_IS
    };
    let Some(stand_in) = StandIn::build(build) else {
        return;
    };
    let server = TestServer::start(&[]);
    let said = assert_dispatches(&server, &stand_in, false);
    assert_eq!(
        said,
        "ttmem: prefetcher caches are not tracked: no `RingbufferCacheManager::RingbufferCacheManager`\n"
    );
    let last = account(&server, "it has ended", |status| {
        list(&status["processes"])
            .iter()
            .all(|process| process["state"] == "exited")
    });
    let process = &list(&last["processes"])[0];
    assert_eq!(process["incomplete"], true, "{process}");
    let reasons = list(&process["incomplete_reasons"]);
    assert_eq!(reasons.len(), 1, "{process}");
    assert_eq!(reasons[0]["reason"], "not_tracked");
    assert_eq!(
        reasons[0]["detail"],
        "prefetcher caches are not tracked: no `RingbufferCacheManager::RingbufferCacheManager`"
    );
}

#[test]
fn a_trace_is_followed_from_its_capture_to_its_release() {
    let Some(stand_in) = StandIn::build(AS_IT_IS) else {
        return;
    };
    let server = TestServer::start(&[]);
    let mut story = stand_in.begin(&server, "traces");
    story.expect("captured");
    // Five pages of 2048 bytes are one in each of five banks, and a page of every bank is charged.
    let charged = 2048 * 12;
    account(&server, "the trace holds its commands", |status| {
        let devices = list(&status["devices"]);
        let holds = |device: &Value| device["trace"]["charged_bytes"] == charged;
        devices.len() == 2 && devices.iter().all(holds)
    });
    let ended = events(&server, story.pid(), "trace_ended");
    assert_eq!(ended.len(), 1);
    assert_eq!(
        (&ended[0]["trace"], &ended[0]["bytes"]),
        (&3.into(), &10_240.into())
    );
    story.go_on();
    story.expect("replayed");
    account(&server, "both replays are known", |_status| {
        events(&server, story.pid(), "trace_replayed").len() == 2
    });
    // A trace writes where it pleases: nothing is known to be in the rings and the cache.
    let replayed = account(&server, "the cache was emptied", |status| {
        let devices = list(&status["devices"]);
        devices
            .iter()
            .all(|device| sum(device, "prefetch", "resets") == 1)
    });
    for device in list(&replayed["devices"]) {
        assert_eq!(sum(device, "ring", "used_bytes"), 0, "{device}");
        assert_eq!(sum(device, "prefetch", "entries"), 0, "{device}");
    }
    assert_eq!(events(&server, story.pid(), "config_ring_filled").len(), 6);
    story.go_on();
    story.expect("released");
    let released = account(&server, "the trace is given back", |status| {
        let devices = list(&status["devices"]);
        let empty = |device: &Value| device["trace"]["charged_bytes"] == 0;
        devices.iter().all(empty)
    });
    assert_no_anomalies(&released);
    assert_eq!(story.end(), "");
}

#[test]
fn kernels_of_the_fabric_and_of_dispatch_are_told_apart_until_their_chip_is_closed() {
    let Some(stand_in) = StandIn::build(AS_IT_IS) else {
        return;
    };
    let server = TestServer::start(&[]);
    let mut story = stand_in.begin(&server, "system_kernels");
    story.expect("configured");
    account(&server, "all four are known", |_status| {
        events(&server, story.pid(), "kernel_loaded").len() == 4
    });
    let loaded = events(&server, story.pid(), "kernel_loaded");
    for (index, fields) in loaded.iter().enumerate() {
        let (kind, core_type, cores, bytes) = if index % 2 == 0 {
            ("fabric", "active_eth", 4, 5000)
        } else {
            ("dispatch", "tensix", 1, 3000)
        };
        assert_eq!(fields["kind"], kind, "{fields}");
        assert_eq!(fields["core_type"], core_type, "{fields}");
        assert_eq!(fields["core_count"], cores, "{fields}");
        assert_eq!(fields["binary_bytes"], bytes, "{fields}");
    }
    story.go_on();
    story.expect("closed");
    let closed = account(&server, "no kernel is left", |status| {
        list(&status["devices"])
            .iter()
            .all(|device| device["kernel"]["registered_bytes"] == 0)
    });
    assert_no_anomalies(&closed);
    assert_eq!(story.end(), "");
}

#[test]
fn programs_launched_by_the_host_are_told_of_on_every_chip() {
    let Some(stand_in) = StandIn::build(AS_IT_IS) else {
        return;
    };
    let server = TestServer::start(&[]);
    let mut story = stand_in.begin(&server, "slow");
    story.expect("launched");
    account(&server, "both runs on both chips are known", |_status| {
        events(&server, story.pid(), "dispatched").len() == 4
    });
    let sent = events(&server, story.pid(), "dispatched");
    let on: Vec<_> = sent
        .iter()
        .map(|fields| fields["devices"][0].clone())
        .collect();
    assert_eq!(on, [0, 1, 0, 1]);
    let cached: Vec<_> = sent
        .iter()
        .map(|each| each["program_cache"].clone())
        .collect();
    assert_eq!(cached, ["miss", "miss", "hit", "hit"]);
    // Once for each chip, whatever is launched there again.
    assert_eq!(events(&server, story.pid(), "kernel_loaded").len(), 2);
    assert_eq!(events(&server, story.pid(), "cb_allocated").len(), 2);
    assert_no_anomalies(&server.status());
    assert_eq!(story.end(), "");
}

#[test]
fn buffers_are_charged_with_the_blocks_that_they_take() {
    let Some(stand_in) = StandIn::build(AS_IT_IS) else {
        return;
    };
    let server = TestServer::start(&[]);
    let mut story = stand_in.begin(&server, "blocks");
    story.expect("placed");
    let shared = 12 * 2048;
    let placed = account(&server, "all are placed", |status| {
        let devices = list(&status["devices"]);
        devices.len() == 2 && devices[0]["l1"]["charged_bytes"] == shared + 3 * 2048
    });
    for (device, l1) in list(&placed["devices"])
        .iter()
        .zip([shared + 3 * 2048, shared])
    {
        assert_eq!(device["l1"]["charged_bytes"], l1, "{device}");
        // A buffer without bytes has the smallest block.
        assert_eq!(device["dram"]["charged_bytes"], 12 * 32, "{device}");
    }
    let parts: Vec<_> = events(&server, story.pid(), "buffer_allocated")
        .iter()
        .filter(|fields| !fields["cores"].is_null())
        .map(|fields| {
            ["address", "per_bank_bytes", "banks", "requested_bytes"]
                .map(|name| fields[name].as_u64())
        })
        .collect();
    let expected = [[0x2_0000, 2048, 2, 4096], [0x3_0000, 2048, 1, 2048]];
    assert_eq!(parts, expected.map(|part| part.map(Some)));
    story.go_on();
    story.expect("given back");
    let empty = account(&server, "all is given back", |status| {
        let devices = list(&status["devices"]).iter();
        devices
            .map(|device| &device["l1"]["charged_bytes"])
            .all(|bytes| bytes == 0)
    });
    assert_no_anomalies(&empty);
    story.go_on();
    story.expect("closed");
    assert_eq!(story.end(), "");
}

#[test]
fn every_opening_is_told_whole_and_ends_the_buffers_of_the_one_before() {
    let Some(stand_in) = StandIn::build(AS_IT_IS) else {
        return;
    };
    let server = TestServer::start(&[]);
    let mut story = stand_in.begin(&server, "reopened");
    story.expect("open");
    story.go_on();
    story.expect("open again");
    let pid = story.pid();
    account(&server, "it is open again", |_status| {
        events(&server, pid, "mesh_opened").len() == 2
            && events(&server, pid, "statistics_reported").len() >= 12
    });
    let unsized_words = |words: [&str; 3]| words.map(|word| (word.to_owned(), Value::Null));
    let opening = |sizes: [u64; 4]| {
        let opened = unsized_words(["device_opened", "device_opened", "mesh_opened"]);
        let classes = ["dram", "l1", "l1_small", "trace"].map(str::to_owned);
        let capacities = classes.into_iter().zip(sizes.map(Value::from));
        opened.into_iter().chain(capacities)
    };
    let closing = unsized_words(["mesh_closed", "device_closed", "device_closed"]);
    let expected: Vec<_> = opening([1 << 30; 4])
        .chain(closing)
        .chain(opening([1 << 20, 1 << 19, 0, 0]))
        .collect();
    assert_eq!(openings(&server, pid), expected);
    let status = server.status();
    for device in list(&status["devices"]) {
        assert_eq!(device["l1"]["charged_bytes"], 0, "{device}");
    }
    assert_no_anomalies(&status);
    story.go_on();
    story.expect("closed");
    assert_eq!(story.end(), "");
}

#[test]
fn a_mesh_on_another_host_is_opened_as_without_us() {
    let Some(stand_in) = StandIn::build(AS_IT_IS) else {
        return;
    };
    let server = TestServer::start(&[]);
    let mut story = stand_in.begin(&server, "elsewhere");
    // The stand-in throws if it is asked what only a mesh of this host has.
    story.expect("open");
    let pid = story.pid();
    account(&server, "the other mesh is open", |_status| {
        events(&server, pid, "mesh_opened").len() == 1
    });
    story.go_on();
    story.expect("closed");
    assert_eq!(story.end(), "");
}

#[test]
fn exceptions_pass_forty_hooks_as_they_were_thrown() {
    let Some(stand_in) = StandIn::build(AS_IT_IS) else {
        return;
    };
    let server = TestServer::start(&[]);
    let mut story = stand_in.begin(&server, "exceptions");
    // It compares the texts itself, and says another word if one is not what was thrown.
    story.expect("survived");
    assert_eq!(story.end(), "");
    assert_no_anomalies(&account(&server, "all was told", |status| {
        let processes = list(&status["processes"]);
        processes.len() == 1 && !processes[0]["released"].is_null()
    }));
}
