//! Every report of C becomes the event it is named after, field by field.

use crate::client::{ttmem_config_t, ttmem_statistics_t};
use crate::code::{TTMEM_E_NULL, TTMEM_E_VALUE, TTMEM_OK, ttmem_code_t};
use crate::constants::{TTMEM_CLASS_ALL, TTMEM_KERNEL_KIND_UNKNOWN};
use crate::define::{ttmem_core_range_t, ttmem_device_t, ttmem_mesh_t};
use crate::ids::{TTMEM_CB_ALL, TTMEM_KERNEL_ALL};
use crate::legacy::*;
use crate::record::buffer::*;
use crate::record::cache::*;
use crate::record::device::*;
use crate::record::program::*;
use crate::record::sink;
use std::collections::BTreeSet;
use ttmem_event::event::kinds;
use ttmem_event::{Event, EventKind, KernelId, KernelKind, MeshId, ProgramId};

// One value per member, each different from the others of its event.
const DEVICE: u32 = 43;
const MESH: u32 = 11;
const TRACE: u32 = 44;
const BYTES: u64 = 33;
const NAME: u32 = 27;
const NUMBER: u64 = 45;
const BUFFER: u64 = 12;
const ADDRESS: u64 = 13;
const REQUESTED_BYTES: u64 = 14;
const PER_BANK_BYTES: u64 = 15;
const PAGE_BYTES: u32 = 16;
const CORES: u32 = 17;
const OPERATION: u32 = 18;
const CALL_FIRST: u32 = 47;
const BANKS: u16 = 19;
const MEMORY_CLASS: u8 = 1;
const LAYOUT: u8 = 2;
const DIRECTION: u8 = 1;
const BASE: u64 = 20;
const ALIGNMENT: u32 = 21;
const FREE_BYTES: u64 = 22;
const LARGEST_FREE_BYTES: u64 = 23;
const BANK_BYTES: u64 = 24;
const ALLOCATED_BYTES: u64 = 25;
const PROGRAM: u64 = 26;
const RUNTIME_ID: u64 = 28;
const POINTER: u64 = 29;
const CONFIG_BYTES: u64 = 30;
const TEXT_BYTES: u64 = 31;
const BINARY_BYTES: u64 = 32;
const STATUS: u8 = 2;
const PROGRAM_CACHE: u8 = 2;
const BINARY_REUSED: u8 = 1;
const PATH: u8 = 1;
const REGION_END: u64 = 34;
const LIMIT: u64 = 35;
const KIND: u8 = 3;
const SIZE_BYTES: u64 = 36;
const CB: u32 = 37;
const KERNEL: u64 = 38;
const CORE_COUNT: u32 = 39;
const CORE_TYPE: u8 = 3;
const SUB_DEVICE: u8 = 5;
const SYNC: u64 = 40;
const STALLED: u8 = 1;
const WORKLOAD: u64 = 41;
const OFFSET: u64 = 42;
const HIT: u8 = 1;
const ID: u64 = 46;
const LEGACY_DEVICE: i32 = 43;

/// What the member of that name was given.
fn given(field: &str) -> u64 {
    match field {
        "device" => DEVICE.into(),
        "mesh" => MESH.into(),
        "trace" => TRACE.into(),
        "bytes" => BYTES,
        "name" => NAME.into(),
        "number" => NUMBER,
        "buffer" => BUFFER,
        "address" => ADDRESS,
        "requested_bytes" => REQUESTED_BYTES,
        "per_bank_bytes" => PER_BANK_BYTES,
        "page_bytes" => PAGE_BYTES.into(),
        "cores" => CORES.into(),
        "operation" => OPERATION.into(),
        "call_first" => CALL_FIRST.into(),
        "banks" => BANKS.into(),
        "class" => MEMORY_CLASS.into(),
        "layout" => LAYOUT.into(),
        "direction" => DIRECTION.into(),
        "base" => BASE,
        "alignment" => ALIGNMENT.into(),
        "free_bytes" => FREE_BYTES,
        "largest_free_bytes" => LARGEST_FREE_BYTES,
        "bank_bytes" => BANK_BYTES,
        "allocated_bytes" => ALLOCATED_BYTES,
        "program" => PROGRAM,
        "runtime_id" => RUNTIME_ID,
        "pointer" => POINTER,
        "config_bytes" => CONFIG_BYTES,
        "text_bytes" => TEXT_BYTES,
        "binary_bytes" => BINARY_BYTES,
        "status" => STATUS.into(),
        "program_cache" => PROGRAM_CACHE.into(),
        "binary_reused" => BINARY_REUSED.into(),
        "path" => PATH.into(),
        "region_end" => REGION_END,
        "limit" => LIMIT,
        "kind" => KIND.into(),
        "size_bytes" => SIZE_BYTES,
        "cb" => CB.into(),
        "kernel" => KERNEL,
        "core_count" => CORE_COUNT.into(),
        "core_type" => CORE_TYPE.into(),
        "sub_device" => SUB_DEVICE.into(),
        "sync" => SYNC,
        "stalled" => STALLED.into(),
        "workload" => WORKLOAD,
        "offset" => OFFSET,
        "hit" => HIT.into(),
        "id" => ID,
        other => panic!("no value for {other}"),
    }
}

