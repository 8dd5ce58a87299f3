use super::*;
use crate::explain::{Caller, Failure, Moment, Refused, Witness, explain};
use crate::{
    Anomalies, FailureCount, GrowingGroup, IncompleteReason, LeakCandidates, ProcessState,
    Released, SCHEMA, Server, Source,
};

const NOW: Timestamp = Timestamp::from_unix_nanos(1_794_731_103_000_000_000);

fn ago(seconds: u64) -> Timestamp {
    Timestamp::from_unix_nanos(NOW.unix_nanos() - seconds * 1_000_000_000)
}

/// Half full, and what is free is in one piece.
fn half(capacity_bytes: u64, banks: u32) -> ClassUsage {
    ClassUsage {
        capacity_bytes: Some(capacity_bytes),
        banks: Some(banks),
        charged_bytes: capacity_bytes / 2,
        union_bytes: Some(capacity_bytes / 2),
        largest_free_bytes_per_bank: Some(capacity_bytes / 2 / u64::from(banks)),
        ..ClassUsage::default()
    }
}

fn device(id: u32) -> Device {
    Device {
        id,
        dram: half(12 << 30, 12),
        l1: half(64 << 20, 64),
        ..Device::default()
    }
}

fn process(pid: u32) -> Process {
    Process {
        pid: Some(pid),
        instance: None,
        name: Some("python3".to_owned()),
        names_hidden: false,
        uid: Some(1000),
        start_time: None,
        state: ProcessState::Live,
        source: Source::Attached,
        incomplete: false,
        incomplete_reasons: Vec::new(),
        resyncing: false,
        lost_events: 0,
        elided_events: 0,
        claimed_pid: None,
        labels: Default::default(),
        anomalies: 0,
        inherited_frees: 0,
        leak_candidates: LeakCandidates::default(),
        connections: 1,
        devices: Vec::new(),
        released: None,
        host: None,
    }
}

/// A snapshot in which nothing is wrong.
fn sound() -> Snapshot {
    Snapshot {
        schema: SCHEMA,
        time: NOW,
        host: "host".to_owned(),
        server: Server {
            pid: 1,
            version: "0.1.0".to_owned(),
            started: NOW,
            uptime_seconds: 0,
            sockets: Vec::new(),
            clients: 1,
            clients_limit: None,
            clients_refused: 0,
            events_applied: 1,
            events_lost: 0,
            events_elided: 0,
            log_lines_elided: 0,
        },
        devices: vec![device(0), device(1)],
        processes: vec![process(7)],
        marks: Vec::new(),
        anomalies: Anomalies::default(),
        errors: Vec::new(),
        failures: FailureCount::default(),
        machine: None,
    }
}

fn no_leaks() -> Leaks {
    Leaks {
        schema: SCHEMA,
        time: NOW,
        growing: Vec::new(),
        held_at_close: Vec::new(),
        left_out: 0,
    }
}

fn texts(snapshot: &Snapshot, failures: &[Explanation], leaks: &Leaks) -> Vec<String> {
    let found = problems(snapshot, failures, leaks).into_iter();
    found.map(|problem| problem.text).collect()
}

/// What is found in a snapshot after one thing in it went wrong.
fn found(change: impl Fn(&mut Snapshot)) -> Vec<String> {
    let mut snapshot = sound();
    change(&mut snapshot);
    texts(&snapshot, &[], &no_leaks())
}

