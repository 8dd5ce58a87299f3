//! Pages: every row once, equal rows of a mesh together.

use super::*;
use std::collections::BTreeSet;
use ttmem_event::{CoreType, KernelId, KernelKind, ProgramId};
use ttmem_reader::ApiRequestError;
use ttmem_report::{BufferQuery, BufferRow, CbKind, CbRow, KernelRow, Page, SortBy};

/// Follows the cursors to the end.
fn all<R>(get: impl Fn(Option<&str>) -> Result<Page<R>, ApiRequestError>) -> (Vec<R>, usize) {
    let mut rows = Vec::new();
    let mut cursor = None;
    let mut pages = 0;
    loop {
        let page = get(cursor.as_deref()).unwrap();
        rows.extend(page.rows);
        pages += 1;
        cursor = page.next;
        if cursor.is_none() {
            return (rows, pages);
        }
    }
}

#[test]
fn pages_over_25_000_buffers_are_the_live_set() {
    let mut ledger = empty_ledger();
    let mut live: BTreeSet<(Option<u32>, u64)> = BTreeSet::new();
    let mut first = None;
    for (pid, buffers) in [(4001, 20_000_u64), (4002, 0), (4003, 7_500)] {
        let process = joined(&mut ledger, pid);
        first.get_or_insert(process);
        let base = n150().dram.base;
        for buffer in 1..=buffers {
            let event = allocated(buffer, Class::Dram, base + 64 * buffer, 64);
            apply(&mut ledger, process, buffer, event);
            live.insert((Some(pid), buffer));
        }
        // Holes, whole pages of the slab among them.
        for buffer in
            (1..=buffers).filter(|buffer| (1000..2000).contains(buffer) || buffer % 5 == 0)
        {
            let freed = EventKind::BufferFreed {
                mesh: BOTH,
                buffer: BufferId(buffer),
            };
            apply(&mut ledger, process, buffers + buffer, freed);
            live.remove(&(Some(pid), buffer));
        }
    }
    let frames = ["libtt_metal.so+0x1f _ZN2tt4makeEv", "?+0x10"];
    let first = first.expect("three have joined");
    let text = frames.join(";");
    // Above those that every process of these tests has.
    let id = TextId(1000);
    ledger
        .define(first, &Definition::Text { id, text })
        .unwrap();
    let noted = EventKind::StackNoted {
        mesh: BOTH,
        buffer: BufferId(1),
        program: ProgramId(0),
        stack: id,
    };
    apply(&mut ledger, first, 30_000, noted);
    let served = Served::new(ledger);
    let client = served.client();
    for (limit, expected_pages) in [(None, 21), (Some(10_000), 3), (Some(777), 27)] {
        let (rows, pages) = all(|cursor| client.page::<ttmem_report::BufferRow>(cursor, limit));
        assert_eq!(rows.len(), live.len());
        let ids: BTreeSet<_> = rows
            .iter()
            .map(|row: &BufferRow| (row.pid, row.id.0))
            .collect();
        assert_eq!(ids, live);
        assert_eq!(pages, expected_pages, "{limit:?}");
    }
    let page = client
        .page::<ttmem_report::BufferRow>(None, Some(2))
        .unwrap();
    assert_eq!(page.rows[1].stack, None);
    let row = &page.rows[0];
    assert_eq!(row.stack, Some(frames.map(str::to_owned).to_vec()));
    assert_eq!(
        (row.device_ids.as_slice(), row.banks),
        (&[0, 1][..], Some(12))
    );
    assert_eq!((row.charged_bytes, row.per_bank_bytes), (12 * 64, Some(64)));
    assert_eq!(row.operation.as_deref(), Some("ttnn::add"));
    assert_eq!(row.page_bytes, Some(2048));
    // A cursor behind everything, and one of a process that is gone.
    for cursor in ["4294967295-4294967295-4294967295", "2-4294967295-0"] {
        let page = client
            .page::<ttmem_report::BufferRow>(Some(cursor), None)
            .unwrap();
        assert_eq!((page.rows.len(), page.next), (0, None), "{cursor}");
    }
}

fn cb(mesh: MeshId, cb: u32, address: u64) -> EventKind {
    EventKind::CbAllocated {
        mesh,
        program: ProgramId(5),
        cb,
        kind: ttmem_event::CbKind::Dataflow,
        address,
        size_bytes: 2048,
        cores: CoresId(1),
    }
}

