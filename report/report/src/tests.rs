//! Rules of this crate, as the file that the page reads.
//!
//! `TTMEM_BLESS=1 cargo test -p ttmem-report page` writes it.

use crate::is_deceptive;
use crate::process::REASONS;
use crate::python::{OTHERS, TYPED};
use serde_json::{Map, json};
use std::path::Path;
use std::{env, fs};

#[test]
fn rules_of_the_page_are_current() {
    let incomplete = REASONS.map(|(reason, one, many)| (reason.to_owned(), json!([one, many])));
    let rules = json!({
        "generated": "by `TTMEM_BLESS=1 cargo test -p ttmem-report page` from report/report/src",
        "deceptive": deceptive_ranges(),
        "python": {"others": OTHERS, "typed": TYPED},
        "incomplete": Map::from_iter(incomplete),
    });
    let text = format!("{rules:#}\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../show/web/src/rules.json");
    if env::var_os("TTMEM_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "show/web/src/rules.json is out of date: run `TTMEM_BLESS=1 cargo test -p ttmem-report page`"
    );
}

/// The first and the last character of each range, as numbers.
fn deceptive_ranges() -> Vec<[u32; 2]> {
    let mut ranges: Vec<[u32; 2]> = Vec::new();
    for character in ('\0'..=char::MAX).filter(|each| is_deceptive(*each)) {
        let number = u32::from(character);
        match ranges.last_mut() {
            Some([_first, last]) if *last + 1 == number => *last = number,
            _gap => ranges.push([number, number]),
        }
    }
    ranges
}
