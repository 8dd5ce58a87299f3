//! An account with its definitions, exactly as it is.
//!
//! What a client sends is enough to know what is live. A recording that goes on from such a state has
//! to come to the same figures, rows and order of rows as the account that went on itself, so this has
//! in addition what the server knows and the client does not: where rows lie, when devices had their
//! peaks, what was counted. It is read through the same checks, and a state that does not come out as
//! it was saved is refused as a whole.

use super::codec::{Codec, Out, Reader, Room};
use super::load::Loading;
use crate::account::{Account, DeviceIndex};
use crate::anomaly::Anomalies;
use crate::apply::Apply;
use crate::buffers::BufferRow;
use crate::device::{Capacity, ComputeL1, DeviceMoment, HeldDevice};
use crate::freed::Freed;
use crate::legacy_cbs::LegacyCb;
use crate::limits::Limits;
use crate::mark::{MAX_MARKS, Mark, Marks};
use crate::mesh::Mesh;
use crate::program::Program;
use crate::residency::Vacated;
use crate::totals::{GaugeKind, Totals};
use crate::untracked::NotTracked;
use std::sync::Arc;
use ttmem_event::catalogue::Arch;
use ttmem_event::event::EVENT_BYTES;
use ttmem_event::wire::DefinitionIter;
use ttmem_event::{
    Class, CoreSet, CoreType, Definition, DeviceDefinition, Event, EventKind, MeshDefinition,
    Source,
};

/// Bytes of a state for which one more slot may be free.
const BYTES_PER_SLOT: usize = 32;

/// Work units between looks at what is left of a budget.
const WORK_AT_ONCE: u64 = 1 << 18;

/// A free slot in the list of an account, and where it was checked.
const SLOT_BYTES: usize = 2 * size_of::<u32>() + 1;

/// Figures above this are noise: sums of them must not overflow.
const MAX_FIGURE: u64 = 1 << 56;

/// How many slots may still be laid out as they were: free ones take memory, and no bytes to speak of.
#[derive(Debug)]
pub struct SlotRoom(usize);

impl Default for SlotRoom {
    fn default() -> Self {
        Self(1 << 20)
    }
}

impl SlotRoom {
    fn add(&mut self, state: &[u8]) {
        self.0 = self.0.saturating_add(state.len() / BYTES_PER_SLOT);
    }

