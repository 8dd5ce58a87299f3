//! Checks what no field shows alone: blocks that exist, values that are known.
//!
//! Everything here is bounded by the length of the file: each block is looked into
//! once, however often it is run.

use std::collections::{BTreeMap, BTreeSet};

use ttmem_event::catalogue::{BoardKind, DispatchCores};

use super::error::{Located, Problem};
use super::expression::{NameTemplate, Number, is_name};
use super::script::{Action, DeviceSetup, Memory, Scenario, Step};
use super::value::{Declared, Givens};
use crate::board::whole_mesh;

/// Blocks within blocks.
const DEPTH: usize = 32;

/// Refuses what cannot name a block, a trace or an attribute.
pub(super) fn name(what: &'static str, name: &str) -> Result<(), Problem> {
    if is_name(name) {
        return Ok(());
    }
    Err(Problem::BadName {
        what,
        // Long ones would fill the screen.
        name: name.chars().take(64).collect(),
    })
}

/// Refuses what cannot name a value, or names one that every scenario has.
pub(super) fn value_name(what: &'static str, value: &str) -> Result<(), Problem> {
    name(what, value)?;
    if Givens::NAMES.contains(&value) {
        return Err(Problem::TakenName {
            what,
            name: value.to_owned(),
            meaning: "value that every scenario has",
        });
    }
    Ok(())
}

/// Refuses a way to dispatch that one of the boards does not have.
pub(super) fn dispatch(dispatch: DispatchCores, boards: &[BoardKind]) -> Result<(), Problem> {
    let unable = boards
        .iter()
        .find(|board| board.compute_grid(dispatch).is_none());
    match unable {
        None => Ok(()),
        Some(board) => Err(Problem::NoSuchDispatch {
            board: board.name(),
            dispatch: dispatch.name(),
        }),
    }
}

/// Refuses a mesh that one of the boards does not have.
pub(super) fn mesh(device: &DeviceSetup, boards: &[BoardKind]) -> Result<(), Problem> {
    for board in boards {
        let (rows, columns) = device.mesh_on(*board);
        let (whole_rows, whole_columns) = whole_mesh(*board);
        // A line of chips may turn corners, so only their number matters.
        let chips = u32::from(rows) * u32::from(columns);
        if chips == 0 || chips > u32::from(whole_rows) * u32::from(whole_columns) {
            return Err(too_large(*board, whole_mesh(*board), (rows, columns)));
        }
    }
    Ok(())
}

/// Refuses meshes that a mesh cannot be cut into.
pub(super) fn submesh(device: &DeviceSetup, boards: &[BoardKind]) -> Result<(), Problem> {
    for board in boards {
        let whole = device.mesh_on(*board);
        let part = device.submesh_on(*board);
        let divides = |part: u16, whole: u16| part > 0 && whole.is_multiple_of(part);
        if !divides(part.0, whole.0) || !divides(part.1, whole.1) {
            return Err(too_large(*board, whole, part));
        }
    }
    Ok(())
}

fn too_large(board: BoardKind, whole: (u16, u16), wanted: (u16, u16)) -> Problem {
    let shape = |(rows, columns): (u16, u16)| format!("{rows}x{columns}");
    Problem::MeshTooLarge {
        board: board.name(),
        whole: shape(whole),
        wanted: shape(wanted),
    }
}

