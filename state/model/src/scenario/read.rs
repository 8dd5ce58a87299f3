//! Reads scenario files: TOML into the types that are played.
//!
//! Owns the bounds of a file: text, steps, values and lists are limited before
//! anything is built from them, so that no file can exhaust the memory of its
//! reader. What follows from several parts of a file is checked afterwards.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use ttmem_event::catalogue::{BoardKind, DispatchCores};

use super::check;
use super::error::{Located, Problem, ScenarioError};
use super::expression::Number;
use super::script::{DeviceSetup, Expect, Scenario, Step};
use super::value::{Declared, Source};

mod fields;
mod steps;

use steps::{RawStep, RawSteps};

/// Longest file: ten thousand steps of a hundred characters.
///
/// Parsed TOML takes up to 150 times the room of its text.
const TEXT_BYTES: usize = 1 << 20;

/// Steps of a file, over all blocks.
const STEPS: usize = 10_000;

/// Entries of `[values]`.
const VALUES: usize = 256;

/// Longest description, so that a list of scenarios stays a list of lines.
const ABOUT_CHARS: usize = 200;

/// Longest message of the TOML parser that is passed on.
const MESSAGE_CHARS: usize = 600;

impl Scenario {
    /// Reads a scenario, with a library of texts that `blocks_of` can name.
    ///
    /// # Errors
    ///
    /// If the text is no scenario; the error names the file, the line and what was expected. An
    /// error in another text names that.
    pub(super) fn parse_with(
        name: &str,
        text: &str,
        library: &dyn Fn(&str) -> Option<&'static str>,
    ) -> Result<Self, ScenarioError> {
        let in_file = |problem: Located| problem.in_file(name);
        let file = File::parse(text).map_err(in_file)?;
        let mut blocks = BTreeMap::new();
        if let Some(other) = &file.raw.blocks_of {
            let line = file.lines.of_value(other);
            let other = other.as_ref();
            let unknown = || Problem::UnknownScenario {
                name: other.chars().take(64).collect(),
            };
            let text = library(other).ok_or_else(|| in_file(unknown().at(line)))?;
            blocks = blocks_of(text).map_err(|problem| problem.in_file(other))?;
            for step in blocks.values_mut().flatten() {
                step.line = line;
            }
        }
        file.read(name, blocks).map_err(in_file)
    }
}

/// The blocks of another file.
fn blocks_of(text: &str) -> Result<BTreeMap<String, Vec<Step>>, Located> {
    let file = File::parse(text)?;
    if let Some(further) = &file.raw.blocks_of {
        let problem = Problem::BadField {
            field: "blocks_of",
            reason: "this file has blocks of another one itself".to_owned(),
        };
        return Err(problem.at(file.lines.of_value(further)));
    }
    read_blocks(file.raw.blocks, &file.lines)
}

/// A file as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    about: Spanned<String>,
    boards: Spanned<Vec<Spanned<String>>>,
    blocks_of: Option<Spanned<String>>,
    #[serde(default)]
    device: RawDevice,
    #[serde(default)]
    values: BTreeMap<Spanned<String>, Spanned<RawSource>>,
    #[serde(default)]
    blocks: BTreeMap<Spanned<String>, RawSteps>,
    steps: RawSteps,
    #[serde(default)]
    expect: RawExpect,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct RawDevice {
    mesh: Option<Spanned<[u16; 2]>>,
    submesh: Option<Spanned<[u16; 2]>>,
    dispatch: Option<Spanned<String>>,
    fabric: Option<bool>,
    l1_small_size: Option<Spanned<Number>>,
    trace_region_size: Option<Spanned<Number>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct RawExpect {
    leaked_buffers: Option<Number>,
}

/// A number, or a choice.
enum RawSource {
    Fixed(Number),
    Choice(RawRange),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRange {
    from: Number,
    to: Number,
    step: Option<Number>,
}

/// Lines of a text, by the place of a character.
struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            starts: std::iter::once(0).chain(breaks).collect(),
        }
    }

    /// The line of a character, from 1.
    fn at(&self, place: usize) -> usize {
        self.starts.partition_point(|start| *start <= place)
    }

    fn of_value<T>(&self, value: &Spanned<T>) -> usize {
        self.at(value.span().start)
    }
}