    fn take(&mut self, slots: usize) -> bool {
        let left = self.0.checked_sub(slots);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// What is known of an account besides its definitions and what its client knows.
#[derive(Debug)]
struct SavedAside {
    lost_events: u64,
    elided_events: u64,
    anomalies: Anomalies,
    devices: Vec<SavedAsideDevice>,
    /// Whether each mesh has something that ends when it closes.
    meshes_in_use: Vec<bool>,
    /// Buffers, old circular buffers, programs, and what was freed since a peak.
    slots: Vec<Vec<u32>>,
}

#[derive(Debug)]
struct SavedAsideDevice {
    compute: Option<ComputeL1>,
    capacities: [Option<Capacity>; Class::COUNT],
    totals: Totals,
    moments: [DeviceMoment; GaugeKind::COUNT],
}

crate::codec! { describe_aside:
    SavedAside { lost_events, elided_events, anomalies, devices, meshes_in_use, slots };
    SavedAsideDevice { compute, capacities, totals, moments };
    DeviceMoment { order } counts { peak_number };
    NotTracked { what, why };
    Mark { time, name, number };
}

/// Gives every field of a whole account that is in no other description.
pub fn describe_whole(give: &mut dyn FnMut(&'static str, &'static str, &'static str)) {
    super::describe(give);
    describe_aside(give);
}

crate::codec_as_numbers! {
    Arch: u16 = Arch::code, |code| Some(Arch::from_code(code));
    Source: u8 = Source::code, Source::from_code;
}

impl Account {
    /// Appends everything that is known of the process, its definitions included.
    ///
    /// It must not be in the middle of an event.
    pub fn save_whole(&self, out: &mut Out, room: &mut SlotRoom) {
        self.legacy.put(out);
        put_block(out, |out| self.put_definitions(out));
        let state = put_block(out, |out| self.save(out));
        room.add(&out.bytes[state..]);
        let devices = self.facts.devices.iter();
        let aside = SavedAside {
            lost_events: self.facts.lost_events,
            elided_events: self.facts.elided_events,
            anomalies: self.facts.anomalies.clone(),
            devices: devices
                .map(|held| SavedAsideDevice {
                    compute: held.compute,
                    capacities: held.capacities,
                    totals: held.totals,
                    moments: held.moments,
                })
                .collect(),
            meshes_in_use: self.facts.meshes.iter().map(|mesh| mesh.in_use).collect(),
            slots: self.slots(room),
        };
        aside.put(out);
    }

    /// Where the rows of each table lie, as far as there is room to lay them out so again.
    fn slots(&self, room: &mut SlotRoom) -> Vec<Vec<u32>> {
        let buffers = self.buffers_by_age();
        let buffers = self.buffers.rows.stack(slots_of(&buffers));
        let cbs = self.legacy_cbs_by_age();
        let cbs = self.legacy_cbs.rows.stack(slots_of(&cbs));
        let programs: Vec<_> = self.programs.iter().collect();
        let programs = self.programs.stack(slots_of(&programs));
        let freed = self.freed_by_age();
        let freed = self.freed.pages().stack(slots_of(&freed));
        let mut all = vec![buffers, cbs, programs, freed];
        for stack in &mut all {
            if !room.take(stack.len()) {
                stack.clear();
            }
        }
        all
    }

    /// Reads what [`Account::save_whole`] wrote, its texts renamed; none if it is anything else.
    #[must_use]
    pub fn load_whole(
        read: &mut Reader<'_>,
        limits: &Limits,
        room: &mut SlotRoom,
        rename: &mut dyn FnMut(&str) -> Arc<str>,
    ) -> Option<Self> {
        let mut account = Self::new(read.get()?);
        for definition in DefinitionIter::new(get_block(read)?) {
            let definition = definition.ok()?;
            read.room.draw(room_of(&definition))?;
            let definition = match definition {
                Definition::Text { id, text } => Definition::Text {
                    id,
                    text: rename(&text).to_string(),
                },
                other => other,
            };
            account.define(&definition, limits, &mut ()).ok()?;
        }
        let state = get_block(read)?;
        room.add(state);
        let aside: SavedAside = read.get()?;
        account.prepare(&aside.slots, room, &mut read.room)?;
        let mut loading = Loading::within(account, read.room.part());
        while !loading.go_on(state, &|time| time, limits, &mut (), WORK_AT_ONCE) {
            read.room.spend(WORK_AT_ONCE)?;
        }
        let (mut account, part) = loading.into_whole();
        read.room.join(part)?;
        account.take_aside(aside, limits)?;
        Some(account)
    }

    fn prepare(
        &mut self,
        slots: &[Vec<u32>],
        room: &mut SlotRoom,
        memory: &mut Room,
    ) -> Option<()> {
        let [buffers, cbs, programs, freed] = slots else {
            return None;
        };
        let mut lay = |stack: &Vec<u32>, row: usize, prepare: &mut dyn FnMut(Vec<u32>) -> bool| {
            memory.draw(stack.len().checked_mul(row + SLOT_BYTES)?)?;
            let is_laid = stack.is_empty() || (room.take(stack.len()) && prepare(stack.clone()));
            is_laid.then_some(())
        };
        lay(buffers, size_of::<Option<BufferRow>>(), &mut |stack| {
            self.buffers.rows.prepare(stack)
        })?;
        lay(cbs, size_of::<Option<LegacyCb>>(), &mut |stack| {
            self.legacy_cbs.rows.prepare(stack)
        })?;
        lay(programs, size_of::<Option<Program>>(), &mut |stack| {
            self.programs.prepare(stack)
        })?;
        lay(freed, size_of::<Option<Freed>>(), &mut |stack| {
            self.freed.pages_mut().prepare(stack)
        })
    }

    /// Takes what its client does not know, if what its client knows came out as it was.
    fn take_aside(&mut self, aside: SavedAside, limits: &Limits) -> Option<()> {
        let facts = &mut self.facts;
        if facts.devices.len() != aside.devices.len()
            || facts.meshes.len() != aside.meshes_in_use.len()
        {
            return None;
        }
        for (held, saved) in facts.devices.iter_mut().zip(aside.devices) {
            let (mut totals, mut counted) = (saved.totals, held.totals);
            let mut figures = totals.figures().zip(counted.figures());
            if !figures.all(|((.., saved), (.., counted))| *saved == *counted) {
                return None;
            }
            drop(figures);
            // With peaks that its client claimed and that could not be.
            held.totals = saved.totals;
            for capacity in saved.capacities.iter().flatten() {
                capacity.check().ok()?;
            }
            held.compute = saved.compute;
            held.capacities = saved.capacities;
            held.moments = saved.moments;
        }
        facts.lost_events = aside.lost_events;
        facts.elided_events = aside.elided_events;
        facts.anomalies = aside.anomalies;
        for (mesh, is_used) in (0..).zip(aside.meshes_in_use) {
            if is_used {
                let mut apply = Apply {
                    account: self,
                    observer: &mut (),
                    limits,
                    time: 0,
                };
                apply.use_mesh(mesh);
            }
        }
        Some(())
    }

    /// Appends its definitions in an order in which they give the same slots again.
    fn put_definitions(&self, out: &mut Vec<u8>) {
        let definitions = &self.facts.definitions;
        for (id, text) in definitions.all_texts() {
            let text = text.to_string();
            Definition::Text { id, text }.encode(out);
        }
        for (id, cores) in definitions.all_cores() {
            Definition::Cores { id, cores: *cores }.encode(out);
        }
        let firsts = self.facts.devices.iter().filter_map(|held| held.id);
        let firsts: Vec<u32> = firsts.map(|id| id.0).collect();
        let mut others: Vec<u32> = self.device_definitions.keys().copied().collect();
        others.sort_unstable();
        others.retain(|id| !firsts.contains(id));
        for id in firsts.iter().chain(&others) {
            let definition: Option<&DeviceDefinition> = self.device_definitions.get(id);
            definition
                .into_iter()
                .for_each(|each| Definition::Device(each.clone()).encode(out));
        }
        for mesh in &self.facts.meshes {
            let Some(id) = mesh.id else { continue };
            let devices = mesh.devices.iter();
            let devices = devices.filter_map(|slot| self.facts.devices.get(*slot as usize)?.id);
            let definition = MeshDefinition {
                id,
                kind: mesh.kind,
                handle: mesh.handle,
                // Nothing is made of its shape.
                rows: 0,
                columns: 0,
                devices: devices.collect(),
            };
            Definition::Mesh(definition).encode(out);
        }
    }
}

/// What a definition takes at most: in tables that grow, and what is made of devices and meshes.
fn room_of(definition: &Definition) -> usize {
    match definition {
        Definition::Text { text, .. } => 2 * text.len() + 256,
        Definition::Cores { .. } => 4 * size_of::<CoreSet>(),
        Definition::Device(_) => 2 * (size_of::<HeldDevice>() + size_of::<DeviceIndex>()) + 256,
        Definition::Mesh(mesh) => 2 * size_of::<Mesh>() + 64 * mesh.devices.len() + 512,
    }
}

fn slots_of<'r, T>(rows: &'r [(u32, &T)]) -> impl DoubleEndedIterator<Item = u32> + 'r {
    rows.iter().map(|(slot, _row)| *slot)
}

/// Appends bytes behind their length; returns where they begin.
fn put_block(out: &mut Out, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    let at = out.bytes.len();
    0_u64.put(out);
    let start = out.bytes.len();
    write(&mut out.bytes);
    let length = (out.bytes.len() - start) as u64;
    out.bytes[at..start].copy_from_slice(&length.to_le_bytes());
    start
}

fn get_block<'a>(read: &mut Reader<'a>) -> Option<&'a [u8]> {
    let length = read.get::<u64>()?;
    read.take(usize::try_from(length).ok()?)
}

