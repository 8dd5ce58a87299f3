//! Judgements that exist more than once, and codecs, each recognised by a piece of its text.
//!
//! A pattern is searched in every product file of its language, in whichever directory: a copy that moves is still found, and
//! text that is copied to one more file is one more copy. A row changes only where the text of a copy does.

use super::Finding;
use super::sources::{Part, Source};
use std::collections::BTreeSet;

/// The name of a row, a file extension, and text on one line of the copy. The copies of a row are adjacent.
type Pattern = (&'static str, &'static str, &'static str);

const USERS_FRAME: &str = "which frame of a Python stack is the user's";
const GROWING: &str = "which processes grow";
const GREW: &str = "which processes grew until they ended";
const ABOVE_CAPACITY: &str = "which memories are above capacity";
const USAGE_SOURCE: &str = "source of the figures in a bar";
const PARTS_OF_L1: &str = "which parts make up occupied L1";
const FAILURE_HEADING: &str = "heading of a failure";
const LARGEST_FIT: &str = "largest fit in words";
const INCOMPLETE: &str = "reasons of incompleteness in words";

/// Decisions on the meaning of a figure. A row counts while it is found in two files or more.
const JUDGEMENTS: &[Pattern] = &[
    (USERS_FRAME, "rs", r#""/site-packages/""#),
    (USERS_FRAME, "py", r#""/site-packages/""#),
    (
        USERS_FRAME,
        "ts",
        "OTHERS.some((part) => frame.includes(part))",
    ),
    (GROWING, "rs", "{name} grows: {"),
    (GROWING, "ts", "${who} grows: ${"),
    (GREW, "rs", " grew until {until}: "),
    (GREW, "ts", " grew until ${until}: "),
    (ABOVE_CAPACITY, "rs", r#"("DRAM", "charged","#),
    (ABOVE_CAPACITY, "ts", r#"["DRAM", "charged","#),
    // Loops over the processes that have a device open without reporting sizes.
    (USAGE_SOURCE, "rs", "u64::from(!has_sizes(process))"),
    (USAGE_SOURCE, "rs", "is_not_attached() && user.upstream()"),
    (USAGE_SOURCE, "ts", "!hasSizes(process) && process.devices"),
    (PARTS_OF_L1, "rs", "take(device.l1.reserved_bytes"),
    (PARTS_OF_L1, "rs", "reserved.saturating_add(buffers)"),
    (PARTS_OF_L1, "ts", "take(device.l1.reserved_bytes"),
    (FAILURE_HEADING, "rs", r"verdict.as_str().replace('_', "),
    (
        FAILURE_HEADING,
        "ts",
        r#"replaceAll("_", " ").toUpperCase()"#,
    ),
    (LARGEST_FIT, "rs", r#"" ({} x {banks} banks)""#),
    (LARGEST_FIT, "ts", "× ${banks} banks)"),
    (INCOMPLETE, "rs", r#""event lost", "events lost""#),
    (INCOMPLETE, "ts", r#""event lost", "events lost""#),
];

/// Binary codecs written by hand, without that of the old protocol. A row counts while it is found.
const CODECS: &[Pattern] = &[
    ("events and frames", "rs", "trait Field: Sized"),
    ("states", "rs", "trait Codec: Sized"),
    ("recordings", "rs", "fn put_number(out: &mut Vec<u8>"),
    ("recordings", "rs", "fn put_identity(out: &mut Vec<u8>"),
];

pub(super) fn judgements(sources: &[Source]) -> Vec<Finding> {
    find(JUDGEMENTS, 2, sources)
}

pub(super) fn codecs(sources: &[Source]) -> Vec<Finding> {
    find(CODECS, 1, sources)
}

/// The rows that are found in at least this many files.
pub(super) fn find(copies: &[Pattern], least: usize, sources: &[Source]) -> Vec<Finding> {
    let mut found = Vec::new();
    for row in copies.chunk_by(|one, next| one.0 == next.0) {
        let (mut places, mut files) = (Vec::new(), BTreeSet::new());
        for (_name, extension, pattern) in row {
            for source in sources
                .iter()
                .filter(|source| source.extension() == *extension)
            {
                for (line, _text) in source
                    .lines(Part::Product)
                    .filter(|(_, text)| text.contains(pattern))
                {
                    places.push(source.place(line));
                    files.insert(&source.path);
                }
            }
        }
        if files.len() >= least {
            let name = row[0].0.to_owned();
            found.push(Finding { name, places });
        }
    }
    found
}
