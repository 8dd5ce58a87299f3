//! The structures of a state, in the order in which they are written.
//!
//! What is not one of the account's own structures is made here: a head, and what
//! stands for things that are shared by number. Devices and meshes are named by their
//! slots in the account that was saved; its lists of their ids come first.

use super::codec::{Codec, Reader};
use crate::account::Released;
use crate::buffers::{BufferRow, NIL};
use crate::config_ring::{CachedWorkload, ConfigRingEntry};
use crate::device::{CacheCounters, Capacity};
use crate::freed::FreedStorage;
use crate::gauge::Peak;
use crate::legacy_cbs::LegacyCb;
use crate::program::{Cb, Finalized, Kernel};
use crate::totals::PeakSet;
use ttmem_event::{BinaryStatus, Class, CoreType, CoresId, DeviceId, ProgramId, TextId, TraceId};

/// Makes the codec of structures, and their description.
macro_rules! codec {
    ($(
        $type:ty {
            $($field:ident),* $(,)?
        } $(times { $($time:ident),* })? $(without { $($rest:ident: $value:expr),* })? ;
    )*) => {
        $(impl Codec for $type {
            const NAME: &'static str = stringify!($type);
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
                $($(self.$time.put(out);)*)?
            }
            fn get(read: &mut Reader<'_>) -> Option<Self> {
                // Fields are read in the order in which they stand here.
                Some(Self {
                    $($field: read.get()?,)*
                    $($($time: Codec::get_time(read)?,)*)?
                    $($($rest: $value,)*)?
                })
            }
        })*

        /// Gives every field: its structure, its name, its type.
        ///
        /// Without an allocation: a state is also sent where there is no memory left.
        pub fn describe(give: &mut dyn FnMut(&'static str, &'static str, &'static str)) {
            $(
                $(give(
                    stringify!($type),
                    stringify!($field),
                    name_of(|each: &$type| &each.$field),
                );)*
                $($(give(stringify!($type), stringify!($time), "time");)*)?
            )*
        }
    };
}

fn name_of<S, T: Codec>(_field: fn(&S) -> &T) -> &'static str {
    T::NAME
}

/// A fingerprint of the layout: two builds that agree on it agree on every byte.
#[must_use]
pub fn fingerprint() -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    describe(&mut |structure, field, type_name| {
        add(structure);
        add(field);
        add(type_name);
    });
    hash
}

/// How far the account has come.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) layout: u64,
    pub(super) order: u64,
    pub(super) runs: u64,
    pub(super) inherited_frees: u64,
    pub(super) first_own_buffer: u64,
    pub(super) highest_buffer: u64,
    pub(super) last_report: u64,
    pub(super) leak_candidates: Released,
    pub(super) anomalies: Vec<u64>,
    /// By slot: the first id of a device, or an old sender's number.
    pub(super) devices: Vec<u32>,
    /// By slot: the id of a mesh, or an old sender's number.
    pub(super) meshes: Vec<u32>,
}

/// A mark, and the peaks of its stretch by device.
#[derive(Debug)]
pub(super) struct SavedMark {
    pub(super) name: TextId,
    pub(super) number: u64,
    pub(super) peaks: Vec<PeakSet>,
    pub(super) time: u64,
}

/// The highest values of a gauge.
#[derive(Clone, Copy, Debug)]
pub(super) struct SavedPeak {
    pub(super) order: u64,
    pub(super) peak: Peak,
    pub(super) since_mark: Peak,
}

/// Cores of one row whose last program is gone.
#[derive(Debug)]
pub(super) struct SavedVacancy {
    pub(super) core_type: CoreType,
    pub(super) row: u8,
    pub(super) columns: u32,
    pub(super) run: u64,
    pub(super) time: u64,
}

/// A device, its rows aside.
#[derive(Debug)]
pub(super) struct SavedDevice {
    pub(super) opened: Option<DeviceId>,
    pub(super) capacities: [Option<Capacity>; Class::COUNT],
    pub(super) caches: CacheCounters,
    pub(super) peaks: Vec<SavedPeak>,
    pub(super) vacancies: Vec<SavedVacancy>,
}

/// An allocator of a mesh, its rows aside.
#[derive(Debug)]
pub(super) struct SavedAllocator {
    pub(super) mesh: u32,
    pub(super) class: Class,
    pub(super) capacity: Option<Capacity>,
    pub(super) verified: Option<bool>,
}

/// Something that was live at a peak, and the event that released it.
#[derive(Debug)]
pub(super) struct SavedFreed<T> {
    pub(super) freed: u64,
    pub(super) entry: T,
}

/// What programs have on devices.
#[derive(Debug)]
pub(super) struct SavedPlacement {
    pub(super) cbs: Vec<Cb>,
    pub(super) kernels: Vec<Kernel>,
}

