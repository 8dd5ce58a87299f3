//! `ttmem check`: a program against a baseline, and the codes by which CI tells what failed.

use crate::support::c_program::{Linked, Workshop};
use crate::support::server::ttmem;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// What `ran.c` takes and leaves behind.
fn figures() -> Value {
    json!({
        "peak_dram": 10 * 12 * 4096, "peak_l1": 0, "peak_l1_small": 64 * 1000,
        "peak_trace": 12 * 10_000, "leaked": 12 * 4096,
    })
}

struct Bench {
    workshop: Workshop,
    program: PathBuf,
    baseline: PathBuf,
}

impl Bench {
    /// `None`, after saying so, where nothing can be compiled.
    fn open() -> Option<Self> {
        let workshop = Workshop::open()?;
        Some(Self {
            program: workshop.program("ran.c", Linked::Dynamically),
            baseline: workshop.path("baseline.json"),
            workshop,
        })
    }

    fn ttmem(&self, words: &[&str]) -> Command {
        let mut command = ttmem();
        command.env("XDG_RUNTIME_DIR", self.workshop.path("empty"));
        command.args(words);
        command
    }

    /// Checks the program with these arguments; its code and what was said.
    fn check(&self, options: &[&str], arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = self.ttmem(&["check", "--no-attach", "--baseline"]);
        command.arg(&self.baseline).args(options).arg("--");
        ended(command.arg(&self.program).args(arguments))
    }

    fn tests(&self) -> Value {
        let text = fs::read_to_string(&self.baseline).expect("a baseline");
        serde_json::from_str::<Value>(&text).expect("JSON")["tests"].clone()
    }

    fn set(&self, tests: &Value) {
        let document = json!({"schema": 1, "tests": tests});
        fs::write(&self.baseline, document.to_string()).expect("written");
    }
}

fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A line on its input lets the program go on; one that does not read has ended.
    let _unread = child.stdin.take().expect("a pipe").write_all(b"\n");
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().expect("it is ours");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn a_program_is_held_against_what_it_took_before() {
    let Some(bench) = Bench::open() else { return };
    bench.set(&json!({"t.py::test_other": {"leaked": 1}}));
    let (code, stdout, said) = bench.check(&["--update", "--name", "ran"], &["exit", "0"]);
    assert_eq!((code, stdout.as_str()), (Some(0), "holding\n"), "{said}");
    assert!(said.contains("ttmem: ran written to "), "{said}");
    let expected = json!({"ran": figures(), "t.py::test_other": {"leaked": 1}});
    assert_eq!(bench.tests(), expected);

    let (code, _stdout, said) = bench.check(&["--name", "ran"], &["exit", "0"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("ttmem: ran is within the baseline"), "{said}");

    let mut tight = figures();
    tight["peak_dram"] = (8 * 12 * 4096).into();
    tight["leaked"] = 0.into();
    bench.set(&json!({"ran": tight}));
    let (code, stdout, said) = bench.check(&["--name", "ran"], &["exit", "0"]);
    assert_eq!((code, stdout.as_str()), (Some(6), "holding\n"), "{said}");
    let difference = said
        .split_once("is above the baseline ")
        .expect("the verdict")
        .1;
    let lines: Vec<&str> = difference.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "  left behind 48.0 KiB, baseline 0 B (+48.0 KiB)",
            "    48.0 KiB in 1: dram of matmul at a line that is not known",
            "  peak dram 480.0 KiB, baseline 384.0 KiB (+96.0 KiB)",
            "    48.0 KiB in 1: matmul at a line that is not known",
        ],
        "{said}"
    );
}

