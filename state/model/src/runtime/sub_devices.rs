//! Sub-devices: parts of the compute grid with their own launch rings and, if asked for, L1.

use super::{Mesh, Runtime, RuntimeError};
use crate::allocator::{AllocateError, FreeList, Placement};
use crate::buffer::BufferSpec;
use crate::config_ring::{ConfigRingSpace, ConfigRings};
use crate::program::CoreRanges;
use std::collections::BTreeMap;
use ttmem_event::catalogue::{DispatchCores, MemoryMap};
use ttmem_event::{Class, CoreSet, CoreType, EventKind};

/// A part of the compute grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubDevice {
    pub cores: CoreRanges,
    /// L1 that only its own buffers use: bytes per core, at the bottom of what is unreserved.
    pub local_l1: u64,
}

/// A sub-device of an open mesh.
#[derive(Debug)]
pub(super) struct SubDeviceState {
    cores: CoreSet,
    local: Option<FreeList>,
    local_buffers: usize,
    alignment: u64,
    /// Only where commands are dispatched by the device.
    pub(super) rings: Option<ConfigRings>,
    /// Completions that will have come when all that was sent is done.
    pub(super) expected_completed: u64,
    /// Where the last program was placed in each ring.
    pub(super) last_placed: BTreeMap<CoreType, u64>,
}

impl SubDeviceState {
    pub(super) fn cores(&self) -> CoreSet {
        self.cores
    }

    pub(super) fn holds_buffers(&self) -> bool {
        self.local_buffers > 0
    }

    pub(super) fn lowest_l1(&self) -> Option<u64> {
        self.local.as_ref().and_then(FreeList::lowest_occupied)
    }

    /// The inner result is the allocator's own; the outer one what it does not do at all.
    pub(super) fn allocate(
        &mut self,
        spec: &BufferSpec,
    ) -> Result<Result<Placement, AllocateError>, RuntimeError> {
        if spec.class != Class::L1 {
            let text = "a sub-device's own memory takes sharded L1 buffers only";
            return Err(RuntimeError::Refused(text));
        }
        if spec
            .shards
            .as_ref()
            .is_none_or(|shards| shards.cores != self.cores)
        {
            let text = "the shards are not on the cores of the sub-device";
            return Err(RuntimeError::Refused(text));
        }
        let local = self.local.as_mut();
        let local = local.ok_or(RuntimeError::Refused("the sub-device has no L1 of its own"))?;
        let banks = self.cores.len();
        let per_bank = spec.per_bank(banks, self.alignment);
        let per_bank = per_bank.ok_or(RuntimeError::Refused("the buffer has no sensible size"))?;
        let statistics = local.statistics();
        Ok(match local.allocate(per_bank, spec.direction) {
            Some(address) => {
                self.local_buffers += 1;
                Ok(Placement {
                    address,
                    per_bank: per_bank.next_multiple_of(self.alignment),
                    banks,
                })
            }
            None => Err(AllocateError::OutOfMemory {
                requested: spec.aligned_size(self.alignment).unwrap_or(spec.size),
                class: spec.class,
                banks,
                per_bank,
                bank_size: statistics.total,
                allocated: statistics.allocated,
                free: statistics.free,
                largest_free: statistics.largest_free,
            }),
        })
    }

    pub(super) fn free(&mut self, address: u64) {
        let freed = self.local.as_mut().and_then(|local| local.free(address));
        if freed.is_some() {
            self.local_buffers -= 1;
        }
    }
}

impl Runtime {
    /// Divides the compute grid of a mesh; an empty division is the whole grid again.
    ///
    /// # Errors
    /// When a part leaves the grid or meets another, or when L1 buffers lie where the parts want
    /// memory of their own.
    pub fn load_sub_devices(
        &mut self,
        mesh: Mesh,
        sub_devices: &[SubDevice],
    ) -> Result<(), RuntimeError> {
        if self.options.dispatch == DispatchCores::Slow {
            let text = "Using sub device managers is unsupported with slow dispatch";
            return Err(RuntimeError::Refused(text));
        }
        let state = self.mesh_state(mesh)?;
        if state.sub_devices.iter().any(SubDeviceState::holds_buffers) {
            let text = "a sub-device still holds buffers in its own memory";
            return Err(RuntimeError::Refused(text));
        }
        if state.capturing.is_some() {
            let text = "sub-devices cannot change while a trace is captured";
            return Err(RuntimeError::Refused(text));
        }
        let grid = self.grid();
        let mut taken = CoreSet::default();
        for part in sub_devices {
            let cores = part.cores.set();
            if cores.is_empty() || !cores.is_subset(&CoreSet::grid(grid.x, grid.y)) {
                return Err(RuntimeError::Refused(
                    "a sub-device leaves the compute grid",
                ));
            }
            if !cores.intersection(&taken).is_empty() {
                return Err(RuntimeError::Refused("two sub-devices share a core"));
            }
            taken.insert_all(&cores);
        }
        self.divide(mesh, sub_devices)
    }

