//! The structures of a state, in the order in which they are written.
//!
//! What is not one of the account's own structures is made here: a head, and what
//! names shared things by number. Devices and meshes are named by their
//! slots in the account that was saved; its lists of their ids come first.

use super::codec::fingerprint_of;
use crate::account::Released;
use crate::buffers::{BufferRow, NIL};
use crate::codec;
use crate::config_ring::{CachedWorkload, ConfigRing, ConfigRingEntry, Prefetcher};
use crate::device::{CacheCounters, Capacity};
use crate::gauge::{Gauge, Peak};
use crate::legacy_cbs::LegacyCb;
use crate::mark::Mark;
use crate::peak_composition::PeakEntry;
use crate::program::{Cb, Finalized, Kernel, Program, ProgramOnDevice};
use crate::residency::{Replay, Trace};
use crate::totals::PeakSet;
use crate::untracked::Untracked;
use std::collections::BTreeMap;
use std::sync::Arc;
use ttmem_event::{Class, CoreType, CoresId, DeviceId, ProgramId, TextId, TraceId};

/// Defines structures together with their codec.
macro_rules! saved {
    ($describe:ident: $(
        $(#[$about:meta])*
        struct $name:ident {
            $($(#[$field_about:meta])* $field:ident: $type:ty,)*
        } $(times { $time:ident })?
    )*) => {
        $(
            $(#[$about])*
            #[derive(Debug)]
            pub(super) struct $name {
                $($(#[$field_about])* pub(super) $field: $type,)*
                $(pub(super) $time: u64,)?
            }
        )*

        codec! { $describe: $($name { $($field),* } $(times { $time })?;)* }
    };
}

/// Gives every field: its structure, its name, its type.
///
/// Without an allocation: a state is also sent where there is no memory left.
pub fn describe(give: &mut dyn FnMut(&'static str, &'static str, &'static str)) {
    describe_saved(give);
    describe_own(give);
}

/// A fingerprint of the layout: two builds that agree on it agree on every byte.
#[must_use]
pub fn fingerprint() -> u64 {
    fingerprint_of(describe)
}

saved! { describe_saved:
    /// How far the account has come.
    struct Head {
        layout: u64,
        order: u64,
        runs: u64,
        inherited_frees: u64,
        first_own_buffer: u64,
        highest_buffer: u64,
        leak_candidates: Released,
        anomalies: Vec<u64>,
        untracked: Vec<Untracked>,
        /// By slot: the first id of a device, or an old sender's number.
        devices: Vec<u32>,
        /// By slot: the id of a mesh, or an old sender's number.
        meshes: Vec<u32>,
    } times { last_report }

    /// A mark, and the peaks of its stretch by device.
    struct SavedMark {
        mark: Mark<TextId>,
        peaks: Vec<PeakSet>,
    }

    /// A device, its rows aside.
    struct SavedDevice {
        opened: Option<DeviceId>,
        capacities: [Option<Capacity>; Class::COUNT],
        caches: CacheCounters,
        peaks: Vec<Gauge>,
        vacancies: Vec<SavedVacancy>,
    }

    /// Cores of one row whose last program is gone.
    struct SavedVacancy {
        core_type: CoreType,
        row: u8,
        columns: u32,
        run: u64,
    } times { time }

    /// An allocator of a mesh, its rows aside.
    struct SavedAllocator {
        mesh: u32,
        class: Class,
        capacity: Option<Capacity>,
        verified: Option<bool>,
    }

    /// What programs have on devices.
    struct SavedPlacement {
        cbs: Vec<Cb>,
        kernels: Vec<Kernel>,
    }

    struct SavedProgram {
        program: Program,
        parts: Vec<SavedPart>,
    }

    /// A program on one device; placement and cover by their numbers.
    struct SavedPart {
        part: ProgramOnDevice,
        placement: Option<u32>,
        cover: Option<u32>,
    }

    struct SavedTrace {
        mesh: u32,
        id: TraceId,
        trace: Trace,
        capturing: bool,
        captured: Vec<SavedRun>,
    }

    /// A captured run; its covers by their numbers.
    struct SavedRun {
        number: u64,
        program: ProgramId,
        mesh: u32,
        covers: Vec<u32>,
    }

    struct SavedConfigRing {
        mesh: u32,
        sub_device: u8,
        core_type: CoreType,
        config_ring: ConfigRing,
        entries: Vec<ConfigRingEntry>,
    }

    struct SavedPrefetcher {
        mesh: u32,
        prefetcher: Prefetcher,
        entries: Vec<(u64, CachedWorkload)>,
    }
}

codec! { describe_own:
    Released {} counts { buffers, buffer_bytes, cbs, cb_bytes, kernels, kernel_bytes };
    Untracked { what, why };
    Mark<TextId> { name, number } times { time };
    PeakSet { classes, cb, kernel };
    Peak { bytes } times { time };
    Capacity { banks, base, per_bank_bytes };
    CacheCounters {} counts {
        dispatches, program_cache_hits, program_cache_misses, binary_reuses, prefetch_hits,
        jit_disk_hits, jit_disk_misses, trace_replays,
    };
    Gauge { peak_order, peak, since_mark } without { bytes: 0 };
    BufferRow {
        id, address, requested_bytes, per_bank_bytes, order, mesh, operation, stack, page_bytes,
        cores_id, references, banks, class, layout, direction,
    } times { time } without { next: NIL, previous: NIL };
    LegacyCb { device, cb };
    Cb { number, kind, address, size_bytes, cores_id, core_count, order } times { time };
    Kernel {
        id, name, kind, core_type, binary_bytes, core_count, cores_id, total_bytes, order,
    } times { time };
    Program { id, name, runtime_id, pointer, finalized } counts { jit_disk_hits }
        times { created } without { on: Vec::new() };
    Finalized { config_bytes, text_bytes, binary_bytes } times { time };
    ProgramOnDevice { device, binary_status, run, command_bytes, sent_bytes } counts {
        dispatches, program_cache_hits, program_cache_misses, binary_reuses,
    } times { first_dispatch, last_dispatch } without { placement: None, ran: None };
    Trace { next, ended, replay } without { captured: Arc::default() };
    Replay { run } times { time };
    PeakEntry { placed, freed, bytes, count, name, place, gauge };
    ConfigRing { base, size_bytes, last_address, filled, filled_until } counts {
        wraps, evictions, stalls, reserves,
    } without {
        entries: BTreeMap::new(), places: BTreeMap::new(), next_number: 0, used_bytes: 0
    };
    ConfigRingEntry { program, address, size_bytes, sync };
    Prefetcher { size_bytes } counts { hits, misses, evictions, resets }
        without { entries: BTreeMap::new(), used_bytes: 0 };
    CachedWorkload { workload, size_bytes };
}

pub(super) type SavedSet = (CoreType, CoresId);