#[test]
fn each_check_finds_what_it_is_for_and_nothing_in_what_is_sound() {
    assert_eq!(found(|_| {}), [""; 0]);
    let held = found(|snapshot| {
        let held = &mut snapshot.processes[0].leak_candidates;
        (held.buffers, held.bytes) = (3, 3 << 20);
    });
    assert_eq!(held, [""; 0], "what is held at close is usual");
    let dram = |capacity: u64, used: u64, free_per_bank: u64| {
        found(move |snapshot| {
            let dram = &mut snapshot.devices[1].dram;
            dram.capacity_bytes = Some(capacity);
            (dram.charged_bytes, dram.union_bytes) = (used, Some(used));
            dram.largest_free_bytes_per_bank = Some(free_per_bank);
        })
    };
    let full = dram(100 << 20, 95 << 20, (5 << 20) / 12);
    assert_eq!(full, ["device 1: DRAM 95.0% full, 5.0 MiB free"]);
    assert_eq!(dram(1000 << 20, 949 << 20, (51 << 20) / 12), [""; 0]);
    assert_eq!(
        dram(12 << 30, 6 << 30, 8 << 20),
        ["device 1: DRAM has 6.0 GiB free, but the largest fit is 96.0 MiB"]
    );
    assert_eq!(
        dram(10 << 30, 12 << 30, 0),
        ["device 1: DRAM charged 12.0 GiB of 10.0 GiB"]
    );
    let headroom =
        |bytes| found(move |snapshot| snapshot.devices[0].cb_headroom_bytes = Some(bytes));
    assert_eq!(
        headroom(12_288),
        ["device 0: CB headroom is 12.0 KiB on the tightest core"]
    );
    assert_eq!(headroom(16_384), [""; 0]);
    assert_eq!(
        headroom(-4096),
        ["device 0: CBs and an L1 buffer lie at one place, overlap of 4.0 KiB"]
    );
    let lost = found(|snapshot| {
        let process = &mut snapshot.processes[0];
        process.incomplete = true;
        process.incomplete_reasons = [("events_lost", 3, None), ("not_tracked", 1, Some("no `x`"))]
            .map(|(reason, count, detail)| IncompleteReason {
                reason: reason.to_owned(),
                count,
                detail: detail.map(str::to_owned),
            })
            .to_vec();
    });
    assert_eq!(
        lost,
        ["tracking of pid 7 python3 is incomplete: 3 events lost, no `x`"]
    );
    let differs = found(|snapshot| snapshot.devices[1].verified = Some(false));
    assert_eq!(differs, ["device 1: DIFFERS from the allocator"]);
}

#[test]
fn memory_that_is_handed_out_twice_is_a_problem_with_its_owners() {
    let overlapping = |owners: &'static [(u32, u64)]| {
        found(move |snapshot| {
            let device = &mut snapshot.devices[0];
            device.dram.overlap_bytes = Some(1 << 30);
            let allocators = owners.iter().map(|(pid, mesh)| AllocatorUsage {
                pid: Some(*pid),
                instance: None,
                mesh: Some(*mesh),
                class: MemoryClass::Dram,
                charged_bytes: 1 << 30,
                capacity_bytes: Some(12 << 30),
                banks: Some(12),
                largest_free_bytes_per_bank: None,
                fragmentation: None,
                buffers: 1,
                verified: None,
            });
            device.allocators = allocators.collect();
        })
    };
    let start = "device 0: 1.0 GiB of DRAM are handed out by more than one allocator";
    // Of whom nothing is shown, nothing is said.
    assert_eq!(overlapping(&[]), [start]);
    assert_eq!(
        overlapping(&[(7, 1), (8, 1)]),
        [format!("{start}: pid 7 and pid 8")]
    );
    assert_eq!(
        overlapping(&[(7, 1), (7, 2), (7, 3)]),
        [format!("{start}: meshes 1, 2 and 3 of pid 7")]
    );
}

fn refusal(pid: u32, time: Timestamp) -> Explanation {
    let caller = Caller {
        time: Some(time),
        device_ids: Some(vec![0]),
        pid: Some(pid),
        process: Some("python3".to_owned()),
        ..Caller::default()
    };
    let explanation = explain(&Moment {
        caller,
        failure: Failure::Refused(Refused::default()),
        witness: Witness::Account,
    });
    Explanation {
        sentence: "no room.".to_owned(),
        ..explanation
    }
}

