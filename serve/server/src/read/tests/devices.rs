//! One device, every process, and the programs.

use super::documents::run_program;
use super::hostility::{exchange, refusal};
use super::*;
use ttmem_event::{BinaryStatus, CacheResult, DispatchPath, ProgramId};
use ttmem_report::{BinaryState, KernelKind, PeakBytes, ProgramRow};

fn freed(buffer: u64) -> EventKind {
    EventKind::BufferFreed {
        mesh: BOTH,
        buffer: BufferId(buffer),
    }
}

#[test]
fn a_device_is_found_by_either_id() {
    let mut ledger = empty_ledger();
    let holder = joined(&mut ledger, 4001);
    let other = joined(&mut ledger, 4002);
    let at = n150().dram.base;
    apply(&mut ledger, holder, 5, allocated(1, Class::Dram, at, 2048));
    let mut on_first = allocated(1, Class::Dram, at, 4096);
    if let EventKind::BufferAllocated { mesh, .. } = &mut on_first {
        *mesh = FIRST;
    }
    apply(&mut ledger, other, 6, on_first);
    let served = Served::new(ledger);
    let client = served.client();
    let snapshot = client.snapshot().unwrap();
    for (name, index) in [("0", 0), ("1", 1), ("0xfeed0001", 1), ("0xFEED0001", 1)] {
        let detail = client.device(name).unwrap();
        assert_eq!(detail.device, snapshot.devices[index], "{name}");
        assert_eq!(detail.time, Timestamp::from_unix_nanos(NOW));
        let held: Vec<(Option<u32>, u32, u64)> = detail
            .processes
            .iter()
            .flat_map(|process| {
                let devices = process.devices.iter();
                devices.map(|held| (process.pid, held.id, held.dram_bytes))
            })
            .collect();
        let index = u32::try_from(index).unwrap();
        let expected = [
            (Some(4001), index, 12 * 2048),
            (Some(4002), index, if index == 0 { 12 * 4096 } else { 0 }),
        ];
        assert_eq!(held, expected, "{name}: only what is on this device");
    }
}

#[test]
fn a_device_that_is_none_or_several_is_refused() {
    let mut ledger = empty_ledger();
    for visible in ["0", "1"] {
        let process = ledger.join(ProcessIdentity {
            command: "".into(),
            visible_devices: visible.into(),
            ..identity(Some(9), Source::Legacy)
        });
        let event = EventKind::LegacyAllocated {
            device: 0,
            class: Class::Dram,
            size_bytes: 64,
            id: 64,
        };
        apply(&mut ledger, process, 1, event);
    }
    let served = Served::new(ledger);
    let client = served.client();
    let devices = client.snapshot().unwrap().devices;
    let mut scopes: Vec<_> = devices.iter().map(|each| each.scope.as_deref()).collect();
    scopes.sort_unstable();
    assert_eq!(scopes, [Some("0"), Some("1")], "what tells them apart");
    let word = |code: u16, word: &str| (code, word.to_owned());
    assert_eq!(refusal(client.device("0")), word(409, "ambiguous_device"));
    for unknown in [
        "1",
        "4294967295",
        "0x0",
        "0xffffffffffffffff",
        "/dev/tenstorrent/0",
        "0000:0a:00.0",
    ] {
        let told = refusal(client.device(unknown));
        assert_eq!(told, word(404, "unknown_device"), "{unknown}");
    }
    for nonsense in [
        "-1",
        "+0",
        " 0",
        "4294967296",
        "18446744073709551616",
        "0x",
        "x",
        "é",
        "0/0",
        "\0",
    ] {
        let told = refusal(client.device(nonsense));
        assert_eq!(told, word(400, "bad_request"), "{nonsense:?}");
        let told = refusal(client.l1_map(nonsense, None));
        assert_eq!(told, word(400, "bad_request"), "{nonsense:?}");
    }
    for path in ["devices", "l1map", "blocks"] {
        let request = format!("GET /api/v1/{path}/%ff HTTP/1.1\r\n\r\n");
        let answer = exchange(&served, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains("\"error\":\"bad_request\""), "{answer}");
    }
}

#[test]
fn a_capacity_of_a_closed_device_is_marked() {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    let device = |ledger: &mut Ledger| {
        let view = ledger.view();
        crate::read::snapshot::snapshot(
            &view,
            &view.geometry(),
            facts(),
            (crate::read::host::process, None),
            None,
        )
        .devices[0]
            .clone()
    };
    let open = device(&mut ledger).dram;
    assert_eq!(open.capacity_is_current, Some(true));
    apply(
        &mut ledger,
        process,
        5,
        EventKind::MeshClosed { mesh: BOTH },
    );
    let closed = device(&mut ledger);
    assert_eq!(closed.dram.capacity_bytes, open.capacity_bytes);
    assert_eq!(closed.dram.capacity_is_current, Some(false));
    // Nobody has reported one: there is nothing to mark.
    assert_eq!(closed.system.capacity_bytes, None);
    assert_eq!(closed.system.capacity_is_current, None);
}

