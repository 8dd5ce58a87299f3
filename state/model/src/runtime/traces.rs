//! Traces: a captured sequence of launches, kept in device memory and run again as a whole.

use super::fast::command_bytes;
use super::sub_devices::number;
use super::workloads::WorkloadState;
use super::{Buffer, Mesh, Runtime, RuntimeError, Trace};
use crate::buffer::BufferSpec;
use crate::trace_layout::{TraceNode, lay_out};
use std::collections::BTreeMap;
use ttmem_event::catalogue::TRACE_PAGE_BYTES;
use ttmem_event::{Class, CoreType, EventKind, TextId, TraceId};

/// Pages of a trace are between this and [`TRACE_PAGE_BYTES`].
const SMALLEST_PAGE_BYTES: u64 = 1024;

/// Launches that one trace may have: far beyond any model, and what the account keeps of one.
const MAX_LAUNCHES: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct TraceState {
    mesh: Mesh,
    /// The division of the compute cores that it was captured in.
    division: u64,
    nodes: Vec<TraceNode>,
    /// Commands of each device that takes part: programs on parts of the mesh differ.
    command_bytes: BTreeMap<usize, u64>,
    launches: usize,
    /// Completions that one run adds, per sub-device.
    completions: Vec<u64>,
    /// Its commands and their size, once the capture has ended.
    commands: Option<(Buffer, u64)>,
}

impl Runtime {
    /// Begins to capture what is enqueued on a mesh.
    ///
    /// # Errors
    /// Under slow dispatch, and while another trace of the mesh is captured.
    pub fn begin_trace(&mut self, mesh: Mesh) -> Result<Trace, RuntimeError> {
        if self.ring_spaces().is_none() {
            return Err(RuntimeError::Refused("traces need fast dispatch"));
        }
        let trace = Trace(self.next_trace + 1);
        let state = self.mesh_state_mut(mesh)?;
        if state.capturing.is_some() {
            return Err(RuntimeError::Refused("a trace is captured already"));
        }
        state.capturing = Some(trace);
        let (id, parts, division) = (state.id, state.sub_devices.len(), state.division);
        self.next_trace += 1;
        self.traces.insert(
            trace,
            TraceState {
                mesh,
                division,
                nodes: Vec::new(),
                command_bytes: BTreeMap::new(),
                launches: 0,
                completions: vec![0; parts],
                commands: None,
            },
        );
        self.track(EventKind::TraceBegan {
            mesh: id,
            trace: TraceId(trace.0),
        });
        Ok(trace)
    }

    /// Writes a workload down instead of sending it.
    pub(super) fn capture(
        &mut self,
        trace: Trace,
        workload: &WorkloadState,
    ) -> Result<(), RuntimeError> {
        let Some(first) = workload.parts.first() else {
            return Ok(());
        };
        let cores = &workload.footprint.compute_cores;
        let sub_device = self.sub_device_of(workload.mesh, cores)?;
        let workers = self
            .mesh_state(workload.mesh)?
            .sub_devices
            .get(sub_device)
            .map_or(0, |part| {
                let ethernet_cores = self.options.board.ethernet_cores();
                workload.footprint.workers(&part.cores(), ethernet_cores)
            });
        let state = self.traces.get_mut(&trace);
        let state = state.ok_or(RuntimeError::WorkloadGone)?;
        state.launches += workload.parts.len();
        if state.launches > MAX_LAUNCHES {
            return Err(RuntimeError::Refused("a trace has at most 65536 launches"));
        }
        // Programs of one workload have equal offsets and sizes.
        let config = first.program.config();
        let layout = config.map(|config| *config.of(CoreType::Tensix));
        let layout = layout.unwrap_or_default();
        state.nodes.push(TraceNode {
            program: first.program.id().0,
            config: layout.total - layout.text_bytes,
            text: layout.text_bytes,
        });
        for part in &workload.parts {
            let bytes = command_bytes(&part.program);
            for device in &part.devices {
                *state.command_bytes.entry(*device).or_default() += bytes;
            }
        }
        if let Some(completions) = state.completions.get_mut(sub_device) {
            *completions += workers;
        }
        Ok(())
    }

    /// Ends a capture and puts the commands into the trace region, or into DRAM if there is none.
    ///
    /// # Errors
    /// When it is not being captured, or its commands do not fit.
    pub fn end_trace(&mut self, trace: Trace) -> Result<(), RuntimeError> {
        let state = self.traces.get(&trace);
        let state = state.ok_or(RuntimeError::TraceState { expected: "there" })?;
        let mesh = state.mesh;
        let capturing = self.mesh_state(mesh)?.capturing == Some(trace);
        if !capturing {
            let expected = "being captured";
            return Err(RuntimeError::TraceState { expected });
        }
        self.mesh_state_mut(mesh)?.capturing = None;
        let id = self.mesh_state(mesh)?.id;
        let stored = self.store(trace);
        let bytes = stored.as_ref().map_or(0, |(_buffer, bytes)| *bytes);
        self.track(EventKind::TraceEnded {
            mesh: id,
            trace: TraceId(trace.0),
            bytes,
        });
        match stored {
            Ok(commands) => {
                if let Some(state) = self.traces.get_mut(&trace) {
                    state.commands = Some(commands);
                }
                Ok(())
            }
            Err(error) => {
                self.release(trace)?;
                Err(error)
            }
        }
    }

