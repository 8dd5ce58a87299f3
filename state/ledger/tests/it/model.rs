//! A second, naive ledger for well-formed sequences, and the comparison with it.
//!
//! It knows no totals: it keeps the live things in plain maps and adds them up
//! when asked. It shares nothing with the ledger but the vocabulary.

use crate::scripts::SMALL;
use crate::world::{Process, World};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;
use ttmem_event::{CbKind, Class, CoreSet, CoreType, KernelKind};
use ttmem_ledger::{Departure, Totals};

const DEVICES: usize = 3;
const PROCESSES: usize = 3;
/// The devices of every mesh; each process has these four.
const MESHES: [&[usize]; 4] = [&[0], &[1, 0], &[2, 1, 0], &[2]];
/// How many cores each defined core set has.
const CORE_SETS: [(u32, u64); 2] = [(1, 12), (2, 4)];
const CLASSES: [(Class, u64); 3] = [(Class::Dram, 4), (Class::L1, 12), (Class::L1Small, 12)];

/// Something a program that makes no mistakes can do.
#[derive(Clone, Copy, Debug)]
enum Act {
    Allocate {
        mesh: usize,
        class: usize,
        per_bank: u64,
        requested: u64,
    },
    Free {
        which: usize,
    },
    Release {
        mesh: usize,
        class: Option<usize>,
    },
    PlaceCb {
        mesh: usize,
        program: u64,
        number: u32,
        size: u64,
        cores: usize,
    },
    FreeCbs {
        mesh: usize,
        program: u64,
    },
    LoadKernel {
        mesh: usize,
        program: u64,
        kernel: u64,
        cores: usize,
    },
    Unload {
        mesh: usize,
        program: u64,
    },
    Run {
        mesh: usize,
        program: u64,
    },
    Destroy {
        program: u64,
    },
    CloseMesh {
        mesh: usize,
    },
    CloseDevice {
        device: usize,
    },
    Leave,
}

fn any_act() -> impl Strategy<Value = Act> {
    let mesh = || 0..MESHES.len();
    let program = || 0..4_u64;
    let cores = || 0..CORE_SETS.len();
    prop_oneof![
        12 => (mesh(), 0..CLASSES.len(), 1..40_u64, 1..500_u64).prop_map(
            |(mesh, class, per_bank, requested)| Act::Allocate { mesh, class, per_bank, requested }
        ),
        6 => (0..20_usize).prop_map(|which| Act::Free { which }),
        1 => (mesh(), proptest::option::of(0..CLASSES.len()))
            .prop_map(|(mesh, class)| Act::Release { mesh, class }),
        6 => (mesh(), program(), 0..3_u32, 1..100_u64, cores()).prop_map(
            |(mesh, program, number, size, cores)| {
                Act::PlaceCb { mesh, program, number, size, cores }
            }
        ),
        2 => (mesh(), program()).prop_map(|(mesh, program)| Act::FreeCbs { mesh, program }),
        6 => (mesh(), program(), 0..3_u64, cores()).prop_map(
            |(mesh, program, kernel, cores)| Act::LoadKernel { mesh, program, kernel, cores }
        ),
        2 => (mesh(), program()).prop_map(|(mesh, program)| Act::Unload { mesh, program }),
        4 => (mesh(), program()).prop_map(|(mesh, program)| Act::Run { mesh, program }),
        2 => program().prop_map(|program| Act::Destroy { program }),
        1 => mesh().prop_map(|mesh| Act::CloseMesh { mesh }),
        1 => (0..DEVICES).prop_map(|device| Act::CloseDevice { device }),
        1 => Just(Act::Leave),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    mesh: usize,
    class: usize,
    per_bank: u64,
    requested: u64,
}

#[derive(Clone, Debug, Default)]
struct Holder {
    buffers: HashMap<u64, Buffer>,
    /// By program, device and number.
    cbs: HashMap<(u64, usize, u32), u64>,
    /// By program, device and binary.
    kernels: HashMap<(u64, usize, u64), u64>,
    next_buffer: u64,
}

/// What a holder has on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    classes: [(u64, u64, u64); CLASSES.len()],
    cb: (u64, u64),
    kernel: (u64, u64, u64),
}

