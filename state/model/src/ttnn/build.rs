//! From an operation's drafts to a workload with addresses.

use super::Call;
use super::cache::{BuiltWorkload, Follower, OutputPlan};
use super::draft::{Draft, Family, Operand, Store};
use super::error::OperationError;
use super::job::{Job, Seat};
use super::operations::{Operation, Spread};
use crate::program::{CbPlace, CbSpec, Program, StorageKind, StorageSpec};
use crate::runtime::{Buffer, DeviceRange, Mesh, Runtime, RuntimeError};
use ttmem_event::CoreType;

/// Buffers of a call, to find out where storage lies.
pub(super) struct Buffers<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) output: Option<Buffer>,
    pub(super) held: &'a [Buffer],
}

impl Buffers<'_> {
    /// Address and bytes per bank of an operand.
    pub(super) fn place(
        &self,
        runtime: &Runtime,
        operand: Operand,
    ) -> Result<(u64, u64), RuntimeError> {
        let buffer = match operand {
            Operand::Input(input) => self.call.inputs.get(input).map(|tensor| tensor.buffer),
            Operand::Output => self.output,
            Operand::Held(held) => self.held.get(held).copied(),
        };
        let place = |buffer| Some((runtime.address(buffer)?, runtime.per_bank(buffer)?));
        buffer.and_then(place).ok_or(RuntimeError::BufferFreed)
    }
}

/// A workload under construction: all of it goes if a part of it fails.
#[derive(Default)]
struct Site {
    programs: Vec<(DeviceRange, Program)>,
    held: Vec<Buffer>,
    followers: Vec<Follower>,
}

/// Builds an operation's workload for operands that are allocated.
///
/// # Errors
/// When a buffer that it holds finds no place or a program cannot be; nothing is left then.
pub(super) fn build(
    runtime: &mut Runtime,
    mesh: Mesh,
    operation: &Operation,
    job: &mut Job<'_>,
    call: &Call<'_>,
    output: Option<(OutputPlan, Buffer)>,
) -> Result<BuiltWorkload, OperationError> {
    let (plan, buffer) = output.unzip();
    let mut site = Site::default();
    if let Err(error) = site.draw(runtime, mesh, operation, job, call, buffer) {
        for (_range, program) in std::mem::take(&mut site.programs) {
            runtime.discard_program(program);
        }
        site.give_back(runtime)?;
        return Err(error);
    }
    let programs = std::mem::take(&mut site.programs);
    match runtime.new_workload(mesh, programs) {
        Ok(workload) => Ok(BuiltWorkload {
            workload,
            output: plan,
            followers: site.followers,
            held: site.held,
        }),
        Err(error) => {
            site.give_back(runtime)?;
            Err(error.into())
        }
    }
}

impl Site {
    fn draw(
        &mut self,
        runtime: &mut Runtime,
        mesh: Mesh,
        operation: &Operation,
        job: &mut Job<'_>,
        call: &Call<'_>,
        output: Option<Buffer>,
    ) -> Result<(), OperationError> {
        for (range, seat) in seats(operation.spread, job.seat) {
            job.seat = seat;
            let draft = operation.body.draft(job);
            if self.programs.is_empty() {
                for spec in &draft.held {
                    self.held
                        .push(runtime.allocate(mesh, spec, call.operation)?);
                }
            }
            let program = runtime.new_program(operation.program);
            self.programs.push((range, program));
            self.fill(runtime, draft, call, output)?;
        }
        Ok(())
    }

    /// Puts a draft into the program that was added last.
    fn fill(
        &mut self,
        runtime: &Runtime,
        draft: Draft,
        call: &Call<'_>,
        output: Option<Buffer>,
    ) -> Result<(), OperationError> {
        let buffers = Buffers {
            call,
            output,
            held: &self.held,
        };
        let number = self.programs.len().saturating_sub(1);
        let Some((_range, program)) = self.programs.last_mut() else {
            return Ok(());
        };
        for kernel in draft.kernels {
            program.add_kernel(kernel)?;
        }
        for _semaphore in 0..draft.semaphores {
            program.add_semaphore(CoreType::Tensix, draft.cores.clone())?;
        }
        for store in draft.stores {
            let inside = store.inside;
            let place = inside
                .map(|operand| buffers.place(runtime, operand))
                .transpose()?;
            let added = add_store(program, draft.family, store, place)?;
            // What a workload holds itself stays where it is.
            if let Some(operand @ (Operand::Input(_) | Operand::Output)) = inside {
                self.followers.push(Follower {
                    program: number,
                    family: draft.family,
                    number: added,
                    operand,
                });
            }
        }
        Ok(())
    }

    fn give_back(self, runtime: &mut Runtime) -> Result<(), RuntimeError> {
        for buffer in self.held {
            runtime.free(buffer)?;
        }
        Ok(())
    }
}

fn add_store(
    program: &mut Program,
    family: Family,
    store: Store,
    place: Option<(u64, u64)>,
) -> Result<u32, OperationError> {
    let number = match family {
        Family::Circular => program.add_cb(CbSpec {
            index: store.index,
            cores: store.cores,
            size: store.size,
            page: store.page,
            place: place.map_or(CbPlace::Local, |(address, bank_bytes)| CbPlace::Global {
                address,
                bank_bytes,
            }),
        })?,
        Family::Dataflow => program.add_storage(StorageSpec {
            kind: place.map_or(StorageKind::Dataflow, |(address, _bank_bytes)| {
                StorageKind::DataflowBorrowed { address }
            }),
            cores: store.cores,
            size: store.size,
        })?,
    };
    Ok(number)
}

/// The programs of a workload: one for all devices, or one for each.
fn seats(spread: Spread, whole: Seat) -> Vec<(DeviceRange, Seat)> {
    match spread {
        Spread::Mesh => vec![(DeviceRange::All, whole)],
        Spread::EachDevice => {
            let rows = 0..whole.rows;
            let each = |row| {
                (0..whole.columns).map(move |column| {
                    let seat = Seat {
                        row,
                        column,
                        ..whole
                    };
                    (DeviceRange::one(row, column), seat)
                })
            };
            rows.flat_map(each).collect()
        }
    }
}
