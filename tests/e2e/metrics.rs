//! Metrics and labels: what a scraper reads of real processes, and what those say of where they run.

use crate::support::WATCHDOG;
use crate::support::server::TestServer;
use crate::support::tracked::Tracked;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

const WORK: &[&str] = &["--events", "2000"];

/// The answer to `GET /metrics` with these parameters.
fn scraped(server: &TestServer, query: &str) -> String {
    let mut stream = UnixStream::connect(server.socket()).expect("the server listens");
    stream.set_read_timeout(Some(WATCHDOG)).expect("a timeout");
    asked(&mut stream, query, "")
}

fn asked(stream: &mut (impl Read + Write), query: &str, headers: &str) -> String {
    let head = format!(
        "GET /metrics{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// A workload as a launcher would start it.
fn launched(server: &TestServer, labels: &str) -> Tracked {
    Tracked::start_adapted(&server.socket(), WORK, |command| {
        command
            .env("SLURM_JOB_ID", "4711")
            .env("SLURM_STEP_ID", "0")
            .env("OMPI_COMM_WORLD_RANK", "5")
            .env("OMPI_COMM_WORLD_SIZE", "8")
            .env("TT_MESH_ID", "1")
            .env("TTMEM_LABELS", labels);
    })
}

#[test]
fn a_process_is_labelled_by_its_launcher_and_its_user() {
    let server = TestServer::start(&["--quiet"]);
    let mut tracked = launched(
        &server,
        "team=vision, run = 42 ,nonsense,=,9=x,a=\u{1b}[31m,",
    );
    let account = tracked.account();
    let process = server.process(tracked.pid());
    let labels = &process["labels"];
    for (key, value) in [
        ("job", "4711"),
        ("step", "0"),
        ("rank", "5"),
        ("world_size", "8"),
        ("mesh", "1"),
        ("team", "vision"),
        ("run", "42"),
    ] {
        assert_eq!(labels[key], value, "{labels}");
    }
    assert!(
        labels.get("a").is_none() && labels.get("9").is_none(),
        "{labels}"
    );

    let pid = tracked.pid();
    let text = scraped(&server, "?min_age=0");
    let charged: u64 = process["devices"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|device| device["dram_bytes"].as_u64())
        .sum();
    assert!(charged > 0, "{account}");
    let line = text.lines().find(|line| {
        line.starts_with(&format!("ttmem_process_charged_bytes{{pid=\"{pid}\""))
            && line.contains("class=\"dram\"")
    });
    let line = line.expect("the process has a sample");
    assert!(line.contains("job=\"4711\",rank=\"5\""), "{line}");
    assert!(line.ends_with(&format!(" {charged}")), "{line} {charged}");
    assert!(
        !scraped(&server, "?min_age=3600").contains(&format!("pid=\"{pid}\"")),
        "a process that has just begun is in the sum"
    );

    let output = tracked.end();
    assert!(output.status.success(), "what cannot be read harms nobody");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("TTMEM_LABELS"), "{said}");
    // It is gone, and what it said is still known.
    assert_eq!(server.process(pid)["labels"]["job"], "4711");
}

#[test]
fn over_tcp_metrics_need_the_token_and_have_no_names() {
    for (options, shows_names) in [
        (&["--quiet"][..], false),
        (&["--quiet", "--http-names"], true),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let token = folder.path().join("token");
        std::fs::write(&token, "a-token\n").expect("a file");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&token, mode).expect("its mode");
        let token = token.to_str().expect("text").to_owned();
        let http = ["--http", "127.0.0.1:0", "--http-token-file", &token];
        let server = TestServer::start(&[options, &http].concat());
        let mut tracked = launched(&server, "");
        tracked.account();
        let status = server.status();
        let sockets = status["server"]["sockets"].as_array().expect("a list");
        let urls = sockets.iter().filter_map(|socket| socket.as_str());
        let mut places = urls.filter_map(|url| url.strip_prefix("http://"));
        let place = places.next().expect("it listens on TCP");
        let ask = |headers: &str| {
            let mut stream = TcpStream::connect(place).expect("it listens");
            stream.set_read_timeout(Some(WATCHDOG)).expect("a timeout");
            asked(&mut stream, "?min_age=0", headers)
        };
        assert!(ask("").starts_with("HTTP/1.1 401"));
        let text = ask("Authorization: Bearer a-token\r\n");
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let pid = format!("pid=\"{}\"", tracked.pid());
        assert!(text.contains(&pid), "{text}");
        for private in ["name=", "job=", "rank="] {
            assert_eq!(text.contains(private), shows_names, "{private}: {text}");
        }
    }
}
