//! Servers that answer wrongly, slowly or not at all: the workload runs on unchanged.

use super::support::server::TestServer;
use super::support::tracked::{Tracked, assert_equal_accounts};
use crate::support::is_left_to_the_whole_run;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use ttmem_event::wire::{Frame, FrameKind, PREAMBLE_BYTES, RefusalCode, VERSION, Welcome};

/// A server that treats every connection the same wrong way.
#[derive(Debug)]
struct WrongServer {
    stop: Arc<AtomicBool>,
    connections: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
    folder: Option<tempfile::TempDir>,
}

impl WrongServer {
    fn start(treat: impl Fn(UnixStream) + Send + 'static) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("ttmem.sock")).expect("a socket");
        listener.set_nonblocking(true).expect("a listener");
        let stop = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicU64::new(0));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&connections));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _address)) => {
                        counted.fetch_add(1, Ordering::Relaxed);
                        stream.set_nonblocking(false).expect("a stream");
                        let patience = Some(Duration::from_millis(200));
                        stream.set_read_timeout(patience).expect("a stream");
                        stream.set_write_timeout(patience).expect("a stream");
                        treat(stream);
                    }
                    Err(_nobody) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        Self {
            stop,
            connections,
            thread: Some(thread),
            folder: Some(folder),
        }
    }

    fn folder(&self) -> &Path {
        self.folder.as_ref().expect("there until it ends").path()
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Ends it and gives its place free.
    fn end(mut self) -> tempfile::TempDir {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .take()
            .expect("once")
            .join()
            .expect("no failure");
        let folder = self.folder.take().expect("once");
        std::fs::remove_file(folder.path().join("ttmem.sock")).expect("its socket");
        folder
    }
}

/// Reads preamble and hello away.
fn greet(stream: &mut UnixStream) -> bool {
    let mut bytes = [0; PREAMBLE_BYTES + 8];
    if stream.read_exact(&mut bytes).is_err() {
        return false;
    }
    let (_preamble, header) = bytes.split_at(PREAMBLE_BYTES);
    let length = header.first_chunk().copied().expect("eight bytes");
    let mut hello = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut hello).is_ok()
}

fn welcome() -> Vec<u8> {
    let mut out = Vec::new();
    let welcome = Welcome {
        version: VERSION,
        needs_resync: true,
        server_instance: 1,
        next_sequence: 0,
    };
    Frame::put_welcome(&mut out, &welcome);
    out
}

/// Runs a workload against a wrong server; it ends as if nobody were there, and a right server in
/// the same place is then told everything.
fn check(treat: impl Fn(UnixStream) + Send + 'static) -> String {
    let wrong = WrongServer::start(treat);
    let socket = wrong.folder().join("ttmem.sock");
    let options = ["--events", "30000", "--flush-seconds", "1"];
    let mut workload = Tracked::start(&socket, &options);
    let account = workload.account();
    assert_eq!(account["flushed"], false, "{account}");
    assert_eq!(account["lost_events"], 0, "{account}");
    assert!(wrong.connections() > 0, "it never tried");
    let server = TestServer::start_in(wrong.end(), &["--quiet"]);
    assert_equal_accounts(&server, &account);
    let output = workload.end();
    assert!(output.status.success());
    String::from_utf8(output.stderr).expect("readable")
}

#[test]
fn a_server_that_never_answers() {
    let stderr = check(|stream| {
        let mut stream = stream;
        let _greeted = greet(&mut stream);
        std::thread::sleep(Duration::from_millis(300));
    });
    assert_eq!(stderr, "");
}

#[test]
fn a_server_that_answers_noise() {
    let stderr = check(|mut stream| {
        let _greeted = greet(&mut stream);
        let _gone = stream.write_all(&[0xA5; 4096]);
    });
    assert_eq!(stderr, "");
}

#[test]
fn a_server_that_announces_a_frame_of_four_gigabytes() {
    let stderr = check(|mut stream| {
        let _greeted = greet(&mut stream);
        let _gone = stream.write_all(&[0xFF, 0xFF, 0xFF, 0xFF, 0x81, 0, 0, 0]);
        std::thread::sleep(Duration::from_millis(50));
    });
    assert_eq!(stderr, "");
}

#[test]
fn a_server_that_confirms_what_it_was_never_sent() {
    let stderr = check(|mut stream| {
        if greet(&mut stream) {
            let mut out = welcome();
            Frame::put_ack(&mut out, u64::MAX);
            let _gone = stream.write_all(&out);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(stderr, "");
}

#[test]
fn a_server_that_reads_and_never_confirms() {
    let stderr = check(|mut stream| {
        if greet(&mut stream) && stream.write_all(&welcome()).is_ok() {
            let mut away = [0; 65_536];
            for _read in 0..50 {
                if !stream.read(&mut away).is_ok_and(|count| count > 0) {
                    break;
                }
            }
        }
    });
    assert_eq!(stderr, "");
}

#[test]
fn a_server_that_speaks_as_a_client() {
    let stderr = check(|mut stream| {
        if greet(&mut stream) {
            let mut out = welcome();
            Frame::put(&mut out, FrameKind::ResyncBegin, |_out| {});
            let _gone = stream.write_all(&out);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(stderr, "");
}

#[test]
fn a_server_of_another_version_refuses_and_one_line_says_so() {
    if is_left_to_the_whole_run("it waits for a second attempt") {
        return;
    }
    let stderr = check(|mut stream| {
        if greet(&mut stream) {
            let mut out = Vec::new();
            let reason = "versions 7 to 9 are spoken here, the client speaks 1";
            Frame::put_refused(&mut out, RefusalCode::Version, reason);
            let _gone = stream.write_all(&out);
        }
    });
    let line = "ttmem: the server refuses this process: versions 7 to 9 are spoken here, \
                the client speaks 1\n";
    assert_eq!(stderr, line);
}

#[test]
fn a_server_that_welcomes_again_and_again() {
    let stderr = check(|mut stream| {
        if greet(&mut stream) {
            let _gone = stream.write_all(&welcome().repeat(3));
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(stderr, "");
}