/// Puts values, with their lines, behind those they need.
pub(super) fn in_order(values: Vec<(usize, Declared)>) -> Result<Vec<Declared>, Located> {
    let names: BTreeSet<&str> = values.iter().map(|(_, v)| v.name.as_str()).collect();
    for (line, value) in &values {
        let mut needed = needed_by(value);
        if let Some(unknown) =
            needed.find(|name| !names.contains(name) && !Givens::NAMES.contains(name))
        {
            let name = unknown.to_owned();
            return Err(Problem::UnknownValue { name }.at(*line));
        }
    }
    let mut waiting = values;
    let mut ordered: Vec<Declared> = Vec::with_capacity(waiting.len());
    let mut known: BTreeSet<String> = Givens::NAMES.map(str::to_owned).into();
    while let Some((first_line, _)) = waiting.first() {
        let first_line = *first_line;
        let (ready, still_waiting): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|(_, value)| needed_by(value).all(|name| known.contains(name)));
        if ready.is_empty() {
            let names: Vec<_> = still_waiting
                .iter()
                .map(|(_, value)| value.name.as_str())
                .collect();
            let names = names.join(", ");
            return Err(Problem::CircularValues { names }.at(first_line));
        }
        for (_, value) in ready {
            known.insert(value.name.clone());
            ordered.push(value);
        }
        waiting = still_waiting;
    }
    Ok(ordered)
}

/// Names that a value is computed from.
fn needed_by(value: &Declared) -> impl Iterator<Item = &str> {
    value.source.numbers().flat_map(Number::names)
}

/// Checks the steps of a scenario against each other.
pub(super) fn scenario(scenario: &Scenario) -> Result<(), Located> {
    let declared = scenario.values.iter().map(|value| value.name.as_str());
    let mut checker = Checker {
        scenario,
        known: declared.chain(Givens::NAMES).collect(),
        traces: steps(scenario)
            .filter_map(|step| match &step.action {
                Action::Trace { name, .. } => Some(name.as_str()),
                _ => None,
            })
            .collect(),
        needs: BTreeMap::new(),
        path: Vec::new(),
    };
    for step in steps(scenario) {
        checker.step(step)?;
    }
    for block in scenario.blocks.keys() {
        checker.needs_of_block(block)?;
    }
    let unknown = checker.needs_of(&scenario.steps)?.needs.into_iter().next();
    if let Some((name, line)) = unknown {
        let name = name.to_owned();
        return Err(Problem::UnknownValue { name }.at(line));
    }
    let leaked = scenario.expect.leaked_buffers.names();
    for name in leaked {
        if !checker.known.contains(name) {
            let name = name.to_owned();
            return Err(Problem::UnknownValue { name }.into());
        }
    }
    Ok(())
}

/// Every step of the file.
fn steps(scenario: &Scenario) -> impl Iterator<Item = &Step> {
    let blocks = scenario.blocks.values().flatten();
    blocks.chain(&scenario.steps)
}

/// What steps need from outside, and how deep they go.
#[derive(Clone, Default)]
struct Needs<'a> {
    /// Names without a value, and a line that uses each.
    needs: BTreeMap<&'a str, usize>,
    /// Blocks within blocks.
    depth: usize,
}

struct Checker<'a> {
    scenario: &'a Scenario,
    /// Names that have a value everywhere.
    known: BTreeSet<&'a str>,
    /// Traces that some step captures.
    traces: BTreeSet<&'a str>,
    /// Blocks that were looked into.
    needs: BTreeMap<&'a str, Needs<'a>>,
    /// Blocks that are being looked into, outermost first.
    path: Vec<&'a str>,
}

impl<'a> Checker<'a> {
    /// What a step names that must exist elsewhere.
    fn step(&self, step: &'a Step) -> Result<(), Located> {
        let problem = match &step.action {
            Action::Replay { trace, .. } | Action::Release { trace }
                if !self.traces.contains(trace.as_str()) =>
            {
                Problem::UnknownTrace {
                    name: trace.clone(),
                }
            }
            Action::Pick { value } => {
                let declared = self.scenario.values.iter().find(|v| v.name == *value);
                match declared {
                    Some(declared) if declared.source.is_choice() => return Ok(()),
                    Some(_) => Problem::NothingToPick {
                        name: value.clone(),
                    },
                    None => Problem::UnknownValue {
                        name: value.clone(),
                    },
                }
            }
            Action::Run {
                variable: Some(variable),
                ..
            } if self.known.contains(variable.as_str()) => Problem::TakenName {
                what: "loop",
                name: variable.clone(),
                meaning: "value of this scenario",
            },
            action => match action.block() {
                Some(block) if !self.scenario.blocks.contains_key(block) => Problem::UnknownBlock {
                    name: block.to_owned(),
                },
                _ => return Ok(()),
            },
        };
        Err(problem.at(step.line))
    }