/// Reports an event by its structure.
fn say<E>(report: extern "C" fn(Option<&E>) -> ttmem_code_t, event: E) {
    assert_eq!(report(Some(&event)), TTMEM_OK);
}

/// Reports one of everything.
fn report_everything() {
    assert_eq!(ttmem_device_opened(DEVICE), TTMEM_OK);
    assert_eq!(ttmem_device_closed(DEVICE), TTMEM_OK);
    assert_eq!(ttmem_mesh_opened(MESH), TTMEM_OK);
    assert_eq!(ttmem_mesh_closed(MESH), TTMEM_OK);
    assert_eq!(ttmem_trace_began(MESH, TRACE), TTMEM_OK);
    assert_eq!(ttmem_trace_ended(MESH, TRACE, BYTES), TTMEM_OK);
    assert_eq!(ttmem_trace_replayed(MESH, TRACE), TTMEM_OK);
    assert_eq!(ttmem_trace_released(MESH, TRACE), TTMEM_OK);
    assert_eq!(ttmem_mark_set(NAME, NUMBER), TTMEM_OK);
    say(
        ttmem_buffer_allocated,
        ttmem_buffer_allocated_t {
            buffer: BUFFER,
            address: ADDRESS,
            requested_bytes: REQUESTED_BYTES,
            per_bank_bytes: PER_BANK_BYTES,
            mesh: MESH,
            page_bytes: PAGE_BYTES,
            cores: CORES,
            operation: OPERATION,
            banks: BANKS,
            memory_class: MEMORY_CLASS,
            layout: LAYOUT,
            direction: DIRECTION,
            reserved: [0; 3],
        },
    );
    assert_eq!(ttmem_buffer_freed(MESH, BUFFER), TTMEM_OK);
    assert_eq!(ttmem_buffers_released(MESH, MEMORY_CLASS), TTMEM_OK);
    say(
        ttmem_capacity_reported,
        ttmem_capacity_reported_t {
            base: BASE,
            per_bank_bytes: PER_BANK_BYTES,
            mesh: MESH,
            alignment: ALIGNMENT,
            banks: BANKS,
            memory_class: MEMORY_CLASS,
            reserved: [0; 5],
        },
    );
    say(
        ttmem_allocation_failed,
        ttmem_allocation_failed_t {
            requested_bytes: REQUESTED_BYTES,
            per_bank_bytes: PER_BANK_BYTES,
            free_bytes: FREE_BYTES,
            largest_free_bytes: LARGEST_FREE_BYTES,
            bank_bytes: BANK_BYTES,
            mesh: MESH,
            operation: OPERATION,
            call_first: CALL_FIRST,
            banks: BANKS,
            memory_class: MEMORY_CLASS,
            reserved: [0; 1],
        },
    );
    assert_eq!(
        ttmem_statistics_reported(MESH, MEMORY_CLASS, ALLOCATED_BYTES, LARGEST_FREE_BYTES,),
        TTMEM_OK
    );
    assert_eq!(
        ttmem_program_created(PROGRAM, NAME, RUNTIME_ID, POINTER),
        TTMEM_OK
    );
    say(
        ttmem_program_finalized,
        ttmem_program_finalized_t {
            program: PROGRAM,
            config_bytes: CONFIG_BYTES,
            text_bytes: TEXT_BYTES,
            binary_bytes: BINARY_BYTES,
            mesh: MESH,
            reserved: [0; 4],
        },
    );
    assert_eq!(ttmem_commands_cached(MESH, PROGRAM, BYTES), TTMEM_OK);
    assert_eq!(ttmem_binary_sent(MESH, PROGRAM, BYTES), TTMEM_OK);
    assert_eq!(ttmem_binary_status_changed(MESH, PROGRAM, STATUS), TTMEM_OK);
    say(
        ttmem_program_dispatched,
        ttmem_program_dispatched_t {
            program: PROGRAM,
            runtime_id: RUNTIME_ID,
            mesh: MESH,
            operation: OPERATION,
            program_cache: PROGRAM_CACHE,
            binary_reused: BINARY_REUSED,
            path: PATH,
            reserved: [0; 5],
        },
    );
    assert_eq!(ttmem_program_destroyed(PROGRAM), TTMEM_OK);
    say(
        ttmem_program_clashed,
        ttmem_program_clashed_t {
            program: PROGRAM,
            region_end: REGION_END,
            limit: LIMIT,
            mesh: MESH,
            cores: CORES,
            call_first: CALL_FIRST,
            kind: KIND,
            reserved: [0; 3],
        },
    );
    say(
        ttmem_cb_allocated,
        ttmem_cb_allocated_t {
            program: PROGRAM,
            address: ADDRESS,
            size_bytes: SIZE_BYTES,
            mesh: MESH,
            cb: CB,
            cores: CORES,
            kind: KIND,
            reserved: [0; 3],
        },
    );
    assert_eq!(ttmem_cb_freed(MESH, PROGRAM, CB), TTMEM_OK);
    say(
        ttmem_kernel_loaded,
        ttmem_kernel_loaded_t {
            program: PROGRAM,
            kernel: KERNEL,
            binary_bytes: BINARY_BYTES,
            mesh: MESH,
            name: NAME,
            cores: CORES,
            core_count: CORE_COUNT,
            kind: KIND,
            core_type: CORE_TYPE,
            reserved: [0; 6],
        },
    );
    assert_eq!(ttmem_kernel_unloaded(MESH, PROGRAM, KERNEL), TTMEM_OK);
    say(
        ttmem_config_ring_opened,
        ttmem_config_ring_opened_t {
            base: BASE,
            size_bytes: SIZE_BYTES,
            mesh: MESH,
            sub_device: SUB_DEVICE,
            core_type: CORE_TYPE,
            reserved: [0; 2],
        },
    );
    say(
        ttmem_config_ring_reserved,
        ttmem_config_ring_reserved_t {
            size_bytes: SIZE_BYTES,
            sync: SYNC,
            mesh: MESH,
            sub_device: SUB_DEVICE,
            core_type: CORE_TYPE,
            stalled: STALLED,
            reserved: 0,
        },
    );
    say(
        ttmem_config_ring_allocated,
        ttmem_config_ring_allocated_t {
            program: PROGRAM,
            address: ADDRESS,
            size_bytes: SIZE_BYTES,
            sync: SYNC,
            mesh: MESH,
            sub_device: SUB_DEVICE,
            core_type: CORE_TYPE,
            reserved: [0; 2],
        },
    );
    assert_eq!(
        ttmem_config_ring_freed(MESH, SUB_DEVICE, CORE_TYPE, SYNC),
        TTMEM_OK
    );
    assert_eq!(
        ttmem_config_ring_filled(MESH, SUB_DEVICE, CORE_TYPE, SYNC),
        TTMEM_OK
    );
    assert_eq!(ttmem_prefetch_opened(MESH, SIZE_BYTES), TTMEM_OK);
    say(
        ttmem_prefetched,
        ttmem_prefetched_t {
            workload: WORKLOAD,
            offset: OFFSET,
            size_bytes: SIZE_BYTES,
            mesh: MESH,
            hit: HIT,
            reserved: [0; 3],
        },
    );
    assert_eq!(ttmem_prefetch_reset(MESH), TTMEM_OK);
    assert_eq!(ttmem_jit_disk_lookup(PROGRAM, KERNEL, NAME, HIT), TTMEM_OK);
    assert_eq!(
        ttmem_legacy_report_allocation(LEGACY_DEVICE, SIZE_BYTES, MEMORY_CLASS, ID,),
        TTMEM_OK
    );
    assert_eq!(
        ttmem_legacy_report_deallocation(LEGACY_DEVICE, ID),
        TTMEM_OK
    );
    assert_eq!(
        ttmem_legacy_report_cb_allocation(LEGACY_DEVICE, SIZE_BYTES, ID,),
        TTMEM_OK
    );
    assert_eq!(
        ttmem_legacy_report_cb_deallocation(LEGACY_DEVICE, SIZE_BYTES, ID,),
        TTMEM_OK
    );
    assert_eq!(
        ttmem_legacy_report_kernel_load(LEGACY_DEVICE, SIZE_BYTES, ID, KIND,),
        TTMEM_OK
    );
    assert_eq!(
        ttmem_legacy_report_kernel_unload(LEGACY_DEVICE, ID),
        TTMEM_OK
    );
}

