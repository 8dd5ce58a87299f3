//! Where things lie: unions, overlaps, largest free blocks, occupied L1.
//!
//! Totals are kept with every event; this is worked out when a reader asks, in
//! its thread, from a [`View`]. Each allocator's addresses are sorted
//! once and shared by all devices of its mesh. What cannot be known, because an
//! old sender reported no places, is `None` and never a guess.

mod cores;

pub use cores::{CoreL1, Occupant, Placed};

use crate::device::Device;
use crate::intervals::{Interval, IntervalSet};
use crate::view::{DeviceResidents, ProcessView, View};
use std::collections::BTreeMap;
use ttmem_account::program::{Cb, Program, ProgramOnDevice};
use ttmem_account::{Capacity, ComputeL1, Mesh, run_count};
use ttmem_event::core::GRID_SIDE;
use ttmem_event::{Class, CoreSet, CoreType, CoresId};

/// One allocator of one mesh.
#[derive(Clone, Debug)]
pub struct AllocatorGeometry {
    /// The process, by its slot.
    pub process: u32,
    /// The mesh, as the process counts them.
    pub mesh: u32,
    pub class: Class,
    /// Largest free block of a bank, where capacity and places are known.
    pub largest_free_bytes: Option<u64>,
    /// Addresses taken in every bank.
    taken: IntervalSet,
    /// Addresses taken in the banks of some cores only.
    per_core: Vec<(CoreSet, Interval)>,
    banks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassGeometry {
    /// What can be handed out, where known.
    pub capacity: Option<Capacity>,
    /// Bytes that are held, each counted once; never above the capacity.
    pub union_bytes: u64,
    /// Charged bytes beyond the union: held twice, or more than there is.
    pub overlap_bytes: u64,
    /// Largest free block of a bank, where capacity and places are known.
    pub largest_free_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceGeometry {
    pub classes: [ClassGeometry; Class::COUNT],
    /// L1 of the compute cores that is in use for anything.
    pub occupied_bytes: Option<u64>,
    /// Bytes between per-core storage and the lowest L1 buffer on the core where they are fewest;
    /// below 0 where both lie at one place. None without storage.
    pub cb_headroom_bytes: Option<i64>,
    /// Per-core storage of the programs that ran last.
    pub cb_resident_bytes: Option<u64>,
    /// Kernels of the programs that ran last.
    pub kernel_resident_bytes: Option<u64>,
}

/// Where everything lies at one moment.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// Allocators that hold something or have a capacity.
    pub allocators: Vec<AllocatorGeometry>,
    /// Devices, as in the view.
    pub devices: Vec<DeviceGeometry>,
    /// The program that ran last on each core of each device.
    pub residents: Vec<DeviceResidents>,
}

/// Counts the work of one geometry against a maximum.
#[derive(Debug)]
struct GeometryWork {
    spent: u64,
    most: u64,
}

impl GeometryWork {
    /// Adds work before it is done; `None` above the maximum.
    fn spend(&mut self, units: u64) -> Option<()> {
        self.spent = self.spent.saturating_add(units);
        (self.spent <= self.most).then_some(())
    }
}

/// Work units per buffer row, program run on a device, device, and core.
const ROW_WORK: u64 = 2;
const RUN_WORK: u64 = 16;
const DEVICE_WORK: u64 = 16;
const CORE_WORK: u64 = 8;

/// Intervals scanned per work unit.
const INTERVALS_PER_UNIT: u64 = 8;

impl View {
    /// Works out where everything lies.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let (geometry, _work) = self.geometry_within(u64::MAX);
        geometry.expect("no bound was given")
    }

    /// The same within `most` work units, with the units used; `None` if they do not suffice.
    ///
    /// Devices, cores and allocators multiply, so a small hostile file could take minutes.
    #[must_use]
    pub fn geometry_within(&self, most: u64) -> (Option<Geometry>, u64) {
        let mut meter = GeometryWork { spent: 0, most };
        let geometry = self.metered_geometry(&mut meter);
        (geometry, meter.spent)
    }

