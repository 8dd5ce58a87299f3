//! Operations on tensors, as ttnn runs them: output first, then a workload, cached by its specs.
//!
//! [`Ttnn`] owns the program caches and calls the [`Runtime`]; what an operation's program
//! consists of is in [`operations`](self::operations()), one module per family. Nothing here
//! places or tracks anything itself.

mod build;
mod cache;
mod draft;
mod error;
mod halo;
mod job;
mod operations;
#[cfg(test)]
mod tests;

pub use error::OperationError;

use crate::runtime::{Buffer, Mesh, Run, Runtime, RuntimeError};
use crate::tensor::TensorSpec;
use build::Buffers;
use cache::{BuiltWorkload, OutputPlan, ProgramCache};
use draft::Family;
use job::{Chip, Job, Seat, View};
use operations::Operation;
use std::collections::BTreeMap;
use ttmem_event::CacheResult;

/// A tensor on the devices of a mesh.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub buffer: Buffer,
    pub spec: TensorSpec,
    pub mesh: Mesh,
}

/// A call of an operation.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The operation's name: one of [`operations()`].
    pub operation: &'a str,
    pub inputs: &'a [&'a Tensor],
    /// What it returns; `None` for what follows from the inputs.
    pub output: Option<TensorSpec>,
    pub attributes: &'a [(&'a str, u64)],
}

/// The names of all operations, family by family.
pub fn operations() -> impl Iterator<Item = &'static str> {
    operations::names()
}

#[derive(Debug)]
pub struct Ttnn {
    runtime: Runtime,
    caches: BTreeMap<Mesh, ProgramCache>,
}

impl Ttnn {
    /// Operations on that runtime.
    #[must_use]
    pub const fn new(runtime: Runtime) -> Self {
        Self {
            runtime,
            caches: BTreeMap::new(),
        }
    }

    pub const fn runtime(&mut self) -> &mut Runtime {
        &mut self.runtime
    }

    /// Creates a tensor: `zeros`, `from_torch`, or whatever the operation is called.
    ///
    /// # Errors
    /// When there is no such tensor, or no room for it.
    pub fn create(
        &mut self,
        mesh: Mesh,
        spec: &TensorSpec,
        operation: &str,
    ) -> Result<Tensor, OperationError> {
        let buffer = self.runtime.allocate(mesh, &spec.buffer()?, operation)?;
        Ok(Tensor {
            buffer,
            spec: spec.clone(),
            mesh,
        })
    }

    /// Gives a tensor's memory back.
    ///
    /// # Errors
    /// When that was done before.
    pub fn deallocate(&mut self, tensor: Tensor) -> Result<(), RuntimeError> {
        self.runtime.free(tensor.buffer)
    }

    /// Allocates the output, then runs the operation's workload: from the program cache, or built.
    ///
    /// `None` is returned by an operation that works in place.
    ///
    /// # Errors
    /// When there is no such operation or it cannot be called like that, and when something finds
    /// no room: the output is given back then, and a workload built for this call destroyed.
    pub fn run(&mut self, mesh: Mesh, call: &Call<'_>) -> Result<Option<Tensor>, OperationError> {
        match halo::of(call) {
            Some(window) => self.run_with_halo(mesh, call, &window),
            None => self.run_one(mesh, call),
        }
    }

    /// Runs an operation that is one workload.
    fn run_one(&mut self, mesh: Mesh, call: &Call<'_>) -> Result<Option<Tensor>, OperationError> {
        for input in call.inputs {
            if input.mesh != mesh {
                return Err(OperationError::call(
                    call.operation,
                    "an input is on another mesh",
                ));
            }
            if self.runtime.address(input.buffer).is_none() {
                return Err(RuntimeError::BufferFreed.into());
            }
        }
        let key = cache::key_of(call);
        match self.caches.get(&mesh).and_then(|cache| cache.find(key)) {
            Some(built) => run_cached(&mut self.runtime, mesh, built, call),
            None => self.run_new(mesh, key, call),
        }
    }

    fn run_new(
        &mut self,
        mesh: Mesh,
        key: u64,
        call: &Call<'_>,
    ) -> Result<Option<Tensor>, OperationError> {
        let operation = operations::find(call.operation)?;
        let mut job = self.job(mesh, operation, call)?;
        let plan = operation.plan(&job, call.output.as_ref())?;
        let buffer = match &plan {
            Some(plan) => Some(self.runtime.allocate(mesh, &plan.buffer, call.operation)?),
            None => None,
        };
        let spec = plan.as_ref().map(|plan| plan.spec.clone());
        job.output = spec.as_ref().map(View::of).transpose()?;
        let output = plan.zip(buffer);
        let built = build::build(&mut self.runtime, mesh, operation, &mut job, call, output);
        let ran = built.and_then(|built| self.run_built(mesh, key, call, built));
        give_back_on_failure(&mut self.runtime, buffer, ran)?;
        let tensor = |(buffer, spec)| Tensor { buffer, spec, mesh };
        Ok(buffer.zip(spec).map(tensor))
    }