    /// The division itself: checked by the caller.
    pub(super) fn divide(
        &mut self,
        mesh: Mesh,
        sub_devices: &[SubDevice],
    ) -> Result<(), RuntimeError> {
        let alignment = self.map.dram_alignment;
        let base = self.capacities.l1.base;
        let bank = self.capacities.l1.bytes_per_bank;
        let wanted = sub_devices.iter().map(|part| part.local_l1).max();
        let wanted = wanted.unwrap_or(0).checked_next_multiple_of(alignment);
        let wanted = wanted.filter(|bytes| *bytes < bank);
        let wanted = wanted.ok_or(RuntimeError::Refused("sub-devices want all of L1"))?;
        let grid = self.grid();
        let rings = self.ring_spaces();
        let state = self.mesh_state_mut(mesh)?;
        let before = state
            .sub_devices
            .iter()
            .filter_map(|part| part.local.as_ref());
        let before = before.map(|local| local.statistics().total).max();
        state.allocator.grow_l1(before.unwrap_or(0));
        if !state.allocator.shrink_l1(wanted) {
            state.allocator.shrink_l1(before.unwrap_or(0));
            let text = "L1 buffers lie where the sub-devices want memory of their own";
            return Err(RuntimeError::Refused(text));
        }
        let part = |cores: CoreSet, local_l1: u64| SubDeviceState {
            cores,
            local: (local_l1 > 0).then(|| {
                let bytes = local_l1.next_multiple_of(alignment).min(wanted);
                FreeList::new(base, bytes, alignment)
            }),
            local_buffers: 0,
            alignment,
            rings: rings.as_ref().map(|rings| {
                let spaces: Vec<ConfigRingSpace> =
                    rings.iter().map(|(_type, space)| *space).collect();
                ConfigRings::new(&spaces)
            }),
            expected_completed: 0,
            last_placed: BTreeMap::new(),
        };
        state.division += 1;
        state.sub_devices = match sub_devices {
            [] => vec![part(CoreSet::grid(grid.x, grid.y), 0)],
            parts => parts
                .iter()
                .map(|each| part(each.cores.set(), each.local_l1))
                .collect(),
        };
        let (id, count) = (state.id, state.sub_devices.len());
        for sub_device in 0..count {
            for (core_type, space) in rings.iter().flatten() {
                self.track(EventKind::ConfigRingOpened {
                    mesh: id,
                    sub_device: number(sub_device),
                    core_type: *core_type,
                    base: space.base,
                    size_bytes: space.size,
                });
            }
        }
        Ok(())
    }

    /// The config rings of each kind of core; none where the host launches by itself.
    pub(super) fn ring_spaces(&self) -> Option<Vec<(CoreType, ConfigRingSpace)>> {
        if self.options.dispatch == DispatchCores::Slow {
            return None;
        }
        let space = |core_type: CoreType| {
            let ring = self.map.core(core_type)?.config_ring;
            let space = ConfigRingSpace {
                base: ring.base,
                size: ring.size_bytes,
                always_base: core_type == CoreType::ActiveEth,
            };
            Some((core_type, space))
        };
        Some(ring_core_types(self.map).filter_map(space).collect())
    }
}

/// The kinds of cores that have a config ring, in the order of the rings.
pub(super) fn ring_core_types(map: &MemoryMap) -> impl Iterator<Item = CoreType> {
    let has_ring = |core_type: &CoreType| map.core(*core_type).is_some();
    CoreType::ALL.into_iter().filter(has_ring)
}

/// A mesh has a handful of sub-devices.
pub(super) fn number(sub_device: usize) -> u8 {
    u8::try_from(sub_device).unwrap_or(u8::MAX)
}