    fn metered_geometry(&self, meter: &mut GeometryWork) -> Option<Geometry> {
        let mut allocators = Vec::new();
        let mut on_device: Vec<Vec<usize>> = vec![Vec::new(); self.devices.len()];
        for process in &self.processes {
            meter.spend(Self::work_of_process(process))?;
            for allocator in allocators_of(process) {
                for slot in process.account.meshes[allocator.mesh as usize]
                    .devices
                    .iter()
                {
                    let device = process.devices[*slot as usize];
                    on_device[device as usize].push(allocators.len());
                }
                allocators.push(allocator);
            }
        }
        let residents = self.residents();
        let owners = residents.iter().flatten();
        meter.spend(owners.map(|owners| (owners.len() as u64).pow(2) / 16).sum())?;
        let devices = (0..).zip(&self.devices).zip(&on_device).zip(&residents);
        let devices = devices.map(|(((index, device), on), residents)| {
            let on: Vec<&AllocatorGeometry> = on.iter().map(|place| &allocators[*place]).collect();
            let residents = self.resident_programs(index, residents);
            meter.spend(work_of_device(device, &on, &residents))?;
            Some(self.device_geometry(device, &on, &residents))
        });
        let devices = devices.collect::<Option<_>>()?;
        Some(Geometry {
            allocators,
            devices,
            residents,
        })
    }

    /// Work to sort a process's addresses and runs.
    fn work_of_process(process: &ProcessView) -> u64 {
        let (facts, rows) = (&process.account, &process.rows);
        let meshes = facts.meshes.iter();
        let in_meshes: usize = meshes.map(|mesh| Class::COUNT + mesh.devices.len()).sum();
        ROW_WORK * rows.buffers.len() as u64
            + in_meshes as u64
            + RUN_WORK.saturating_mul(run_count(facts, rows))
    }

    fn device_geometry(
        &self,
        device: &Device,
        on: &[&AllocatorGeometry],
        residents: &[Resident<'_>],
    ) -> DeviceGeometry {
        let l1 = occupied_l1(device, on, residents);
        DeviceGeometry {
            classes: std::array::from_fn(|class| {
                let class = Class::ALL[class];
                self.class_geometry(class, device, on)
            }),
            occupied_bytes: l1.map(|(occupied, _headroom)| occupied),
            cb_headroom_bytes: l1.and_then(|(_occupied, headroom)| headroom),
            cb_resident_bytes: (device.totals.cb.unplaced == 0)
                .then(|| residents.iter().map(Resident::cb_bytes).sum()),
            kernel_resident_bytes: (device.totals.kernel.unplaced == 0)
                .then(|| residents.iter().map(Resident::kernel_bytes).sum()),
        }
    }

    fn class_geometry(
        &self,
        class: Class,
        device: &Device,
        on: &[&AllocatorGeometry],
    ) -> ClassGeometry {
        let on: Vec<&AllocatorGeometry> = on
            .iter()
            .copied()
            .filter(|allocator| allocator.class == class)
            .collect();
        let allocators = on
            .iter()
            .map(|one| (self.mesh(one), &self.mesh(one).allocators[class.index()]));
        let reported = allocators.clone().filter_map(|(_mesh, one)| one.capacity);
        let capacity = reported
            .reduce(Capacity::larger)
            .or(device.facts.capacities[class.index()]);
        let totals = device.totals.class(class);
        let charged = totals.charged.bytes();
        let most = capacity.map_or(u64::MAX, |capacity| capacity.total_bytes());
        // Those of old senders have no places.
        let placed = allocators.filter(|(mesh, _one)| mesh.id.is_some());
        let placed: u64 = placed.map(|(_mesh, one)| one.charged_bytes).sum();
        let placed = placed.min(charged);
        let union_bytes = (union_bytes(&on).min(placed) + (charged - placed)).min(most);
        let largest_free_bytes = capacity
            .filter(|_known| totals.unplaced == 0)
            .map(|capacity| {
                let bounds = Interval::new(capacity.base, capacity.per_bank_bytes);
                match on.as_slice() {
                    [] => bounds.len(),
                    [one] if one.per_core.is_empty() => one.taken.largest_gap(bounds),
                    several => union_of(several, bounds).largest_gap(bounds),
                }
            });
        ClassGeometry {
            capacity,
            union_bytes,
            overlap_bytes: charged - union_bytes.min(charged),
            largest_free_bytes,
        }
    }

    fn mesh(&self, geometry: &AllocatorGeometry) -> &Mesh {
        let process = &self.processes[geometry.process as usize];
        &process.account.meshes[geometry.mesh as usize]
    }

    /// The programs that ran last on the cores of a device.
    fn resident_programs<'v>(
        &'v self,
        index: u32,
        residents: &DeviceResidents,
    ) -> Vec<Resident<'v>> {
        let mut programs = Vec::new();
        for core_type in CoreType::ALL {
            for (owner, cores) in &residents[core_type as usize] {
                let Some(process) = self.process(owner.process) else {
                    continue;
                };
                let program = process.rows.programs.get(owner.program);
                let slot = process.device_slot(index);
                let on = program.zip(slot);
                let on = on.and_then(|(program, slot)| Some((program, program.on_device(slot)?)));
                if let Some((program, on)) = on {
                    programs.push(Resident {
                        process,
                        program,
                        on,
                        core_type,
                        cores: *cores,
                    });
                }
            }
        }
        programs
    }
}