/// The number at that place of a record.
fn number_at(record: &[u8], offset: usize, width: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(&record[offset..offset + width]);
    u64::from_le_bytes(bytes)
}

#[test]
fn every_report_is_the_event_it_is_named_after() {
    switch(true);
    report_everything();
    let recorded = sink::take();
    // What only the client itself says is not in the header: 37 to 39.
    let expected = kinds::LAYOUT.iter().map(|row| row.kind);
    let expected: BTreeSet<u8> = expected.filter(|kind| !(37..64).contains(kind)).collect();
    let kinds: BTreeSet<u8> = recorded.iter().map(EventKind::kind).collect();
    assert_eq!(kinds, expected);
    assert_eq!(recorded.len(), expected.len());
    for content in recorded {
        let record = Event {
            time: 0,
            kind: content,
        }
        .encode();
        let row = kinds::LAYOUT
            .iter()
            .find(|row| row.kind == content.kind())
            .unwrap();
        for field in row.fields {
            let found = number_at(&record, field.offset, field.width);
            assert_eq!(found, given(field.name), "{}.{}", row.name, field.name);
        }
    }
}

#[test]
fn all_of_them_has_a_number_of_its_own() {
    assert_eq!(ttmem_cb_freed(MESH, PROGRAM, TTMEM_CB_ALL), TTMEM_OK);
    assert_eq!(
        ttmem_kernel_unloaded(MESH, PROGRAM, TTMEM_KERNEL_ALL),
        TTMEM_OK
    );
    assert_eq!(ttmem_kernel_unloaded(MESH, PROGRAM, KERNEL), TTMEM_OK);
    assert_eq!(ttmem_buffers_released(MESH, TTMEM_CLASS_ALL), TTMEM_OK);
    let (mesh, program) = (MeshId(MESH), ProgramId(PROGRAM));
    let expected = [
        EventKind::CbFreed {
            mesh,
            program,
            cb: None,
        },
        EventKind::KernelUnloaded {
            mesh,
            program,
            kernel: None,
        },
        EventKind::KernelUnloaded {
            mesh,
            program,
            kernel: Some(KernelId(KERNEL)),
        },
        EventKind::BuffersReleased { mesh, class: None },
    ];
    assert_eq!(sink::take(), expected);
}

