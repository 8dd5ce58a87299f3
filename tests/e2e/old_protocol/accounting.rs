//! What old reports are booked as, and that all of it is given back.

use super::query;
use crate::support::old_client::{OldClient, request};
use crate::support::server::TestServer;
use crate::support::wait_until;
use crate::support::workload::{FIRST_ADDRESS, Plan, Workload};
use serde_json::Value;
use ttmem_event::legacy::{Generation, RequestKind, Totals};

fn connect(server: &TestServer) -> OldClient {
    OldClient::connect(&server.socket(), Generation::G4)
}

#[test]
fn a_kernels_type_is_in_its_buffer_type_and_an_unknown_one_is_a_type() {
    let server = TestServer::start(&[]);
    let mut client = connect(&server);
    for (kind, size) in [(0, 1), (1, 20), (2, 300), (77, 4000)] {
        client.send(&request(RequestKind::KernelLoad, 0, size, kind, size));
    }
    assert_eq!(client.totals(0).kernel, 4321);
    let kernel = server.device(0)["kernel"].clone();
    assert_eq!(kernel["application_bytes"], 1);
    assert_eq!(kernel["fabric_bytes"], 20);
    assert_eq!(kernel["dispatch_bytes"], 300);
    assert_eq!(kernel["unknown_bytes"], 4000);
    assert_eq!(kernel["count"], 4);
}

#[test]
fn host_memory_is_a_class_of_its_own() {
    let server = TestServer::start(&[]);
    let mut client = connect(&server);
    client.send(&request(RequestKind::Alloc, 0, 100, 2, 0x10));
    client.send(&request(RequestKind::Alloc, 0, 20, 3, 0x20));
    client.send(&request(RequestKind::Alloc, 0, 3, 4, 0x30));
    let totals = Totals {
        l1_small: 20,
        trace: 3,
        ..Totals::default()
    };
    assert_eq!(
        client.totals(0),
        totals,
        "the old reply has no field for host memory"
    );
    assert_eq!(server.device(0)["system"]["charged_bytes"], 100);
    assert_eq!(server.device(0)["l1_small"]["charged_bytes"], 20);
}

#[test]
fn the_python_clients_numbering_is_an_option() {
    let server = TestServer::start(&["--python-buffer-types"]);
    let mut client = connect(&server);
    for (number, size) in [(0, 1), (1, 20), (2, 300), (3, 4000)] {
        client.send(&request(RequestKind::Alloc, 0, size, number, size));
    }
    let totals = Totals {
        dram: 1,
        l1: 20,
        l1_small: 300,
        trace: 4000,
        ..Totals::default()
    };
    assert_eq!(client.totals(0), totals);
    client.send(&request(RequestKind::Alloc, 0, 50_000, 4, 9));
    assert_eq!(
        client.totals(0),
        totals,
        "4 names no class in this numbering"
    );
    assert_eq!(server.status()["anomalies"]["invalid_class"], 1);
}

#[test]
fn what_is_freed_without_a_size_gives_back_what_was_booked() {
    let server = TestServer::start(&[]);
    let mut client = connect(&server);
    client.send(&request(RequestKind::CbAlloc, 0, 4096, 0, 0x100));
    client.send(&request(RequestKind::KernelLoad, 0, 777, 0, 5));
    assert_eq!(
        client.totals(0),
        Totals {
            cb: 4096,
            kernel: 777,
            ..Totals::default()
        }
    );
    client.send(&request(RequestKind::CbFree, 0, 0, 0, 0x100));
    client.send(&request(RequestKind::KernelUnload, 0, 0, 0, 5));
    assert_eq!(client.totals(0), Totals::default());
    // Nor does a larger size than what was booked take more.
    client.send(&request(RequestKind::CbAlloc, 0, 64, 0, 0x200));
    client.send(&request(RequestKind::CbAlloc, 0, 32, 0, 0x100));
    client.send(&request(RequestKind::CbFree, 0, 1 << 40, 0, 0x100));
    client.send(&request(RequestKind::KernelUnload, 0, 1 << 40, 0, 5));
    assert_eq!(
        client.totals(0),
        Totals {
            cb: 64,
            ..Totals::default()
        }
    );
}

#[test]
fn a_repeated_kernel_load_is_a_dispatch_and_no_more_memory() {
    let server = TestServer::start(&[]);
    let mut client = connect(&server);
    for _run in 0..10 {
        client.send(&request(RequestKind::KernelLoad, 0, 2048, 0, 42));
    }
    assert_eq!(client.totals(0).kernel, 2048);
    assert_eq!(server.device(0)["dispatches"], 10);
    assert_eq!(server.device(0)["kernel"]["count"], 1);
    client.send(&request(RequestKind::KernelUnload, 0, 2048, 0, 42));
    assert_eq!(client.totals(0).kernel, 0);
}

