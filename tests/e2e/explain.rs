//! Failures that the model plays: the server explains them, and what it proposes works.

use super::support::place::source;
use super::support::server::{TestServer, ttmem};
use serde_json::Value;
use std::fs;
use std::process::Output;

/// Where the DRAM of an n150 begins that is handed out.
const DRAM_BASE: u64 = 1_048_640;

/// A scenario of the program's own, to be played with changes.
fn scenario(name: &str) -> String {
    let folder = source("state/model/scenarios");
    fs::read_to_string(folder.join(name).with_extension("toml")).expect("a scenario")
}

/// Plays a scenario on an n150 for a second, again and again; whether it went as it says.
fn play(server: &TestServer, scenario: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("played.toml");
    let others = scenario.lines().map(|line| match line {
        boards if boards.starts_with("boards =") => "boards = [\"n150\"]",
        other => other,
    });
    fs::write(&file, others.collect::<Vec<_>>().join("\n")).expect("a file");
    let output = ttmem()
        .args(["load", "--clients", "1", "--duration", "1", "--json"])
        // Not at full speed: on a fast machine a log would be rotated away.
        .args(["--rate", "20000"])
        .arg("--socket")
        .arg(server.socket())
        .arg("--scenario")
        .arg(&file)
        .output()
        .expect("the load runs");
    output.status.success()
}

fn explain(server: &TestServer, options: &[&str]) -> Output {
    let mut command = ttmem();
    command.arg("explain").args(options);
    command.arg("--socket").arg(server.socket());
    command.output().expect("it runs")
}