impl Holder {
    fn sums(&self, device: usize) -> Sums {
        let mut sums = Sums::default();
        let here = self
            .buffers
            .values()
            .filter(|buffer| MESHES[buffer.mesh].contains(&device));
        for buffer in here {
            let class = &mut sums.classes[buffer.class];
            class.0 += buffer.per_bank * CLASSES[buffer.class].1;
            class.1 += buffer.requested;
            class.2 += 1;
        }
        let cbs = self.cbs.iter().filter(|(key, _bytes)| key.1 == device);
        sums.cb = cbs.fold((0, 0), |(bytes, count), (_key, more)| {
            (bytes + more, count + 1)
        });
        let mut largest: HashMap<u64, u64> = HashMap::new();
        for ((_program, _device, kernel), bytes) in
            self.kernels.iter().filter(|(key, _bytes)| key.1 == device)
        {
            sums.kernel.0 += bytes;
            sums.kernel.1 += 1;
            let known = largest.entry(*kernel).or_default();
            *known = (*known).max(*bytes);
        }
        sums.kernel.2 = largest.values().sum();
        sums
    }

    fn fits(&self, mesh: usize, class: usize, per_bank: u64) -> bool {
        let same = self
            .buffers
            .values()
            .filter(|one| (one.mesh, one.class) == (mesh, class));
        let taken: u64 = same.map(|one| one.per_bank).sum();
        let name = CLASSES[class].0;
        let bank = SMALL.classes.iter().find(|(each, ..)| *each == name);
        let (.., bank) = bank.expect("the board has the class");
        taken + per_bank <= *bank
    }
}

fn sums_of(totals: &Totals) -> Sums {
    let classes = CLASSES.map(|(class, _banks)| {
        let class = totals.class(class);
        (class.charged.bytes(), class.requested_bytes, class.buffers)
    });
    let (cb, kernel) = (&totals.cb, &totals.kernel);
    Sums {
        classes,
        cb: (cb.registered.bytes(), cb.count),
        kernel: (kernel.registered.bytes(), kernel.count, kernel.unique_bytes),
    }
}

/// The ledger and the model, side by side.
struct Pair {
    world: World,
    processes: Vec<Process>,
    holders: Vec<Holder>,
}

fn open(world: &mut World) -> Process {
    let process = world.process("model");
    let mut says = world.by(process);
    for device in 0..3 {
        says.device(device, Some(u64::from(device)), &SMALL);
    }
    for (mesh, devices) in (0..).zip(MESHES) {
        let ids: Vec<u32> = devices
            .iter()
            .map(|device| u32::try_from(*device).expect("three devices"))
            .collect();
        says.mesh(mesh, &ids, &SMALL);
    }
    says.cores(1, CoreSet::grid(4, 3))
        .cores(2, CoreSet::grid(2, 2));
    process
}

impl Pair {
    fn new() -> Self {
        let mut world = World::new();
        let processes = (0..PROCESSES).map(|_each| open(&mut world)).collect();
        Self {
            world,
            processes,
            holders: vec![Holder::default(); PROCESSES],
        }
    }

