//! Chips that no event tells apart, and the last run on each of their cores.
//!
//! A program is placed once for a whole mesh, so its chips share one history.
//! Working it out per group of such chips, not per chip, makes a mesh of
//! thirty-two as cheap as a chip.

use super::Told;
use super::hash::IdMap;
use super::meshes::Meshes;
use std::collections::BTreeMap;
use ttmem_event::core::GRID_SIDE;
use ttmem_event::{CoreSet, CoreType, What};

const CORES: usize = (GRID_SIDE as usize).pow(2);

/// The mesh that an event about programs speaks of.
pub(super) fn mesh_of(what: &What) -> Option<u32> {
    match *what {
        What::CbAllocated { mesh, .. }
        | What::CbFreed { mesh, .. }
        | What::KernelLoaded { mesh, .. }
        | What::KernelUnloaded { mesh, .. }
        | What::CommandsCached { mesh, .. }
        | What::BinarySent { mesh, .. }
        | What::BinaryStatusChanged { mesh, .. }
        | What::Dispatched { mesh, .. }
        | What::TraceBegan { mesh, .. }
        | What::TraceEnded { mesh, .. }
        | What::TraceReplayed { mesh, .. }
        | What::TraceReleased { mesh, .. }
        | What::MeshClosed { mesh } => Some(mesh.0),
        _of_no_mesh => None,
    }
}

/// Groups of chips that some events do not tell apart.
#[derive(Debug, Default)]
pub(super) struct Groups {
    meshes: BTreeMap<u32, Vec<usize>>,
    closed: BTreeMap<u32, usize>,
    count: usize,
}

impl Groups {
    /// The groups that these events make.
    pub(super) fn of(defined: &Meshes, log: &[Told]) -> Self {
        let mut group_of = vec![0; defined.first_ids().len()];
        let mut count = usize::from(!group_of.is_empty());
        let mut split = |chips: &[usize]| {
            // The chips of each old group that are named here become a group of their own.
            let mut moved: IdMap<usize, usize> = IdMap::default();
            for chip in chips {
                let old = group_of[*chip];
                let next = count;
                group_of[*chip] = *moved.entry(old).or_insert_with(|| {
                    count += 1;
                    next
                });
            }
        };
        let mut groups = Self::default();
        for told in log {
            match told.event.what {
                What::DeviceClosed { device } => {
                    let chip = defined.chip(device.0);
                    if let (Some(chip), false) = (chip, groups.closed.contains_key(&device.0)) {
                        groups.closed.insert(device.0, chip);
                        split(&[chip]);
                    }
                }
                what => {
                    let mesh = mesh_of(&what).filter(|mesh| !groups.meshes.contains_key(mesh));
                    let members = mesh.and_then(|mesh| Some((mesh, defined.members(mesh)?)));
                    if let Some((mesh, members)) = members {
                        groups.meshes.insert(mesh, members.to_vec());
                        split(members);
                    }
                }
            }
        }
        for members in groups.meshes.values_mut() {
            for member in members.iter_mut() {
                *member = group_of[*member];
            }
            members.sort_unstable();
            members.dedup();
        }
        for chip in groups.closed.values_mut() {
            *chip = group_of[*chip];
        }
        groups.count = count;
        groups
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The groups of a mesh.
    pub(super) fn of_mesh(&self, mesh: u32) -> &[usize] {
        self.meshes.get(&mesh).map_or(&[], Vec::as_slice)
    }

    /// The group of a device that is closed somewhere in the events.
    pub(super) fn of_closed(&self, device: u32) -> Option<usize> {
        self.closed.get(&device).copied()
    }

    /// The meshes that have chips of a group.
    pub(super) fn meshes_with(&self, group: usize) -> Vec<u32> {
        let holds =
            |(mesh, members): (&u32, &Vec<usize>)| members.contains(&group).then_some(*mesh);
        self.meshes.iter().filter_map(holds).collect()
    }
}

/// The event that put a program on a core last, and the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) by: usize,
    pub(super) program: u64,
}

/// The cores of one type of a group of chips.
pub(super) type Plane = Vec<Option<Settled>>;

/// Who ran last on each core.
#[derive(Debug, Default)]
pub(super) struct Planes {
    planes: IdMap<(usize, CoreType), Plane>,
}

impl Planes {
    pub(super) fn settle(
        &mut self,
        group: usize,
        core_type: CoreType,
        cores: &CoreSet,
        settled: Settled,
    ) {
        let plane = self.planes.entry((group, core_type));
        let plane = plane.or_insert_with(|| vec![None; CORES]);
        for run in cores.runs() {
            plane[run].fill(Some(settled));
        }
    }

    /// Each plane with its group.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Plane)> {
        self.planes
            .iter()
            .map(|((group, _type), plane)| (*group, plane))
    }
}
