//! Keeps the table of structures in `docs/protocol.md` equal to the code.

use super::{describe, fingerprint};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- generated from the structures: TTMEM_BLESS=1 cargo test -p ttmem-account structures -->\n";
const END: &str = "<!-- end of the structures -->\n";

fn generated() -> String {
    let mut text = format!("\nFingerprint: `{:#018x}`\n\n", fingerprint());
    text += "| structure | fields |\n|---|---|\n";
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    describe(&mut |structure, field, type_name| {
        let field = format!("{field}: {type_name}");
        match rows.last_mut() {
            Some((last, fields)) if *last == structure => fields.push(field),
            _other => rows.push((structure, vec![field])),
        }
    });
    for (structure, fields) in rows {
        let row = format!("| {structure} | {} |", fields.join(" · "));
        // Parameters of a type are not a tag of HTML.
        writeln!(text, "{}", row.replace('<', "\\<")).unwrap();
    }
    text.push('\n');
    text
}

#[test]
fn the_document_has_the_structures_of_a_state() {
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
            "docs/protocol.md is out of date: run `TTMEM_BLESS=1 cargo test -p ttmem-account structures`"
        );
    }
}
