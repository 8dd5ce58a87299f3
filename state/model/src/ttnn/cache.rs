//! The program cache of a mesh: workloads by what they were built for.
//!
//! As in ttnn the key is a hash of the operation, its operands' specs and its attributes, not of
//! addresses: those are given to a cached workload before every run.

use super::Call;
use super::draft::{Family, Operand};
use crate::buffer::BufferSpec;
use crate::runtime::{Buffer, Runtime, RuntimeError, Workload};
use crate::tensor::TensorSpec;
use foldhash::fast::FixedState;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};

/// A workload with what every run of it needs.
#[derive(Debug)]
pub(super) struct BuiltWorkload {
    pub(super) workload: Workload,
    /// What each run returns; `None` for an operation that works in place.
    pub(super) output: Option<OutputPlan>,
    /// Storage that lies in operands' buffers, wherever those are.
    pub(super) followers: Vec<Follower>,
    /// Buffers that live as long as the workload.
    pub(super) held: Vec<Buffer>,
}

/// The tensor that an operation returns.
#[derive(Clone, Debug)]
pub(super) struct OutputPlan {
    pub(super) spec: TensorSpec,
    pub(super) buffer: BufferSpec,
}

/// A circular or dataflow buffer inside an operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Follower {
    /// Place of its program in the workload.
    pub(super) program: usize,
    pub(super) family: Family,
    /// Its number in the program.
    pub(super) number: u32,
    pub(super) operand: Operand,
}

impl BuiltWorkload {
    /// Destroys the workload, then gives back what it held; goes on after a failure.
    pub(super) fn destroy(self, runtime: &mut Runtime) -> Result<(), RuntimeError> {
        let mut outcome = runtime.destroy(self.workload);
        for buffer in self.held {
            outcome = outcome.and(runtime.free(buffer));
        }
        outcome
    }
}

/// What a call is looked up by.
pub(super) fn key_of(call: &Call<'_>) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    call.operation.hash(&mut hasher);
    call.inputs.len().hash(&mut hasher);
    for input in call.inputs {
        input.spec.hash(&mut hasher);
    }
    call.output.hash(&mut hasher);
    call.attributes.hash(&mut hasher);
    hasher.finish()
}

/// The workloads of one mesh.
#[derive(Debug, Default)]
pub(super) struct ProgramCache {
    places: BTreeMap<u64, usize>,
    /// In the order in which they were built, which is the order in which they go.
    workloads: Vec<BuiltWorkload>,
}

impl ProgramCache {
    pub(super) fn find(&self, key: u64) -> Option<&BuiltWorkload> {
        self.workloads.get(*self.places.get(&key)?)
    }

    pub(super) fn insert(&mut self, key: u64, built: BuiltWorkload) {
        self.places.insert(key, self.workloads.len());
        self.workloads.push(built);
    }

    pub(super) fn len(&self) -> usize {
        self.workloads.len()
    }

    /// Destroys every workload; returns the first failure after all have gone.
    pub(super) fn destroy(self, runtime: &mut Runtime) -> Result<(), RuntimeError> {
        let mut outcome = Ok(());
        for built in self.workloads {
            outcome = outcome.and(built.destroy(runtime));
        }
        outcome
    }
}