/// Work to lay out a device whose allocators are sorted.
fn work_of_device(device: &Device, on: &[&AllocatorGeometry], residents: &[Resident<'_>]) -> u64 {
    let mut work = DEVICE_WORK + (Class::COUNT * on.len()) as u64;
    let (mut in_l1, mut per_core) = (0, 0);
    let mut cores = CoreSet::default();
    for class in Class::ALL {
        let of_class = || on.iter().filter(|one| one.class == *class);
        let parts: usize = of_class().map(|one| one.taken.parts().len()).sum();
        let parts = parts as u64;
        let mut widths: Vec<u32> = of_class().map(|one| one.banks).collect();
        let is_one = widths.len() < 2;
        widths.sort_unstable();
        widths.dedup();
        // One allocator is scanned; several are merged, once per bank count.
        let units = if is_one {
            parts / INTERVALS_PER_UNIT
        } else {
            parts.saturating_mul(2 + widths.len() as u64)
        };
        work = work.saturating_add(units);
        if class.is_l1() {
            in_l1 += parts;
        }
        for one in of_class() {
            per_core += one.per_core.len() as u64;
            for (some, _interval) in &one.per_core {
                cores.insert_all(some);
            }
        }
    }
    let own = per_core.saturating_mul(2 + u64::from(cores.len()) / INTERVALS_PER_UNIT);
    work = work.saturating_add(own).saturating_add(in_l1);
    for resident in residents {
        let (cbs, kernels) = (resident.on.cbs().len(), resident.on.kernels().len());
        work += 2 * (cbs + kernels) as u64 + (cbs as u64 * u64::from(resident.cores.len())) / 2;
    }
    let compute = device.facts.compute;
    let compute = compute.map_or(0, |compute| u64::from(compute.cores.len()));
    let each_core = CORE_WORK + per_core / (INTERVALS_PER_UNIT / 2);
    work.saturating_add(compute.saturating_mul(each_core))
}

/// The allocators of a process, each with its addresses sorted.
fn allocators_of(process: &ProcessView) -> Vec<AllocatorGeometry> {
    let meshes = &process.account.meshes;
    // Growing a vector of a million intervals would copy it twenty times over.
    let rooms = meshes.iter().flat_map(|mesh| &mesh.allocators);
    let mut taken: Vec<Vec<Interval>> = rooms
        .map(|allocator| Vec::with_capacity(usize::try_from(allocator.buffers).unwrap_or(0)))
        .collect();
    let mut per_core: Vec<Vec<(CoreSet, Interval)>> = vec![Vec::new(); taken.len()];
    let mut most_banks: Vec<u16> = vec![0; taken.len()];
    if meshes.iter().any(|mesh| mesh.id.is_some()) {
        for (_slot, row) in process.rows.buffers.iter() {
            let at = row.mesh as usize * Class::COUNT + row.class.index();
            let interval = Interval::new(row.address, row.per_bank_bytes);
            if row.cores_id == CoresId::NONE {
                taken[at].push(interval);
                most_banks[at] = most_banks[at].max(row.banks);
            } else if let Some(cores) = process.account.definitions.cores(row.cores_id) {
                per_core[at].push((*cores, interval));
            }
        }
    }
    let mut found = Vec::new();
    for (slot, mesh) in (0_u32..).zip(meshes) {
        for class in Class::ALL {
            let allocator = &mesh.allocators[class.index()];
            if allocator.buffers == 0 && allocator.capacity.is_none() {
                continue;
            }
            let at = slot as usize * Class::COUNT + class.index();
            let capacity = allocator.capacity;
            let bounds = capacity.map_or(Interval::new(0, u64::MAX), |capacity| {
                Interval::new(capacity.base, capacity.per_bank_bytes)
            });
            let taken = IntervalSet::union_within(bounds, std::mem::take(&mut taken[at]));
            let per_core = std::mem::take(&mut per_core[at]);
            // Lockstep needs the same addresses free in every bank.
            let blocked = (!per_core.is_empty()).then(|| with_per_core(&taken, &per_core, bounds));
            let blocked = blocked.as_ref().unwrap_or(&taken);
            let known = capacity.filter(|_known| mesh.id.is_some());
            let largest = known.map(|_known| blocked.largest_gap(bounds));
            found.push(AllocatorGeometry {
                process: process.index,
                mesh: slot,
                class: *class,
                largest_free_bytes: largest,
                taken,
                per_core,
                // Buffers may have been reported before the capacity was.
                banks: capacity
                    .map_or(0, |capacity| capacity.banks)
                    .max(u32::from(most_banks[at])),
            });
        }
    }
    found
}

fn with_per_core(
    taken: &IntervalSet,
    per_core: &[(CoreSet, Interval)],
    bounds: Interval,
) -> IntervalSet {
    let some = per_core.iter().map(|(_cores, interval)| *interval);
    IntervalSet::union_within(bounds, taken.parts().iter().copied().chain(some))
}

/// Every address that is taken in any bank.
fn union_of(on: &[&AllocatorGeometry], bounds: Interval) -> IntervalSet {
    let per_core = on.iter().flat_map(|allocator| &allocator.per_core);
    let per_core = per_core.map(|(_cores, interval)| *interval);
    IntervalSet::union_within(bounds, taken(on).chain(per_core))
}

/// Addresses that are taken in every bank.
fn taken(on: &[&AllocatorGeometry]) -> impl Iterator<Item = Interval> {
    on.iter().flat_map(|one| one.taken.parts().iter().copied())
}

/// Bytes over all banks that at least one allocator takes.
fn union_bytes(on: &[&AllocatorGeometry]) -> u64 {
    let mut bytes: u64 = 0;
    let mut counts: Vec<u32> = on.iter().map(|allocator| allocator.banks).collect();
    counts.sort_unstable();
    counts.dedup();
    let everywhere = Interval::new(0, u64::MAX);
    let mut below = 0;
    for banks in counts {
        // Banks `below..banks` are those of every allocator with at least `banks`.
        let there: Vec<&AllocatorGeometry> = on
            .iter()
            .copied()
            .filter(|allocator| allocator.banks >= banks)
            .collect();
        let per_bank = match there.as_slice() {
            [one] => one.taken.len(),
            several => IntervalSet::union_within(everywhere, taken(several)).len(),
        };
        bytes = bytes.saturating_add(per_bank.saturating_mul(u64::from(banks - below)));
        below = banks;
    }
    let per_core: Vec<(CoreSet, Interval)> = on
        .iter()
        .flat_map(|allocator| allocator.per_core.iter().copied())
        .collect();
    if per_core.is_empty() {
        return bytes;
    }
    let lockstep = IntervalSet::union_within(everywhere, taken(on));
    let mut cores = CoreSet::default();
    for (some, _interval) in &per_core {
        cores.insert_all(some);
    }
    for index in cores.indices() {
        let here = IntervalSet::union_within(everywhere, on_core(&per_core, index));
        bytes = bytes.saturating_add(lockstep.missing_from(&here));
    }
    bytes
}

fn on_core(per_core: &[(CoreSet, Interval)], index: usize) -> impl Iterator<Item = Interval> {
    let (x, y) = coordinates(index);
    per_core
        .iter()
        .filter(move |(cores, _at)| cores.contains(x, y))
        .map(|(_cores, at)| *at)
}

fn coordinates(index: usize) -> (u16, u16) {
    let side = usize::from(GRID_SIDE);
    let coordinate = |value: usize| u16::try_from(value).unwrap_or(u16::MAX);
    (coordinate(index % side), coordinate(index / side))
}

/// A program on the cores where it ran last.
struct Resident<'v> {
    process: &'v ProcessView,
    program: &'v Program,
    on: &'v ProgramOnDevice,
    core_type: CoreType,
    cores: CoreSet,
}