#[test]
fn circular_buffers_of_several_programs_at_one_address_are_each_booked_and_given_back() {
    let server = TestServer::start(&[]);
    let mut client = connect(&server);
    for size in [1000, 200, 1000, 30] {
        client.send(&request(RequestKind::CbAlloc, 0, size, 0, 0x1_0000));
    }
    assert_eq!(client.totals(0).cb, 2230);
    assert_eq!(server.device(0)["cb"]["count"], 4);
    client.send(&request(RequestKind::CbFree, 0, 200, 0, 0x1_0000));
    assert_eq!(
        client.totals(0).cb,
        2030,
        "of several the one of equal size"
    );
    for _free in 0..3 {
        client.send(&request(RequestKind::CbFree, 0, 0, 0, 0x1_0000));
    }
    assert_eq!(client.totals(0).cb, 0);
    assert_eq!(server.status()["anomalies"]["unknown_free"], 0);
}

#[test]
fn an_alias_is_freed_as_often_as_it_was_allocated() {
    let server = TestServer::start(&[]);
    let mut client = connect(&server);
    client.send(&request(RequestKind::Alloc, 0, 64, 0, 0x10));
    client.send(&request(RequestKind::Alloc, 0, 64, 0, 0x10));
    assert_eq!(client.totals(0).dram, 64);
    client.send(&request(RequestKind::Free, 0, 0, 0, 0x10));
    assert_eq!(client.totals(0).dram, 64);
    client.send(&request(RequestKind::Free, 0, 0, 0, 0x10));
    assert_eq!(client.totals(0).dram, 0);
    client.send(&request(RequestKind::Free, 0, 0, 0, 0x10));
    assert_eq!(
        client.totals(0).dram,
        0,
        "a free of nothing changes nothing"
    );
    assert_eq!(server.status()["anomalies"]["unknown_free"], 1);
    wait_until("the log tells it as the old server did", || {
        let log = server.log();
        log.contains("(buffer_id=0x10, ref_count=2)")
            && log.contains("(64 bytes, ref_count=1 remaining)")
            && log.contains("(64 bytes, FINAL)")
    });
}

#[test]
fn two_processes_at_one_address_do_not_collide_and_cannot_free_each_other() {
    let server = TestServer::start(&[]);
    let plan = Plan {
        socket: server.socket(),
        generation: Generation::G1,
        device: 0,
        buffers: 1,
        size: 5000,
    };
    let other = Workload::start(&plan);
    let mut client = connect(&server);
    client.send(&request(RequestKind::Alloc, 0, 300, 0, FIRST_ADDRESS));
    assert_eq!(client.totals(0).dram, 5300);
    client.send(&request(RequestKind::Free, 0, 0, 0, FIRST_ADDRESS));
    assert_eq!(client.totals(0).dram, 5000);
    client.send(&request(RequestKind::Free, 0, 0, 0, FIRST_ADDRESS));
    assert_eq!(client.totals(0).dram, 5000, "it is not ours to free");
    let held = |pid| server.process(pid)["devices"][0]["dram_bytes"].clone();
    assert_eq!(held(other.pid()), 5000);
    assert_eq!(held(std::process::id()), 0);
    assert_eq!(
        server.process(std::process::id())["anomalies"],
        1,
        "booked on the sender"
    );
    assert_eq!(server.process(other.pid())["anomalies"], 0);
}

#[test]
fn a_claimed_pid_is_shown_and_not_used() {
    let server = TestServer::start(&[]);
    let mut client = connect(&server);
    let mut report = request(RequestKind::Alloc, 0, 64, 0, 0x10);
    report.process_id = 1;
    client.send(&report);
    client.totals(0);
    let mine = server.process(std::process::id());
    assert_eq!(mine["claimed_pid"], 1);
    assert_eq!(mine["devices"][0]["dram_bytes"], 64);
    assert_eq!(server.process(1), Value::Null);
    // Another claim on the same connection is still the same process.
    report.process_id = -5;
    report.buffer_id = 0x20;
    client.send(&report);
    assert_eq!(client.totals(0).dram, 128);
    assert_eq!(
        server.status()["processes"].as_array().map(Vec::len),
        Some(1)
    );
}

#[test]
fn devices_up_to_1023_are_taken_and_1024_is_refused() {
    let server = TestServer::start(&[]);
    let mut client = connect(&server);
    for device in [7, 8, 31, 1023] {
        client.send(&request(RequestKind::Alloc, device, 100, 0, 0x10));
        assert_eq!(client.totals(device).dram, 100, "device {device}");
    }
    for device in [1024, -1, i32::MAX, i32::MIN] {
        client.send(&request(RequestKind::Alloc, device, 100, 0, 0x10));
        assert_eq!(
            client.ask(&query(device))[40..],
            [0; 104],
            "device {device}"
        );
    }
    let devices = server.status()["devices"]
        .as_array()
        .expect("devices")
        .clone();
    let ids: Vec<u64> = devices
        .iter()
        .filter_map(|device| device["id"].as_u64())
        .collect();
    assert_eq!(ids, [7, 8, 31, 1023]);
    assert_eq!(server.status()["anomalies"]["invalid_device"], 4);
}