#[test]
fn a_number_that_is_no_word_is_refused_and_not_recorded() {
    let codes = [
        ttmem_buffers_released(MESH, 5),
        ttmem_binary_status_changed(MESH, PROGRAM, 3),
        ttmem_config_ring_freed(MESH, SUB_DEVICE, 4, SYNC),
        ttmem_jit_disk_lookup(PROGRAM, KERNEL, NAME, 2),
        ttmem_statistics_reported(MESH, TTMEM_CLASS_ALL, ALLOCATED_BYTES, LARGEST_FREE_BYTES),
    ];
    assert_eq!(codes, [TTMEM_E_VALUE; 5]);
    assert_eq!(sink::take(), []);
}

#[test]
fn a_null_pointer_is_refused() {
    let codes = [ttmem_buffer_allocated(None), ttmem_program_dispatched(None)];
    assert_eq!(codes, [TTMEM_E_NULL; 2]);
    assert_eq!(sink::take(), []);
}

#[test]
fn an_old_kernel_of_an_unknown_kind_still_counts() {
    switch(true);
    assert_eq!(
        ttmem_legacy_report_kernel_load(0, SIZE_BYTES, ID, 77),
        TTMEM_OK
    );
    assert_eq!(
        ttmem_legacy_report_allocation(0, SIZE_BYTES, 5, ID),
        TTMEM_E_VALUE
    );
    let expected = EventKind::LegacyKernelLoaded {
        device: 0,
        kind: KernelKind::Unknown,
        size_bytes: SIZE_BYTES,
        id: ID,
    };
    assert_eq!(KernelKind::Unknown.code(), TTMEM_KERNEL_KIND_UNKNOWN);
    assert_eq!(sink::take(), [expected]);
}

/// They are the ABI: programs were compiled with them.
#[test]
fn every_structure_has_its_size() {
    let sizes = [
        (size_of::<ttmem_buffer_allocated_t>(), 56),
        (size_of::<ttmem_capacity_reported_t>(), 32),
        (size_of::<ttmem_allocation_failed_t>(), 56),
        (size_of::<ttmem_config_ring_opened_t>(), 24),
        (size_of::<ttmem_config_ring_reserved_t>(), 24),
        (size_of::<ttmem_config_ring_allocated_t>(), 40),
        (size_of::<ttmem_prefetched_t>(), 32),
        (size_of::<ttmem_program_finalized_t>(), 40),
        (size_of::<ttmem_program_dispatched_t>(), 32),
        (size_of::<ttmem_program_clashed_t>(), 40),
        (size_of::<ttmem_cb_allocated_t>(), 40),
        (size_of::<ttmem_kernel_loaded_t>(), 48),
        (size_of::<ttmem_core_range_t>(), 8),
        (size_of::<ttmem_device_t>(), 40),
        (size_of::<ttmem_mesh_t>(), 40),
        (size_of::<ttmem_config_t>(), 64),
        (size_of::<ttmem_statistics_t>(), 48),
    ];
    for (size, expected) in sizes {
        assert_eq!(size, expected);
    }
}