impl<'v> Resident<'v> {
    /// How many of its cores are in a core set it defined.
    fn count_in(&self, cores: CoresId) -> u64 {
        let set = self.process.account.definitions.cores(cores);
        set.map_or(0, |set| u64::from(self.cores.intersection(set).len()))
    }

    fn cb_bytes(&self) -> u64 {
        if self.core_type != CoreType::Tensix {
            return 0;
        }
        let cbs = self.on.cbs().iter();
        cbs.map(|cb| cb.size_bytes * self.count_in(cb.cores_id))
            .sum()
    }

    fn kernel_bytes(&self) -> u64 {
        let kernels = self.on.kernels().iter();
        kernels
            .filter(|kernel| kernel.core_type == Some(self.core_type))
            .map(|kernel| kernel.binary_bytes.unwrap_or(0) * self.count_in(kernel.cores_id))
            .sum()
    }

    /// Its storage on one core that lies in no buffer.
    fn placed_on(&self, index: usize) -> impl Iterator<Item = &'v Cb> + use<'v> {
        let (x, y) = coordinates(index);
        let process = self.process;
        self.on.cbs().iter().filter(move |cb| {
            let cores = process.account.definitions.cores(cb.cores_id);
            !cb.kind.borrows() && cores.is_some_and(|cores| cores.contains(x, y))
        })
    }
}