#[test]
fn equal_entries_of_a_mesh_are_one_row() {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    let program = ProgramId(5);
    let created = EventKind::ProgramCreated {
        program,
        name: TextId(2),
        runtime_id: 1,
        pointer: 2,
    };
    apply(&mut ledger, process, 1, created);
    for number in 0..3 {
        apply(&mut ledger, process, 2, cb(BOTH, number, 0x1_8000));
    }
    // Placed anew on the first device only.
    apply(&mut ledger, process, 3, cb(FIRST, 1, 0x2_0000));
    let loaded = EventKind::KernelLoaded {
        mesh: BOTH,
        program,
        kernel: KernelId(77),
        name: TextId(3),
        binary_bytes: 57_344,
        cores: CoresId(1),
        core_count: 0,
        kind: KernelKind::Fabric,
        core_type: CoreType::ActiveEth,
    };
    apply(&mut ledger, process, 4, loaded);
    let served = Served::new(ledger);
    let client = served.client();

    for limit in [1, 2, 3, 4] {
        let (rows, pages) = all(|cursor| client.page::<ttmem_report::CbRow>(cursor, Some(limit)));
        let shown: Vec<(u64, Option<u64>, &[u32])> = rows
            .iter()
            .map(|row: &CbRow| (row.cb.0, row.address, row.device_ids.as_slice()))
            .collect();
        assert_eq!(
            shown,
            [
                (0, Some(0x1_8000), &[0, 1][..]),
                (1, Some(0x1_8000), &[1]),
                (1, Some(0x2_0000), &[0]),
                (2, Some(0x1_8000), &[0, 1]),
            ]
        );
        assert_eq!(pages, 4_usize.div_ceil(limit as usize));
        assert_eq!(
            (rows[0].program, rows[0].kind),
            (Some(5), Some(CbKind::Dataflow))
        );
        assert_eq!((rows[0].cores, rows[0].total_bytes), (Some(16), 16 * 2048));
    }

    let (rows, _pages) = all(|cursor| client.page::<ttmem_report::KernelRow>(cursor, None));
    let [row] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    let row: &KernelRow = row;
    assert_eq!(
        (row.device_ids.as_slice(), row.cores),
        (&[0, 1][..], Some(16))
    );
    assert_eq!((row.binary_bytes, row.total_bytes), (Some(57_344), 917_504));
    assert_eq!(row.name.as_deref(), Some("reader.cpp"));
    assert_eq!(row.program_name.as_deref(), Some("ttnn::add"));
    assert_eq!(row.core_type, Some(ttmem_report::CoreType::ActiveEth));
}

#[test]
fn rows_of_an_old_sender_claim_nothing() {
    let mut ledger = empty_ledger();
    let process = ledger.join(identity(Some(9), Source::Legacy));
    let device = 0;
    for event in [
        EventKind::LegacyAllocated {
            device,
            class: Class::L1,
            size_bytes: 2048,
            id: 64,
        },
        EventKind::LegacyAllocated {
            device,
            class: Class::L1,
            size_bytes: 2048,
            id: 64,
        },
        EventKind::LegacyCbAllocated {
            device,
            size_bytes: 4096,
            id: 128,
        },
        EventKind::LegacyCbAllocated {
            device,
            size_bytes: 4096,
            id: 128,
        },
        EventKind::LegacyKernelLoaded {
            device,
            kind: KernelKind::Dispatch,
            size_bytes: 100,
            id: 7,
        },
        EventKind::LegacyKernelLoaded {
            device,
            kind: KernelKind::Dispatch,
            size_bytes: 100,
            id: 7,
        },
    ] {
        apply(&mut ledger, process, 1, event);
    }
    let served = Served::new(ledger);
    let client = served.client();
    let buffers = client
        .page::<ttmem_report::BufferRow>(None, None)
        .unwrap()
        .rows;
    assert_eq!(buffers.len(), 1);
    assert_eq!((buffers[0].aliases, buffers[0].address), (1, Some(64)));
    assert_eq!((buffers[0].banks, buffers[0].per_bank_bytes), (None, None));
    assert_eq!((buffers[0].layout, buffers[0].page_bytes), (None, None));
    let cbs = client.page::<ttmem_report::CbRow>(None, None).unwrap().rows;
    assert_eq!(cbs.len(), 2);
    assert_eq!(
        (cbs[0].cb.0, cbs[0].program, cbs[0].kind),
        (128, None, None)
    );
    assert_eq!((cbs[0].cores, cbs[0].total_bytes), (None, 4096));
    let kernels = client
        .page::<ttmem_report::KernelRow>(None, None)
        .unwrap()
        .rows;
    assert_eq!(kernels.len(), 1);
    assert_eq!((kernels[0].program, kernels[0].core_type), (None, None));
    assert_eq!((kernels[0].binary_bytes, kernels[0].dispatches), (None, 2));
}

#[test]
fn a_page_of_long_rows_ends_early_and_none_is_lost() {
    const ROWS: u64 = 600;
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    // Control characters take six times their place in JSON.
    let text = "\u{1}".repeat(60_000);
    let stack = TextId(1000);
    let defined = Definition::Text { id: stack, text };
    ledger.define(process, &defined).unwrap();
    for buffer in 1..=ROWS {
        let address = n150().dram.base + 64 * buffer;
        apply(
            &mut ledger,
            process,
            buffer,
            allocated(buffer, Class::Dram, address, 64),
        );
        let noted = EventKind::StackNoted {
            mesh: BOTH,
            buffer: BufferId(buffer),
            program: ProgramId(0),
            stack,
        };
        apply(&mut ledger, process, buffer, noted);
    }
    let served = Served::new(ledger);
    // A page has 16 MiB, and at most one row more.
    let client = served.client().with_body_limit((16 << 20) + 400_000);
    let (plain, pages) = all(|cursor| client.page::<ttmem_report::BufferRow>(cursor, Some(10_000)));
    assert_eq!(plain.len() as u64, ROWS);
    assert!(pages > 10, "{pages}");
    let query = |cursor: Option<&str>| BufferQuery {
        sort: Some(SortBy::Address),
        descending: true,
        limit: Some(10_000),
        cursor: cursor.map(str::to_owned),
        ..BufferQuery::default()
    };
    let (mut sorted, pages) = all(|cursor| client.buffers_where(&query(cursor)));
    assert!(pages > 10, "{pages}");
    sorted.reverse();
    assert!(sorted == plain, "the same rows in the other order");
}
