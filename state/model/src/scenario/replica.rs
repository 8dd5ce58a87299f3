//! A scenario being played on one mesh: where it stands, and which tensors it holds.
//!
//! The player asks each replica for one step at a time. A block that is run, captured or
//! attempted is a frame; a failure unwinds frames until one that expected it, and what was made
//! since then is given back, as an exception does with the variables of a function.

use super::expression::{EvaluateError, Number};
use super::script::{Action, MAX_PAUSE_MILLIS, MAX_TIMES, OpStep, Scenario, Step, TensorStep};
use super::value::Values;
use crate::runtime::{FailureKind, Mesh, RuntimeError, Trace};
use crate::tensor::TensorSpec;
use crate::ttnn::{Call, OperationError, Tensor, Ttnn};
use std::collections::BTreeMap;
use std::time::Duration;

/// What steps take on a real machine, about; what is not listed takes no time worth showing.
const TENSOR_TAKES: Duration = Duration::from_millis(2);
const OPERATION_TAKES: Duration = Duration::from_millis(1);
const REPLAY_TAKES: Duration = Duration::from_millis(25);

/// The operation that makes a tensor when the file does not name one.
const MAKES_TENSORS: &str = "ttnn.from_torch";

/// What the steps outside of all blocks are called.
const WHOLE: &str = "steps";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Operation(#[from] OperationError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A number has no value.
    #[error(transparent)]
    Value(#[from] EvaluateError),
    /// There is no tensor of that name.
    #[error("there is no tensor `{0}`")]
    NoTensor(String),
    /// There is no trace of that name.
    #[error("there is no trace `{0}`")]
    NoTrace(String),
    /// The failure that was planted did not come.
    #[error("this should have failed with {}", .0.name())]
    DidNotFail(FailureKind),
}

impl StepError {
    /// The kind of failure, if it is one that the runtime has.
    fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Operation(error) => Some(error.kind()),
            Self::Runtime(error) => Some(error.kind()),
            _mistake_in_the_file => None,
        }
    }
}

/// What happened when a replica was asked for a step.
#[derive(Debug)]
pub(super) enum Turn {
    Over,
    Took(PlayedStep),
    /// It failed as planted: the attempt, how, and the runtime's words.
    Failed(PlayedStep, FailureKind, String),
}

/// A step that was played.
#[derive(Debug)]
pub(super) struct PlayedStep {
    pub(super) verb: &'static str,
    pub(super) subject: String,
    pub(super) line: usize,
    pub(super) nominal: Duration,
}

impl PlayedStep {
    const fn new(verb: &'static str, line: usize, nominal: Duration) -> Self {
        Self {
            verb,
            subject: String::new(),
            line,
            nominal,
        }
    }
}

/// A list of steps being walked.
#[derive(Debug)]
struct Frame<'a> {
    steps: &'a [Step],
    next: usize,
    /// The block that it walks, and the line of the step that runs it.
    block: &'a str,
    line: usize,
    /// Rounds that are still to come, and the one that is walked.
    rounds_left: u64,
    round: u64,
    variable: bool,
    end: End,
}

/// What is to be done when a frame ends.
#[derive(Debug)]
enum End {
    Nothing,
    /// A trace that is captured.
    Trace(String, Trace),
    /// A failure that should have come, and how many tensors had been made before.
    Planted(FailureKind, u64),
    /// A trace that is replayed; it has no steps.
    Replay(Trace),
}

/// A scenario being played on one mesh.
#[derive(Debug)]
pub(super) struct Replica<'a> {
    scenario: &'a Scenario,
    mesh: Mesh,
    values: Values<'a>,
    /// By name, numbered in the order in which they were made.
    tensors: BTreeMap<String, (u64, Tensor)>,
    made: u64,
    traces: BTreeMap<String, Trace>,
    frames: Vec<Frame<'a>>,
}

impl<'a> Replica<'a> {
    pub(super) fn new(scenario: &'a Scenario, mesh: Mesh, values: Values<'a>) -> Self {
        let whole = Frame {
            steps: &scenario.steps,
            next: 0,
            block: WHOLE,
            line: 0,
            rounds_left: 0,
            round: 0,
            variable: false,
            end: End::Nothing,
        };
        Self {
            scenario,
            mesh,
            values,
            tensors: BTreeMap::new(),
            made: 0,
            traces: BTreeMap::new(),
            frames: vec![whole],
        }
    }

