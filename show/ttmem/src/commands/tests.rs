//! The reading commands against a real server, and how they fail without one.

use super::{answers, dump, explain, reach, serve};
use crate::cli::{
    ChosenDevice, Cli, Command, DumpOptions, ExplainOptions, HttpOptions, StatusOptions,
};
use crate::exit;
use crate::output::{Output, Screen};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use tempfile::TempDir;
use ttmem_event::legacy::{BufferTypeNumbering, Generation, Request, RequestKind};
use ttmem_reader::{ApiClient, HttpUrl};
use ttmem_server::log::{LogFileOptions, LogOptions, LogTarget};
use ttmem_server::{LogConfig, Server, ServerConfig, ServerHandle, Signals, SocketConfig};

const PLAIN: Screen = Screen {
    width: 80,
    color: false,
};

fn config(directory: &Path) -> ServerConfig {
    ServerConfig {
        sockets: vec![SocketConfig {
            path: directory.join("ttmem.sock"),
            mode: 0o600,
            group: None,
        }],
        http: None,
        machine: None,
        board: None,
        log: LogConfig {
            target: LogTarget::File(LogFileOptions::new(directory.join("log"))),
            options: LogOptions::default(),
        },
        max_clients: 8,
        buffer_types: BufferTypeNumbering::Runtime,
        record: None,
    }
}

/// A server in this process, and an old client of it that holds some memory.
struct Running {
    directory: TempDir,
    handle: ServerHandle,
    serving: Option<JoinHandle<std::io::Result<()>>>,
    _workload: UnixStream,
}

impl Running {
    /// A server with this many buffers of 1 KiB, and a kernel.
    fn with_buffers(count: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(config(directory.path()), Signals::Ignore).unwrap();
        let handle = server.handle();
        let serving = Some(std::thread::spawn(move || server.run()));
        let mut workload = UnixStream::connect(directory.path().join("ttmem.sock")).unwrap();
        let mut bytes = Vec::new();
        for id in 1..=count {
            request(RequestKind::Alloc, 1024, 1, id).encode(Generation::G4, &mut bytes);
        }
        request(RequestKind::KernelLoad, 57_344, 1, 9).encode(Generation::G4, &mut bytes);
        // Answered when all before it is applied.
        request(RequestKind::Query, 0, 0, 0).encode(Generation::G4, &mut bytes);
        workload.write_all(&bytes).unwrap();
        let mut reply = vec![0; Generation::G4.record_bytes()];
        workload.read_exact(&mut reply).unwrap();
        Self {
            directory,
            handle,
            serving,
            _workload: workload,
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("ttmem.sock")
    }

    fn client(&self) -> ApiClient {
        ApiClient::new(reach::socket(Some(self.socket())).unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(serving) = self.serving.take() {
            serving.join().unwrap().unwrap();
        }
    }
}

fn request(kind: RequestKind, size: u64, number: u8, id: u64) -> Request {
    Request {
        kind,
        device_id: 0,
        size,
        buffer_type: number,
        process_id: 4711,
        buffer_id: id,
        timestamp: 0,
    }
}

fn printed(command: impl FnOnce(&mut Output<&mut Vec<u8>>)) -> String {
    let mut bytes = Vec::new();
    command(&mut Output::new(&mut bytes));
    String::from_utf8(bytes).unwrap()
}

fn status_options(json: bool) -> StatusOptions {
    StatusOptions {
        json,
        chosen: ChosenDevice::default(),
        http: HttpOptions::default(),
    }
}

fn dumped(client: &ApiClient, line: &str) -> String {
    let options: DumpOptions = match Cli::parsed(line.split(" ")).unwrap().0.command {
        Command::Dump(options) => options,
        other => panic!("{other:?}"),
    };
    printed(|output| dump::run(client, &options, PLAIN, output).unwrap())
}

#[test]
fn status_as_text_and_as_json() {
    let running = Running::with_buffers(3);
    let client = running.client();
    let text = status_options(false);
    let page = printed(|output| answers::status(&client, &text, PLAIN, output).unwrap());
    assert!(page.contains("Device 0  unknown board, legacy"), "{page}");
    let json = status_options(true);
    let document = printed(|output| answers::status(&client, &json, PLAIN, output).unwrap());
    let snapshot: ttmem_report::Snapshot = serde_json::from_str(&document).unwrap();
    assert_eq!(snapshot.devices[0].l1.charged_bytes, 3 * 1024);
    assert_eq!(snapshot.processes[0].claimed_pid, Some(4711));
}

#[test]
fn dumps_follow_the_pages_up_to_the_limit() {
    let running = Running::with_buffers(20_003);
    let client = running.client();
    let all = dumped(&client, "ttmem dump");
    assert_eq!(all.lines().count(), 20_003 + 2);
    assert!(all.ends_with("20003 buffers, 19.5 MiB on all devices together\n"));
    let some = dumped(&client, "ttmem dump --limit 10001");
    assert_eq!(some.lines().count(), 10_001 + 3);
    assert!(some.ends_with("there are more: raise --limit\n"), "{some}");

    let json = dumped(&client, "ttmem dump --json");
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["buffers"].as_array().unwrap().len(), 20_003);
    assert_eq!(
        (&document["schema"], &document["complete"]),
        (&1.into(), &true.into())
    );
    let json = dumped(&client, "ttmem dump --json --kernels --cbs --limit 1");
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["kernels"][0]["total_bytes"], 57_344);
    assert_eq!(document["cbs"], serde_json::json!([]));
    assert_eq!(document["complete"], true);
    let json = dumped(&client, "ttmem dump --json --limit 20002");
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["complete"], false);
}