#[test]
fn a_refusal_comes_first_while_its_process_lives_and_last_for_two_minutes_after_that() {
    let mut snapshot = sound();
    snapshot.devices[1].verified = Some(false);
    let differs = "device 1: DIFFERS from the allocator".to_owned();
    // The older one is two in a row.
    let refused = |seconds| {
        let mut older = refusal(7, ago(seconds + 1));
        older.times = 2;
        [refusal(7, ago(seconds)), older]
    };
    let living = "pid 7 python3, device 0: no room. (9 min 58 s ago) (and 2 failures before)";
    let said = texts(&snapshot, &refused(598), &no_leaks());
    assert_eq!(said, [living.to_owned(), differs.clone()]);
    assert_eq!(
        texts(&snapshot, &refused(600), &no_leaks()),
        ["device 1: DIFFERS from the allocator"]
    );
    snapshot.processes[0].state = ProcessState::Exited;
    let ended =
        "pid 7 python3 (ended), device 0: no room. (1 min 58 s ago) (and 2 failures before)";
    let said = texts(&snapshot, &refused(118), &no_leaks());
    assert_eq!(said, [differs.clone(), ended.to_owned()]);
    assert_eq!(texts(&snapshot, &refused(120), &no_leaks()), [differs]);
    // Of other devices than those that were asked for.
    snapshot.devices.remove(0);
    assert_eq!(texts(&snapshot, &refused(0), &no_leaks()).len(), 1);
}

#[test]
fn what_grows_and_what_grew_until_the_end() {
    let group = |line: &str, departed: bool| LeakGroup {
        pid: Some(7),
        instance: None,
        process: Some("python3".to_owned()),
        departed,
        line: Some(line.to_owned()),
        callers: Vec::new(),
        operation: None,
        class: None,
        buffers: 1,
        bytes: 2 << 20,
        each_bytes: None,
    };
    let mut snapshot = sound();
    let mut leaks = no_leaks();
    leaks.growing = ["/m/a.py:5 f", "/m/b.py:9 f"]
        .map(|line| GrowingGroup {
            group: group(line, false),
            mark: Some("step".to_owned()),
            since: 3,
            steps: 4,
            bytes_per_step: 1 << 20,
            sentence: String::new(),
        })
        .to_vec();
    // The lines of a process are one problem, with their sum.
    let grows = "pid 7 python3 grows: +2.0 MiB per step since step 3, a.py:5 and 1 other line";
    assert_eq!(texts(&snapshot, &[], &leaks), [grows]);
    leaks.growing.clear();
    let held = |line, departed, growing| HeldAtClose {
        group: group(line, departed),
        growing,
    };
    leaks.held_at_close = vec![
        held("/m/a.py:5 f", false, true),
        held("/m/b.py:9 f", false, true),
        held("/m/c.py:1 f", false, false),
    ];
    let closed =
        "pid 7 python3 grew until its device was closed: 4.0 MiB held, a.py:5 and 1 other line";
    assert_eq!(texts(&snapshot, &[], &leaks), [closed]);
    leaks.held_at_close = vec![held("/m/a.py:5 f", true, true)];
    let mut at_end = |seconds| {
        snapshot.processes[0].released = Some(Released {
            buffers: 1,
            cbs: 0,
            kernels: 0,
            bytes: 2 << 20,
            buffer_bytes: 2 << 20,
            time: ago(seconds),
            reason: "ended".to_owned(),
        });
        texts(&snapshot, &[], &leaks)
    };
    let ended = "pid 7 python3 grew until it ended: 2.0 MiB held, a.py:5";
    assert_eq!(at_end(119), [ended]);
    assert_eq!(at_end(120), [""; 0]);
    snapshot.processes.clear();
    assert_eq!(texts(&snapshot, &[], &leaks), [""; 0], "another's concern");
}

#[test]
fn a_problem_leads_to_where_more_can_be_seen() {
    let mut snapshot = sound();
    snapshot.devices[1].unique_id = Some(HexId(77));
    snapshot.devices[1].verified = Some(false);
    let failures = [refusal(7, ago(1))];
    let found = problems(&snapshot, &failures, &no_leaks());
    let [refused, differs] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(refused.target.view, ProblemView::Failures);
    assert_eq!(refused.target.at, Some(ago(1)));
    assert_eq!(refused.target.device_key(), Some(snapshot.devices[0].key()));
    let key = snapshot.devices[1].key();
    assert_eq!(differs.target.device_key(), Some(key));
    assert_eq!(differs.check, "differs");
}
