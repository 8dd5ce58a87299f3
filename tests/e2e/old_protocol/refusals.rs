//! Reports that cannot be booked: counted, named, and without effect.

use crate::support::old_client::{OldClient, request};
use crate::support::server::{TestServer, ttmem};
use crate::support::wait_until;
use std::process::Stdio;
use ttmem_event::legacy::{Generation, RequestKind, Totals};

#[test]
fn bad_devices_sizes_and_types_are_counted_and_reported_even_when_quiet() {
    for options in [&[][..], &["--quiet"]] {
        let server = TestServer::start(options);
        let mut client = OldClient::connect(&server.socket(), Generation::G4);
        client.send_all(&[
            request(RequestKind::Alloc, 5000, 64, 0, 0x10),
            request(RequestKind::Alloc, 0, 0, 0, 0x20),
            request(RequestKind::Alloc, 0, u64::MAX, 0, 0x30),
            request(RequestKind::Alloc, 0, 64, 9, 0x40),
            request(RequestKind::Free, 0, 0, 0, 0x50),
        ]);
        assert_eq!(client.totals(0), Totals::default());
        let anomalies = server.status()["anomalies"].clone();
        for kind in [
            "invalid_device",
            "zero_size",
            "absurd_size",
            "invalid_class",
            "unknown_free",
        ] {
            assert_eq!(anomalies[kind], 1, "{kind} in {anomalies}");
        }
        assert_eq!(server.process(std::process::id())["anomalies"], 5);
        for line in [
            "Invalid device_id 5000 - ignoring message",
            "Invalid size 0 - ignoring message",
            "Invalid size 18446744073709551615 - ignoring message",
            "Invalid buffer_type 9 for buffer 64 on device 0",
        ] {
            wait_until(line, || server.log().contains(line));
        }
    }
}

#[test]
fn refusals_go_to_standard_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("ttmem.sock");
    let errors = std::fs::File::create(folder.path().join("err.log")).expect("a file");
    let mut child = ttmem()
        .args(["serve", "--quiet", "--socket"])
        .arg(&socket)
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .expect("the server starts");
    wait_until("the server listens", || {
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    let mut client = OldClient::connect(&socket, Generation::G2);
    client.send(&request(RequestKind::Alloc, 4000, 64, 0, 0x10));
    client.send(&request(RequestKind::Alloc, 0, 64, 200, 0x20));
    client.totals(0);
    let read = || std::fs::read_to_string(folder.path().join("err.log")).expect("text");
    wait_until("both are on standard error", || {
        read().contains("4000") && read().contains("Invalid buffer_type 200")
    });
    child.kill().expect("the server is ours");
    child.wait().expect("the server is ours");
}