#[test]
fn forgetting_says_what_was_released() {
    let running = Running::with_buffers(2);
    let client = running.client();
    let pid = std::process::id();
    let said = printed(|output| answers::forget(&client, pid, output).unwrap());
    assert_eq!(
        said,
        format!("forgot pid {pid}: 2 buffers, 0 CBs, 1 kernel, 58.0 KiB\n")
    );
    let error = answers::forget(&client, u32::MAX, &mut Output::new(Vec::new())).unwrap_err();
    assert_eq!(exit::code_of(&error), 1);
    assert!(format!("{error:#}").contains("404"), "{error:#}");
}

#[test]
fn a_mark_is_set_and_told() {
    let running = Running::with_buffers(2);
    let client = running.client();
    let said = printed(|output| answers::mark(&client, "warm-up", output).unwrap());
    assert_eq!(said, "mark warm-up set\n");
    let said = printed(|output| answers::mark(&client, "", output).unwrap());
    assert_eq!(said, "mark set\n");
    let names: Vec<String> = client
        .snapshot()
        .unwrap()
        .marks
        .into_iter()
        .map(|mark| mark.name)
        .collect();
    assert_eq!(names, ["warm-up", ""]);
    let error = answers::mark(&client, "\u{1b}[31m", &mut Output::new(Vec::new())).unwrap_err();
    assert!(
        format!("{error:#}").contains("control character"),
        "{error:#}"
    );
}

#[test]
fn a_second_server_on_the_socket_is_refused_with_its_own_code() {
    let running = Running::with_buffers(0);
    let second = Server::start(config(running.directory.path()), Signals::Ignore);
    let error = anyhow::Error::new(second.unwrap_err());
    assert_eq!(exit::code_of(&error), 4, "{error:#}");
}

#[test]
fn without_a_server_the_sockets_that_were_tried_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent");
    let stale = directory.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    let error = reach::first_running(
        vec![absent.clone(), stale.clone()],
        |_path| true,
        |path| ApiClient::new(path),
    )
    .unwrap_err();
    assert_eq!(exit::code_of(&error), 3);
    let message = error.to_string();
    assert!(message.contains("absent or /"), "{message}");
    assert!(
        message.ends_with("stale; start one with `ttmem serve`"),
        "{message}"
    );

    let running = Running::with_buffers(0);
    let found = reach::first_running(
        vec![absent, stale, running.socket()],
        |_path| true,
        |path| ApiClient::new(path),
    )
    .unwrap();
    assert_eq!(found, running.socket());
}

#[test]
fn anothers_server_is_asked_only_by_name() {
    let running = Running::with_buffers(0);
    let socket = running.socket();
    let error = reach::first_running(
        vec![socket.clone()],
        |_path| false,
        |path| ApiClient::new(path),
    )
    .unwrap_err();
    assert_eq!(exit::code_of(&error), 3);
    let message = error.to_string();
    assert!(message.contains(&socket.display().to_string()), "{message}");
    assert!(message.ends_with("--socket to ask it"), "{message}");
    assert_eq!(reach::socket(Some(socket.clone())).unwrap(), socket);
}