/// A file of which each part is TOML, and bounded.
struct File {
    raw: RawScenario,
    lines: Lines,
}

impl File {
    fn parse(text: &str) -> Result<Self, Located> {
        if text.len() > TEXT_BYTES {
            let problem = Problem::TextTooLong {
                bytes: text.len(),
                limit: TEXT_BYTES,
            };
            return Err(problem.into());
        }
        let lines = Lines::of(text);
        let raw: RawScenario = toml::from_str(text).map_err(|error| {
            let problem = Problem::Format {
                message: printable(error.message()),
            };
            match error.span() {
                Some(span) => problem.at(lines.at(span.start)),
                None => problem.into(),
            }
        })?;
        let lists = raw.blocks.values().chain([&raw.steps]);
        let count = lists.map(|RawSteps(steps)| steps.len()).sum();
        limit("steps", count, STEPS)?;
        limit("values", raw.values.len(), VALUES)?;
        Ok(Self { raw, lines })
    }

    /// The scenario; `blocks` are those of another file, which ours replace.
    fn read(
        self,
        name: &str,
        mut blocks: BTreeMap<String, Vec<Step>>,
    ) -> Result<Scenario, Located> {
        let Self { raw, lines } = self;
        blocks.extend(read_blocks(raw.blocks, &lines)?);
        let steps = read_steps(raw.steps.0, &lines)?;
        if steps.is_empty() {
            return Err(Problem::Empty { what: "`steps`" }.into());
        }
        let values = raw
            .values
            .into_iter()
            .map(|(name, source)| read_value(name, source, &lines))
            .collect::<Result<Vec<_>, _>>()?;
        let boards = read_boards(&raw.boards, &lines)?;
        let scenario = Scenario {
            name: name.to_owned(),
            about: read_about(&raw.about).map_err(|p| p.at(lines.of_value(&raw.about)))?,
            device: read_device(&raw.device, &boards, &lines)?,
            boards,
            values: check::in_order(values)?,
            blocks,
            steps,
            expect: Expect {
                leaked_buffers: raw.expect.leaked_buffers.unwrap_or(Number::from(0)),
            },
        };
        check::scenario(&scenario)?;
        Ok(scenario)
    }
}

fn read_blocks(
    raw: BTreeMap<Spanned<String>, RawSteps>,
    lines: &Lines,
) -> Result<BTreeMap<String, Vec<Step>>, Located> {
    let mut blocks = BTreeMap::new();
    for (block, RawSteps(steps)) in raw {
        check::name("block", block.as_ref()).map_err(|p| p.at(lines.of_value(&block)))?;
        blocks.insert(block.into_inner(), read_steps(steps, lines)?);
    }
    Ok(blocks)
}