/// What lies in the L1 of a device's compute cores.
struct L1<'g> {
    compute: ComputeL1,
    bounds: Interval,
    /// Buffers that lie on every core.
    buffers: IntervalSet,
    /// The same, and what no allocator hands out.
    base: IntervalSet,
    /// Buffers of some cores only.
    per_core: Vec<(CoreSet, Interval)>,
    /// Who ran last on each core.
    residents: BTreeMap<usize, &'g Resident<'g>>,
}

impl<'g> L1<'g> {
    fn new<'a>(
        compute: ComputeL1,
        on: impl Iterator<Item = &'a AllocatorGeometry>,
        residents: &'g [Resident<'g>],
    ) -> Self {
        let bounds = Interval::new(0, compute.bytes_per_core);
        let in_l1: Vec<_> = on.filter(|one| one.class.is_l1()).collect();
        let buffers = IntervalSet::union_within(bounds, taken(&in_l1));
        let reserved = Interval::new(0, compute.reserved_bytes);
        let with_reserved = buffers.parts().iter().copied().chain([reserved]);
        let base = IntervalSet::union_within(bounds, with_reserved);
        let per_core = in_l1.iter().flat_map(|one| one.per_core.iter().copied());
        let tensix = residents
            .iter()
            .filter(|one| one.core_type == CoreType::Tensix);
        let residents = tensix.flat_map(|one| one.cores.indices().map(move |core| (core, one)));
        Self {
            compute,
            bounds,
            buffers,
            base,
            per_core: per_core.collect(),
            residents: residents.collect(),
        }
    }

    /// Storage on a core of the program that ran last there.
    fn storage(&self, core: usize) -> IntervalSet {
        let resident = self.residents.get(&core);
        let cbs = resident.into_iter().flat_map(|one| one.placed_on(core));
        let cbs = cbs.map(|cb| Interval::new(cb.address, cb.size_bytes));
        IntervalSet::union_within(self.bounds, cbs)
    }

    /// Bytes from the end of a core's storage to its lowest buffer, or to the end of L1.
    fn headroom_on(&self, core: usize, storage: &IntervalSet) -> Option<i64> {
        let end = storage.parts().last()?.end;
        let everywhere = self.buffers.parts().first().map(|lowest| lowest.start);
        let own = on_core(&self.per_core, core).map(|one| one.start);
        let lowest = own.chain(everywhere).min();
        let lowest = lowest.unwrap_or(self.compute.bytes_per_core);
        let bytes = i128::from(lowest) - i128::from(end);
        i64::try_from(bytes).ok()
    }

    /// Bytes of a core that are in use, given its storage.
    fn occupied_on(&self, core: usize, storage: &IntervalSet) -> u64 {
        let own = on_core(&self.per_core, core);
        let more = storage.parts().iter().copied().chain(own);
        let more = IntervalSet::union_within(self.bounds, more);
        self.base.len() + self.base.missing_from(&more)
    }
}

/// L1 of the compute cores in use: reserved, buffers, storage of what ran last. And the headroom of
/// that storage, on the core where it is least.
fn occupied_l1(
    device: &Device,
    on: &[&AllocatorGeometry],
    residents: &[Resident<'_>],
) -> Option<(u64, Option<i64>)> {
    let compute = device.facts.compute?;
    let totals = &device.totals;
    let unplaced = totals.class(Class::L1).unplaced
        + totals.class(Class::L1Small).unplaced
        + totals.cb.unplaced;
    if unplaced > 0 {
        return None;
    }
    let l1 = L1::new(compute, on.iter().copied(), residents);
    let (mut occupied, mut headroom) = (0_u64, None);
    for core in compute.cores.indices() {
        let storage = l1.storage(core);
        occupied = occupied.saturating_add(l1.occupied_on(core, &storage));
        if let Some(here) = l1.headroom_on(core, &storage) {
            headroom = Some(headroom.map_or(here, |least: i64| least.min(here)));
        }
    }
    Some((occupied, headroom))
}
