//! Keeps the generated part of `docs/protocol.md` equal to the event table.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::event::enumerations::NamedCodes;
use crate::event::kinds::{LAYOUT, LAYOUT_HASH};
use crate::event::layout::EventLayout;
use crate::event::{MeshKind, Source};
use crate::wire::VERSION;

const BEGIN: &str =
    "<!-- generated from the event table: TTMEM_BLESS=1 cargo test -p ttmem-event document -->\n";
const END: &str = "<!-- end of the generated part -->\n";

fn fields_of(event: &EventLayout) -> String {
    let mut fields = event.fields.to_vec();
    fields.sort_by_key(|field| field.offset);
    let written = fields
        .iter()
        .map(|field| format!("{} {}: {}", field.offset, field.name, field.type_name));
    written.collect::<Vec<_>>().join(" · ")
}

/// Every word that an event, a definition or a hello uses, in the order of first use.
fn words() -> Vec<(&'static str, NamedCodes)> {
    let fields = LAYOUT.iter().flat_map(|event| event.fields);
    let of_events = fields.map(|field| {
        let name = field.type_name.split(',').next().unwrap_or_default();
        (name, field.values)
    });
    let of_frames = [("MeshKind", MeshKind::VALUES), ("Source", Source::VALUES)];
    let mut words: Vec<(&str, NamedCodes)> = Vec::new();
    for word in of_events.chain(of_frames) {
        if !word.1.is_empty() && !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

fn generated() -> String {
    let mut text = format!("\nLayout hash of version {VERSION}: `{LAYOUT_HASH:#018x}`\n\n");
    text += "| kind | event | fields |\n|--:|---|---|\n";
    for event in LAYOUT {
        let (kind, name, about) = (event.kind, event.name, event.about.trim());
        writeln!(
            text,
            "| {kind} | **{name}** {about} | {} |",
            fields_of(event)
        )
        .unwrap();
    }
    text += "\n| word | numbers |\n|---|---|\n";
    for (name, values) in words() {
        let values = values
            .iter()
            .map(|(number, word)| format!("{number} {word}"));
        let values = values.collect::<Vec<_>>().join(", ");
        writeln!(text, "| {name} | {values} |").unwrap();
    }
    text.push('\n');
    text
}

#[test]
fn the_document_has_the_event_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md");
    let document = fs::read_to_string(&path).expect("the document is in the repository");
    let (before, rest) = document.split_once(BEGIN).expect("the first marker");
    let (found, after) = rest.split_once(END).expect("the second marker");
    let expected = generated();
    if std::env::var_os("TTMEM_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, [before, BEGIN, &expected, END, after].concat()).unwrap();
    } else {
        assert!(
            found == expected,
            "docs/protocol.md is out of date: run `TTMEM_BLESS=1 cargo test -p ttmem-event document`"
        );
    }
}
