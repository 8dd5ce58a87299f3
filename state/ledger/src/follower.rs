//! Devices that follow the accounts of processes, and effects for those who write them down.

use crate::device::{Device, DeviceFacts, DeviceKey};
use crate::effect::{Effect, EffectKind};
use crate::growth::Series;
use crate::left_behind::LeftBuffers;
use crate::shares::Holder;
use crate::tables::DeviceTable;
use std::sync::Arc;
use ttmem_account::{
    Anomalies, Anomaly, BufferRow, CacheCounters, Capacity, Charge, ChipKey, GaugeKind, Holding,
    Observer,
};
use ttmem_event::{Class, DeviceDefinition, EventKind, Source};

/// A new L1 peak is announced when it is this much above the last announced one.
const PEAK_STEP_BYTES: u64 = 1 << 20;

/// Effects that are collected before the listener must take them: closing a mesh
/// with a million buffers would otherwise report each on every device at once.
const MAX_EFFECTS: usize = 1 << 18;

/// Keeps devices in step with an account, and reports effects.
pub(crate) struct Follower<'a> {
    pub(crate) process: u32,
    pub(crate) source: Source,
    pub(crate) visible: &'a Arc<str>,
    pub(crate) slots: &'a mut Vec<u32>,
    pub(crate) table: &'a mut DeviceTable,
    pub(crate) anomalies: &'a mut Anomalies,
    pub(crate) effects: Option<&'a mut Vec<Effect>>,
    pub(crate) omitted_effects: &'a mut u64,
    pub(crate) exceptions: &'a mut u64,
    pub(crate) uid: u32,
    pub(crate) order: u64,
    /// Whether what is booked is no part of the devices yet.
    pub(crate) aside: bool,
    pub(crate) left_at_close: &'a mut Arc<LeftBuffers>,
    /// The marks of the process, and those of readers.
    pub(crate) series: [&'a Arc<Series>; 2],
}

impl Follower<'_> {
    fn device(&self, slot: u32) -> &Device {
        &self.table.devices[self.slots[slot as usize] as usize]
    }

    fn holder(&self) -> Holder {
        Holder {
            uid: self.uid,
            process: self.process.into(),
        }
    }

    #[inline(always)]
    fn device_mut(&mut self, slot: u32) -> &mut Device {
        self.table.change(self.slots[slot as usize])
    }

    #[inline]
    fn effect(&mut self, slot: Option<u32>, time: u64, kind: EffectKind) {
        let Some(effects) = self.effects.as_deref_mut() else {
            return;
        };
        if effects.len() >= MAX_EFFECTS {
            *self.omitted_effects += 1;
            return;
        }
        effects.push(Effect {
            time,
            process: self.process,
            device: slot.map(|slot| self.slots[slot as usize]),
            kind,
        });
    }

    #[inline(never)]
    fn report(&mut self, slot: u32, holding: &Holding<'_>, booked: bool, time: u64) {
        let totals = &self.device(slot).totals;
        let total_bytes = totals.gauge(holding.gauge()).bytes();
        let bytes = holding.bytes();
        let kind = match *holding {
            Holding::Cb(program, _cb) if booked => EffectKind::CbBooked {
                program: program.0,
                bytes,
                total_bytes,
            },
            Holding::Cb(program, _cb) => EffectKind::CbReleased {
                program: program.0,
                bytes,
                total_bytes,
            },
            Holding::Kernel(program, kernel) if booked => EffectKind::KernelBooked {
                program: program.0,
                kind: kernel.kind,
                core_type: kernel.core_type,
                binary_bytes: kernel.binary_bytes,
                cores: kernel.core_count,
                bytes,
                total_bytes,
            },
            Holding::Kernel(program, kernel) => EffectKind::KernelReleased {
                program: program.0,
                kind: kernel.kind,
                bytes,
                total_bytes,
            },
        };
        self.effect(Some(slot), time, kind);
    }

    /// Reports a buffer that was given back, or one booking of it.
    #[inline(never)]
    fn report_freed(&mut self, slot: u32, row: &BufferRow, references: u32, time: u64) {
        let kind = EffectKind::BufferReleased {
            class: row.class,
            id: row.id,
            bytes: row.charged_bytes(),
            references,
        };
        self.effect(Some(slot), time, kind);
    }

    /// Reports a booked buffer, and a new L1 peak if it is one.
    #[inline(never)]
    fn report_buffer(&mut self, slot: u32, row: &BufferRow, time: u64) {
        let booked = EffectKind::BufferBooked {
            class: row.class,
            id: row.id,
            bytes: row.charged_bytes(),
            address: row.address,
            per_bank_bytes: row.per_bank_bytes,
            operation: row.operation,
            references: row.references,
        };
        self.effect(Some(slot), time, booked);
        if row.class != Class::L1 {
            return;
        }
        let device = self.device_mut(slot);
        let l1 = device.totals.class(Class::L1);
        let (bytes, buffers) = (l1.charged.bytes(), l1.buffers);
        if bytes >= device.announced_l1_peak + PEAK_STEP_BYTES {
            device.announced_l1_peak = bytes;
            self.effect(Some(slot), time, EffectKind::L1Peak { bytes, buffers });
        }
    }
}