#[test]
fn processes_have_their_peaks() {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    let at = n150().dram.base;
    apply(&mut ledger, process, 5, allocated(1, Class::Dram, at, 2048));
    apply(&mut ledger, process, 6, freed(1));
    apply(&mut ledger, process, 7, allocated(2, Class::Dram, at, 64));
    run_program(&mut ledger, process);
    let gone = joined(&mut ledger, 4002);
    ledger.depart(gone, Departure::Ended, 9);
    let served = Served::new(ledger);
    let answer = served.client().processes().unwrap();
    let snapshot = served.client().snapshot().unwrap();
    assert_eq!(answer.processes, snapshot.processes);
    assert_eq!(answer.time, snapshot.time);
    let pids: Vec<_> = answer.processes.iter().map(|each| each.pid).collect();
    assert_eq!(pids, [Some(4001), Some(4002)]);
    assert!(answer.processes[1].released.is_some());
    for held in &answer.processes[0].devices {
        assert_eq!(held.dram_bytes, 12 * 64);
        let peak = PeakBytes {
            dram: 12 * 2048,
            cb: 16 * 4096,
            kernel: 16 * 1024,
            ..PeakBytes::default()
        };
        assert_eq!(held.peak, Some(peak));
    }
}

fn programs(client: &ApiClient, limit: Option<u32>) -> Vec<ProgramRow> {
    let mut rows = Vec::new();
    let mut cursor = None;
    loop {
        let page = client
            .page::<ttmem_report::ProgramRow>(cursor.as_deref(), limit)
            .unwrap();
        rows.extend(page.rows);
        cursor = page.next;
        if cursor.is_none() {
            return rows;
        }
    }
}

#[test]
fn programs_have_their_figures() {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    run_program(&mut ledger, process);
    let program = ProgramId(5);
    let (mesh, operation) = (FIRST, TextId(2));
    apply(
        &mut ledger,
        process,
        60,
        EventKind::Dispatched {
            mesh,
            program,
            runtime_id: 11,
            operation,
            program_cache: CacheResult::Hit,
            binary_reused: true,
            path: DispatchPath::Fast,
        },
    );
    let status = BinaryStatus::Committed;
    let committed = EventKind::BinaryStatusChanged {
        mesh,
        program,
        status,
    };
    apply(&mut ledger, process, 61, committed);
    // One that never ran and has nothing.
    let created = EventKind::ProgramCreated {
        program: ProgramId(6),
        name: TextId(99),
        runtime_id: 0,
        pointer: 1,
    };
    apply(&mut ledger, process, 62, created);
    let served = Served::new(ledger);
    let rows = programs(&served.client(), None);
    let [ran, idle] = rows.as_slice() else {
        panic!("{rows:?}");
    };
    let time = |nanos| Some(Timestamp::from_unix_nanos(nanos));
    assert_eq!((ran.pid, ran.program), (Some(4001), Some(5)));
    assert_eq!(ran.name.as_deref(), Some("ttnn::add"));
    assert_eq!(ran.kind, Some(KernelKind::Application));
    assert_eq!(Some(ran.created), time(50));
    assert_eq!((ran.cores, ran.kernels), (Some(16), 1));
    assert_eq!((ran.cb_bytes, ran.kernel_bytes), (16 * 4096, 16 * 1024));
    assert_eq!((ran.config_bytes, ran.binary_bytes), (None, None));
    assert_eq!((ran.dispatches, ran.runtime_id), (2, Some(11)));
    assert_eq!((ran.first_run, ran.last_run), (time(50), time(60)));
    let [first, second] = ran.devices.as_slice() else {
        panic!("{:?}", ran.devices);
    };
    assert_eq!((first.id, second.id), (0, 1));
    assert_eq!((first.dispatches, second.dispatches), (2, 1));
    assert_eq!(
        (first.program_cache_hits, first.program_cache_misses),
        (1, 1)
    );
    assert_eq!((first.binary_reuses, second.binary_reuses), (1, 0));
    assert_eq!(first.binary, BinaryState::Committed);
    assert_eq!((first.last_run, second.last_run), (time(60), time(50)));
    assert_eq!((first.resident_cores, second.resident_cores), (16, 16));

    assert_eq!((idle.program, idle.name.as_deref()), (Some(6), None));
    assert_eq!((idle.kind, idle.runtime_id), (None, None));
    assert_eq!((idle.dispatches, idle.last_run), (0, None));
    assert_eq!(idle.devices, []);
}

#[test]
fn every_program_is_on_one_page() {
    let mut ledger = empty_ledger();
    for pid in [4001, 4002] {
        let process = joined(&mut ledger, pid);
        for program in 1..=50 {
            let created = EventKind::ProgramCreated {
                program: ProgramId(program),
                name: TextId(2),
                runtime_id: 1,
                pointer: program,
            };
            apply(&mut ledger, process, program, created);
        }
    }
    let served = Served::new(ledger);
    let client = served.client();
    let whole = programs(&client, None);
    let numbers: Vec<_> = whole.iter().map(|row| (row.pid, row.program)).collect();
    let expected = [4001, 4002]
        .iter()
        .flat_map(|pid| (1..=50).map(move |program| (Some(*pid), Some(program))));
    assert_eq!(numbers, expected.collect::<Vec<_>>());
    for limit in [1, 7, 99, 100] {
        assert_eq!(programs(&client, Some(limit)), whole, "{limit}");
    }
}
