//! The check against made-up workspaces: a wrong arrow must be named.

use super::*;

const TABLE: &[Rule] = &[
    ("base", Own::Only(&[]), &["tokio"]),
    ("book", Own::Only(&["base"]), &[]),
    ("view", Own::Only(&["base"]), &["book"]),
    ("app", Own::Any, &[]),
    ("not-yet-there", Own::Only(&[]), &[]),
];

fn graphs(trees: &[&str]) -> Vec<Graph> {
    let parse = |tree: &&str| Graph::parse(tree).unwrap();
    trees.iter().map(parse).collect()
}

const BASE: &str = "0base v0.1.0 (/x/base)\n1thiserror v2.0.1\n";
const BOOK: &str = "0book v0.1.0 (/x/book)\n1base v0.1.0 (/x/base)\n2thiserror v2.0.1\n";

#[test]
fn a_workspace_that_follows_the_table_has_no_fault() {
    let app = "0app v0.1.0\n1book v0.1.0\n2base v0.1.0\n1tokio v1.0.0\n1base v0.1.0 (*)\n";
    assert_eq!(faults(TABLE, &graphs(&[BASE, BOOK, app])), [""; 0]);
}

#[test]
fn an_arrow_turned_round_is_named() {
    let turned = "0base v0.1.0\n1book v0.1.0\n2thiserror v2.0.1\n";
    let book = "0book v0.1.0\n1thiserror v2.0.1\n";
    let faults = faults(TABLE, &graphs(&[turned, book]));
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].starts_with("base must not reach book: base -> book\n"),
        "{faults:?}"
    );
}

#[test]
fn a_crate_from_outside_is_found_through_any_number_of_others() {
    let base = "0base v0.1.0\n1bytes v1.0.0\n1net v1.0.0\n2mio v1.0.0\n3tokio v1.0.0\n";
    let faults = faults(TABLE, &graphs(&[base]));
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].contains("base must not reach tokio: base -> net -> mio -> tokio\n"),
        "{faults:?}"
    );
}

#[test]
fn a_crate_that_is_allowed_nothing_is_told_of_what_an_allowed_one_brings() {
    // `view` may use `base`, but not what `base` must not use either.
    let view = "0view v0.1.0\n1base v0.1.0\n2book v0.1.0\n";
    let faults = faults(TABLE, &graphs(&[BASE, BOOK, view]));
    assert_eq!(faults.len(), 1);
    assert!(faults[0].contains("view -> base -> book"), "{faults:?}");
}

#[test]
fn a_crate_without_a_row_is_a_fault() {
    let faults = faults(TABLE, &graphs(&[BASE, "0newcomer v0.1.0 (/x/newcomer)\n"]));
    assert_eq!(faults.len(), 1);
    assert!(faults[0].contains("newcomer is in no row"), "{faults:?}");
}

#[test]
fn text_that_is_no_tree_is_refused() {
    for text in [
        "",
        "base v0.1.0\n",
        "0base v1\n2tokio v1\n",
        "1base v1\n",
        "0\n",
    ] {
        assert!(Graph::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn every_name_in_the_table_has_a_row() {
    let rows: BTreeSet<&str> = RULES.iter().map(|(name, _own, _forbidden)| *name).collect();
    assert_eq!(rows.len(), RULES.len(), "a crate has two rows");
    for (name, own, _forbidden) in RULES {
        if let Own::Only(allowed) = own {
            for other in *allowed {
                assert!(
                    rows.contains(other),
                    "{name} may use {other}, which has no row"
                );
            }
        }
    }
}
