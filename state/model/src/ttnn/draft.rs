//! A program as an operation describes it, before it has an identity and addresses.
//!
//! Operations add to a [`Draft`]; [`Ttnn`](super::Ttnn) makes programs of it. Storage is named
//! by the operand it lies in, not by address, so that it can follow the operand later.

use super::job::View;
use crate::buffer::BufferSpec;
use crate::program::{CoreRanges, KernelSpec};

/// Which storage a program uses: it cannot have both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Circular,
    Dataflow,
}

/// A tensor or buffer that storage can lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Input(usize),
    Output,
    /// One that the workload holds itself.
    Held(usize),
}

/// One circular or dataflow buffer.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) index: u8,
    pub(super) cores: CoreRanges,
    pub(super) size: u64,
    pub(super) page: u64,
    /// The operand it lies in; `None` for storage of its own.
    pub(super) inside: Option<Operand>,
}

/// A program without identity.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) family: Family,
    /// Where kernels and storage go by default.
    pub(super) cores: CoreRanges,
    pub(super) kernels: Vec<KernelSpec>,
    pub(super) stores: Vec<Store>,
    pub(super) semaphores: u32,
    /// Buffers to allocate with the workload; of several programs, those of the first count.
    pub(super) held: Vec<BufferSpec>,
}

impl Draft {
    pub(super) const fn new(family: Family, cores: CoreRanges) -> Self {
        Self {
            family,
            cores,
            kernels: Vec::new(),
            stores: Vec::new(),
            semaphores: 0,
            held: Vec::new(),
        }
    }

    pub(super) const fn circular(cores: CoreRanges) -> Self {
        Self::new(Family::Circular, cores)
    }

    pub(super) const fn dataflow(cores: CoreRanges) -> Self {
        Self::new(Family::Dataflow, cores)
    }

    /// A reader on all cores of the draft.
    pub(super) fn reader(&mut self, source: &str, compile_args: &[u64], runtime_args: u32) {
        let spec = KernelSpec::reader(source, self.cores.clone());
        self.kernel(spec, compile_args, runtime_args);
    }

    /// A writer on all cores of the draft.
    pub(super) fn writer(&mut self, source: &str, compile_args: &[u64], runtime_args: u32) {
        let spec = KernelSpec::writer(source, self.cores.clone());
        self.kernel(spec, compile_args, runtime_args);
    }

    /// A compute kernel on all cores of the draft.
    pub(super) fn compute(&mut self, source: &str, compile_args: &[u64], runtime_args: u32) {
        let spec = KernelSpec::compute(source, self.cores.clone());
        self.kernel(spec, compile_args, runtime_args);
    }

    /// A kernel on cores of its own; on no cores it is left out.
    pub(super) fn kernel(&mut self, spec: KernelSpec, compile_args: &[u64], runtime_args: u32) {
        if !spec.cores.is_empty() {
            let spec = spec
                .with_compile_args(compile_args)
                .with_args(runtime_args, 0);
            self.kernels.push(spec);
        }
    }

    /// Storage of so many pages on all cores of the draft.
    pub(super) fn local(&mut self, index: u8, pages: u64, page: u64) {
        self.stores.push(Store {
            index,
            cores: self.cores.clone(),
            size: pages.max(1).saturating_mul(page),
            page,
            inside: None,
        });
    }

    /// Storage for an operand: its shards where they lie, or so many pages on the way.
    pub(super) fn operand(&mut self, index: u8, operand: Operand, view: &View<'_>, pages: u64) {
        let page = view.page;
        match &view.shards {
            Some(shards) => self.stores.push(Store {
                index,
                cores: shards.cores.clone(),
                size: shards.pages.saturating_mul(page),
                page,
                inside: Some(operand),
            }),
            None => self.local(index, pages, page),
        }
    }

    /// Storage inside of a buffer that is to be held, which is sharded over the draft's cores.
    pub(super) fn config(&mut self, index: u8, buffer: BufferSpec) {
        let size = buffer.shards.map_or(0, |shards| shards.pages_per_shard);
        self.stores.push(Store {
            index,
            cores: self.cores.clone(),
            size: size.saturating_mul(buffer.page),
            page: buffer.page,
            inside: Some(Operand::Held(self.held.len())),
        });
        self.held.push(buffer);
    }
}
