//! The book, as mdBook builds it.

use super::SOURCE;
use crate::command::{program, root, target_dir};
use crate::tool;
use anyhow::{Context, bail};
use std::path::PathBuf;

/// mdBook without what watches files and serves them; with the search.
const MDBOOK: &str = "mdbook";
const VERSION: &str = "0.5.4";
const FEATURES: [&str; 1] = ["search"];

/// How mdBook calls what a build has to be free of.
const REMARKS: [&str; 2] = ["WARN", "ERROR"];

/// Builds the book and gives the folder of its pages.
pub(super) fn build() -> anyhow::Result<PathBuf> {
    let mdbook = tool::compiled(MDBOOK, VERSION, &FEATURES)?;
    let built = target_dir().join("guide");
    let mut build = program(mdbook);
    build
        .arg("build")
        .arg(root().join(SOURCE))
        .arg("--dest-dir")
        .arg(&built);
    let output = build.output().context("cannot start mdBook")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || has_remarks(&said) {
        bail!("mdBook is not content with {SOURCE}:\n{}", said.trim_end());
    }
    Ok(built)
}

fn has_remarks(said: &str) -> bool {
    let mut words = said
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    words.any(|word| REMARKS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_told_from_progress() {
        assert!(!has_remarks(
            " INFO Book building has started\n INFO Running the html backend\n"
        ));
        assert!(has_remarks(
            " INFO Running the html backend\n WARN unclosed HTML tag `<b>` found\n"
        ));
    }
}
