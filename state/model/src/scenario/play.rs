//! Playing a scenario: opens the devices, walks the steps on each mesh, closes, and checks.
//!
//! The meshes that a scenario runs on take turns, a step each, as the threads of a data-parallel
//! server do. What is planted must come as planted; everything else that fails ends the play.

use super::expression::EvaluateError;
use super::replica::{Replica, StepError, Turn};
use super::script::Scenario;
use super::value::{Givens, Seeded, Values};
use crate::hooks::Hooks;
use crate::jit::KernelCache;
use crate::runtime::{Counts, FailureKind, Mesh, Runtime, RuntimeError, RuntimeOptions, Target};
use crate::ttnn::Ttnn;
use std::ops::ControlFlow;
use std::time::Duration;
use ttmem_event::catalogue::BoardKind;

/// Steps that one play takes at most: a file can ask for more than anybody wants to wait for.
pub const MAX_STEPS: u64 = 1_000_000_000;

/// Failures that are listed one by one.
const MAX_FAILURES: usize = 1000;

#[derive(Clone, Copy, Debug)]
pub struct Play<'a> {
    pub scenario: &'a Scenario,
    /// The machine; the scenario's first if `None`.
    pub board: Option<BoardKind>,
    /// What its choices are made from.
    pub seed: u64,
}

/// A step that was taken.
#[derive(Clone, Copy, Debug)]
pub struct StepDone<'a> {
    /// The word it begins with in the file.
    pub verb: &'static str,
    /// What it is about: an operation, a tensor, a mark.
    pub subject: &'a str,
    /// Its line in the file.
    pub line: usize,
    /// Which of the meshes took it, from 0.
    pub replica: usize,
    /// How long it takes on a real machine, about.
    pub nominal: Duration,
    /// What the model has counted so far.
    pub counts: &'a Counts,
}

/// Asked after every step: waits as long as it likes, and may end the play.
pub trait Pace {
    fn after(&mut self, step: &StepDone<'_>) -> ControlFlow<()>;
}

/// Never waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullSpeed;

impl Pace for FullSpeed {
    fn after(&mut self, _step: &StepDone<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A failure that was planted, and came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlantedFailure {
    pub kind: FailureKind,
    pub text: String,
    /// The line of the attempt.
    pub line: usize,
    /// Which of the meshes met it.
    pub replica: usize,
}

/// What a play came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub board: BoardKind,
    /// Meshes that the scenario ran on.
    pub replicas: usize,
    pub steps: u64,
    /// Operations run, replays of traces not counted.
    pub operations: u64,
    /// Failures that were planted and came, the first thousand of them.
    pub failures: Vec<PlantedFailure>,
    pub failure_count: u64,
    /// Tensors that were still there when their mesh closed, as planted.
    pub leaked_buffers: u64,
    /// Whether the pace ended the play before its end.
    pub interrupted: bool,
    pub counts: Counts,
}

/// Why a play differs from its file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlayError {
    /// The scenario does not list the board.
    #[error("{scenario} does not run on {board}, only on {boards}")]
    Board {
        scenario: String,
        board: &'static str,
        boards: String,
    },
    /// The devices cannot be opened.
    #[error("{scenario}: {reason}")]
    Open {
        scenario: String,
        reason: RuntimeError,
    },
    /// A number has no value.
    #[error("{scenario}: {reason}")]
    Value {
        scenario: String,
        reason: EvaluateError,
    },
    /// A step failed that should not.
    #[error("{scenario}:{line}: {reason}")]
    Step {
        scenario: String,
        /// The line of the step.
        line: usize,
        reason: StepError,
    },
    /// Tensors were left that should not, or the other way round.
    #[error(
        "{scenario}: {left} tensors are left at the end of replica {replica}, not {expected}: {names}"
    )]
    Leaked {
        scenario: String,
        replica: usize,
        left: u64,
        expected: u64,
        names: String,
    },
    /// The scenario does not come to an end.
    #[error("{scenario} takes more than {MAX_STEPS} steps")]
    TooLong { scenario: String },
}

/// Plays a scenario from the opening of its devices to their closing.
///
/// # Errors
/// When something happens that the scenario does not expect; the devices are closed in any case.
pub fn play(
    play: &Play<'_>,
    hooks: Box<dyn Hooks>,
    pace: &mut dyn Pace,
) -> Result<Outcome, PlayError> {
    play_again(play, hooks, pace, &mut KernelCache::new())
}

/// As [`play`], with the compiler's cache on disk as an earlier play left it.
///
/// # Errors
/// As [`play`].
pub fn play_again(
    play: &Play<'_>,
    hooks: Box<dyn Hooks>,
    pace: &mut dyn Pace,
    kernel_cache: &mut KernelCache,
) -> Result<Outcome, PlayError> {
    let scenario = play.scenario;
    let board = board_of(play)?;
    let open = |reason| PlayError::Open {
        scenario: scenario.name.clone(),
        reason,
    };
    let setup = &scenario.device;
    let mut options = RuntimeOptions::of(board);
    options.dispatch = setup.dispatch_on(board);
    options.l1_small_size = setup.l1_small_size;
    options.trace_region_size = setup.trace_region_size;
    options.fabric = setup.fabric_on(board);
    options.target = Target::Silicon;
    let mut runtime = Runtime::new(hooks, options).map_err(open)?;
    std::mem::swap(runtime.kernel_cache(), kernel_cache);
    let mut ttnn = Ttnn::new(runtime);
    let outcome = walk(play, board, &mut ttnn, pace);
    ttnn.close();
    std::mem::swap(ttnn.runtime().kernel_cache(), kernel_cache);
    let mut outcome = outcome?;
    outcome.counts = *ttnn.runtime().counts();
    Ok(outcome)
}

