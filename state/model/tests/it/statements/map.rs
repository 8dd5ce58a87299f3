//! `docs/seeds.md` names tests that exist, and every test beside this module is named there.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder whose modules a prefix of the map stands for.
const SOURCES: [(&str, &str); 4] = [
    ("sim::", "state/model/tests/it"),
    ("ledger::", "state/ledger/tests/it"),
    ("e2e::", "tests/e2e"),
    ("server::", "serve/server/src"),
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn map() -> String {
    fs::read_to_string(repository().join("docs/seeds.md")).expect("the map of the notes")
}

/// Whether a test of that path, without its prefix, is in a folder.
fn has_test(folder: &str, path: &str) -> bool {
    let Some((module, test)) = path.rsplit_once("::") else {
        return false;
    };
    let file = repository().join(folder).join(module.replace("::", "/"));
    let source = fs::read_to_string(file.with_extension("rs"));
    source.is_ok_and(|source| source.contains(&format!("#[test]\nfn {test}()")))
}

#[test]
fn every_test_that_the_map_names_exists() {
    let map = map();
    let mut named = 0;
    for code in map.split('`') {
        for (prefix, folder) in SOURCES {
            let path = code.strip_prefix(prefix).filter(|path| *path != "…");
            // This module is named as a whole.
            if let Some(path) = path.filter(|path| *path != "statements::map") {
                assert!(has_test(folder, path), "{code}");
                named += 1;
            }
        }
    }
    assert!(named > 80, "{named} tests are named");
}

#[test]
fn every_test_of_a_statement_is_in_the_map() {
    let map = map();
    for module in [
        "binaries",
        "dispatch",
        "fast_dispatch",
        "mesh_cbs",
        "per_core",
    ] {
        let folder = "state/model/tests/it/statements";
        let file = repository().join(folder).join(module).with_extension("rs");
        let source = fs::read_to_string(file).expect(module);
        let tests = source.split("#[test]\nfn ").skip(1);
        for test in tests.filter_map(|text| text.split_once('(')) {
            let path = format!("`sim::statements::{module}::{}`", test.0);
            assert!(map.contains(&path), "{path} is not in the map");
        }
    }
}

#[test]
fn every_row_says_where_it_is_shown_or_why_it_is_superseded() {
    let map = map();
    let mut notes = std::collections::BTreeMap::new();
    for row in map.lines().filter(|row| row.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _statement, shown] = cells[..] else {
            panic!("{row}");
        };
        if number == "no." {
            continue;
        }
        let (note, number) = number.split_at(1);
        let expected = notes.entry(note.to_owned()).or_insert(0);
        *expected += 1;
        assert_eq!(number.parse(), Ok(*expected), "{row}");
        let says = ["`", "superseded", "done: "]
            .iter()
            .any(|word| shown.contains(word));
        assert!(says, "{row}");
    }
    assert_eq!(notes.into_keys().collect::<String>(), "ABCDE");
}