#[test]
fn a_url_is_asked_with_the_token_of_its_file() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = HttpUrl::from(listener.local_addr().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    let absent = HttpOptions {
        http: Some(url.clone()),
        http_token_file: Some(file.clone()),
    };
    let error = reach::client(None, &absent).unwrap_err();
    assert_eq!(exit::code_of(&error), 1);
    let message = format!("{error:#}");
    assert!(message.contains("cannot read the token file"), "{message}");
    std::fs::write(&file, "s3cret\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let client = reach::client(None, &absent).unwrap();
    let asked = std::thread::spawn(move || client.healthy().unwrap_err());
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = vec![0; 1000];
    let count = stream.read(&mut request).unwrap();
    let request = String::from_utf8_lossy(&request[..count]).into_owned();
    assert!(request.contains("Bearer s3cret\r\n"), "{request}");
    drop((stream, listener));
    drop(asked.join().unwrap());
    let alone = HttpOptions {
        http: Some(url.clone()),
        http_token_file: None,
    };
    let client = reach::client(None, &alone).unwrap();
    let mut output = Output::new(Vec::new());
    let error = answers::status(&client, &status_options(true), PLAIN, &mut output).unwrap_err();
    assert_eq!(exit::code_of(&error), 3);
    assert!(error.to_string().contains(&url.to_string()), "{error}");
}

#[test]
fn a_reader_that_left_ends_a_dump() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let running = Running::with_buffers(1);
    let options = status_options(true);
    let error = answers::status(&running.client(), &options, PLAIN, &mut Output::new(Gone));
    assert_eq!(exit::code_of(&error.unwrap_err()), 0);
}

#[test]
fn a_named_socket_replaces_both_others() {
    let served = |line: &str| -> Vec<PathBuf> {
        let cli = Cli::parsed(line.split(" ")).unwrap().0;
        let Command::Serve(options) = cli.command else {
            panic!("{line}");
        };
        let config = serve::config(&options, cli.socket, PathBuf::from("/run/ttmem.sock")).unwrap();
        config
            .sockets
            .into_iter()
            .map(|socket| socket.path)
            .collect()
    };
    let old = "/tmp/tt_allocation_server.sock";
    let paths = |paths: &[&str]| -> Vec<PathBuf> { paths.iter().map(PathBuf::from).collect() };
    assert_eq!(served("ttmem serve"), paths(&["/run/ttmem.sock", old]));
    assert_eq!(
        served("ttmem serve --no-legacy-socket"),
        paths(&["/run/ttmem.sock"])
    );
    assert_eq!(served("ttmem --socket /a serve"), paths(&["/a"]));
    assert_eq!(
        served(&format!("ttmem serve --socket {old}")),
        paths(&[old])
    );
}

#[test]
fn a_log_is_explained_and_one_without_a_failure_has_a_code_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let explained = |name: &str, log: &[u8], json: bool| {
        let path = directory.path().join(name);
        std::fs::write(&path, log).unwrap();
        let options = ExplainOptions {
            log: Some(path.clone()),
            json,
            http: HttpOptions::default(),
        };
        let failures = explain::of_log(&path).unwrap();
        let mut text = Vec::new();
        let mut output = Output::new(&mut text);
        explain::print(&failures, &options, PLAIN, &mut output).unwrap();
        let found = explain::found(&failures, Some(&path));
        (found, String::from_utf8(text).unwrap())
    };
    let message = b"\xff\x1b[31mCreating trace buffers of size 8192B on device 0, but only 1B is \
                    allocated for trace region.\r\n";
    let (found, text) = explained("failed.log", message, false);
    found.unwrap();
    assert!(text.starts_with("REGION TOO SMALL"), "{text}");
    assert!(text.contains("trace_region_size=8192"), "{text}");
    let (found, json) = explained("failed.log", message, true);
    found.unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["failures"][0]["verdict"], "region_too_small");
    assert_eq!(json["failures"][0]["setting"]["value"], 8192);
    assert!(json["failures"][0]["holders"].is_null());

    let (found, text) = explained("well.log", b"all is well\n", false);
    let error = anyhow::Error::from(found.unwrap_err());
    assert_eq!((exit::code_of(&error), text.as_str()), (5, ""));
    assert!(error.to_string().contains("well.log"), "{error}");
    let (found, json) = explained("well.log", b"all is well\n", true);
    found.unwrap_err();
    assert!(json.contains("\"failures\": []"), "{json}");

    let error = explain::of_log(&directory.path().join("gone.log")).unwrap_err();
    assert_eq!(exit::code_of(&error), 1);
    assert!(format!("{error:#}").contains("gone.log"), "{error:#}");
    // A folder may be one of recordings; this one is not.
    let error = explain::of_log(directory.path()).unwrap_err();
    assert!(format!("{error:#}").contains("no recording"), "{error:#}");
}

#[test]
fn a_server_without_a_failure_says_so() {
    let running = Running::with_buffers(1);
    let failures = explain::newest(&running.client()).unwrap();
    let error = anyhow::Error::from(explain::found(&failures, None).unwrap_err());
    assert_eq!(exit::code_of(&error), 5);
    assert!(error.to_string().contains("no failure"), "{error}");
}