/// The newest failure.
fn newest(server: &TestServer) -> Value {
    let output = explain(server, &["--json"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["schema"], 1);
    document["failures"][0].clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn fragmentation_is_explained_and_the_release_makes_it_fit() {
    let server = TestServer::start(&["--quiet"]);
    let output = explain(&server, &[]);
    assert_eq!(output.status.code(), Some(5), "nothing has failed yet");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no failure"));

    let fragmentation = scenario("fragmentation");
    assert!(play(&server, &fragmentation));
    let failure = newest(&server);
    assert_eq!(failure["verdict"], "fragmentation", "{failure}");
    assert_eq!(failure["operation"], "ttnn.zeros");
    assert_eq!(failure["device_ids"], serde_json::json!([0]));
    assert!(failure["pid"].is_u64());
    let line = failure["python"].as_str().unwrap_or_default();
    assert!(
        line.contains(".toml:") && line.ends_with(" one_more"),
        "{line}"
    );
    let request = &failure["request"];
    let need = number(&request["need_bytes_per_bank"]);
    assert!(number(&request["free_bytes_per_bank"]) >= need);
    assert!(number(&request["largest_free_bytes_per_bank"]) < need);
    // The blocks of the account are those of the allocator: nothing is left to doubt.
    assert_eq!(failure["unknown"], serde_json::json!([]), "{failure}");
    let holders = failure["holders"].as_array().expect("known");
    assert_eq!(holders.len(), 1, "all are of one operation: {failure}");
    let release = &failure["release"];
    assert_eq!(number(&release["buffers"]), 1, "{release}");
    assert!(number(&release["free_bytes"]) >= need);
    let map = failure["map"].as_array().expect("known");
    let crossed: Vec<&Value> = map.iter().filter(|row| row["in_release"] == true).collect();
    assert_eq!(crossed.len(), 1);
    assert_eq!(crossed[0]["address"], release["blocks"][0]["address"]);

    // Blocks are placed one above the other, every second one is left: the address says which it is.
    let block = &release["blocks"][0];
    let place = (number(&block["address"]) - DRAM_BASE) / number(&block["size_bytes"]);
    let kept = (0..number(&holders[0]["buffers"])).map(|i| i * 2);
    let kept = kept.filter(|each| *each != place);
    let kept: Vec<String> = kept.map(|each| format!("\"block.{each}\"")).collect();
    let (_steps, values) = fragmentation.split_once("[values]").expect("values");
    let carried_out = format!(
        r#"about = "the same, and the proposal carried out"
boards = ["n150"]
steps = [
  {{ run = "fill", for = "i", times = "blocks" }},
  {{ run = "thin_out", for = "i", times = "blocks / 2" }},
  {{ attempt = "one_more", fails = "out_of_memory" }},
  {{ free = ["block.{place}"] }},
  {{ run = "one_more" }},
  {{ free = ["large", {}] }},
]

[values]{values}"#,
        kept.join(", ")
    );
    assert!(play(&server, &carried_out), "{carried_out}");

    let text = explain(&server, &[]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.starts_with("FRAGMENTATION"), "{text}");
    assert!(
        text.contains("DRAM is fragmented: `ttnn.zeros` at played.toml:"),
        "{text}"
    );
}

#[test]
fn a_clash_is_explained_with_the_buffers_in_the_way() {
    let server = TestServer::start(&["--quiet"]);
    assert!(play(&server, &scenario("cb-clash")));
    let failure = newest(&server);
    assert_eq!(failure["verdict"], "clash", "{failure}");
    let clash = &failure["clash"];
    assert_eq!(clash["storage"], "circular_buffers");
    assert_eq!(clash["met"], "l1_buffer");
    let (end, limit) = (number(&clash["storage_end"]), number(&clash["limit"]));
    assert_eq!(number(&clash["overlap_bytes"]), end - limit);
    assert!(number(&clash["storage_start"]) < limit, "{clash}");
    let in_the_way = clash["in_the_way"].as_array().expect("known");
    assert_eq!(number(&in_the_way[0]["block"]["address"]), limit);
    let overlaps: u64 = in_the_way
        .iter()
        .map(|each| number(&each["overlap_bytes"]))
        .sum();
    assert!(overlaps > 0 && overlaps <= end - limit, "{clash}");
    let text = String::from_utf8(explain(&server, &[]).stdout).expect("text");
    assert!(text.contains(&format!("{limit} ({limit:#x})")), "{text}");
}

#[test]
fn the_trace_region_that_is_proposed_is_the_smallest_that_works() {
    let server = TestServer::start(&["--quiet"]);
    let small = scenario("trace-too-small");
    assert!(play(&server, &small));
    let failure = newest(&server);
    assert_eq!(failure["verdict"], "region_too_small", "{failure}");
    let setting = &failure["setting"];
    assert_eq!(setting["name"], "trace_region_size");
    let (value, per_bank) = (
        number(&setting["value"]),
        number(&setting["bytes_per_bank"]),
    );
    assert_eq!(value, 12 * per_bank);
    assert_eq!(per_bank % 8192, 0);
    let sized = |bytes: u64| small.replace("\"128K\"", &bytes.to_string());
    let works = |scenario: &str| {
        scenario.replace(
            "attempt = \"capture\", fails = \"trace_too_large\"",
            "run = \"capture\"",
        )
    };
    assert!(play(&server, &works(&sized(value))), "{value} is enough");
    assert!(play(&server, &sized(value - 12 * 8192)), "less is not");
}

#[test]
fn a_small_region_that_is_full_names_its_size() {
    let server = TestServer::start(&["--quiet"]);
    assert!(play(&server, &scenario("l1-small-full")));
    let failure = newest(&server);
    assert_eq!(failure["verdict"], "region_too_small", "{failure}");
    let setting = &failure["setting"];
    assert_eq!(setting["name"], "l1_small_size");
    assert_eq!(setting["given"], 8192);
    let need = number(&failure["request"]["need_bytes_per_bank"]);
    let value = number(&setting["value"]);
    assert!(value > 8192 && value <= 8192 + need + 64, "{failure}");
    let held: u64 = failure["holders"]
        .as_array()
        .expect("known")
        .iter()
        .map(|group| number(&group["bytes_per_bank"]))
        .sum();
    let allocated = &failure["request"]["allocated_bytes_per_bank"];
    assert_eq!(held, number(allocated), "{failure}");
}

#[test]
fn a_log_is_explained_and_one_without_a_failure_has_a_code_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("out.log");
    let run = |text: &str, from_stdin: bool| {
        fs::write(&log, text).expect("a file");
        let mut command = ttmem();
        command.arg("explain");
        if from_stdin {
            command
                .arg("-")
                .stdin(fs::File::open(&log).expect("it is there"));
        } else {
            command.arg(&log);
        }
        command.output().expect("it runs")
    };
    for from_stdin in [false, true] {
        let clash = "TT_THROW: Statically allocated circular buffers in program 453 clash with L1 \
                     buffers on core range [(x=0,y=0) - (x=4,y=0)]. L1 buffer allocated at 622592 \
                     and static circular buffer region ends at 654368\n";
        let found = run(clash, from_stdin);
        assert!(found.status.success(), "{found:?}");
        let text = String::from_utf8(found.stdout).expect("text");
        assert!(text.starts_with("CLASH"), "{text}");
        assert!(text.contains("31776 B"), "{text}");
        let nothing = run("all went well\n", from_stdin);
        assert_eq!(nothing.status.code(), Some(5), "{nothing:?}");
        assert!(nothing.stdout.is_empty());
        let error = String::from_utf8(nothing.stderr).expect("text");
        assert!(error.contains("no message about memory"), "{error}");
    }
    fs::remove_file(&log).expect("it is there");
    let mut missing = ttmem();
    let missing = missing.arg("explain").arg(&log).output().expect("it runs");
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
}

#[test]
fn the_log_has_the_sentence_of_a_failure() {
    for format in ["plain", "json"] {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let name = log.to_str().expect("text");
        let mut server = TestServer::start(&["--log-file", name, "--log-format", format]);
        assert!(play(&server, &scenario("fragmentation")));
        let sentence = newest(&server)["sentence"]
            .as_str()
            .expect("text")
            .to_owned();
        // An orderly end: the log is written on a thread of its own.
        server.signal("TERM");
        assert!(server.wait().success());
        let text = fs::read_to_string(&log).expect("a log");
        let first = text.lines().find(|line| line.contains(&sentence));
        let first = first.unwrap_or_else(|| panic!("{sentence} is not in the {format} log"));
        if format == "json" {
            let line: Value = serde_json::from_str(first).expect("JSON");
            assert_eq!(line["event"], "failed", "{line}");
            assert_eq!(line["verdict"], "fragmentation", "{line}");
        } else {
            assert!(first.starts_with("⚠ [PID "), "{first}");
            assert!(
                first.contains("Failed on device 0: DRAM is fragmented"),
                "{first}"
            );
        }
    }
}
