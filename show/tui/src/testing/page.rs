//! Words and colours of the terminal view, as the files that the page reads.
//!
//! `TTMEM_BLESS=1 cargo test -p ttmem-tui page` writes them.

use crate::glossary::Word;
use crate::theme::{Background, ColourDepth, Ink, Theme};
use crate::views::device::class_name;
use crate::views::naming::part_name;
use ratatui::style::Color;
use serde_json::json;
use std::path::Path;
use std::{env, fs};
use ttmem_report::MemoryClass;
use ttmem_report::labels::HIDDEN;

/// Colours, by their names in the page.
const COLOURS: [(&str, Ink); 13] = [
    ("key", Ink::Key),
    ("good", Ink::Good),
    ("warning", Ink::Warning),
    ("danger", Ink::Danger),
    ("peak", Ink::Peak),
    ("reserved", Ink::Reserved),
    ("kernel", Ink::Kernel),
    ("cb", Ink::Storage),
    ("l1", Ink::L1),
    ("l1_small", Ink::L1Small),
    ("dram", Ink::Dram),
    ("trace", Ink::Trace),
    ("system", Ink::System),
];

const CSS_HEADER: &str = "\
/* Generated from show/tui/src/theme.rs by `TTMEM_BLESS=1 cargo test -p ttmem-tui page`. */
";

#[test]
fn words_of_the_page_are_current() {
    let glossary: Vec<_> = Word::ALL
        .iter()
        .map(|word| json!({"term": word.term(), "meaning": word.meaning()}))
        .collect();
    let words = json!({
        "generated": "by `TTMEM_BLESS=1 cargo test -p ttmem-tui page` from show/tui/src",
        "hidden": HIDDEN,
        "kinds": {
            "reserved": part_name(Ink::Reserved),
            "cb": part_name(Ink::Storage),
            "l1": part_name(Ink::L1),
            "l1_small": part_name(Ink::L1Small),
            "dram": part_name(Ink::Dram),
            "free": part_name(Ink::Free),
            "trace": class_name(MemoryClass::Trace),
            "system": class_name(MemoryClass::System),
        },
        "glossary": glossary,
    });
    assert_current("words.json", &format!("{words:#}\n"));
}

#[test]
fn colours_of_the_page_are_current() {
    let block = |background: Background| {
        let theme = Theme::new(ColourDepth::True, true).with_background(background);
        let lines = COLOURS.iter().map(|(name, ink)| {
            let Some(Color::Rgb(red, green, blue)) = theme.style(*ink).fg else {
                panic!("{ink:?} has no colour");
            };
            format!("  --{name}: rgb({red}, {green}, {blue});\n")
        });
        lines.collect::<String>()
    };
    let text = format!(
        "{CSS_HEADER}:root {{\n{}}}\n\n:root[data-theme=\"dark\"] {{\n{}}}\n",
        block(Background::Light),
        block(Background::Dark)
    );
    assert_current("colours.css", &text);
}

fn assert_current(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/src");
    let path = folder.join(name);
    if env::var_os("TTMEM_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, text).expect("the file can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "show/web/src/{name} is out of date: run `TTMEM_BLESS=1 cargo test -p ttmem-tui page`"
    );
}
