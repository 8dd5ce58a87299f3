//! The config ring, the prefetcher cache and the compiler's cache on disk.

use super::{Apply, Outcome};
use crate::account::ConfigRingKey;
use crate::anomaly::Anomaly;
use crate::config_ring::{CachedWorkload, ConfigRing, ConfigRingEntry, Prefetcher};
use crate::device::CacheCounters;
use crate::limits::MAX_HELD_BYTES;
use crate::observer::Observer;
use std::sync::Arc;
use ttmem_event::{CoreType, EventKind, MeshId, ProgramId};

impl<O: Observer> Apply<'_, O> {
    pub(super) fn use_cache(&mut self, event: &EventKind) -> Outcome {
        match *event {
            EventKind::ConfigRingOpened {
                mesh,
                sub_device,
                core_type,
                base,
                size_bytes,
            } => {
                let key = (self.mesh_slot(mesh)?, sub_device, core_type);
                self.open_config_ring(key, base, size_bytes)?;
            }
            EventKind::ConfigRingReserved {
                mesh,
                sub_device,
                core_type,
                stalled,
                ..
            } => {
                let config_ring = self.config_ring_mut(mesh, sub_device, core_type)?;
                config_ring.reserves += 1;
                config_ring.stalls += u64::from(stalled);
            }
            EventKind::ConfigRingAllocated {
                mesh,
                sub_device,
                core_type,
                program,
                address,
                size_bytes,
                sync,
            } => {
                let entry = ConfigRingEntry {
                    program,
                    address,
                    size_bytes,
                    sync,
                };
                let config_ring = self.config_ring_mut(mesh, sub_device, core_type)?;
                config_ring.place(entry)?;
            }
            EventKind::ConfigRingFreed {
                mesh,
                sub_device,
                core_type,
                sync,
            } => {
                self.config_ring_mut(mesh, sub_device, core_type)?
                    .free(sync);
            }
            EventKind::ConfigRingFilled {
                mesh,
                sub_device,
                core_type,
                sync,
            } => {
                self.config_ring_mut(mesh, sub_device, core_type)?
                    .fill(sync);
            }
            EventKind::PrefetchOpened { mesh, size_bytes } => {
                let mesh = self.mesh_slot(mesh)?;
                self.open_prefetcher(mesh, size_bytes)?;
            }
            EventKind::Prefetched {
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
            EventKind::PrefetchReset { mesh } => {
                let mesh = self.mesh_slot(mesh)?;
                self.prefetcher_mut(mesh)?.reset();
            }
            EventKind::JitDiskLookup { program, hit, .. } => self.look_up_on_disk(program, hit),
            _other => return Err(Anomaly::Malformed),
        }
        self.happened(event)
    }

    pub(crate) fn open_config_ring(
        &mut self,
        key: ConfigRingKey,
        base: u64,
        size_bytes: u64,
    ) -> Outcome {
        if size_bytes > MAX_HELD_BYTES || base > MAX_HELD_BYTES {
            return Err(Anomaly::AbsurdSize);
        }
        if key.1 == 0 {
            // A new division of the mesh: what it has besides is opened anew after this.
            self.drop_config_rings(key.0, 1);
        }
        let config_rings = &mut self.account.facts.config_rings;
        if config_rings.len() >= self.limits.config_rings && !config_rings.contains_key(&key) {
            return Err(Anomaly::LimitReached);
        }
        config_rings.insert(key, Arc::new(ConfigRing::new(base, size_bytes)));
        self.use_mesh(key.0);
        Ok(())
    }

    pub(crate) fn open_prefetcher(&mut self, mesh: u32, size_bytes: u64) -> Outcome {
        if size_bytes > MAX_HELD_BYTES {
            return Err(Anomaly::AbsurdSize);
        }
        let cache = Arc::new(Prefetcher::new(size_bytes));
        self.account.facts.prefetchers.insert(mesh, cache);
        self.use_mesh(mesh);
        Ok(())
    }

    /// Drops the rings of a mesh from a sub-device on.
    ///
    /// Only what is the mesh's own is looked at: a device may close with thousands of meshes.
    pub(super) fn drop_config_rings(&mut self, mesh: u32, first_sub_device: u8) {
        let config_rings = &mut self.account.facts.config_rings;
        let first = (mesh, first_sub_device, CoreType::ALL[0]);
        while let Some((key, _ring)) = config_rings.range(first..).next()
            && key.0 == mesh
        {
            let key = *key;
            config_rings.remove(&key);
        }
    }

    fn config_ring_mut(
        &mut self,
        mesh: MeshId,
        sub_device: u8,
        core_type: CoreType,
    ) -> Result<&mut ConfigRing, Anomaly> {
        let key = (self.mesh_slot(mesh)?, sub_device, core_type);
        let config_ring = self.account.facts.config_rings.get_mut(&key);
        let config_ring = config_ring.ok_or(Anomaly::OutsideRing)?;
        if Arc::strong_count(config_ring) > 1 {
            // A reader has it: it is copied.
            self.account.work += config_ring.entries().len() as u64;
        }
        Ok(Arc::make_mut(config_ring))
    }

    fn prefetcher_mut(&mut self, mesh: u32) -> Result<&mut Prefetcher, Anomaly> {
        let cache = self.account.facts.prefetchers.get_mut(&mesh);
        let cache = cache.ok_or(Anomaly::OutsideRing)?;
        if Arc::strong_count(cache) > 1 {
            self.account.work += cache.entries.len() as u64;
        }
        Ok(Arc::make_mut(cache))
    }

    fn prefetch(
        &mut self,
        mesh: MeshId,
        offset: u64,
        workload: CachedWorkload,
        hit: bool,
    ) -> Outcome {
        let slot = self.mesh_slot(mesh)?;
        let cache = self.prefetcher_mut(slot)?;
        if hit {
            cache.hits += 1;
            let members = Arc::clone(&self.mesh(slot).devices);
            let counted = CacheCounters {
                prefetch_hits: 1,
                ..CacheCounters::default()
            };
            self.count(&members, &counted);
            return Ok(());
        }
        cache.misses += 1;
        cache.place(offset, workload)
    }

    fn look_up_on_disk(&mut self, program: ProgramId, hit: bool) {
        if let Some(slot) = self.program_slot(program) {
            self.program_mut(slot).jit_disk_hits += u64::from(hit);
        }
        // A compiled kernel serves every device of the process.
        let devices = u32::try_from(self.account.facts.devices.len()).unwrap_or(u32::MAX);
        let slots: Vec<u32> = (0..devices).collect();
        let counted = CacheCounters {
            jit_disk_hits: u64::from(hit),
            jit_disk_misses: u64::from(!hit),
            ..CacheCounters::default()
        };
        self.count(&slots, &counted);
    }

    /// Counts what caches did, on some of the devices.
    pub(super) fn count(&mut self, slots: &[u32], counted: &CacheCounters) {
        self.account.work += slots.len() as u64;
        for slot in slots {
            self.account.facts.devices[*slot as usize]
                .caches
                .add(counted);
            self.observer.counted(*slot, counted);
        }
    }
}
