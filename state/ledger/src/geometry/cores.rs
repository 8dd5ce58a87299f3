//! L1 of one device, core by core, for those who draw it.

use super::{AllocatorGeometry, Geometry, L1, coordinates};
use crate::view::{Owner, ProcessView, View};
use std::collections::BTreeMap;
use ttmem_account::BufferRow;
use ttmem_account::config_ring::ConfigRing;
use ttmem_account::program::{Cb, Program};
use ttmem_event::core::GRID_SIDE;
use ttmem_event::{Class, CoreType, CoresId};
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreL1 {
    pub x: u16,
    pub y: u16,
    /// In use for anything; none where something on the device has no place.
    pub occupied_bytes: Option<u64>,
    /// Storage of the program that ran last, without what it borrows.
    pub cb_bytes: u64,
    pub cb_end: Option<u64>,
    pub lowest_buffer: Option<u64>,
    /// The program that ran last.
    pub owner: Option<Owner>,
}

/// Something that lies on a core.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'v> {
    pub address: u64,
    pub size_bytes: u64,
    pub occupant: Occupant<'v>,
}

#[derive(Clone, Copy, Debug)]
pub enum Occupant<'v> {
    Reserved,
    /// A config ring, inside the runtime's own part.
    ConfigRing(&'v ProcessView, &'v ConfigRing),
    /// Storage of the program that ran last.
    Cb(&'v ProcessView, &'v Program, &'v Cb),
    Buffer(&'v ProcessView, &'v BufferRow),
}

impl View {
    /// Every compute core of a device; none where the grid is not known.
    #[must_use]
    pub fn l1_cores(&self, geometry: &Geometry, device: usize) -> Option<Vec<CoreL1>> {
        let known = self.devices.get(device)?;
        let compute = known.facts.compute?;
        let is_placed = geometry.devices.get(device)?.occupied_bytes.is_some();
        let index = u32::try_from(device).ok()?;
        let on_device = geometry.residents.get(device)?;
        let residents = self.resident_programs(index, on_device);
        let on = geometry.allocators.iter();
        let on = on.filter(|allocator| self.is_on(allocator, index));
        let l1 = L1::new(compute, on, &residents);
        let everywhere = l1.buffers.parts().first().map(|lowest| lowest.start);
        let owners = on_device[CoreType::Tensix as usize].iter();
        let owner_at: BTreeMap<usize, Owner> = owners
            .flat_map(|(owner, cores)| cores.indices().map(|core| (core, *owner)))
            .collect();
        let on_core = l1.compute.cores.indices().map(|core| {
            let (x, y) = coordinates(core);
            let storage = l1.storage(core);
            let own = super::on_core(&l1.per_core, core);
            CoreL1 {
                x,
                y,
                occupied_bytes: is_placed.then(|| l1.occupied_on(core, &storage)),
                cb_bytes: storage.len(),
                cb_end: storage.parts().last().map(|last| last.end),
                lowest_buffer: own.map(|one| one.start).chain(everywhere).min(),
                owner: owner_at.get(&core).copied(),
            }
        });
        Some(on_core.collect())
    }

    /// All that lies on one compute core of a device, in order of address; several may overlap.
    #[must_use]
    pub fn l1_column<'v>(
        &'v self,
        geometry: &Geometry,
        device: usize,
        x: u16,
        y: u16,
    ) -> Vec<Placed<'v>> {
        let Some(known) = self.devices.get(device) else {
            return Vec::new();
        };
        let index = u32::try_from(device).unwrap_or(u32::MAX);
        let mut placed = Vec::new();
        if let Some(compute) = known.facts.compute {
            placed.push(Placed {
                address: 0,
                size_bytes: compute.reserved_bytes,
                occupant: Occupant::Reserved,
            });
        }
        for process in &self.processes {
            for ((mesh, _sub_device, core_type), config_ring) in &process.account.config_rings {
                if *core_type == CoreType::Tensix && is_mesh_on(process, *mesh, index) {
                    placed.push(Placed {
                        address: config_ring.base,
                        size_bytes: config_ring.size_bytes,
                        occupant: Occupant::ConfigRing(process, config_ring),
                    });
                }
            }
        }
        let residents = geometry.residents.get(device);
        let residents = residents.map(|residents| self.resident_programs(index, residents));
        for resident in residents.unwrap_or_default() {
            let core = usize::from(y) * usize::from(GRID_SIDE) + usize::from(x);
            if resident.core_type == CoreType::Tensix && resident.cores.contains(x, y) {
                placed.extend(resident.placed_on(core).map(|cb| Placed {
                    address: cb.address,
                    size_bytes: cb.size_bytes,
                    occupant: Occupant::Cb(resident.process, resident.program, cb),
                }));
            }
        }
        for (process, row) in self.blocks(device, &[Class::L1, Class::L1Small]) {
            let is_here = row.cores_id == CoresId::NONE
                || process
                    .account
                    .definitions
                    .cores(row.cores_id)
                    .is_some_and(|cores| cores.contains(x, y));
            if is_here {
                placed.push(Placed {
                    address: row.address,
                    size_bytes: row.per_bank_bytes,
                    occupant: Occupant::Buffer(process, row),
                });
            }
        }
        placed.sort_by_key(|one| (one.address, one.size_bytes));
        placed
    }

    /// The live buffers of some classes on a device whose places are known.
    pub fn blocks<'v>(
        &'v self,
        device: usize,
        classes: &'v [Class],
    ) -> impl Iterator<Item = (&'v ProcessView, &'v BufferRow)> {
        let index = u32::try_from(device).unwrap_or(u32::MAX);
        self.processes.iter().flat_map(move |process| {
            let meshes = (0..).zip(&process.account.meshes);
            let on: Vec<bool> = meshes
                .map(|(slot, mesh)| mesh.id.is_some() && is_mesh_on(process, slot, index))
                .collect();
            let rows = process.rows.buffers.iter();
            rows.filter_map(move |(_slot, row)| {
                let here = on.get(row.mesh as usize).copied().unwrap_or(false);
                (here && classes.contains(&row.class)).then_some((process, row))
            })
        })
    }

    fn is_on(&self, allocator: &AllocatorGeometry, device: u32) -> bool {
        let process = &self.processes[allocator.process as usize];
        is_mesh_on(process, allocator.mesh, device)
    }
}

/// Whether a mesh of a process has a device.
fn is_mesh_on(process: &ProcessView, mesh: u32, device: u32) -> bool {
    let slots = process.account.meshes.get(mesh as usize);
    let slots = slots.map_or(&[] as &[u32], |mesh| &mesh.devices);
    slots
        .iter()
        .any(|slot| process.devices.get(*slot as usize) == Some(&device))
}
