//! The source files of the checkout, and which of their lines are product and which are tests.

use super::Finding;
use crate::CannotRun;
use crate::command::{program, read, root};
use anyhow::Context;
use std::fs;

/// Languages that are read, by file extension.
const EXTENSIONS: [&str; 3] = ["py", "rs", "ts"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Product,
    Tests,
    /// xtask, benchmarks, the runtime model.
    Other,
}

#[derive(Debug)]
pub(super) struct Source {
    /// Relative to the root.
    pub(super) path: String,
    text: String,
}

impl Source {
    pub(super) fn new(path: &str, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            text: text.into(),
        }
    }

    pub(super) fn extension(&self) -> &str {
        extension(&self.path)
    }

    pub(super) fn part(&self) -> Part {
        part(&self.path)
    }

    pub(super) fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }

    /// A finding in one place.
    pub(super) fn finding(&self, name: &str, line: usize) -> Finding {
        Finding {
            name: name.to_owned(),
            places: vec![self.place(line)],
        }
    }

    /// The lines of a part, with their numbers: after `mod tests {` every line of a file is a test.
    pub(super) fn lines(&self, wanted: Part) -> impl Iterator<Item = (usize, &str)> {
        let mut part = self.part();
        (1..).zip(self.text.lines()).filter(move |(_number, line)| {
            if line.trim_start_matches("pub(crate) ") == "mod tests {" {
                part = Part::Tests;
            }
            part == wanted
        })
    }
}

pub(super) fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_stem, end)| end)
}

/// All files in a language that is read: those that git tracks, and new ones that it does not ignore.
pub(super) fn read_all() -> anyhow::Result<Vec<Source>> {
    let words = ["ls-files", "-z", "--cached", "--others"];
    let listed = read(program("git").args(words).arg("--exclude-standard"));
    let listed = listed.map_err(|error| CannotRun(format!("no list of the files: {error:#}")))?;
    let paths = listed.split('\0');
    let paths = paths.filter(|path| EXTENSIONS.contains(&extension(path)));
    // A file that was just deleted is still listed.
    let mut paths: Vec<&str> = paths.filter(|path| root().join(path).is_file()).collect();
    paths.sort_unstable();
    paths.dedup();
    let load = |path: &str| {
        let text = fs::read_to_string(root().join(path));
        let text = text.with_context(|| format!("cannot read {path}"))?;
        Ok(Source::new(path, text))
    };
    paths.into_iter().map(load).collect()
}

/// The part of a file, by its path.
fn part(path: &str) -> Part {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_in = |names: &[&str]| parent.split('/').any(|name| names.contains(&name));
    let stem = name.split('.').next().unwrap_or_default();
    let is_test_file = matches!(stem.rsplit('_').next(), Some("test" | "tests"));
    let is_bench = ["tests/bench/", "/src/bench/", "/src/bench.rs"];
    if is_bench.iter().any(|part| path.contains(part)) {
        Part::Other
    } else if is_test_file || is_in(&["test", "tests", "testing", "fuzz", "examples"]) {
        Part::Tests
    } else if is_in(&["xtask", "benches", "model"]) {
        Part::Other
    } else {
        Part::Product
    }
}
