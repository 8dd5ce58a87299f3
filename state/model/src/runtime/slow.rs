//! Slow dispatch: the host compiles, finalizes, configures and launches each device in turn.
//!
//! Configuration and text are written to the fixed base of the ring each time; there is no ring,
//! no binary in DRAM, and no state of binaries.

use super::workloads::{Run, WorkloadState};
use super::{Runtime, RuntimeError};
use crate::program::finalize;
use ttmem_event::{CacheResult, DispatchPath, EventKind, KernelKind};

impl Runtime {
    /// Launches every program of a workload on every device of its range.
    pub(super) fn launch(
        &mut self,
        workload: &mut WorkloadState,
        run: &Run<'_>,
    ) -> Result<(), RuntimeError> {
        let mesh = workload.mesh;
        let runtime_id = self.next_run;
        for part in &mut workload.parts {
            for device in part.devices.clone() {
                // The first device compiles and finalizes; the others are sent what it came to.
                self.compile(&mut part.program);
                self.place_storage(mesh, part, &[device])?;
                if !part.program.is_finalized() {
                    finalize(&mut [&mut part.program], self.text_place())?;
                    self.report_finalized(part.mesh, &part.program);
                }
                let chip = self.chip(device);
                if part.loaded_on.insert(device) {
                    self.report_kernels(chip, &part.program, KernelKind::Application);
                }
                let operation = self.operation(run.operation);
                self.counts.dispatches += 1;
                let hit = run.program_cache == CacheResult::Hit;
                self.counts.program_cache_hits += u64::from(hit);
                self.track(EventKind::Dispatched {
                    mesh: chip,
                    program: part.program.id(),
                    runtime_id,
                    operation,
                    program_cache: run.program_cache,
                    // Written anew to each core at each launch.
                    binary_reused: false,
                    path: DispatchPath::Slow,
                });
            }
        }
        Ok(())
    }
}