/// A program on one device; placement and cover by their numbers.
#[derive(Debug)]
pub(super) struct SavedPart {
    pub(super) device: u32,
    pub(super) binary_status: BinaryStatus,
    pub(super) placement: Option<u32>,
    pub(super) cover: Option<u32>,
    pub(super) run: u64,
    pub(super) command_bytes: Option<u64>,
    pub(super) sent_bytes: Option<u64>,
    pub(super) dispatches: u64,
    pub(super) program_cache_hits: u64,
    pub(super) program_cache_misses: u64,
    pub(super) binary_reuses: u64,
    pub(super) first_dispatch: Option<u64>,
    pub(super) last_dispatch: Option<u64>,
}

/// A live program.
#[derive(Debug)]
pub(super) struct SavedProgram {
    pub(super) id: ProgramId,
    pub(super) name: TextId,
    pub(super) runtime_id: u64,
    pub(super) pointer: u64,
    pub(super) finalized: Option<Finalized>,
    pub(super) jit_disk_hits: u64,
    pub(super) parts: Vec<SavedPart>,
    pub(super) created: u64,
}

/// A captured run; its covers by their numbers.
#[derive(Debug)]
pub(super) struct SavedRun {
    pub(super) number: u64,
    pub(super) program: ProgramId,
    pub(super) mesh: u32,
    pub(super) covers: Vec<u32>,
}

/// A trace; its last replay, if any, numbers its runs from `replay` on.
#[derive(Debug)]
pub(super) struct SavedTrace {
    pub(super) mesh: u32,
    pub(super) trace: TraceId,
    pub(super) next: u64,
    pub(super) ended: bool,
    pub(super) capturing: bool,
    pub(super) replay: Option<u64>,
    pub(super) captured: Vec<SavedRun>,
    pub(super) replay_time: u64,
}

/// A kernel config ring.
#[derive(Debug)]
pub(super) struct SavedRing {
    pub(super) mesh: u32,
    pub(super) sub_device: u8,
    pub(super) core_type: CoreType,
    pub(super) base: u64,
    pub(super) size_bytes: u64,
    pub(super) last_address: Option<u64>,
    pub(super) filled: bool,
    pub(super) filled_until: u64,
    pub(super) wraps: u64,
    pub(super) evictions: u64,
    pub(super) stalls: u64,
    pub(super) reserves: u64,
    pub(super) entries: Vec<ConfigRingEntry>,
}

/// A prefetcher cache.
#[derive(Debug)]
pub(super) struct SavedPrefetcher {
    pub(super) mesh: u32,
    pub(super) size_bytes: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) evictions: u64,
    pub(super) resets: u64,
    pub(super) entries: Vec<(u64, CachedWorkload)>,
}

codec! {
    Head {
        layout, order, runs, inherited_frees, first_own_buffer, highest_buffer,
        leak_candidates, anomalies, devices, meshes,
    } times { last_report };
    Released { buffers, buffer_bytes, cbs, cb_bytes, kernels, kernel_bytes };
    SavedMark { name, number, peaks } times { time };
    PeakSet { classes, cb, kernel };
    Peak { bytes } times { time };
    SavedDevice { opened, capacities, caches, peaks, vacancies };
    Capacity { banks, base, per_bank_bytes };
    CacheCounters {
        dispatches, program_cache_hits, program_cache_misses, binary_reuses, prefetch_hits,
        jit_disk_hits, jit_disk_misses, trace_replays,
    };
    SavedPeak { order, peak, since_mark };
    SavedVacancy { core_type, row, columns, run } times { time };
    SavedAllocator { mesh, class, capacity, verified };
    BufferRow {
        id, address, requested_bytes, per_bank_bytes, order, mesh, operation, stack, page_bytes,
        cores_id, references, banks, class, layout, direction,
    } times { time } without { next: NIL, previous: NIL };
    SavedFreed<BufferRow> { freed, entry };
    LegacyCb { device, cb };
    Cb { number, kind, address, size_bytes, cores_id, core_count, order } times { time };
    Kernel {
        id, name, kind, core_type, binary_bytes, core_count, cores_id, total_bytes, order,
    } times { time };
    SavedPlacement { cbs, kernels };
    SavedProgram {
        id, name, runtime_id, pointer, finalized, jit_disk_hits, parts,
    } times { created };
    Finalized { config_bytes, text_bytes, binary_bytes } times { time };
    SavedPart {
        device, binary_status, placement, cover, run, command_bytes, sent_bytes, dispatches,
        program_cache_hits, program_cache_misses, binary_reuses,
    } times { first_dispatch, last_dispatch };
    SavedTrace { mesh, trace, next, ended, capturing, replay, captured } times { replay_time };
    SavedRun { number, program, mesh, covers };
    FreedStorage<Cb> { device, program, name, entry };
    SavedFreed<FreedStorage<Cb>> { freed, entry };
    FreedStorage<Kernel> { device, program, name, entry };
    SavedFreed<FreedStorage<Kernel>> { freed, entry };
    SavedRing {
        mesh, sub_device, core_type, base, size_bytes, last_address, filled, filled_until, wraps,
        evictions, stalls, reserves, entries,
    };
    ConfigRingEntry { program, address, size_bytes, sync };
    SavedPrefetcher { mesh, size_bytes, hits, misses, evictions, resets, entries };
    CachedWorkload { workload, size_bytes };
}

/// A core set of a cover.
pub(super) type SavedSet = (CoreType, CoresId);