impl Observer for Follower<'_> {
    fn device_added(&mut self, slot: u32, key: ChipKey) -> Result<(), Anomaly> {
        debug_assert_eq!(slot as usize, self.slots.len(), "devices come in order");
        let (key, logical_id, unique_id) = match key {
            ChipKey::Unique(id) => (DeviceKey::Unique(id), 0, Some(id)),
            ChipKey::Logical(id) => {
                let visible = Arc::clone(self.visible);
                (DeviceKey::Logical { visible, id }, id, None)
            }
        };
        let facts = || DeviceFacts {
            logical_id,
            unique_id,
            ..DeviceFacts::default()
        };
        let holder = self.holder();
        let index = self.table.refer(key, facts, holder)?;
        let source = self.source;
        let device = self.table.change(index);
        // Of several kinds of sources the best is named: their numbers are in that order.
        let known = device.source.map_or(source, |known| known.min(source));
        device.source = Some(known);
        self.slots.push(index);
        Ok(())
    }

    fn device_described(&mut self, slot: u32, definition: &DeviceDefinition, board: Option<&str>) {
        let holder = self.holder();
        let device = self.device_mut(slot);
        if device.is_described_by(holder) {
            device.describe(definition, board);
        }
    }

    fn capacity_reported(&mut self, slot: u32, class: Class, capacity: Capacity) {
        let holder = self.holder();
        let device = self.device_mut(slot);
        if device.is_described_by(holder) {
            device.facts.capacities[class.index()] = Some(capacity);
        }
    }

    fn configured_capacity(&self, slot: u32, class: Class) -> Option<Capacity> {
        self.device(slot).configured?[class.index()]
    }

    #[inline]
    fn device_peaks(&self, slot: u32, gauge: GaugeKind) -> u64 {
        self.device(slot).peaks[gauge.index()]
    }

    #[inline(always)]
    fn buffer_booked(&mut self, slot: u32, charge: Charge, row: &BufferRow, time: u64) -> u64 {
        if self.aside {
            return self.device_peaks(slot, GaugeKind::Class(charge.class));
        }
        let order = self.order;
        let device = self.device_mut(slot);
        let peaks = &mut device.peaks[charge.class.index()];
        let before = *peaks;
        if device.totals.book_buffer(charge, time, order) {
            *peaks = before + 1;
        }
        if self.effects.is_some() {
            self.report_buffer(slot, row, time);
        }
        before
    }

    #[inline(always)]
    fn buffer_released(&mut self, slot: u32, charge: Charge, row: &BufferRow, time: u64) -> u64 {
        debug_assert!(!self.aside, "a state gives nothing back");
        let device = self.device_mut(slot);
        device.totals.release_buffer(charge);
        let peaks = device.peaks[charge.class.index()];
        if self.effects.is_some() {
            self.report_freed(slot, row, 0, time);
        }
        peaks
    }

    fn left_behind(&mut self, row: &BufferRow, devices: u64) {
        let [own, readers] = self.series;
        let left = Arc::make_mut(self.left_at_close);
        left.count_by(own.or(readers));
        left.add(row, devices);
    }

    #[inline(always)]
    fn booked(&mut self, slot: u32, holding: &Holding<'_>, time: u64) -> u64 {
        if self.aside {
            return self.device_peaks(slot, holding.gauge());
        }
        let order = self.order;
        let device = self.device_mut(slot);
        let peaks = device.peaks[holding.gauge().index()];
        if device.totals.book(holding, time, order) {
            device.peaks[holding.gauge().index()] = peaks + 1;
        }
        if self.effects.is_some() {
            self.report(slot, holding, true, time);
        }
        peaks
    }

    #[inline(always)]
    fn released(&mut self, slot: u32, holding: &Holding<'_>, time: u64) -> u64 {
        let device = self.device_mut(slot);
        device.totals.release(holding);
        let peaks = device.peaks[holding.gauge().index()];
        if self.effects.is_some() {
            self.report(slot, holding, false, time);
        }
        peaks
    }

    fn referenced(&mut self, slot: u32, row: &BufferRow, more: bool, time: u64) {
        if self.effects.is_none() {
            return;
        }
        if more {
            return self.report_buffer(slot, row, time);
        }
        self.report_freed(slot, row, row.references, time);
    }

    fn unique_kernels_changed(&mut self, slot: u32, before: u64, after: u64) {
        if self.aside {
            return;
        }
        self.device_mut(slot).totals.change_unique(before, after);
    }

    #[inline]
    fn counted(&mut self, slot: u32, counted: &CacheCounters) {
        self.device_mut(slot).caches.add(counted);
    }

    fn happened(&mut self, content: &EventKind, time: u64) {
        if matches!(content, EventKind::MeshOpened { .. }) && !self.left_at_close.groups.is_empty()
        {
            Arc::make_mut(self.left_at_close).begin_again();
        }
        self.effect(None, time, EffectKind::Happened(*content));
    }

    fn contradicted(&mut self, anomaly: Anomaly, content: &EventKind, time: u64) {
        self.anomalies.count(anomaly);
        *self.exceptions += 1;
        let event = *content;
        self.effect(None, time, EffectKind::Contradicted { anomaly, event });
    }
}