/// A message of the parser without what a terminal would act on, and not endless.
fn printable(message: &str) -> String {
    message
        .chars()
        .take(MESSAGE_CHARS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn limit(what: &'static str, count: usize, limit: usize) -> Result<(), Problem> {
    if count > limit {
        return Err(Problem::TooMany { what, count, limit });
    }
    Ok(())
}

fn read_steps(raw: Vec<Spanned<RawStep>>, lines: &Lines) -> Result<Vec<Step>, Located> {
    let mut steps = Vec::with_capacity(raw.len());
    for step in raw {
        let line = lines.of_value(&step);
        let action = step.into_inner().action().map_err(|p| p.at(line))?;
        steps.push(Step { line, action });
    }
    Ok(steps)
}

fn read_about(about: &Spanned<String>) -> Result<String, Problem> {
    let about = about.as_ref().trim();
    let reason = if about.chars().any(char::is_control) {
        "one line without control characters"
    } else if about.is_empty() {
        "say what the scenario shows"
    } else if about.chars().count() > ABOUT_CHARS {
        "at most 200 characters"
    } else {
        return Ok(about.to_owned());
    };
    Err(Problem::BadField {
        field: "about",
        reason: reason.to_owned(),
    })
}

fn board(name: &str) -> Result<BoardKind, Problem> {
    BoardKind::from_name(name).ok_or_else(|| {
        let known = BoardKind::ALL.map(BoardKind::name);
        unknown("board", name, &known)
    })
}

fn unknown(what: &'static str, name: &str, expected: &[&str]) -> Problem {
    Problem::UnknownWord {
        what,
        name: name.to_owned(),
        expected: expected.join(", "),
    }
}

fn read_boards(
    names: &Spanned<Vec<Spanned<String>>>,
    lines: &Lines,
) -> Result<Vec<BoardKind>, Located> {
    let mut boards = Vec::new();
    for name in names.as_ref() {
        let board = board(name.as_ref()).map_err(|p| p.at(lines.of_value(name)))?;
        // Several spellings may mean one board, and a list of thousands at most eight.
        if !boards.contains(&board) {
            boards.push(board);
        }
    }
    if boards.is_empty() {
        return Err(Problem::Empty { what: "boards" }.at(lines.of_value(names)));
    }
    Ok(boards)
}

fn read_value(
    name: Spanned<String>,
    source: Spanned<RawSource>,
    lines: &Lines,
) -> Result<(usize, Declared), Located> {
    let line = lines.of_value(&name);
    check::value_name("value", name.as_ref()).map_err(|p| p.at(line))?;
    let source = match source.into_inner() {
        RawSource::Fixed(number) => Source::Fixed(number),
        RawSource::Choice(range) => read_range(range).map_err(|p| p.at(line))?,
    };
    let name = name.into_inner();
    Ok((line, Declared { name, source }))
}

fn read_range(RawRange { from, to, step }: RawRange) -> Result<Source, Problem> {
    let bad = |field, reason: String| Problem::BadField { field, reason };
    let step = step.unwrap_or(Number::from(1));
    if let (Some(from), Some(to)) = (from.literal(), to.literal())
        && from > to
    {
        return Err(bad("from", format!("{from} is more than `to`, {to}")));
    }
    if step.literal() == Some(0) {
        return Err(bad("step", "must not be 0".to_owned()));
    }
    Ok(Source::Range { from, to, step })
}

fn read_device(
    raw: &RawDevice,
    boards: &[BoardKind],
    lines: &Lines,
) -> Result<DeviceSetup, Located> {
    let mut device = DeviceSetup {
        fabric: raw.fabric,
        ..DeviceSetup::default()
    };
    if let Some(dispatch) = &raw.dispatch {
        let name = dispatch.as_ref();
        let kind = DispatchCores::from_name(name).ok_or_else(|| {
            unknown(
                "dispatch",
                name,
                &DispatchCores::ALL.map(DispatchCores::name),
            )
        });
        let kind = kind.map_err(|p| p.at(lines.of_value(dispatch)))?;
        check::dispatch(kind, boards).map_err(|p| p.at(lines.of_value(dispatch)))?;
        device.dispatch = Some(kind);
    }
    for (size, raw) in [
        (&mut device.l1_small_size, &raw.l1_small_size),
        (&mut device.trace_region_size, &raw.trace_region_size),
    ] {
        if let Some(number) = raw {
            let bytes = number.as_ref().evaluate(&());
            *size = bytes.map_err(|error| Problem::from(error).at(lines.of_value(number)))?;
        }
    }
    if let Some(mesh) = &raw.mesh {
        device.mesh = Some((*mesh.as_ref()).into());
        check::mesh(&device, boards).map_err(|p| p.at(lines.of_value(mesh)))?;
    }
    if let Some(submesh) = &raw.submesh {
        device.submesh = Some((*submesh.as_ref()).into());
        check::submesh(&device, boards).map_err(|p| p.at(lines.of_value(submesh)))?;
    }
    Ok(device)
}

#[cfg(test)]
mod tests;