/// Also with the very codes that mean something else here.
#[test]
fn a_program_that_fails_by_itself_is_not_compared() {
    let Some(bench) = Bench::open() else { return };
    bench.set(&json!({"ran": {"leaked": 0}}));
    for own in [1, 6, 7] {
        let own = own.to_string();
        for options in [&["--name", "ran"][..], &["--name", "ran", "--update"]] {
            let (code, _stdout, said) = bench.check(options, &["exit", &own]);
            assert_eq!(code, Some(7), "{said}");
            assert!(said.contains(&format!("ran ended with code {own}; nothing was compared")));
            assert_eq!(bench.tests(), json!({"ran": {"leaked": 0}}));
        }
    }
}

#[test]
fn what_cannot_be_compared_does_not_pass() {
    let Some(bench) = Bench::open() else { return };
    let (code, stdout, said) = bench.check(&[], &["exit", "0"]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(1), ""),
        "it was not even started"
    );
    assert!(
        said.contains("there is no baseline") && said.contains("--update"),
        "{said}"
    );

    bench.set(&json!({"another": {"leaked": 0}}));
    let (code, _stdout, said) = bench.check(&[], &["exit", "0"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("has no figures of `ran.c.made exit 0`"),
        "{said}"
    );

    // Neither does what has nothing to compare.
    for nothing in [json!({}), json!({"peek_dram": 1})] {
        bench.set(&json!({"ran": nothing}));
        let (code, _stdout, said) = bench.check(&["--name", "ran"], &["exit", "0"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("has no figures of `ran`"), "{said}");
    }

    bench.set(&json!({"another": {"leaked": 0}}));
    let (code, _stdout, said) = bench.check(&["--update"], &["nothing"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nothing was tracked"), "{said}");
    assert_eq!(bench.tests(), json!({"another": {"leaked": 0}}));

    let mut missing = bench.ttmem(&["check", "--no-attach", "--baseline"]);
    missing.arg(&bench.baseline).args(["--", "/nonexistent/x"]);
    assert_eq!(ended(&mut missing).0, Some(127));
}

/// The program does not start: it may take an hour.
#[test]
fn files_that_cannot_be_written_are_known_before_the_program_runs() {
    let Some(bench) = Bench::open() else { return };
    bench.set(&json!({"ran": {"leaked": 0}}));
    let same = bench.baseline.to_str().expect("text").to_owned();
    let (code, stdout, said) = bench.check(&["--report", &same], &["exit", "0"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("name the same file"), "{said}");
    assert_eq!(bench.tests(), json!({"ran": {"leaked": 0}}));

    let mut nowhere = bench.ttmem(&["check", "--no-attach", "--update"]);
    nowhere.args(["--baseline", "/proc/baseline.json", "--"]);
    let (code, stdout, said) = ended(nowhere.arg(&bench.program).args(["exit", "0"]));
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("cannot write the baseline"), "{said}");
}

#[test]
fn a_report_is_compared_like_the_run_that_wrote_it() {
    let Some(bench) = Bench::open() else { return };
    let report = bench.workshop.path("report.json");
    let report = report.to_str().expect("text");
    let mut run = bench.ttmem(&["run", "--no-attach", "--json", "--report", report, "--"]);
    let (code, _stdout, said) = ended(run.arg(&bench.program).args(["exit", "0"]));
    assert_eq!(code, Some(0), "{said}");

    let from = |more: &[&str]| {
        let mut check = bench.ttmem(&["check", "--from", report, "--baseline"]);
        ended(check.arg(&bench.baseline).args(more))
    };
    let (code, stdout, said) = from(&["--update"]);
    assert_eq!((code, stdout.as_str()), (Some(0), ""), "{said}");
    assert_eq!(bench.tests(), json!({"ran.c.made exit 0": figures()}));
    assert_eq!(from(&[]).0, Some(0));
    // The report of a check can be compared as well.
    let (code, _stdout, said) = bench.check(&["--report", report], &["exit", "0"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(from(&[]).0, Some(0));

    fs::write(report, "{}").expect("written");
    let (code, _stdout, said) = from(&[]);
    assert_eq!(code, Some(1));
    assert!(said.contains("no report of `ttmem run --json`"), "{said}");
    assert_eq!(from(&["--", "true"]).0, Some(2));
}