fn board_of(play: &Play<'_>) -> Result<BoardKind, PlayError> {
    let scenario = play.scenario;
    let boards = &scenario.boards;
    let chosen = play.board.or(boards.first().copied());
    let chosen = chosen.unwrap_or(BoardKind::N150);
    if boards.contains(&chosen) {
        return Ok(chosen);
    }
    let names: Vec<&str> = boards.iter().map(|board| board.name()).collect();
    Err(PlayError::Board {
        scenario: scenario.name.clone(),
        board: chosen.name(),
        boards: names.join(", "),
    })
}

fn walk(
    play: &Play<'_>,
    board: BoardKind,
    ttnn: &mut Ttnn,
    pace: &mut dyn Pace,
) -> Result<Outcome, PlayError> {
    let scenario = play.scenario;
    let mut replicas = open_replicas(play, board, ttnn)?;
    let mut outcome = Outcome {
        board,
        replicas: replicas.len(),
        steps: 0,
        operations: 0,
        failures: Vec::new(),
        failure_count: 0,
        leaked_buffers: 0,
        interrupted: false,
        counts: Counts::default(),
    };
    let mut going = true;
    'play: while going {
        going = false;
        for (index, replica) in replicas.iter_mut().enumerate() {
            let turn = replica
                .step(ttnn)
                .map_err(|(line, reason)| PlayError::Step {
                    scenario: scenario.name.clone(),
                    line,
                    reason,
                })?;
            let step = match turn {
                Turn::Over => continue,
                Turn::Failed(step, kind, text) => {
                    outcome.failure_count += 1;
                    if outcome.failures.len() < MAX_FAILURES {
                        outcome.failures.push(PlantedFailure {
                            kind,
                            text,
                            line: step.line,
                            replica: index,
                        });
                    }
                    step
                }
                Turn::Took(step) => step,
            };
            outcome.operations += u64::from(step.verb == "op");
            let done = StepDone {
                verb: step.verb,
                subject: &step.subject,
                line: step.line,
                replica: index,
                nominal: step.nominal,
                counts: ttnn.runtime().counts(),
            };
            if pace.after(&done).is_break() {
                outcome.interrupted = true;
                break 'play;
            }
            going = true;
            outcome.steps += 1;
            if outcome.steps > MAX_STEPS {
                return Err(PlayError::TooLong {
                    scenario: scenario.name.clone(),
                });
            }
        }
    }
    if outcome.interrupted {
        // Nobody is left to give them back: that would look like a leak.
        for replica in &mut replicas {
            replica.let_go(ttnn);
        }
        return Ok(outcome);
    }
    for (index, replica) in replicas.iter().enumerate() {
        let expected = replica.expected_leaks(&scenario.expect.leaked_buffers);
        let expected = expected.map_err(|reason| PlayError::Value {
            scenario: scenario.name.clone(),
            reason,
        })?;
        let left = replica.tensors();
        if left != expected {
            return Err(PlayError::Leaked {
                scenario: scenario.name.clone(),
                replica: index,
                left,
                expected,
                names: replica.some_names(),
            });
        }
        outcome.leaked_buffers += left;
    }
    Ok(outcome)
}

/// Opens the mesh, cuts it if asked to, and begins the scenario on each part.
fn open_replicas<'a>(
    play: &Play<'a>,
    board: BoardKind,
    ttnn: &mut Ttnn,
) -> Result<Vec<Replica<'a>>, PlayError> {
    let scenario = play.scenario;
    let meshes =
        open_meshes(scenario, board, ttnn.runtime()).map_err(|reason| PlayError::Open {
            scenario: scenario.name.clone(),
            reason,
        })?;
    let grid = ttnn.runtime().grid();
    let capacities = *ttnn.runtime().capacities();
    let mut replicas = Vec::new();
    for (index, mesh) in meshes.into_iter().enumerate() {
        let devices = ttnn.runtime().mesh_devices(mesh);
        let givens = Givens {
            devices: u64::try_from(devices).unwrap_or(u64::MAX),
            cores: u64::from(grid.cores()),
            columns: u64::from(grid.x),
            rows: u64::from(grid.y),
            replica: u64::try_from(index).unwrap_or(u64::MAX),
            dram_bytes: capacities.dram.total_bytes(),
            l1_bytes: capacities.l1.bytes_per_bank,
        };
        // Each replica draws its own numbers; the first those of the seed as it is.
        let seed = match index {
            0 => play.seed,
            other => Seeded::for_name(play.seed, &format!("replica {other}")).next_u64(),
        };
        let values = Values::new(&scenario.values, givens, seed);
        let values = values.map_err(|reason| PlayError::Value {
            scenario: scenario.name.clone(),
            reason,
        })?;
        replicas.push(Replica::new(scenario, mesh, values));
    }
    Ok(replicas)
}

fn open_meshes(
    scenario: &Scenario,
    board: BoardKind,
    runtime: &mut Runtime,
) -> Result<Vec<Mesh>, RuntimeError> {
    let (rows, columns) = scenario.device.mesh_on(board);
    let (part_rows, part_columns) = scenario.device.submesh_on(board);
    let whole = runtime.open_mesh(rows, columns)?;
    if (part_rows, part_columns) == (rows, columns) {
        return Ok(vec![whole]);
    }
    let mut parts = Vec::new();
    for row in (0..rows).step_by(usize::from(part_rows.max(1))) {
        for column in (0..columns).step_by(usize::from(part_columns.max(1))) {
            let at = (row, column);
            parts.push(runtime.create_submesh(whole, part_rows, part_columns, at)?);
        }
    }
    Ok(parts)
}
