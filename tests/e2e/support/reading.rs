//! A reader that gets every byte that the read API has for it, as a process of its own where it is another user.
//!
//! What is asked comes from the server's description of itself: a new path or parameter is asked too.

use super::planted::{become_user, places, secret};
use super::server::without_settings;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Cursor, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use ttmem_event::legacy::{Generation, RequestKind};
use ttmem_record::{Player, Recording};

use super::WATCHDOG;
use super::old_client::{OldClient, request};

const ASKED: &str = "E2E_READING";

/// How long an answer that goes on may be quiet until it has told what it has.
const QUIET: Duration = Duration::from_millis(400);

/// Who reads, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) socket: PathBuf,
    /// Host and port: over TCP.
    pub(crate) tcp: Option<String>,
    pub(crate) user: Option<u32>,
    /// Of whom the secrets are.
    pub(crate) pid: u32,
    pub(crate) seed: u64,
}

/// What a reader got.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Places of secrets, each with the requests that showed it.
    pub(crate) secrets: BTreeMap<String, BTreeSet<String>>,
    /// Paths that were answered with 200.
    pub(crate) answered: BTreeSet<String>,
    pub(crate) paths: BTreeSet<String>,
    /// The names of fields that are texts.
    pub(crate) texts: BTreeSet<String>,
}

impl Reading {
    /// Reads everything, as another user in a process of its own.
    pub(crate) fn found(&self) -> Found {
        if self.user.is_none() {
            return self.read();
        }
        let mut command = without_settings(std::env::current_exe().expect("this program"));
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("found");
        let asked = serde_json::to_string(&(self, &out)).expect("JSON");
        command
            .args(["--exact", "workload_process", "--nocapture"])
            .env(ASKED, asked)
            .stdout(Stdio::null());
        let status = command.status().expect("it runs");
        assert!(status.success(), "it reads everything");
        let found = std::fs::read(&out).expect("what it found");
        serde_json::from_slice(&found).expect("JSON")
    }

    fn connect(&self) -> Box<dyn Connection> {
        match &self.tcp {
            Some(address) => Box::new(TcpStream::connect(address).expect("it listens")),
            None => Box::new(UnixStream::connect(&self.socket).expect("it listens")),
        }
    }

