//! The licences of everything that is linked into the program and the libraries, or embedded with the page.

use crate::command::{cargo, read};
use crate::web;
use anyhow::Context;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// How files with terms begin.
const NAMES: [&str; 4] = ["license", "licence", "copying", "notice"];

/// Each crate with its version, its licence and the texts that it comes with.
pub(super) fn text() -> anyhow::Result<String> {
    let linked = linked()?;
    let metadata = read(&mut cargo([
        "metadata",
        "--format-version",
        "1",
        "--locked",
    ]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("`cargo metadata` is no JSON")?;
    let mut crates = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let name = format!("{} {}", text("name"), text("version"));
        // Those without a source are ours.
        if linked.contains(&name) && !package["source"].is_null() {
            let manifest = Path::new(text("manifest_path"));
            let folder = manifest.parent().context("a manifest lies in a folder")?;
            crates.insert(name, (text("license").to_owned(), terms(folder)?));
        }
    }
    let mut page = String::from("ttmem is linked with these crates, under their terms.\n");
    for (name, (licence, terms)) in crates {
        writeln!(page, "\n==== {name}: {licence}\n")?;
        page.push_str(&terms);
    }
    for (name, licence, folder) in of_page()? {
        writeln!(page, "\n==== {name} (in the page): {licence}\n")?;
        page.push_str(&terms(&folder)?);
    }
    Ok(page)
}

/// What the page has of others: the packages that it depends on, not those that it is built and tested with.
fn of_page() -> anyhow::Result<Vec<(String, String, PathBuf)>> {
    let lock =
        fs::read_to_string(web::folder().join("package-lock.json")).context("no lock file")?;
    let lock: Value = serde_json::from_str(&lock).context("package-lock.json is no JSON")?;
    let packages = lock["packages"].as_object().into_iter().flatten();
    let shipped = packages.filter(|(path, package)| !path.is_empty() && package["dev"] != true);
    let shipped = shipped.map(|(path, package)| {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let name = path.trim_start_matches("node_modules/");
        let name = format!("{name} {}", text("version"));
        (name, text("license").to_owned(), web::folder().join(path))
    });
    Ok(shipped.collect())
}

/// Names and versions of what is linked.
fn linked() -> anyhow::Result<BTreeSet<String>> {
    let words = [
        "tree",
        "--locked",
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
    ];
    let packages = ["ttmem", "ttmem-attach", "ttmem-capi"];
    let packages = packages.iter().flat_map(|name| ["--package", name]);
    let tree = read(&mut cargo(words.into_iter().chain(packages)))?;
    let name = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some(format!("{name} {}", rest.split_whitespace().next()?))
    };
    Ok(tree.lines().filter_map(name).collect())
}

/// The texts with the terms of a crate, one after the other.
fn terms(folder: &Path) -> anyhow::Result<String> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let lower = name.to_lowercase();
        if path.is_file() && NAMES.iter().any(|begin| lower.starts_with(begin)) {
            let text = fs::read(&path)?;
            texts.insert(lower, String::from_utf8_lossy(&text).into_owned());
        }
    }
    Ok(texts.into_values().collect::<Vec<_>>().join("\n"))
}
