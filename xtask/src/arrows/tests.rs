//! The check against made-up workspaces: a wrong arrow must be named.

use super::*;

const fn folder(
    name: &'static str,
    uses: &'static [&'static str],
    never: &'static [&'static str],
) -> Folder {
    Folder { name, uses, never }
}

const TABLE: Rules = Rules {
    folders: &[
        folder("low", &[], &["tokio"]),
        folder("middle", &["low"], &[]),
        folder("high", &["low", "middle"], &[]),
    ],
    within: &[("low/book", &["low/base"])],
    narrower: &[("high/view", &["middle"])],
};

fn graphs(trees: &[&str]) -> Vec<Graph> {
    let parse = |tree: &&str| Graph::parse(tree, "/x y").unwrap();
    trees.iter().map(parse).collect()
}

/// What is wrong with a crate beside crates that are as they should be.
fn faults_of(tree: &str) -> Vec<String> {
    faults(&TABLE, &graphs(&[BASE, BOOK, SHELF, tree]))
}

const BASE: &str = "0base v0.1.0 (/x y/low/base)\n1thiserror v2.0.1\n";
const BOOK: &str =
    "0book v0.1.0 (/x y/low/book)\n1base v0.1.0 (/x y/low/base)\n2thiserror v2.0.1\n";
const SHELF: &str = "0shelf v0.1.0 (/x y/middle/shelf)\n1base v0.1.0 (/x y/low/base) (*)\n";

#[test]
fn allowed_arrows_are_no_fault() {
    let app = "0app v0.1.0 (/x y/high/app)\n1book v0.1.0 (/x y/low/book)\n2base v0.1.0 (/x y/low/base)\n\
               1tokio v1.0.0\n1shelf v0.1.0 (/x y/middle/shelf)\n2base v0.1.0 (/x y/low/base) (*)\n";
    assert_eq!(faults_of(app), [""; 0]);
}

#[test]
fn arrow_to_a_later_folder_is_named() {
    let turned = "0turned v0.1.0 (/x y/low/turned)\n1shelf v0.1.0 (/x y/middle/shelf)\n";
    assert_eq!(
        faults_of(turned),
        ["low/turned must not reach middle/shelf: low/turned -> middle/shelf"]
    );
}

#[test]
fn arrow_within_a_folder_needs_a_row() {
    let other = "0other v0.1.0 (/x y/low/other)\n1book v0.1.0 (/x y/low/book)\n";
    assert_eq!(
        faults_of(other),
        ["low/other must not reach low/book: low/other -> low/book"]
    );
}

#[test]
fn registry_crate_is_found_through_others() {
    let net = "0n v0.1.0 (/x y/low/n)\n1bytes v1.0.0\n1net v1.0.0\n2mio v1.0.0\n3tokio v1.0.0\n";
    assert_eq!(
        faults_of(net),
        ["low/n must not reach tokio: low/n -> net -> mio -> tokio"]
    );
}

#[test]
fn narrower_rule_of_a_crate_holds_for_what_it_reaches() {
    let view = "0view v0.1.0 (/x y/high/view)\n1app v0.1.0\n2shelf v0.1.0 (/x y/middle/shelf)\n";
    assert_eq!(
        faults_of(view),
        ["high/view must not reach middle/shelf: high/view -> app -> middle/shelf"]
    );
}

#[test]
fn crate_in_an_unknown_folder_is_a_fault() {
    let newcomer = "0newcomer v0.1.0 (/x y/attic/newcomer)\n";
    let faults = faults_of(newcomer);
    assert_eq!(faults.len(), 1);
    assert!(
        faults[0].contains("attic/newcomer is in no folder"),
        "{faults:?}"
    );
}

#[test]
fn text_that_is_not_a_tree_is_refused() {
    for text in [
        "",
        "base v0.1.0\n",
        "0base v1\n2tokio v1\n",
        "1base v1\n",
        "0\n",
    ] {
        assert!(Graph::parse(text, "/x").is_err(), "{text:?}");
    }
}

#[test]
fn folders_only_use_folders_above_them() {
    for (place, folder) in FOLDERS.iter().enumerate() {
        for used in folder.uses {
            let above = FOLDERS[..place].iter();
            assert!(
                above.into_iter().any(|above| above.name == *used),
                "{} uses {used}",
                folder.name
            );
        }
    }
}

#[test]
fn rows_of_single_crates_name_crates_that_exist() {
    let names = WITHIN
        .iter()
        .flat_map(|(user, used)| used.iter().chain([user]));
    let names = names.chain(NARROWER.iter().map(|(user, _never)| user));
    for name in names {
        assert!(root().join(name).join("Cargo.toml").is_file(), "{name}");
    }
}
