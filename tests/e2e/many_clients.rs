//! Many processes and many connections, some dying.

use crate::support::old_client::{OldClient, request};
use crate::support::random::Random;
use crate::support::server::TestServer;
use crate::support::wait_until;
use crate::support::workload::{Part, Plan, Workload};
use ttmem_event::legacy::{Generation, RequestKind, Totals};

const PROCESSES: u64 = 200;

/// Started at once, so that their starts overlap without swamping the machine.
const BATCH: usize = 20;

/// Every process has its own share of devices, number of buffers and size.
fn plan_of(server: &TestServer, number: u64) -> Plan {
    let generations = Generation::ALL.len() as u64;
    let generation = usize::try_from(number % generations).expect("a small number");
    Plan {
        socket: server.socket(),
        generation: Generation::ALL[generation],
        device: i32::try_from(number % 5).expect("a small number"),
        buffers: 1 + number % 7,
        size: 1024 + number,
    }
}

/// What these processes hold on a device, all together.
fn held(plans: &[&Plan], device: i32) -> u64 {
    let on_device = plans.iter().filter(|plan| device <= plan.device);
    on_device.map(|plan| plan.buffers * plan.size).sum()
}

#[test]
fn of_200_processes_exactly_the_survivors_are_counted() {
    let seed = std::env::var("E2E_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("E2E_SEED={seed}");
    let mut random = Random::new(seed);
    let server = TestServer::start(&["--quiet"]);
    let mut workloads: Vec<(Plan, Workload)> = Vec::new();
    let numbers: Vec<u64> = (0..PROCESSES).collect();
    for batch in numbers.chunks(BATCH) {
        let start = |number: &u64| {
            let plan = plan_of(&server, *number);
            let workload = Workload::spawn(Part::Churn, &plan);
            (plan, workload)
        };
        let mut started: Vec<(Plan, Workload)> = batch.iter().map(start).collect();
        started
            .iter_mut()
            .for_each(|(_plan, workload)| workload.wait_until_ready());
        workloads.append(&mut started);
    }
    random.shuffle(&mut workloads);
    let mut victims = workloads.split_off(workloads.len() / 2);
    let mut pids = Vec::new();
    // One after the other, while all the others go on allocating and freeing.
    while let Some((_plan, workload)) = victims.pop() {
        pids.push(workload.pid());
        workload.kill();
    }
    for (_plan, workload) in &mut workloads {
        workload.settle();
    }
    wait_until("all the dead are listed as exited", || {
        let status = server.status();
        let processes = status["processes"].as_array().expect("processes");
        let live = processes
            .iter()
            .filter(|process| process["state"] == "live")
            .count();
        live == workloads.len()
    });
    let plans: Vec<&Plan> = workloads.iter().map(|(plan, _workload)| plan).collect();
    let mut viewer = OldClient::connect(&server.socket(), Generation::G4);
    for device in 0..5 {
        let expected = Totals {
            dram: held(&plans, device),
            ..Totals::default()
        };
        assert_eq!(
            viewer.totals(device),
            expected,
            "device {device}, seed {seed}"
        );
    }
    let status = server.status();
    assert_eq!(
        status["anomalies"]["unknown_free"], 0,
        "{}",
        status["anomalies"]
    );
    for (plan, workload) in &workloads {
        let process = server_process(&status, workload.pid());
        let devices = process["devices"].as_array().expect("devices");
        let bytes: u64 = devices
            .iter()
            .filter_map(|device| device["dram_bytes"].as_u64())
            .sum();
        let count = u64::try_from(plan.device + 1).expect("a count");
        assert_eq!(bytes, count * plan.buffers * plan.size);
    }

    workloads.clear();
    wait_until("everybody is gone", || {
        let status = server.status();
        let processes = status["processes"].as_array().expect("processes");
        processes.iter().all(|process| process["state"] == "exited")
    });
    for device in 0..5 {
        assert_eq!(
            viewer.totals(device),
            Totals::default(),
            "device {device}, seed {seed}"
        );
    }
}

fn server_process(status: &serde_json::Value, pid: u32) -> &serde_json::Value {
    let processes = status["processes"].as_array().expect("processes");
    processes
        .iter()
        .find(|process| process["pid"] == pid)
        .expect("it is listed")
}

#[test]
fn one_process_may_have_500_connections() {
    let server = TestServer::start(&[]);
    let mut clients: Vec<OldClient> = (0..500)
        .map(|number| OldClient::connect(&server.socket(), Generation::ALL[number % 4]))
        .collect();
    for (id, client) in (0..).zip(&mut clients) {
        client.send(&request(RequestKind::Alloc, 0, 10, 0, id));
    }
    // Each is answered, and the last answer sees the reports of all that were answered before.
    for client in &mut clients {
        assert!(client.totals(0).dram >= 10);
    }
    assert_eq!(clients[0].totals(0).dram, 5000);
    assert_eq!(server.process(std::process::id())["connections"], 500);
    assert_eq!(server.status()["server"]["clients"], 500);
    clients.truncate(1);
    wait_until("499 connections are gone", || {
        server.process(std::process::id())["connections"] == 1
    });
    assert_eq!(clients[0].totals(0).dram, 5000);
}
