//! `ttmem fleet` and whatever answers in the place of a Prometheus.
//!
//! What a real one says is tried by `cargo xtask fleet`.

use crate::support::server::ttmem;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Output;

/// Runs `ttmem fleet` against somebody who answers every query with this, until it ends.
fn asked(code: &str, answer: &'static str, options: &[&str]) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Length: {}\r\n\r\n",
        answer.len()
    );
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut request = [0; 8192];
            let length = stream.read(&mut request).unwrap_or(0);
            let asks_time = request[..length].starts_with(b"GET /api/v1/query?query=time%28%29 ");
            let (head, body) = if asks_time && code_is_ok(&head) {
                let body = r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1763430000"]}}"#;
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                (head, body)
            } else {
                (head.clone(), answer)
            };
            let _closed = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    let mut fleet = ttmem();
    fleet.args(["fleet", "--prometheus", &url]).args(options);
    fleet.output().expect("it runs")
}

fn code_is_ok(head: &str) -> bool {
    head.starts_with("HTTP/1.1 200")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn a_prometheus_without_servers_has_a_code_of_its_own() {
    let nothing = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
    let output = asked("200 OK", nothing, &["--json"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let fleet: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(fleet["schema"], 1);
    assert_eq!(fleet["hosts"], serde_json::json!([]));
    assert!(text(&output.stderr).contains("knows no ttmem server"));
    let output = asked("200 OK", nothing, &[]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let printed = text(&output.stdout);
    assert!(printed.starts_with("Prometheus knows no ttmem server yet"));
    assert!(!printed.contains("no problems"), "{printed}");
}

#[test]
fn what_a_label_says_drives_no_terminal() {
    let hostile = r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"instance":"a\u001b]0;x\u0007\u202e:1","class":"dram","device":"\n0"},"value":[1,"0.97"]}]}}"#;
    for options in [&[][..], &["--json"]] {
        let output = asked("200 OK", hostile, options);
        assert!(output.status.success(), "{output:?}");
        let printed = text(&output.stdout);
        let raw = |sign: char| sign != '\n' && ttmem_report::is_deceptive(sign);
        assert_eq!(printed.chars().find(|sign| raw(*sign)), None, "{printed}");
        assert!(printed.contains("]0;x"), "{printed}");
        // As a share it can be, as a number of devices not.
        let note = if options.is_empty() {
            "that cannot be"
        } else {
            "impossible_example"
        };
        assert!(printed.contains(note), "{printed}");
        assert!(!printed.contains("tracking of"), "{printed}");
    }
}

#[test]
fn refusals_and_nonsense_say_what_happened() {
    let refused = r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#;
    let output = asked("503 Service Unavailable", refused, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("503: query timed out"));
    for code in ["200 OK", "404 Not Found"] {
        let output = asked(code, "<html>not a Prometheus</html>", &[]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains("does not answer like Prometheus"));
    }
    let run = |words: &[&str]| ttmem().arg("fleet").args(words).output().expect("it runs");
    let output = run(&["--prometheus", "http://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let output = run(&["--prometheus", "https://prometheus.example"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("tunnel"));
    assert_eq!(run(&[]).status.code(), Some(2));
}