impl Codec for Anomalies {
    const NAME: &'static str = "anomalies";
    fn put(&self, out: &mut Out) {
        let counts: Vec<u64> = self.iter().map(|(_anomaly, count)| count).collect();
        counts.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        Self::of_counts(&read.get::<Vec<u64>>()?)
    }
}

impl Codec for Totals {
    const NAME: &'static str = "Totals";
    fn put(&self, out: &mut Out) {
        let mut totals = *self;
        totals.figures().for_each(|(.., figure)| figure.put(out));
        for gauge in GaugeKind::all() {
            self.gauge(gauge).put(out);
        }
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let mut figures = Vec::new();
        for _figure in Self::default().figures() {
            figures.push(read.get::<u64>().filter(|figure| *figure <= MAX_FIGURE)?);
        }
        let mut totals = Self::default();
        for gauge in GaugeKind::all() {
            *totals.gauge_mut(gauge) = read.get()?;
        }
        let all = totals.figures().zip(figures);
        all.for_each(|((.., figure), saved)| *figure = saved);
        Some(totals)
    }
}

impl Codec for CoreSet {
    const NAME: &'static str = "CoreSet";
    fn put(&self, out: &mut Out) {
        let rows: Vec<(u8, u32)> = self.rows().collect();
        rows.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let mut cores = Self::default();
        let is_whole = read.each(|(row, columns)| cores.insert_row(row, columns));
        is_whole.then_some(cores)
    }
}

