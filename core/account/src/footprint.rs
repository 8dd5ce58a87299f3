//! What a value takes on the heap, about and rather too much.
//!
//! A ledger that is played from a file has a budget, and events change it in too many places to draw
//! each allocation. So it is measured now and then, and what events may have added since is estimated.

use crate::account::{
    Account, AccountFacts, AccountRows, Capturing, DeviceIndex, Loads, ProgramKey,
};
use crate::buffers::BufferRow;
use crate::config_ring::{CachedWorkload, ConfigRing, ConfigRingEntry, Prefetcher};
use crate::definitions::Definitions;
use crate::device::{ChipKey, HeldDevice};
use crate::freed::Freed;
use crate::legacy_cbs::LegacyCb;
use crate::mark::{Mark, Marks};
use crate::mesh::{DeviceSet, Mesh};
use crate::program::{Cb, Cover, Kernel, Placement, Program, ProgramOnDevice};
use crate::residency::{Captured, Trace, Vacated};
use crate::totals::{PeakSet, Totals};
use crate::untracked::{NotTracked, Untracked};
use crate::{Map, Set};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use ttmem_event::{
    Class, CoreSet, CoreType, CoresId, DeviceDefinition, KernelId, MeshId, ProgramId, TextId,
    TraceId,
};

/// What the system's allocator adds to an allocation.
const ALLOCATION_BYTES: u64 = 16;

/// The counts of an `Arc`.
const ARC_BYTES: u64 = 16;

/// A value that may have something on the heap.
pub trait Footprint {
    /// Whether it never has.
    const FLAT: bool = false;

    /// The bytes that it has there.
    fn heap_bytes(&self) -> u64;
}

fn sum<'t, T: Footprint + 't>(items: impl IntoIterator<Item = &'t T>) -> u64 {
    if T::FLAT {
        return 0;
    }
    items.into_iter().map(Footprint::heap_bytes).sum()
}

fn allocation(count: usize, each: usize) -> u64 {
    match count as u64 * each as u64 {
        0 => 0,
        bytes => bytes + ALLOCATION_BYTES,
    }
}

impl<T: Footprint> Footprint for Vec<T> {
    fn heap_bytes(&self) -> u64 {
        allocation(self.capacity(), size_of::<T>()) + sum(self)
    }
}

impl<T: Footprint> Footprint for VecDeque<T> {
    fn heap_bytes(&self) -> u64 {
        allocation(self.capacity(), size_of::<T>()) + sum(self)
    }
}

impl<T: Footprint> Footprint for Option<T> {
    const FLAT: bool = T::FLAT;
    fn heap_bytes(&self) -> u64 {
        sum(self)
    }
}

impl<T: Footprint, const N: usize> Footprint for [T; N] {
    const FLAT: bool = T::FLAT;
    fn heap_bytes(&self) -> u64 {
        sum(self)
    }
}

impl<A: Footprint, B: Footprint> Footprint for (A, B) {
    const FLAT: bool = A::FLAT && B::FLAT;
    fn heap_bytes(&self) -> u64 {
        self.0.heap_bytes() + self.1.heap_bytes()
    }
}

impl<A: Footprint, B: Footprint, C: Footprint> Footprint for (A, B, C) {
    const FLAT: bool = A::FLAT && B::FLAT && C::FLAT;
    fn heap_bytes(&self) -> u64 {
        self.0.heap_bytes() + self.1.heap_bytes() + self.2.heap_bytes()
    }
}

/// Nodes are half full at worst.
impl<K: Footprint, V: Footprint> Footprint for BTreeMap<K, V> {
    fn heap_bytes(&self) -> u64 {
        let each = 2 * size_of::<(K, V)>() + 16;
        let nodes = if self.is_empty() { 0 } else { 11 };
        let inside = sum(self.keys()) + sum(self.values());
        allocation(self.len() + nodes, each) + inside
    }
}

impl<K: Footprint, V: Footprint, S: BuildHasher> Footprint for HashMap<K, V, S> {
    fn heap_bytes(&self) -> u64 {
        let each = size_of::<(K, V)>() + 1;
        let inside = sum(self.keys()) + sum(self.values());
        allocation(self.capacity() * 8 / 7, each) + inside
    }
}