    fn needs_of_block(&mut self, block: &'a str) -> Result<Needs<'a>, Located> {
        if let Some(needs) = self.needs.get(block) {
            return Ok(needs.clone());
        }
        if let Some(at) = self.path.iter().position(|outer| *outer == block) {
            let mut path = self.path[at..].to_vec();
            path.push(block);
            let path = path.join(" → ");
            let name = block.to_owned();
            return Err(Problem::Recursion { name, path }.into());
        }
        if self.path.len() >= DEPTH {
            return Err(Problem::NestedTooDeep { limit: DEPTH }.into());
        }
        self.path.push(block);
        let mut needs = self.needs_of(self.scenario.block(block))?;
        self.path.pop();
        needs.depth += 1;
        if needs.depth > DEPTH {
            return Err(Problem::NestedTooDeep { limit: DEPTH }.into());
        }
        self.needs.insert(block, needs.clone());
        Ok(needs)
    }

    fn needs_of(&mut self, steps: &'a [Step]) -> Result<Needs<'a>, Located> {
        let mut all = Needs::default();
        for step in steps {
            for name in names(&step.action) {
                if !self.known.contains(name) {
                    all.needs.entry(name).or_insert(step.line);
                }
            }
            if let Some(block) = step.action.block() {
                let inner = self.needs_of_block(block);
                let mut inner = inner.map_err(|problem| problem.or_at(step.line))?;
                if let Action::Run {
                    variable: Some(variable),
                    ..
                } = &step.action
                {
                    inner.needs.remove(variable.as_str());
                }
                all.depth = all.depth.max(inner.depth);
                for (name, line) in inner.needs {
                    all.needs.entry(name).or_insert(line);
                }
            }
            // Each needs a loop around the steps, and these nest no deeper than blocks.
            // Without this bound many names would be handed through many blocks.
            if all.needs.len() > DEPTH {
                let problem = Problem::TooMany {
                    what: "names without a value in one block",
                    count: all.needs.len(),
                    limit: DEPTH,
                };
                return Err(problem.at(step.line));
            }
        }
        Ok(all)
    }
}

/// Names that the expressions of a step need values for.
fn names(action: &Action) -> Vec<&str> {
    let mut names = Vec::new();
    let mut numbers: Vec<&Number> = Vec::new();
    let mut templates: Vec<&NameTemplate> = Vec::new();
    match action {
        Action::Tensor(tensor) => {
            templates.push(&tensor.name);
            numbers.extend(&tensor.shape);
            numbers.extend(memory_numbers(&tensor.memory));
        }
        Action::Op(op) => {
            templates.extend(&op.inputs);
            numbers.extend(op.attributes.iter().map(|(_, number)| number));
            if let Some(output) = &op.output {
                templates.push(&output.name);
                numbers.extend(output.shape.iter().flatten());
                numbers.extend(output.memory.iter().flat_map(memory_numbers));
            }
        }
        Action::Free { names } => templates.extend(names),
        Action::Run { times, .. } | Action::Replay { times, .. } => numbers.push(times),
        Action::Mark { name, number } => {
            templates.push(name);
            numbers.push(number);
        }
        Action::Pause { millis } => numbers.push(millis),
        Action::Pick { .. }
        | Action::Trace { .. }
        | Action::Release { .. }
        | Action::Attempt { .. }
        | Action::ClearProgramCache => {}
    }
    names.extend(templates.into_iter().flat_map(NameTemplate::names));
    names.extend(numbers.into_iter().flat_map(Number::names));
    names
}

fn memory_numbers(memory: &Memory) -> impl Iterator<Item = &Number> {
    memory.sharding.iter().flat_map(|sharding| &sharding.grid)
}
