//! A million messages that should never be sent, beside clients that behave.

use crate::support::client::{Client, allocation};
use crate::support::old_client::{OldClient, request};
use crate::support::server::TestServer;
use crate::support::wait_until;
use crate::support::workload::{Part, Plan, Workload};
use ttmem_event::legacy::{Generation, RequestKind, Totals};
use ttmem_event::wire::{Frame, Goodbye};

const ATTACKERS: u64 = 4;
const MESSAGES: u64 = 1_000_000;
const SEED: u64 = 0x7EA5_E11E;

/// The server's own memory, in KiB; log files and the program's code are not part of it.
fn anonymous_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .expect("a size");
    line.trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number")
}

#[test]
fn a_million_hostile_messages_change_nothing() {
    let server = TestServer::start(&["--quiet"]);
    let me = std::process::id();
    let mut old = OldClient::connect(&server.socket(), Generation::G4);
    for id in 0..1000 {
        old.send(&request(RequestKind::Alloc, 0, 1000 + id, 0, id));
        old.send(&request(RequestKind::CbAlloc, 31, 10, 0, 0x40));
    }
    let held = [
        (0, old.totals(0)),
        (31, old.totals(31)),
        (1023, old.totals(1023)),
    ];
    assert_eq!(
        held[0].1,
        Totals {
            dram: 1_499_500,
            ..Totals::default()
        }
    );
    assert_eq!(
        held[1].1,
        Totals {
            cb: 10_000,
            ..Totals::default()
        }
    );
    let mut new = Client::connect(&server.socket(), [3; 16]);
    new.open_n150(5, 0x600D);
    new.send(&[allocation(1, 2_000_000, 4096)]);
    let before = anonymous_kib(server.pid());

    let mut attackers: Vec<Workload> = (0..ATTACKERS)
        .map(|number| {
            let plan = Plan {
                socket: server.socket(),
                generation: Generation::G1,
                device: 0,
                buffers: MESSAGES / ATTACKERS,
                size: SEED + number,
            };
            Workload::spawn(Part::Attack, &plan)
        })
        .collect();
    // Those who behave are served all the while.
    for _round in 0..50 {
        old.send(&request(RequestKind::Alloc, 1, 1, 0, 0x77));
        old.send(&request(RequestKind::Free, 1, 0, 0, 0x77));
        old.totals(0);
        new.send(&[allocation(2, 9_000_000, 32)]);
        new.send(&[freed(2)]);
    }
    attackers.iter_mut().for_each(Workload::wait_until_ready);
    let pids: Vec<u32> = attackers.iter().map(Workload::pid).collect();
    attackers.clear();
    wait_until("all attackers are gone", || {
        let status = server.status();
        let processes = status["processes"].as_array().expect("processes");
        let live = processes
            .iter()
            .filter(|process| process["state"] != "exited");
        live.filter(|process| process["pid"] != me).count() == 0
    });

    for (device, totals) in held {
        assert_eq!(old.totals(device), totals, "device {device}");
    }
    new.send(&[allocation(3, 9_000_000, 32)]);
    let device = server.device(5);
    assert_eq!(device["dram"]["charged_bytes"], 12 * (4096 + 32));
    let status = server.status();
    let mine = status["processes"].as_array().expect("processes").iter();
    let mine: Vec<_> = mine.filter(|process| process["pid"] == me).collect();
    assert_eq!(mine.len(), 2, "one as an old client and one as a new");
    assert!(
        mine.iter()
            .all(|process| process["state"] == "live" && process["anomalies"] == 0)
    );
    let applied = status["server"]["events_applied"]
        .as_u64()
        .expect("a count");
    assert!(
        applied > MESSAGES / 4,
        "the attack reached the ledger: {applied} events"
    );
    let grown = anonymous_kib(server.pid()).saturating_sub(before);
    assert!(
        grown < 64 << 10,
        "{grown} KiB more after the attackers {pids:?} are gone"
    );
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// A kernel of a program of its own.
fn kernel(number: u64) -> ttmem_event::Event {
    let kind = ttmem_event::EventKind::KernelLoaded {
        mesh: crate::support::client::MESH,
        program: ttmem_event::ProgramId(number),
        kernel: ttmem_event::KernelId(number),
        name: ttmem_event::TextId::NONE,
        binary_bytes: 1000,
        cores: ttmem_event::CoresId::NONE,
        core_count: 64,
        kind: ttmem_event::KernelKind::Application,
        core_type: ttmem_event::CoreType::Tensix,
    };
    ttmem_event::Event { time: 1, kind }
}

#[test]
fn memory_that_a_large_client_took_is_given_back_when_it_leaves() {
    let server = TestServer::start(&["--quiet"]);
    // An old client: of new ones a process has one.
    let mut stays = OldClient::connect(&server.socket(), Generation::G4);
    stays.totals(0);
    let before = anonymous_kib(server.pid());
    let mut leaves = Client::connect(&server.socket(), [5; 16]);
    leaves.open_n150(6, 0x600E);
    for part in 0..100 {
        let kernels: Vec<_> = (1..=1000).map(|each| kernel(1000 * part + each)).collect();
        leaves.send(&kernels);
        // So that what is freed lies between what is not.
        stays.send(&request(RequestKind::Alloc, 0, 64, 0, part));
        stays.totals(0);
    }
    let most = anonymous_kib(server.pid()) - before;
    assert!(most > 50_000, "{most} KiB for 100,000 programs");
    let next_sequence = leaves.sequence;
    let mut goodbye = Vec::new();
    Frame::put_goodbye(&mut goodbye, &Goodbye { next_sequence });
    leaves.send_bytes(&goodbye);
    wait_until("three quarters of it are given back", || {
        anonymous_kib(server.pid()).saturating_sub(before) < most / 4
    });
}

fn freed(buffer: u64) -> ttmem_event::Event {
    let event = ttmem_event::EventKind::BufferFreed {
        mesh: crate::support::client::MESH,
        buffer: ttmem_event::BufferId(buffer),
    };
    ttmem_event::Event {
        time: 1,
        kind: event,
    }
}