    fn read(&self) -> Found {
        let mut found = Found::default();
        let (_code, description) = self.ask("get", "/openapi.json");
        let description: Value = serde_json::from_slice(&description).expect("JSON");
        let secrets: Vec<(String, String)> = places()
            .into_iter()
            .map(|place| (place.clone(), secret(self.seed, &place)))
            .collect();
        let search = |found: &mut Found, request: &str, bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).to_lowercase();
            for (place, secret) in &secrets {
                if text.contains(secret) {
                    let requests = found.secrets.entry(place.clone()).or_default();
                    requests.insert(request.to_owned());
                }
            }
        };
        for (path, operations) in description["paths"].as_object().expect("paths") {
            for (method, operation) in operations.as_object().expect("operations") {
                if self.user.is_none() && self.tcp.is_none() && method == "post" {
                    // Whoever may read everything may change things, too.
                    continue;
                }
                found.paths.insert(format!("{method} {path}"));
                for target in self.targets(path, operation, &description) {
                    let (code, body) = self.ask(method, &target);
                    if code == 200 {
                        found.answered.insert(format!("{method} {path}"));
                    }
                    search(&mut found, &target, &body);
                    search(&mut found, &target, &opened(&body));
                    if path != "/openapi.json" {
                        note_all_texts(&body, &mut found.texts);
                    }
                }
            }
        }
        if self.tcp.is_none() {
            search(&mut found, "the old protocol", &self.old_answers());
        }
        found
    }

    /// A path with each of its parameters: alone, and all that go together.
    fn targets(&self, path: &str, operation: &Value, description: &Value) -> Vec<String> {
        let none = Vec::new();
        let parameters = operation["parameters"].as_array().unwrap_or(&none);
        let of_query = parameters.iter().filter(|each| each["in"] == "query");
        let mut queries = vec![String::new()];
        for parameter in of_query {
            let name = parameter["name"].as_str().expect("a name");
            let values = self.values(name, &parameter["schema"], description);
            assert!(!values.is_empty(), "what to ask {path} for with {name}=");
            queries.extend(values.iter().map(|value| format!("?{name}={value}")));
        }
        // Some make sense together only.
        queries.extend(match path.trim_end_matches("/{device}") {
            "/api/v1/l1map" => vec!["?x=1&y=1".to_owned()],
            "/api/v1/peak" => vec![format!("?pid={}&of=l1", self.pid)],
            "/api/v1/record" => vec![format!("?pid={}&redact=true", self.pid)],
            _alone => Vec::new(),
        });
        let devices: &[&str] = if path.contains("{device}") {
            &["0", "1", "5", "0xabc"]
        } else {
            &[""]
        };
        let filled = |device: &&str| path.replace("{device}", device);
        let paths: BTreeSet<String> = devices.iter().map(filled).collect();
        let all = paths.iter().flat_map(|path| {
            let queries = queries.iter();
            queries.map(move |query| format!("{path}{query}"))
        });
        all.collect()
    }

    /// What to ask for with a parameter: every word that it takes, or something that finds what is secret.
    fn values(&self, name: &str, schema: &Value, description: &Value) -> Vec<String> {
        let words = words_of(schema, description);
        if !words.is_empty() {
            return words;
        }
        let own: &[&str] = match name {
            "pid" => return vec![self.pid.to_string()],
            "device" => &["0", "1"],
            "unique_id" => &["0xabc"],
            "instance" => &["07070707070707070707070707070707"],
            "at" | "from" | "to" | "since" => &["2000-01-01T00:00:00Z", "2100-01-01T00:00:00Z"],
            "redact" | "descending" => &["true", "false"],
            "find" | "operation" | "python" => &["model", "zq"],
            "name" => &["other"],
            "max_bytes" => &["1000000"],
            "x" | "y" | "after" | "last" | "min_bytes" => &["1"],
            "min_age" | "cursor" | "offset" => &["0"],
            "processes" | "points" | "seconds" | "limit" | "count" | "cells" => &["16"],
            _unknown => &[],
        };
        own.iter().map(|value| (*value).to_owned()).collect()
    }

    /// The code and the whole body of an answer; one that goes on is ended once it is quiet.
    fn ask(&self, method: &str, target: &str) -> (u16, Vec<u8>) {
        let mut connection = self.connect();
        let host = self.tcp.as_deref().unwrap_or("ttmem");
        let method = method.to_uppercase();
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        let (begun, mut ended) = (Instant::now(), false);
        connection.wait_for(QUIET);
        loop {
            match connection.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => answer.extend_from_slice(&buffer[..count]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    // What was not begun is still being made; the rest of a recording comes when it is ended.
                    let goes_on = target.starts_with("/api/v1/events");
                    if goes_on && !answer.is_empty() {
                        break;
                    }
                    let path = target.split('?').next();
                    if path == Some("/api/v1/record") && !ended && !answer.is_empty() {
                        connection.end();
                        ended = true;
                    }
                    assert!(begun.elapsed() < WATCHDOG, "{target} is not answered");
                }
                Err(_reset) => break,
            }
        }
        let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let head = head.expect(target);
        let body = answer.split_off(head + 4);
        let head = String::from_utf8_lossy(&answer).to_lowercase();
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let is_chunked = head.contains("transfer-encoding: chunked");
        let body = if is_chunked { joined(&body) } else { body };
        (code.expect("a code"), body)
    }

    /// All that the old protocol answers.
    fn old_answers(&self) -> Vec<u8> {
        let mut answers = Vec::new();
        let mut client = OldClient::connect(&self.socket, Generation::G4);
        for kind in [RequestKind::DumpRemaining, RequestKind::DumpKernels] {
            client.send(&request(kind, 0, 0, 0, 0));
        }
        for (kind, devices) in [
            (RequestKind::Query, [0, 1, 5]),
            (RequestKind::DeviceInfoQuery, [-1, 0, 5]),
        ] {
            for device in devices {
                answers.extend(client.ask(&request(kind, device, 0, 0, 0)));
            }
        }
        answers
    }
}