impl Codec for ComputeL1 {
    const NAME: &'static str = "ComputeL1";
    fn put(&self, out: &mut Out) {
        (self.cores, self.bytes_per_core, self.reserved_bytes).put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let (cores, bytes_per_core, reserved_bytes) = read.get()?;
        let can_be = reserved_bytes <= bytes_per_core && bytes_per_core <= u64::from(u32::MAX);
        can_be.then_some(Self {
            cores,
            bytes_per_core,
            reserved_bytes,
        })
    }
}

impl Codec for Marks {
    const NAME: &'static str = "Marks";
    fn put(&self, out: &mut Out) {
        self.stretches.put(out);
        self.owners.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let marks = Self {
            stretches: read.get()?,
            owners: read.get()?,
        };
        let can_be =
            marks.stretches.len() <= MAX_MARKS && marks.owners.len() == marks.stretches.len();
        can_be.then_some(marks)
    }
}

/// Appends cores whose last program is gone.
pub fn put_vacated(vacated: Option<&Vacated>, out: &mut Out) {
    let mut all: Vec<(CoreType, (u64, u64), CoreSet)> = Vec::new();
    for core_type in CoreType::ALL {
        let claims = vacated.into_iter().flat_map(|left| left.claims(core_type));
        all.extend(claims.map(|(run, time, cores)| (core_type, (run, time), cores)));
    }
    all.put(out);
}

/// Reads what [`put_vacated`] wrote.
#[must_use]
pub fn get_vacated(read: &mut Reader<'_>) -> Option<Option<Arc<Vacated>>> {
    let mut vacated: Option<Vacated> = None;
    let is_whole = read.each(
        |(core_type, (run, time), cores): (CoreType, (u64, u64), CoreSet)| {
            vacated
                .get_or_insert_default()
                .leave(core_type, &cores, run, time);
        },
    );
    let boxes = vacated.as_ref().map_or(0, Vacated::boxes);
    read.room.draw(2 * boxes * Vacated::BOX_BYTES)?;
    is_whole.then_some(vacated.map(Arc::new))
}

/// What an event says, as its record.
impl Codec for EventKind {
    const NAME: &'static str = "record";
    fn put(&self, out: &mut Out) {
        let (time, kind) = (0, *self);
        out.bytes.extend_from_slice(&Event { time, kind }.encode());
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let record: &[u8; EVENT_BYTES] = read.take(EVENT_BYTES)?.try_into().ok()?;
        Some(Event::decode(record).ok()?.kind)
    }
}
