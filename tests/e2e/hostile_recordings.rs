//! Recordings that claim more than they have: no reader uses more memory than their stored bytes allow.
//!
//! What they cost is counted where they are read (`state/record/src/fuzz.rs`); here whole commands are looked at.

use crate::support::server::{Killed, TestServer, ttmem};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};
use ttmem_account::budget::{BASE_BYTES, BYTES_PER_STORED_BYTE};
use ttmem_reader::{Address, ApiClient, ApiRequestError};
use ttmem_record::hostile;
use ttmem_report::{GroupBy, MemoryClass};

/// What they are made of: steps of a kind, two bytes of how often, and one more.
const FILES: [(&str, &[u8]); 6] = [
    ("joins", &[0, 255, 255, 0]),
    ("zeros", &[0, 1, 0, 0, 11, 255, 255, 0]),
    ("departures", &[0, 160, 15, 0, 6, 255, 255, 0]),
    ("labels", &[0, 1, 0, 0, 1, 255, 255, 0]),
    (
        "buffers",
        &[0, 1, 0, 0, 3, 31, 0, 0, 4, 255, 255, 1, 4, 255, 255, 1],
    ),
    ("an_index", &[0, 5, 0, 0, 13, 255, 255, 64]),
];

/// A hostile recording on the disk.
struct Hostile {
    name: &'static str,
    path: PathBuf,
    /// Bytes of memory that a reader of it may use.
    allowed: u64,
}

fn hostile(folder: &Path) -> Vec<Hostile> {
    let files = FILES.iter().map(|(name, steps)| {
        let bytes = hostile::recording(steps);
        let path = folder.join(format!("ttmem-{name}.ttrec"));
        fs::write(&path, &bytes).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        Hostile {
            name,
            path,
            allowed: BASE_BYTES + BYTES_PER_STORED_BYTE * bytes.len() as u64,
        }
    });
    files.collect()
}

/// The most memory of a program; none once it has ended.
fn peak_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib = line.trim().trim_end_matches(" kB");
    Some(kib.parse::<u64>().ok()? << 10)
}

/// The most memory of a program until it ends, but for what it took in its last moment; what it said.
fn watched(mut program: Killed) -> (u64, String) {
    let mut peak = 0;
    let code = loop {
        peak = peak.max(peak_of(program.0.id()).unwrap_or(0));
        if let Some(code) = program.0.try_wait().expect("it was started") {
            break code;
        }
        // Its memory is looked at as often as it can change much: pages are touched one after the other.
        thread::sleep(Duration::from_millis(1));
    };
    let mut said = String::new();
    let mut reasons = program.0.stderr.take().expect("its reasons");
    reasons.read_to_string(&mut said).expect("text");
    let is_answer = code.success() || (code.code().is_some() && !said.is_empty());
    assert!(is_answer, "{code}: {said}");
    (peak, said.trim().to_owned())
}

#[track_caller]
#[expect(clippy::print_stdout, reason = "the table of what each reader takes")]
fn check(reader: &str, file: &Hostile, began: Instant, peak: u64, said: &str) {
    let Hostile { name, allowed, .. } = file;
    println!(
        "{name}, {reader}: {} of {} KiB, {:.2} s; {said}",
        peak >> 10,
        allowed >> 10,
        began.elapsed().as_secs_f64()
    );
    assert!(
        peak <= *allowed,
        "{reader} of {name}: {peak} bytes of {allowed}; {said}"
    );
}

fn commands_stay_within(reader: &str, arguments: impl Fn(&Hostile) -> Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    for file in hostile(folder.path()) {
        let mut command = ttmem();
        command.args(arguments(&file));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let began = Instant::now();
        let (peak, said) = watched(Killed(command.spawn().expect("it starts")));
        check(reader, &file, began, peak, &said);
    }
}

fn words(words: &[&str], file: &Hostile) -> Vec<String> {
    let words = words.iter().map(|word| (*word).to_owned());
    words.chain([file.path.display().to_string()]).collect()
}

#[test]
fn top_of_a_hostile_file_stays_small() {
    commands_stay_within("top", |file| words(&["top", "--once", "--file"], file));
}

#[test]
fn explain_of_a_hostile_file_stays_small() {
    commands_stay_within("explain", |file| words(&["explain"], file));
}

#[test]
fn a_report_of_a_hostile_file_stays_small() {
    commands_stay_within("report", |file| {
        let output = file.path.with_extension("html").display().to_string();
        words(&["report", "--output", &output], file)
    });
}

/// Asks everything that a page asks, at the end.
fn ask(client: &ApiClient) -> Result<(), ApiRequestError> {
    let recording = client.recording()?;
    let end = client.clone().at_instant(Some(recording.to));
    let snapshot = end.snapshot();
    let _history = end.history(600);
    let _last = end.last(100, None);
    let device = snapshot?
        .devices
        .first()
        .map(|device| device.id.to_string());
    if let Some(device) = device {
        let (class, all) = (MemoryClass::Dram, (None, None));
        let _drawn = client.timeline(&device, class, GroupBy::Line, all, Some(50));
        client.allocations(&device, class, all, Some(2000))?;
    }
    Ok(())
}

fn refusal(asked: Result<(), ApiRequestError>) -> String {
    let Err(error) = asked else {
        return String::new();
    };
    let is_answer = matches!(error, ApiRequestError::Status { .. });
    assert!(is_answer, "it does not answer any more: {error}");
    error.to_string()
}

#[test]
fn a_replay_of_a_hostile_file_stays_small() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in hostile(folder.path()) {
        let began = Instant::now();
        let mut replay = ttmem();
        replay.arg("replay").arg(&file.path);
        replay.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut replay = Killed(replay.spawn().expect("it starts"));
        let lines = BufReader::new(replay.0.stdout.take().expect("its output")).lines();
        let url = lines.map(|line| line.expect("text")).find_map(|line| {
            let (url, _rest) = line.strip_prefix("the page is at ")?.split_once(';')?;
            Some(url.to_owned())
        });
        let Some(url) = url else {
            let (peak, said) = watched(replay);
            assert!(!said.is_empty());
            check("replay", &file, began, peak, &said);
            continue;
        };
        let client = ApiClient::at(Address::Http(url.parse().expect("a URL")));
        let said = refusal(ask(&client));
        check(
            "replay",
            &file,
            began,
            peak_of(replay.0.id()).expect("it runs"),
            &said,
        );
    }
}

#[test]
fn a_server_with_a_hostile_file_stays_small() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in hostile(folder.path()) {
        let folder = tempfile::tempdir().expect("a folder");
        let began = Instant::now();
        let place = folder.path().join("recorded");
        fs::create_dir(&place).expect("a folder");
        fs::set_permissions(&place, Permissions::from_mode(0o700)).expect("it is ours");
        let name = place.join("ttmem-20200101T000000.000Z.ttrec");
        fs::rename(&file.path, &name).expect("the same disk");
        let place = place.display().to_string();
        let server = TestServer::start_in(folder, &["--quiet", "--record", &place]);
        let said = refusal(ask(&ApiClient::new(server.socket())));
        check(
            "server",
            &file,
            began,
            peak_of(server.pid()).expect("it runs"),
            &said,
        );
        assert!(server.status()["devices"].is_array());
    }
}