impl<K: Footprint + Eq + Hash, V: Footprint> Footprint for Map<K, V> {
    fn heap_bytes(&self) -> u64 {
        allocation(self.allocation_size(), 1) + sum(self.keys()) + sum(self.values())
    }
}

impl<K: Footprint + Eq + Hash> Footprint for Set<K> {
    fn heap_bytes(&self) -> u64 {
        allocation(self.allocation_size(), 1) + sum(self)
    }
}

/// Each owner has its share.
fn shared<T: ?Sized>(arc: &Arc<T>, inside: u64) -> u64 {
    let bytes = inside + size_of_val(&**arc) as u64 + ARC_BYTES + ALLOCATION_BYTES;
    bytes.div_ceil(Arc::strong_count(arc).max(1) as u64)
}

impl<T: Footprint> Footprint for Arc<T> {
    fn heap_bytes(&self) -> u64 {
        shared(self, T::heap_bytes(self))
    }
}

impl<T: Footprint> Footprint for Arc<[T]> {
    fn heap_bytes(&self) -> u64 {
        shared(self, sum(self.iter()))
    }
}

impl Footprint for Arc<str> {
    fn heap_bytes(&self) -> u64 {
        shared(self, 0)
    }
}

/// Types that have nothing on the heap.
#[macro_export]
macro_rules! flat_footprint {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::footprint::Footprint for $type {
            const FLAT: bool = true;
            fn heap_bytes(&self) -> u64 {
                0
            }
        }
    )*};
}

/// Structures, with the fields that may have something there.
#[macro_export]
macro_rules! footprint {
    ($($type:ty { $($field:ident),* $(,)? })*) => {$(
        impl $crate::footprint::Footprint for $type {
            fn heap_bytes(&self) -> u64 {
                0 $(+ $crate::footprint::Footprint::heap_bytes(&self.$field))*
            }
        }
    )*};
}

flat_footprint! {
    bool, u8, u16, u32, u64, i64, TextId, CoresId, KernelId, ProgramId, MeshId, TraceId, CoreType, Class,
    CoreSet, ChipKey, ProgramKey, BufferRow, LegacyCb, Freed, Cb, Kernel, ConfigRingEntry, CachedWorkload,
    PeakSet, DeviceDefinition, Untracked, Mark<TextId>, Totals,
}

footprint! {
    Account {
        facts, buffers, programs, legacy_cbs, freed, program_index, device_ids, chips, device_definitions,
        mesh_ids, legacy_meshes, on_device, capturing,
    }
    AccountFacts {
        untracked, devices, meshes, definitions, config_rings, prefetchers, marks, traces,
    }
    AccountRows { buffers, programs, legacy_cbs, freed }
    Program { on }
    ProgramOnDevice { placement, ran }
    DeviceIndex { programs, meshes, kernels }
    Loads { others }
    Capturing { last }
    HeldDevice { vacated }
    Mesh { devices, members }
    ConfigRing { entries, places }
    Prefetcher { entries }
    Trace { captured }
    Captured { covers }
    Mark { name }
    NotTracked { what, why }
}

impl<Name> Footprint for Marks<Name>
where
    Mark<Name>: Footprint,
{
    fn heap_bytes(&self) -> u64 {
        self.stretches.heap_bytes() + self.owners.heap_bytes()
    }
}

impl Footprint for DeviceSet {
    fn heap_bytes(&self) -> u64 {
        self.words().heap_bytes()
    }
}

impl Footprint for Placement {
    fn heap_bytes(&self) -> u64 {
        let entries = allocation(2 * self.cbs().len(), size_of::<Cb>())
            + allocation(2 * self.kernels().len(), size_of::<Kernel>());
        let named = allocation(2 * self.cover().sets().len(), size_of::<u32>());
        entries + named + self.cover().heap_bytes()
    }
}

impl Footprint for Cover {
    fn heap_bytes(&self) -> u64 {
        allocation(2 * self.sets().len(), size_of::<(CoreType, CoresId)>())
    }
}

impl Footprint for Vacated {
    fn heap_bytes(&self) -> u64 {
        self.boxes() as u64 * (Self::BOX_BYTES as u64 + ALLOCATION_BYTES)
    }
}

impl Footprint for Definitions {
    fn heap_bytes(&self) -> u64 {
        self.allocated_bytes()
    }
}
