//! Recordings of earlier versions stay readable, and files that lie are refused.

use crate::replay::{START, small_blocks, state};
use crate::session::session;
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::PathBuf;
use ttmem_ledger::{ApplyLimits, Ledger};
use ttmem_record::{OLDEST_VERSION, OpenError, Player, Recording, Until, VERSION, Writer};

fn kept(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/files")
        .join(name)
}

/// What a recording leads to, in words that do not depend on how a state is laid out.
fn described(bytes: &[u8]) -> String {
    let recording = Recording::open(Cursor::new(bytes.to_vec())).unwrap();
    let summary = recording.summary().clone();
    let mut player = Player::new(recording).unwrap();
    let mut text = String::new();
    let mut steps = 0;
    player.play(Until::End, |_, _, _| steps += 1).unwrap();
    let view = player.view();
    view.audit().unwrap();
    writeln!(text, "{steps} steps, {} to {}", summary.from, summary.to).unwrap();
    writeln!(
        text,
        "{} events, {} known",
        summary.events,
        player.ledger().events()
    )
    .unwrap();
    for mark in &summary.marks {
        writeln!(text, "mark {} {} at {}", mark.name, mark.number, mark.at).unwrap();
    }
    writeln!(text, "{} failures", summary.failures.len()).unwrap();
    for device in &view.devices {
        let classes: Vec<_> = device
            .totals
            .classes
            .iter()
            .map(|class| {
                (
                    class.charged.bytes(),
                    class.charged.peak().bytes,
                    class.buffers,
                )
            })
            .collect();
        writeln!(text, "{} holds {classes:?}", device.facts.logical_id).unwrap();
    }
    for process in &view.processes {
        let identity = &process.facts.identity;
        let rows = process.rows.buffers.len();
        writeln!(
            text,
            "{:?} {} has {rows} buffers",
            identity.pid, identity.name
        )
        .unwrap();
        for (key, value) in process.facts.labels.iter() {
            writeln!(text, "  {key} {value}").unwrap();
        }
    }
    writeln!(text, "{} departed", view.departed.len()).unwrap();
    text
}

/// A recording that begins with the state of a ledger in the middle of its work.
fn sample() -> Vec<u8> {
    let inputs = session(41, 120);
    let (before, after) = inputs.split_at(60);
    let mut ledger = Ledger::default();
    before.iter().for_each(|(_time, input)| {
        ledger.apply(input, ApplyLimits::NONE, None);
    });
    let start = before.last().unwrap().0;
    let mut writer = Writer::new(Vec::new(), small_blocks(), start, &ledger).unwrap();
    for (time, input) in after {
        writer.append(*time, input).unwrap();
    }
    writer.finish().unwrap().out
}

/// With `TTMEM_BLESS=1` a file of a version that has none yet is written; those that are there stay.
#[test]
fn recordings_of_every_version_are_read() {
    let newest = kept(&format!("version-{VERSION}.ttrec"));
    if !newest.exists() && std::env::var_os("TTMEM_BLESS").is_some() {
        std::fs::write(&newest, sample()).unwrap();
        std::fs::write(newest.with_extension("txt"), described(&sample())).unwrap();
    }
    for version in OLDEST_VERSION..=VERSION {
        let path = kept(&format!("version-{version}.ttrec"));
        let bytes = std::fs::read(&path).expect("a recording of every version is kept");
        let expected = std::fs::read_to_string(path.with_extension("txt")).unwrap();
        assert_eq!(described(&bytes), expected, "version {version}");
        let mut recording = Recording::open(Cursor::new(bytes)).unwrap();
        assert_eq!(
            recording.verify().unwrap(),
            None,
            "all states are read as well"
        );
    }
}

#[test]
fn another_version_and_other_files_are_refused_by_name() {
    let mut bytes = sample();
    bytes[8] = 99;
    let sum = crc32fast::hash(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&sum);
    let error = Recording::open(Cursor::new(bytes)).unwrap_err();
    assert!(matches!(error, OpenError::Version(99)));
    assert!(error.to_string().contains("99"), "{error}");
    for other in [&b""[..], b"TTMEMREC", &[0; 200], b"#!/bin/sh\n"] {
        let error = Recording::open(Cursor::new(other.to_vec())).unwrap_err();
        assert!(matches!(error, OpenError::NotARecording));
    }
}

/// A block whose header is sound and whose payload is a gigabyte of nothing in a few bytes.
#[test]
fn a_block_that_unpacks_to_more_than_it_says_is_refused() {
    let nothing = vec![0_u8; 64 << 20];
    let packed = zstd::bulk::compress(&nothing, 1).unwrap();
    assert!(packed.len() < 1 << 16);
    let padding = vec![0; 1 << 18];
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 4, 0];
    let padded = [&packed[..], &skipped, &padding].concat();
    let claims = [(0_u8, 1000_u32), (0, 200 << 20), (1, 1000), (1, 1 << 30)];
    let claims = claims
        .into_iter()
        .flat_map(|claim| [(claim, &packed), (claim, &padded)]);
    for ((kind, says), packed) in claims {
        let mut bytes = sample();
        bytes.truncate(64);
        let writer = Writer::new(Vec::new(), small_blocks(), START, &Ledger::default());
        let start = writer.unwrap().finish().unwrap().out;
        let stored = u32::from_le_bytes(start[72..76].try_into().unwrap()) as usize;
        bytes.extend_from_slice(&start[64..64 + 64 + stored]);
        let mut header = [0; 64];
        header[..4].copy_from_slice(b"TTRB");
        header[4] = kind;
        header[5] = kind;
        let length = u32::try_from(packed.len()).unwrap();
        header[8..12].copy_from_slice(&length.to_le_bytes());
        header[12..16].copy_from_slice(&says.to_le_bytes());
        header[24..32].copy_from_slice(&START.to_le_bytes());
        header[32..40].copy_from_slice(&START.to_le_bytes());
        header[56..60].copy_from_slice(&crc32fast::hash(packed).to_le_bytes());
        let sum = crc32fast::hash(&header[..60]).to_le_bytes();
        header[60..].copy_from_slice(&sum);
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(packed);
        let recording = Recording::open(Cursor::new(bytes)).unwrap();
        let mut player = Player::new(recording).unwrap();
        let is_named = player.recording().damage().is_some_and(|it| it.offset > 64);
        let played = player.play(Until::End, |_, _, _| {});
        assert!(is_named || played.is_err(), "kind {kind}, {says} bytes");
        assert!(state(player.ledger()) == state(&Ledger::default()));
    }
}