    /// How many tensors it has in hand.
    pub(super) fn tensors(&self) -> u64 {
        u64::try_from(self.tensors.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn some_names(&self) -> String {
        let names: Vec<&str> = self.tensors.keys().map(String::as_str).take(8).collect();
        names.join(", ")
    }

    pub(super) fn expected_leaks(&self, number: &Number) -> Result<u64, EvaluateError> {
        number.evaluate(&self.values)
    }

    /// Gives back all it has in hand, when nobody will go on.
    pub(super) fn let_go(&mut self, ttnn: &mut Ttnn) {
        for frame in std::mem::take(&mut self.frames) {
            self.end_capture(&frame.end, ttnn);
        }
        for (_number, tensor) in std::mem::take(&mut self.tensors).into_values() {
            // A tensor that is gone already is what is wanted.
            ttnn.deallocate(tensor).ok();
        }
    }

    pub(super) fn step(&mut self, ttnn: &mut Ttnn) -> Result<Turn, (usize, StepError)> {
        loop {
            let Some(frame) = self.frames.last_mut() else {
                return Ok(Turn::Over);
            };
            if let Some(step) = frame.steps.get(frame.next) {
                frame.next += 1;
                return match self.execute(step, ttnn) {
                    Ok(played) => Ok(Turn::Took(played)),
                    Err(error) => self.unwind(step.line, error, ttnn),
                };
            }
            if frame.rounds_left > 0 {
                frame.rounds_left -= 1;
                frame.round += 1;
                frame.next = 0;
                if frame.variable {
                    let round = frame.round;
                    self.values.set_loop(round);
                }
                let (line, replays) = (frame.line, &frame.end);
                if let End::Replay(trace) = *replays {
                    return match ttnn.runtime().replay(trace) {
                        Ok(()) => Ok(Turn::Took(PlayedStep::new("replay", line, REPLAY_TAKES))),
                        Err(error) => self.unwind(line, error.into(), ttnn),
                    };
                }
                // A round is a step, else a block without any would go on unseen.
                return Ok(Turn::Took(PlayedStep::new("run", line, Duration::ZERO)));
            }
            let Some(frame) = self.frames.pop() else {
                return Ok(Turn::Over);
            };
            if frame.variable {
                self.values.leave_loop();
            }
            if let Err(error) = self.end(frame.end, ttnn) {
                return self.unwind(frame.line, error, ttnn);
            }
        }
    }

    fn end(&mut self, end: End, ttnn: &mut Ttnn) -> Result<(), StepError> {
        match end {
            End::Nothing | End::Replay(_) => Ok(()),
            End::Trace(name, trace) => {
                ttnn.runtime().end_trace(trace)?;
                if let Some(old) = self.traces.insert(name, trace) {
                    ttnn.runtime().release(old)?;
                }
                Ok(())
            }
            End::Planted(kind, _before) => Err(StepError::DidNotFail(kind)),
        }
    }

    /// A failure leaves frames until one that expected it; without one, it is the play's.
    fn unwind(
        &mut self,
        line: usize,
        error: StepError,
        ttnn: &mut Ttnn,
    ) -> Result<Turn, (usize, StepError)> {
        let kind = error.kind();
        while let Some(frame) = self.frames.pop() {
            if frame.variable {
                self.values.leave_loop();
            }
            self.end_capture(&frame.end, ttnn);
            if let End::Planted(expected, before) = frame.end
                && kind == Some(expected)
            {
                let since: Vec<(String, (u64, Tensor))> = self
                    .tensors
                    .extract_if(.., |_name, (number, _tensor)| *number > before)
                    .collect();
                for (_name, (_number, tensor)) in since {
                    let freed = ttnn.deallocate(tensor);
                    freed.map_err(|error| (frame.line, error.into()))?;
                }
                let attempt = PlayedStep::new("attempt", frame.line, Duration::ZERO);
                return Ok(Turn::Failed(attempt, expected, error.to_string()));
            }
        }
        Err((line, error))
    }

    fn end_capture(&mut self, end: &End, ttnn: &mut Ttnn) {
        if let End::Trace(_name, trace) = end {
            // It may have been given up already, by its own failure.
            ttnn.runtime().release(*trace).ok();
        }
    }

    /// Plays a step; one that runs others only opens their frame.
    fn execute(&mut self, step: &'a Step, ttnn: &mut Ttnn) -> Result<PlayedStep, StepError> {
        let mut played = PlayedStep::new(step.action.verb(), step.line, Duration::ZERO);
        ttnn.runtime().set_callers(self.callers(step.line));
        match &step.action {
            Action::Tensor(tensor) => {
                played.subject = self.create(tensor, ttnn)?;
                played.nominal = TENSOR_TAKES;
            }
            Action::Op(op) => {
                played.subject.clone_from(&op.operation);
                self.operate(op, ttnn)?;
                played.nominal = OPERATION_TAKES;
            }
            Action::Free { names } => {
                for name in names {
                    let name = name.render(&self.values)?;
                    let found = self.tensors.remove(&name);
                    let (_number, tensor) = found.ok_or(StepError::NoTensor(name))?;
                    ttnn.deallocate(tensor)?;
                }
            }
            Action::Pick { value } => {
                self.values.pick(value)?;
                played.subject.clone_from(value);
            }
            Action::Mark { name, number } => {
                let name = name.render(&self.values)?;
                let number = number.evaluate(&self.values)?;
                ttnn.runtime().mark(&name, number);
                played.subject = name;
            }
            Action::Release { trace } => {
                let found = self.traces.remove(trace);
                let found = found.ok_or_else(|| StepError::NoTrace(trace.clone()))?;
                ttnn.runtime().release(found)?;
            }
            Action::ClearProgramCache => ttnn.clear_program_cache(self.mesh)?,
            Action::Pause { millis } => {
                let millis = millis.evaluate_up_to(MAX_PAUSE_MILLIS, &self.values)?;
                played.nominal = Duration::from_millis(millis);
            }
            Action::Run { .. }
            | Action::Trace { .. }
            | Action::Replay { .. }
            | Action::Attempt { .. } => self.enter(step, ttnn)?,
        }
        Ok(played)
    }

    /// Where a step stands: the file is the program, its blocks are the functions.
    fn callers(&self, line: usize) -> Vec<String> {
        let name = &self.scenario.name;
        let file = name.strip_suffix(".toml").unwrap_or(name);
        let mut line = line;
        let mut callers = Vec::with_capacity(self.frames.len());
        for frame in self.frames.iter().rev() {
            callers.push(format!("{file}.toml:{line} {}", frame.block));
            line = frame.line;
        }
        callers
    }

    /// Opens the frame of a step that runs others.
    fn enter(&mut self, step: &'a Step, ttnn: &mut Ttnn) -> Result<(), StepError> {
        let mut frame = Frame {
            steps: &[],
            next: 0,
            block: step.action.block().unwrap_or(WHOLE),
            line: step.line,
            rounds_left: 0,
            round: 0,
            variable: false,
            end: End::Nothing,
        };
        match &step.action {
            Action::Run {
                block,
                variable,
                times,
            } => {
                let times = times.evaluate_up_to(MAX_TIMES, &self.values)?;
                let Some(rounds_left) = times.checked_sub(1) else {
                    return Ok(());
                };
                frame.rounds_left = rounds_left;
                frame.steps = self.scenario.block(block);
                if let Some(variable) = variable {
                    self.values.enter_loop(variable);
                    frame.variable = true;
                }
            }
            Action::Trace { name, block } => {
                let trace = ttnn.runtime().begin_trace(self.mesh)?;
                frame.steps = self.scenario.block(block);
                frame.end = End::Trace(name.clone(), trace);
            }
            Action::Replay { trace, times } => {
                let found = self.traces.get(trace).copied();
                let found = found.ok_or_else(|| StepError::NoTrace(trace.clone()))?;
                let times = times.evaluate_up_to(MAX_TIMES, &self.values)?;
                frame.rounds_left = times;
                frame.end = End::Replay(found);
            }
            Action::Attempt { block, failure } => {
                frame.steps = self.scenario.block(block);
                frame.end = End::Planted(*failure, self.made);
            }
            _leaf => return Ok(()),
        }
        self.frames.push(frame);
        Ok(())
    }

    fn create(&mut self, step: &TensorStep, ttnn: &mut Ttnn) -> Result<String, StepError> {
        let name = step.name.render(&self.values)?;
        let spec = step.spec(&self.values)?;
        let by = step.by.as_deref().unwrap_or(MAKES_TENSORS);
        let tensor = ttnn.create(self.mesh, &spec, by)?;
        self.put(name.clone(), tensor, ttnn)?;
        Ok(name)
    }

    fn operate(&mut self, step: &OpStep, ttnn: &mut Ttnn) -> Result<(), StepError> {
        let mut inputs: Vec<&Tensor> = Vec::with_capacity(step.inputs.len());
        for name in &step.inputs {
            let name = name.render(&self.values)?;
            let found = self.tensors.get(&name);
            let (_number, tensor) = found.ok_or(StepError::NoTensor(name))?;
            inputs.push(tensor);
        }
        let mut attributes: Vec<(&str, u64)> = Vec::with_capacity(step.attributes.len());
        for (name, number) in &step.attributes {
            attributes.push((name, number.evaluate(&self.values)?));
        }
        let output = match (&step.output, inputs.first()) {
            (Some(output), _) if output.is_inferred() => None,
            (Some(output), Some(first)) => Some(output.spec(&first.spec, &self.values)?),
            (Some(output), None) => Some(output.spec(&no_input(), &self.values)?),
            (None, _) => None,
        };
        let made = ttnn.run(
            self.mesh,
            &Call {
                operation: &step.operation,
                inputs: &inputs,
                output,
                attributes: &attributes,
            },
        )?;
        if let (Some(output), Some(tensor)) = (&step.output, made) {
            let name = output.name.render(&self.values)?;
            self.put(name, tensor, ttnn)?;
        }
        Ok(())
    }

    /// Gives a tensor its name; the one that had it before is let go.
    fn put(&mut self, name: String, tensor: Tensor, ttnn: &mut Ttnn) -> Result<(), StepError> {
        self.made += 1;
        if let Some((_number, old)) = self.tensors.insert(name, (self.made, tensor)) {
            ttnn.deallocate(old)?;
        }
        Ok(())
    }
}

/// What an output without inputs is like where its step leaves gaps.
fn no_input() -> TensorSpec {
    TensorSpec {
        shape: vec![32, 32],
        data_type: crate::tensor::DataType::Bfloat16,
        layout: crate::tensor::TileLayout::Tile,
        class: ttmem_event::Class::Dram,
        sharding: None,
    }
}