    /// Lays the sequence out in the ring and allocates its commands.
    fn store(&mut self, trace: Trace) -> Result<(Buffer, u64), RuntimeError> {
        let state = self.traces.get(&trace);
        let state = state.ok_or(RuntimeError::TraceState { expected: "there" })?;
        let mesh = state.mesh;
        let ring = self.map.tensix.config_ring;
        let places = lay_out(ring.base, ring.size_bytes, &state.nodes);
        let places = places.ok_or(RuntimeError::Refused("a program is larger than its ring"))?;
        // Text that is still in the ring from an earlier launch is not sent again.
        let sent = places
            .iter()
            .zip(&state.nodes)
            .filter(|(place, _node)| place.sends_text);
        let text: u64 = sent.map(|(_place, node)| node.text).sum();
        // One buffer on all devices, as large as the longest commands of any.
        let commands = state.command_bytes.values().copied().max().unwrap_or(0);
        let bytes = (commands + text).max(SMALLEST_PAGE_BYTES);
        let banks = self.capacities.dram.banks;
        let page = bytes.div_ceil(u64::from(banks.max(1))).next_power_of_two();
        let page = page.clamp(SMALLEST_PAGE_BYTES, TRACE_PAGE_BYTES);
        let bytes = bytes.next_multiple_of(page);
        let region = self.options.trace_region_size;
        if region == 0 {
            let spec = BufferSpec::interleaved(Class::Dram, bytes, page).top_down();
            return Ok((self.allocate(mesh, &spec, "trace")?, bytes));
        }
        let spec = BufferSpec::interleaved(Class::Trace, bytes, page);
        // The runtime holds the sum of all traces against what was asked for, before it allocates.
        let all = self.trace_bytes(mesh).saturating_add(bytes);
        if all > region {
            let state = self.mesh_state(mesh)?;
            let (id, handle) = (state.id, state.handle);
            let statistics = state.allocator.statistics(Class::Trace);
            let per_bank = spec.per_bank(banks, self.map.dram_alignment);
            // Its own text names no bank; people ask the same question all the same.
            self.track(EventKind::AllocationFailed {
                mesh: id,
                class: Class::Trace,
                banks: u16::try_from(banks).unwrap_or(u16::MAX),
                requested_bytes: bytes,
                per_bank_bytes: per_bank.unwrap_or(u64::MAX),
                free_bytes: statistics.free,
                largest_free_bytes: statistics.largest_free,
                bank_bytes: statistics.total,
                operation: TextId::NONE,
                call_first: 0,
            });
            return Err(RuntimeError::TraceTooLarge {
                bytes: all,
                mesh: handle,
                region,
            });
        }
        Ok((self.allocate(mesh, &spec, "trace")?, bytes))
    }

    /// What the stored traces of a mesh come to.
    fn trace_bytes(&self, mesh: Mesh) -> u64 {
        let stored = self.traces.values().filter(|trace| trace.mesh == mesh);
        let bytes = stored.filter_map(|trace| trace.commands.map(|(_buffer, bytes)| bytes));
        bytes.sum()
    }

    /// Runs a trace.
    ///
    /// # Errors
    /// When it is gone, or its capture has not ended.
    pub fn replay(&mut self, trace: Trace) -> Result<(), RuntimeError> {
        let state = self.traces.get(&trace);
        let state = state.filter(|state| state.commands.is_some());
        let state = state.ok_or(RuntimeError::TraceState { expected: "stored" })?;
        let (mesh, completions) = (state.mesh, state.completions.clone());
        let division = state.division;
        let state = self.mesh_state_mut(mesh)?;
        if state.division != division {
            let expected = "of the active sub-devices";
            return Err(RuntimeError::TraceState { expected });
        }
        let id = state.id;
        let mut filled = Vec::new();
        for (index, part) in state.sub_devices.iter_mut().enumerate() {
            let added = completions.get(index).copied().unwrap_or(0);
            if added == 0 {
                continue;
            }
            // A trace counts its completions anew.
            part.expected_completed = added;
            if let Some(rings) = part.rings.as_mut() {
                rings.mark_completely_full(part.expected_completed);
            }
            filled.push((number(index), part.expected_completed));
        }
        self.counts.trace_replays += 1;
        self.track(EventKind::TraceReplayed {
            mesh: id,
            trace: TraceId(trace.0),
        });
        // Whatever the ring and the prefetcher held, the trace has written over it.
        let spaces = self.ring_spaces().unwrap_or_default();
        for (sub_device, sync) in filled {
            for (core_type, _space) in &spaces {
                self.track(EventKind::ConfigRingFilled {
                    mesh: id,
                    sub_device,
                    core_type: *core_type,
                    sync,
                });
            }
        }
        self.reset_prefetcher(mesh)
    }

    /// Gives a trace up.
    ///
    /// # Errors
    /// When it is gone already.
    pub fn release(&mut self, trace: Trace) -> Result<(), RuntimeError> {
        let state = self.traces.remove(&trace);
        let state = state.ok_or(RuntimeError::TraceState { expected: "there" })?;
        let mesh = self.mesh_state_mut(state.mesh)?;
        let id = mesh.id;
        let capturing = mesh.capturing == Some(trace);
        if capturing {
            mesh.capturing = None;
            self.track(EventKind::TraceEnded {
                mesh: id,
                trace: TraceId(trace.0),
                bytes: 0,
            });
        }
        if let Some((commands, _bytes)) = state.commands {
            self.free(commands)?;
        }
        self.track(EventKind::TraceReleased {
            mesh: id,
            trace: TraceId(trace.0),
        });
        Ok(())
    }

    pub(super) fn drop_traces(&mut self, mesh: Mesh) -> Result<(), RuntimeError> {
        let traces: Vec<Trace> = self
            .traces
            .iter()
            .filter(|(_trace, state)| state.mesh == mesh)
            .map(|(trace, _state)| *trace)
            .collect();
        for trace in traces {
            self.release(trace)?;
        }
        Ok(())
    }
}
