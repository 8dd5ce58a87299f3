//! Explanations as they are printed: recorded moments against a golden file, and the manual's logs
//! against what the program makes of them.

use super::*;
use crate::render::tests::assert_golden;
use std::path::Path;
use ttmem_report::explain::{
    BlockTable, Caller, Failure, Moment, Refused, StorageRefused, Witness, explain,
};
use ttmem_report::{
    BlockOwner, FailedRequest, HeldBlock, MemoryClass, SCHEMA, StorageKind, StorageLimit, Timestamp,
};

const PLAIN: Screen = Screen {
    width: 80,
    color: false,
};

const SECOND: u64 = 1_000_000_000;

/// 2026-11-15 08:25:03 UTC.
const NOW: u64 = 1_794_731_103 * SECOND;

fn moment(failure: Failure) -> Explanation {
    explain(&Moment {
        caller: Caller {
            time: Some(Timestamp::from_unix_nanos(NOW)),
            device_ids: Some(vec![0, 1]),
            pid: Some(4001),
            process: Some("python".into()),
            operation: Some("ttnn.linear".into()),
            python: Some("/home/me/model.py:57 forward".into()),
            is_call_known: true,
        },
        failure,
        witness: Witness::Account,
    })
}

fn block(address: u64, size_bytes: u64, python: &str, seconds_ago: u64) -> HeldBlock {
    HeldBlock {
        address,
        size_bytes,
        owner: BlockOwner {
            pid: Some(4001),
            process: Some("python".into()),
            python: Some(python.into()),
            operation: Some("ttnn.empty".into()),
            class: Some(MemoryClass::L1),
            since: Some(Timestamp::from_unix_nanos(NOW - seconds_ago * SECOND)),
            of_call: false,
        },
    }
}

/// What a reader is shown who may not see the names of the process.
#[test]
fn what_another_user_named_is_said_to_be_hidden() {
    let mut nameless = block(105_824, 262_144, "", 12);
    nameless.owner = BlockOwner {
        process: None,
        python: None,
        operation: None,
        ..nameless.owner
    };
    let refused = Failure::Refused(Refused {
        request: FailedRequest {
            class: Some(MemoryClass::L1),
            requested_bytes: Some(1_300_000 * 64),
            banks: Some(64),
            need_bytes_per_bank: Some(1_300_000),
            ..FailedRequest::default()
        },
        table: Some(BlockTable {
            base: 105_824,
            bank_bytes: 1_393_312,
            blocks: vec![nameless],
        }),
        ..Refused::default()
    });
    let hidden = Explanation {
        process: None,
        operation: None,
        python: None,
        names_hidden: true,
        ..moment(refused)
    };
    let failures = Failures {
        schema: SCHEMA,
        failures: vec![hidden],
        omitted: 0,
    };
    let text = explained(&failures, PLAIN);
    let said = text.matches("hidden: another user's").count();
    // The process, its operation and line, and whose the block is.
    assert!(said >= 4, "{text}");
    assert!(text.contains("pid 4001 hidden: another user's"), "{text}");
    let holders = text.lines().find(|line| line.contains("12 s"));
    assert!(
        holders.is_some_and(|line| line.ends_with("hidden: another user's")),
        "{text}"
    );
}

#[test]
fn recorded_moments() {
    let blocks = vec![
        block(105_824, 262_144, "/home/me/model.py:10 load", 3725),
        block(630_112, 65_536, "/home/me/model.py:41 forward", 12),
        block(1_219_936, 279_200, "/home/me/model.py:10 load", 3700),
    ];
    let refused = Failure::Refused(Refused {
        request: FailedRequest {
            class: Some(MemoryClass::L1),
            requested_bytes: Some(600_000 * 64),
            banks: Some(64),
            need_bytes_per_bank: Some(600_000),
            ..FailedRequest::default()
        },
        alignment: Some(32),
        table: Some(BlockTable {
            base: 105_824,
            bank_bytes: 1_393_312,
            blocks: blocks.clone(),
        }),
        ..Refused::default()
    });
    let clash = Failure::Storage(StorageRefused {
        storage: StorageKind::DataflowBuffers,
        met: StorageLimit::L1Buffer,
        program: Some(12),
        cores: Some("[0-0 - 7-7]".into()),
        start: Some(105_824),
        end: 640_000,
        limit: 630_112,
        buffers: Some(blocks[1..].to_vec()),
    });
    let failures = Failures {
        schema: SCHEMA,
        failures: vec![moment(refused), moment(clash)],
        omitted: 3,
    };
    assert_golden("explained.txt", &explained(&failures, PLAIN));
}

/// Names come from logs and other people's processes.
#[test]
fn control_characters_do_not_reach_the_terminal() {
    let log = "Traceback (most recent call last):\n  File \"a\u{7}\u{9b}b.py\", line 1, in f\n\
               Program size (2) too large for kernel config buffer (1) on TENSIX\n";
    let failures = ttmem_report::explain::log::read(log.as_bytes()).unwrap();
    let text = explained(&failures, PLAIN);
    let printable = |c: char| c == '\n' || !c.is_control();
    assert!(text.chars().all(printable), "{text:?}");
}

/// Every log in the manual is followed by what the program prints for it.
#[test]
fn the_manual_shows_what_the_program_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/explain.md");
    let manual = std::fs::read_to_string(&path).unwrap();
    let mut parts = manual.split("```log\n");
    let mut written = parts.next().unwrap().to_owned();
    let mut examples = 0;
    for part in parts {
        let (log, rest) = part.split_once("```\n").unwrap();
        let (between, rest) = rest.split_once("```text\n").unwrap();
        let (_text, rest) = rest.split_once("```\n").unwrap();
        let failures = ttmem_report::explain::log::read(log.as_bytes()).unwrap();
        let text = explained(&failures, PLAIN);
        written.push_str(&format!(
            "```log\n{log}```\n{between}```text\n{text}```\n{rest}"
        ));
        examples += 1;
    }
    assert!(examples >= 6, "{examples}");
    if std::env::var_os("TTMEM_BLESS").is_some() {
        std::fs::write(&path, &written).unwrap();
        return;
    }
    assert!(
        written == manual,
        "docs/explain.md is not what is printed:\n{written}"
    );
}