    fn act(&mut self, who: usize, act: Act) {
        let process = self.processes[who];
        let holder = &mut self.holders[who];
        let mut says = self.world.by(process);
        let number = |mesh: usize| u32::try_from(mesh).expect("four meshes");
        match act {
            Act::Allocate {
                mesh,
                class,
                per_bank,
                requested,
            } => {
                if !holder.fits(mesh, class, per_bank) {
                    return;
                }
                holder.next_buffer += 1;
                let id = holder.next_buffer;
                let name = CLASSES[class].0;
                says.on(number(mesh))
                    .alloc_asking(id, name, 256, per_bank, requested);
                let buffer = Buffer {
                    mesh,
                    class,
                    per_bank,
                    requested,
                };
                holder.buffers.insert(id, buffer);
            }
            Act::Free { which } => {
                let mut live: Vec<u64> = holder.buffers.keys().copied().collect();
                live.sort_unstable();
                if let Some(id) = live.get(which % live.len().max(1)) {
                    says.free(*id);
                    holder.buffers.remove(id);
                }
            }
            Act::Release { mesh, class } => {
                says.on(number(mesh))
                    .release_all(class.map(|class| CLASSES[class].0));
                holder.buffers.retain(|_id, buffer| {
                    buffer.mesh != mesh || class.is_some_and(|class| class != buffer.class)
                });
            }
            Act::PlaceCb {
                mesh,
                program,
                number: cb,
                size,
                cores,
            } => {
                let (id, count) = CORE_SETS[cores];
                says.on(number(mesh))
                    .storage(CbKind::Local, program, cb, 300, size, id);
                for device in MESHES[mesh] {
                    holder.cbs.insert((program, *device, cb), size * count);
                }
            }
            Act::FreeCbs { mesh, program } => {
                says.on(number(mesh)).free_cb(program, None);
                holder
                    .cbs
                    .retain(|key, _bytes| key.0 != program || !MESHES[mesh].contains(&key.1));
            }
            Act::LoadKernel {
                mesh,
                program,
                kernel,
                cores,
            } => {
                let (id, count) = CORE_SETS[cores];
                let kind = (KernelKind::Application, CoreType::Tensix);
                says.on(number(mesh))
                    .kernel(program, kernel, kind, 10 + kernel, id);
                for device in MESHES[mesh] {
                    holder
                        .kernels
                        .insert((program, *device, kernel), (10 + kernel) * count);
                }
            }
            Act::Unload { mesh, program } => {
                if holder.kernels.keys().any(|key| key.0 == program) {
                    says.on(number(mesh)).unload(program, None);
                }
                holder
                    .kernels
                    .retain(|key, _bytes| key.0 != program || !MESHES[mesh].contains(&key.1));
            }
            Act::Run { mesh, program } => {
                says.on(number(mesh)).dispatch(program);
            }
            Act::Destroy { program } => {
                // Created before, so that there is something to destroy in any case.
                says.create(program).destroy(program);
                holder.cbs.retain(|key, _bytes| key.0 != program);
                holder.kernels.retain(|key, _bytes| key.0 != program);
            }
            Act::CloseMesh { mesh } => {
                // A runtime that opens it again reports its capacities again.
                says.on(number(mesh)).close_mesh();
                says.capacities(number(mesh), &SMALL);
                holder.buffers.retain(|_id, buffer| buffer.mesh != mesh);
            }
            Act::CloseDevice { device } => {
                says.close_device(number(device));
                for mesh in (0..MESHES.len()).filter(|mesh| MESHES[*mesh].contains(&device)) {
                    says.capacities(number(mesh), &SMALL);
                }
                holder
                    .buffers
                    .retain(|_id, buffer| !MESHES[buffer.mesh].contains(&device));
                holder.cbs.retain(|key, _bytes| key.1 != device);
                holder.kernels.retain(|key, _bytes| key.1 != device);
            }
            Act::Leave => {
                *holder = Holder::default();
                self.world.depart(process, Departure::Exited);
                self.processes[who] = open(&mut self.world);
            }
        }
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let view = self.world.view();
        for device in 0..DEVICES {
            let mut all = Sums::default();
            for (process, holder) in self.processes.iter().zip(&self.holders) {
                let sums = holder.sums(device);
                let process = view.process(process.0).expect("the process lives");
                prop_assert_eq!(&sums_of(&process.account.devices[device].totals), &sums);
                for (all, more) in all.classes.iter_mut().zip(sums.classes) {
                    *all = (all.0 + more.0, all.1 + more.1, all.2 + more.2);
                }
                all.cb = (all.cb.0 + sums.cb.0, all.cb.1 + sums.cb.1);
                let (mine, more) = (all.kernel, sums.kernel);
                all.kernel = (mine.0 + more.0, mine.1 + more.1, mine.2 + more.2);
            }
            prop_assert_eq!(&sums_of(&view.devices[device].totals), &all);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn a_naive_ledger_has_the_same_totals(
        acts in vec((0..PROCESSES, any_act()), 0..80),
    ) {
        let mut pair = Pair::new();
        for (step, (who, act)) in acts.into_iter().enumerate() {
            pair.act(who, act);
            if step % 16 == 0 {
                pair.compare()?;
            }
        }
        pair.compare()?;
    }
}