    /// Runs a new workload; it is kept if that works and the cache is on.
    fn run_built(
        &mut self,
        mesh: Mesh,
        key: u64,
        call: &Call<'_>,
        built: BuiltWorkload,
    ) -> Result<(), OperationError> {
        let run = Run {
            operation: call.operation,
            program_cache: CacheResult::Miss,
        };
        let outcome = self.runtime.enqueue(built.workload, &run);
        if outcome.is_ok() {
            self.caches.entry(mesh).or_default().insert(key, built);
        } else {
            built.destroy(&mut self.runtime)?;
        }
        Ok(outcome?)
    }

    fn job<'a>(
        &self,
        mesh: Mesh,
        operation: &Operation,
        call: &'a Call<'_>,
    ) -> Result<Job<'a>, OperationError> {
        operation.check(call)?;
        let inputs = call.inputs.iter().map(|tensor| View::of(&tensor.spec));
        let capacities = self.runtime.capacities();
        let (rows, columns) = self.runtime.mesh_shape(mesh);
        Ok(Job {
            operation: operation.name,
            inputs: inputs.collect::<Result<_, _>>()?,
            output: None,
            attributes: call.attributes,
            chip: Chip {
                grid: self.runtime.grid(),
                l1_bytes: capacities.l1.bytes_per_bank,
                has_l1_small: capacities.l1_small.bytes_per_bank > 0,
            },
            seat: Seat {
                row: 0,
                column: 0,
                rows,
                columns,
            },
        })
    }

    /// How many workloads a mesh has in its program cache.
    #[must_use]
    pub fn program_cache_entries(&self, mesh: Mesh) -> usize {
        self.caches.get(&mesh).map_or(0, ProgramCache::len)
    }

    /// Destroys every workload in the program cache of a mesh, with what it holds.
    ///
    /// # Errors
    /// When the runtime had dropped one of them by itself; the cache is empty all the same.
    pub fn clear_program_cache(&mut self, mesh: Mesh) -> Result<(), RuntimeError> {
        match self.caches.remove(&mesh) {
            Some(cache) => cache.destroy(&mut self.runtime),
            None => Ok(()),
        }
    }

    /// Closes a mesh, its program cache first; sub-meshes are to be closed before it.
    ///
    /// # Errors
    /// When it is not open.
    pub fn close_mesh(&mut self, mesh: Mesh) -> Result<(), RuntimeError> {
        let cleared = self.clear_program_cache(mesh);
        self.runtime.close_mesh(mesh).and(cleared)
    }

    /// Closes everything: the program caches, then meshes and devices.
    pub fn close(&mut self) {
        let open = self.runtime.open_meshes();
        // Sub-meshes were opened after the meshes they lie on.
        for mesh in open.into_iter().rev() {
            if let Some(cache) = self.caches.remove(&mesh) {
                // Only a workload that the runtime dropped by itself can fail here: it is gone.
                cache.destroy(&mut self.runtime).unwrap_or_default();
            }
        }
        self.caches.clear();
        self.runtime.close();
    }
}

/// The way of a call whose workload is there: nothing is described, hashed or looked up again.
fn run_cached(
    runtime: &mut Runtime,
    mesh: Mesh,
    built: &BuiltWorkload,
    call: &Call<'_>,
) -> Result<Option<Tensor>, OperationError> {
    let buffer = match &built.output {
        Some(plan) => Some(runtime.allocate(mesh, &plan.buffer, call.operation)?),
        None => None,
    };
    let ran = follow(runtime, built, call, buffer).and_then(|()| {
        let run = Run {
            operation: call.operation,
            program_cache: CacheResult::Hit,
        };
        Ok(runtime.enqueue(built.workload, &run)?)
    });
    give_back_on_failure(runtime, buffer, ran)?;
    let tensor = |(buffer, plan): (Buffer, &OutputPlan)| Tensor {
        buffer,
        spec: plan.spec.clone(),
        mesh,
    };
    Ok(buffer.zip(built.output.as_ref()).map(tensor))
}

/// Moves storage that lies in operands to where those are now.
fn follow(
    runtime: &mut Runtime,
    built: &BuiltWorkload,
    call: &Call<'_>,
    output: Option<Buffer>,
) -> Result<(), OperationError> {
    let buffers = Buffers {
        call,
        output,
        held: &built.held,
    };
    for follower in &built.followers {
        let (address, bank_bytes) = buffers.place(runtime, follower.operand)?;
        let program = runtime.program_mut(built.workload, follower.program);
        let program = program.ok_or(RuntimeError::WorkloadGone)?;
        match follower.family {
            Family::Circular => program.update_cb_address(follower.number, address, bank_bytes)?,
            Family::Dataflow => program.update_borrowed_address(follower.number, address)?,
        }
    }
    Ok(())
}

fn give_back_on_failure(
    runtime: &mut Runtime,
    output: Option<Buffer>,
    ran: Result<(), OperationError>,
) -> Result<(), OperationError> {
    if ran.is_err()
        && let Some(output) = output
    {
        runtime.free(output)?;
    }
    ran
}
