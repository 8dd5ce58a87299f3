//! Scenarios as the command line knows them: by name, or from a file of the user's.
//!
//! Called while the command line is parsed, so that an unknown name or a file with a mistake in it
//! is a usage error that says which names there are, or where the mistake is.

use crate::exit::UsageError;
use crate::render::Listed;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use ttmem_event::catalogue::BoardKind;
use ttmem_model::runtime::FailureKind;
use ttmem_model::scenario::script::{Action, Step};
use ttmem_model::scenario::{BuiltIn, Scenario};

/// What is played when nothing else is asked for.
pub(crate) const DEFAULT: &str = "transformer-8b";

/// Scenario files are short: what is larger was not meant to be one.
const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) struct ChosenScenario {
    scenario: Arc<Scenario>,
    /// How it was asked for: another process finds the same one by it.
    asked: String,
    text: Arc<str>,
}

impl ChosenScenario {
    pub(crate) fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Its name, or its file, as it was asked for.
    pub(crate) fn asked(&self) -> &str {
        &self.asked
    }

    /// Its file, whose lines stand for lines of Python.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The board it is played on: the one that was asked for, or its own.
    pub(crate) fn board(&self, asked: Option<BoardKind>) -> Result<BoardKind, UsageError> {
        let boards = &self.scenario.boards;
        let chosen = asked.or(boards.first().copied());
        match chosen.filter(|board| boards.contains(board)) {
            Some(board) => Ok(board),
            None => Err(UsageError(format!(
                "{} is not for {}, only for {}",
                self.asked,
                asked.map_or("any board", BoardKind::name),
                names(boards)
            ))),
        }
    }
}

/// The scenario of that name, or in that file.
pub(crate) fn parse(asked: &str) -> Result<ChosenScenario, String> {
    let (scenario, text) = match Scenario::find(asked) {
        Some(built_in) => (built_in.scenario(), Arc::from(built_in.text)),
        None if is_path(asked) => {
            let text = read(Path::new(asked))?;
            (Scenario::from_text(asked, &text), Arc::from(text))
        }
        None => return Err(unknown()),
    };
    Ok(ChosenScenario {
        scenario: Arc::new(scenario.map_err(|error| error.to_string())?),
        asked: asked.to_owned(),
        text,
    })
}

pub(crate) fn board(text: &str) -> Result<BoardKind, String> {
    BoardKind::from_name(text)
        .ok_or_else(|| format!("the known boards are {}", names(&BoardKind::ALL)))
}

fn names(boards: &[BoardKind]) -> String {
    let names: Vec<&str> = boards.iter().map(|board| board.name()).collect();
    names.join(", ")
}

pub(crate) fn list() -> Vec<Listed> {
    let readable = |built_in: &BuiltIn| built_in.scenario().ok();
    let scenarios = Scenario::built_in().iter().filter_map(readable);
    let listed = scenarios.map(|scenario| {
        let failures = planted_failures(&scenario).into_iter();
        let mut planted: Vec<&str> = failures.map(FailureKind::name).collect();
        if scenario.expect.leaked_buffers.literal() != Some(0) {
            planted.push("leak");
        }
        Listed {
            boards: names(&scenario.boards),
            planted: planted.join(", "),
            name: scenario.name,
            about: scenario.about,
        }
    });
    listed.collect()
}

pub(crate) fn planted_failures(scenario: &Scenario) -> BTreeSet<FailureKind> {
    // A block that nothing runs plants nothing: only what can be reached is looked at.
    let mut planted = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut lists: Vec<&[Step]> = vec![&scenario.steps];
    while let Some(steps) = lists.pop() {
        for step in steps {
            let (Action::Run { block, .. }
            | Action::Trace { block, .. }
            | Action::Attempt { block, .. }) = &step.action
            else {
                continue;
            };
            if let Action::Attempt { failure, .. } = &step.action {
                planted.insert(*failure);
            }
            if seen.insert(block) {
                lists.push(scenario.block(block));
            }
        }
    }
    planted
}

/// What a failure means to whoever meets it.
pub(crate) fn meaning(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::OutOfMemory => {
            "no free block of a bank is large enough; the sum of the free ones may be"
        }
        FailureKind::Clash => "a program's circular buffers would have grown into an L1 buffer",
        FailureKind::BeyondL1 => "a program's circular buffers would not have fitted into L1",
        FailureKind::TraceTooLarge => "the commands of a trace do not fit the trace region",
        FailureKind::ProgramTooLarge => {
            "a program's configuration and code do not fit the config ring"
        }
        FailureKind::Refused => "the runtime does not do this",
    }
}

fn is_path(asked: &str) -> bool {
    asked.contains('/') || asked.ends_with(".toml") || Path::new(asked).is_file()
}

fn read(path: &Path) -> Result<String, String> {
    let name = path.display().to_string();
    let cannot = |error| format!("cannot read {name}: {error}");
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(cannot)?;
    if u64::try_from(text.len()).is_ok_and(|bytes| bytes > MAX_FILE_BYTES) {
        return Err(format!("{name} is too large for a scenario"));
    }
    Ok(text)
}

fn unknown() -> String {
    let names: Vec<&str> = Scenario::built_in()
        .iter()
        .map(|built_in| built_in.name)
        .collect();
    format!(
        "no scenario has that name and no file either; there are {}",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_scenario_can_be_asked_for_and_the_default_is_one() {
        let listed = list();
        assert_eq!(listed.len(), Scenario::built_in().len());
        for scenario in &listed {
            assert_eq!(parse(&scenario.name).unwrap().asked(), scenario.name);
            assert!(!scenario.about.is_empty(), "{}", scenario.name);
        }
        assert!(listed.iter().any(|scenario| scenario.name == DEFAULT));
    }

    #[test]
    fn what_cannot_be_played_is_explained() {
        let unknown = parse("no-such-story").unwrap_err();
        assert!(unknown.contains(DEFAULT), "{unknown}");
        let absent = parse("/nonexistent/story.toml").unwrap_err();
        assert!(absent.contains("/nonexistent/story.toml"), "{absent}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.toml");
        std::fs::write(&path, " ".repeat(2 << 20)).unwrap();
        let large = parse(path.to_str().unwrap()).unwrap_err();
        assert!(large.contains("too large"), "{large}");
        std::fs::write(&path, [0xFF, 0xFE]).unwrap();
        assert!(parse(path.to_str().unwrap()).is_err());
    }
}
