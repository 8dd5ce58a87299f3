//! The config ring, the prefetcher cache and the compiler's cache on disk.

use super::{MAX_HELD_BYTES, Outcome, Scope};
use crate::anomaly::Anomaly;
use crate::ring::{CachedWorkload, Prefetcher, Ring, RingEntry};
use ttmem_event::{CoreType, MeshId, ProgramId, What};

impl Scope<'_> {
    pub(super) fn use_cache(&mut self, what: &What) -> Outcome {
        match *what {
            What::RingOpened {
                mesh,
                sub_device,
                core_type,
                base,
                size_bytes,
            } => {
                let key = (self.mesh_slot(mesh)?, sub_device, core_type);
                if size_bytes > MAX_HELD_BYTES || base > MAX_HELD_BYTES {
                    return Err(Anomaly::AbsurdSize);
                }
                if sub_device == 0 {
                    // A new division of the mesh: what it has besides is opened anew after this.
                    self.drop_rings(key.0, 1);
                }
                let rings = &mut self.process.facts.rings;
                if rings.len() >= self.limits.rings_per_process && !rings.contains_key(&key) {
                    return Err(Anomaly::LimitReached);
                }
                rings.insert(key, Ring::new(base, size_bytes));
            }
            What::RingReserved {
                mesh,
                sub_device,
                core_type,
                stalled,
                ..
            } => {
                let ring = self.ring_mut(mesh, sub_device, core_type)?;
                ring.reserves += 1;
                ring.stalls += u64::from(stalled);
            }
            What::RingAllocated {
                mesh,
                sub_device,
                core_type,
                program,
                address,
                size_bytes,
                sync,
            } => {
                let entry = RingEntry {
                    program,
                    address,
                    size_bytes,
                    sync,
                };
                if !self.ring_mut(mesh, sub_device, core_type)?.place(entry) {
                    return Err(Anomaly::OutsideRing);
                }
            }
            What::RingFreed {
                mesh,
                sub_device,
                core_type,
                sync,
            } => {
                self.ring_mut(mesh, sub_device, core_type)?.free(sync);
            }
            What::RingFilled {
                mesh,
                sub_device,
                core_type,
                sync,
            } => {
                self.ring_mut(mesh, sub_device, core_type)?.fill(sync);
            }
            What::PrefetchOpened { mesh, size_bytes } => {
                let mesh = self.mesh_slot(mesh)?;
                if size_bytes > MAX_HELD_BYTES {
                    return Err(Anomaly::AbsurdSize);
                }
                self.process
                    .facts
                    .prefetchers
                    .insert(mesh, Prefetcher::new(size_bytes));
            }
            What::Prefetched {
                mesh,
                workload,
                offset,
                size_bytes,
                hit,
            } => {
                self.prefetch(
                    mesh,
                    offset,
                    CachedWorkload {
                        workload,
                        size_bytes,
                    },
                    hit,
                )?;
            }
            What::PrefetchReset { mesh } => {
                let mesh = self.mesh_slot(mesh)?;
                let cache = self.process.facts.prefetchers.get_mut(&mesh);
                cache.ok_or(Anomaly::OutsideRing)?.reset();
            }
            What::JitDiskLookup { program, hit, .. } => self.look_up_on_disk(program, hit),
            _other => return Err(Anomaly::Malformed),
        }
        self.happened(what);
        Ok(())
    }

    /// Drops the rings of a mesh from a sub-device on.
    ///
    /// Only what is the mesh's own is looked at: a device may close with thousands of meshes.
    pub(super) fn drop_rings(&mut self, mesh: u32, first_sub_device: u8) {
        let rings = &mut self.process.facts.rings;
        let first = (mesh, first_sub_device, CoreType::ALL[0]);
        while let Some((key, _ring)) = rings.range(first..).next()
            && key.0 == mesh
        {
            let key = *key;
            rings.remove(&key);
        }
    }

    fn ring_mut(
        &mut self,
        mesh: MeshId,
        sub_device: u8,
        core_type: CoreType,
    ) -> Result<&mut Ring, Anomaly> {
        let key = (self.mesh_slot(mesh)?, sub_device, core_type);
        self.process
            .facts
            .rings
            .get_mut(&key)
            .ok_or(Anomaly::OutsideRing)
    }

    fn prefetch(
        &mut self,
        mesh: MeshId,
        offset: u64,
        workload: CachedWorkload,
        hit: bool,
    ) -> Outcome {
        let slot = self.mesh_slot(mesh)?;
        let cache = self
            .process
            .facts
            .prefetchers
            .get_mut(&slot)
            .ok_or(Anomaly::OutsideRing)?;
        if hit {
            cache.hits += 1;
            for member in self.members(mesh)?.iter() {
                let device = self.device_index(*member);
                self.devices[device as usize].caches.prefetch_hits += 1;
            }
            return Ok(());
        }
        cache.misses += 1;
        if cache.place(offset, workload) {
            Ok(())
        } else {
            Err(Anomaly::OutsideRing)
        }
    }

    fn look_up_on_disk(&mut self, program: ProgramId, hit: bool) {
        if let Some(slot) = self.program_slot(program) {
            self.program_mut(slot).jit_disk_hits += u64::from(hit);
        }
        // A compiled kernel serves every device of the process.
        for slot in 0..self.process.facts.devices.len() {
            let device = self.process.facts.devices[slot].device;
            let caches = &mut self.devices[device as usize].caches;
            caches.jit_disk_hits += u64::from(hit);
            caches.jit_disk_misses += u64::from(!hit);
        }
    }
}