/// A connection of either kind.
trait Connection: Read + Write {
    fn wait_for(&self, time: Duration);
    fn end(&self);
}

macro_rules! connections {
    ($($stream:ty),*) => {$(
        impl Connection for $stream {
            fn wait_for(&self, time: Duration) {
                self.set_read_timeout(Some(time)).expect("a timeout");
            }

            fn end(&self) {
                let _gone = self.shutdown(Shutdown::Write);
            }
        }
    )*};
}
connections!(UnixStream, TcpStream);

/// The words that a schema allows.
fn words_of(schema: &Value, description: &Value) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(reference) = schema["$ref"].as_str() {
        let place = reference.trim_start_matches('#');
        words.extend(words_of(
            description.pointer(place).unwrap_or(&Value::Null),
            description,
        ));
    }
    for known in schema["enum"].as_array().into_iter().flatten() {
        words.extend(known.as_str().map(str::to_owned));
    }
    words.extend(schema["const"].as_str().map(str::to_owned));
    for list in ["oneOf", "anyOf", "allOf"] {
        for other in schema[list].as_array().into_iter().flatten() {
            words.extend(words_of(other, description));
        }
    }
    words
}

/// The chunks of a body that came in several; the last may be missing.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|bytes| bytes == b"\r\n") {
        let size = String::from_utf8_lossy(&body[..end]).into_owned();
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let chunk = &body[end + 2..];
        if size == 0 {
            break;
        }
        whole.extend_from_slice(&chunk[..size.min(chunk.len())]);
        body = chunk.get(size + 2..).unwrap_or_default();
    }
    whole
}

/// What a recording has: its notes, and the ledger at its beginning and at its end.
fn opened(body: &[u8]) -> Vec<u8> {
    if !ttmem_record::is_recording(body) {
        return Vec::new();
    }
    let recording = Recording::open(Cursor::new(body.to_vec())).expect("it can be read");
    let mut texts = format!("{:?}", recording.summary()).into_bytes();
    let mut player = Player::new(recording).expect("it can be played");
    player.ledger().save(&mut texts);
    while player.step().expect("it is whole") {}
    player.ledger().save(&mut texts);
    texts
}

/// The names of all texts in a document, in the messages of a stream, or in the labels of metrics.
fn note_all_texts(body: &[u8], texts: &mut BTreeSet<String>) {
    if let Ok(document) = serde_json::from_slice::<Value>(body) {
        note_texts(&document, None, texts);
        return;
    }
    for line in String::from_utf8_lossy(body).lines() {
        if let Some(message) = line.strip_prefix("data:") {
            let message = serde_json::from_str(message).unwrap_or(Value::Null);
            note_texts(&message, None, texts);
        } else if let Some((name, labels)) = line.split_once('{')
            && name.starts_with("ttmem_")
        {
            let keys = labels.split("=\"").filter_map(|part| {
                let key = part.rsplit([',', '{', '"']).next()?;
                let is_key = key
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                (is_key && !key.is_empty()).then(|| key.to_owned())
            });
            texts.extend(keys);
        }
    }
}

/// The names of all fields that are texts, but for keys that are made of values.
fn note_texts(value: &Value, name: Option<&str>, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(_) => texts.extend(name.map(str::to_owned)),
        Value::Array(list) => list.iter().for_each(|each| note_texts(each, name, texts)),
        Value::Object(fields) => {
            for (name, value) in fields {
                note_texts(value, Some(name), texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The body of a process that reads as another user.
pub(crate) fn run_if_asked() {
    let Ok(asked) = std::env::var(ASKED) else {
        return;
    };
    let (reading, out): (Reading, PathBuf) = serde_json::from_str(&asked).expect("JSON");
    // Before it is a user who may not write there.
    let file = File::create(out).expect("a file");
    become_user(reading.user.unwrap_or(0));
    serde_json::to_writer(file, &reading.read()).expect("written");
}
