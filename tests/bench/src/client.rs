//! `cargo xtask bench client`: the record path, the pump, and totals at full speed.

use super::harness::{OwnServer, Programs, best, median};
use super::old_client::GENERATION;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use ttmem_event::legacy::{Request, RequestKind};
use ttmem_reader::ApiClient;
use ttmem_report::Snapshot;

/// Times everything; with `quick`, a tenth of it.
pub(super) fn measure(programs: &Programs, quick: bool) -> Result<Value> {
    let scale = if quick { 10 } else { 1 };
    let server = OwnServer::start(programs, &["--quiet"])?;
    let record = |threads: &str, disabled: bool| record(&server, threads, disabled, quick);
    Ok(json!({
        "one_thread": record("1", false)?,
        "two_threads": record("2", false)?,
        "disabled": record("1", true)?,
        "old_way": old_way(100_000 / scale)?,
        "targets": {
            "enabled_nanos_median": 20,
            "enabled_nanos_p999": 150,
            "two_threads_nanos_median": 30,
            "disabled_nanos_median": 2,
            "pump_cores_at_100k": 0.05,
            "events_per_second": 3_000_000,
        },
        "pump": pump(programs, &server, if quick { 1 } else { 5 })?,
        "one_process": one_process(programs, &server, 4_000_000 / scale)?,
        "sixteen_processes": sixteen_processes(programs, &server, 250_000 / scale)?,
        "server_stopped": server_stopped(programs, if quick { 2 } else { 10 })?,
    }))
}

/// What a call costs: the best and the middle of five processes, since neighbours of this machine
/// may make any of them slower and none faster.
fn record(server: &OwnServer, threads: &str, disabled: bool, quick: bool) -> Result<Value> {
    let bursts = if quick { "4" } else { "40" };
    let mut runs = Vec::new();
    for _run in 0..5 {
        let mut command = own(
            server,
            &["record", "--threads", threads, "--bursts", bursts],
        )?;
        if disabled {
            command.env("TTMEM_DISABLE", "1");
        }
        runs.push(output_of(command)?);
    }
    let mut found = json!({});
    for kind in ["buffer", "cb", "dispatch"] {
        for figure in ["nanos_median", "nanos_p999"] {
            // Of several threads, the slowest.
            let worst = |run: &Value| {
                let threads = run["threads"].as_array().into_iter().flatten();
                let figures = threads.filter_map(|thread| thread[kind][figure].as_f64());
                figures.fold(f64::NAN, f64::max)
            };
            let figures: Vec<f64> = runs.iter().map(worst).collect();
            let least = figures.iter().copied().fold(f64::NAN, f64::min);
            found[kind][figure] = json!({ "best": least, "middle": median(figures) });
        }
    }
    let lost = runs.iter().filter_map(|run| run["lost_events"].as_u64());
    found["lost_events"] = json!(lost.sum::<u64>());
    Ok(found)
}

/// A hidden command of this program, as a process of its own.
fn own(server: &OwnServer, words: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.args(words);
    Ok(reporting_to(server, command))
}

fn reporting_to(server: &OwnServer, mut command: Command) -> Command {
    command
        .env("TTMEM_SOCKET", &server.socket)
        // A busy machine may keep the pump from running for longer than ten milliseconds.
        .env("TTMEM_FULL_RING_WAIT_MS", "1000");
    command
}

/// Starts a workload.
pub(super) fn start_workload(
    programs: &Programs,
    server: &OwnServer,
    words: &[&str],
) -> Result<Child> {
    let mut command = reporting_to(server, (programs.workload)(words)?);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().context("cannot start a workload")
}

/// Waits for a workload's account; everything that it recorded is applied by then.
///
/// A program that only plays the workload may print lines of its own before.
pub fn read_account(output: &mut ChildStdout) -> Result<Value> {
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read from a workload")?;
        if line.starts_with('{') {
            return serde_json::from_str(&line).context("the account is not JSON");
        }
    }
    bail!("the workload ended without an account")
}

fn output_of(mut command: Command) -> Result<Value> {
    let output = command.output().context("cannot run a measurement")?;
    ensure!(
        output.status.success(),
        "a measurement failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("a measurement printed no JSON")
}

/// The old client's way: a message of 144 bytes by a blocking send under a mutex, to a reader.
fn old_way(messages: u64) -> Result<Value> {
    let (sender, mut receiver) = UnixStream::pair().context("cannot make a pair of sockets")?;
    let reader = std::thread::spawn(move || {
        let mut buffer = [0; 1 << 16];
        while receiver.read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    let sender = Mutex::new(sender);
    let mut nanos = Vec::new();
    for number in 0..messages {
        let begun = Instant::now();
        let mut bytes = Vec::with_capacity(144);
        let request = Request {
            kind: RequestKind::Alloc,
            device_id: 0,
            size: 4096,
            buffer_type: 0,
            process_id: 1,
            buffer_id: number,
            timestamp: 0,
        };
        request.encode(GENERATION, &mut bytes);
        if let Ok(mut sender) = sender.lock() {
            sender.write_all(&bytes)?;
        }
        nanos.push(begun.elapsed().as_nanos() as f64);
    }
    drop(sender);
    let _ended = reader.join();
    nanos.sort_by(f64::total_cmp);
    let tail = nanos.get(nanos.len() * 999 / 1000).copied();
    Ok(json!({ "nanos_p999": tail, "nanos_median": median(nanos) }))
}

/// What the pump costs at a hundred thousand events per second.
fn pump(programs: &Programs, server: &OwnServer, seconds: u64) -> Result<Value> {
    let events = (100_000 * seconds).to_string();
    let words = ["--rate", "100000", "--events", &events];
    let mut workload = start_workload(programs, server, &words)?;
    let output = workload.stdout.as_mut().context("its output is piped")?;
    let found = read_account(output)?;
    workload.wait().context("cannot reap a workload")?;
    let figure = |name: &str| found[name].as_f64().unwrap_or(f64::NAN);
    Ok(json!({
        "events_per_second": figure("events") / figure("recording_seconds"),
        "cores": figure("pump_cpu_seconds") / figure("recording_seconds"),
        "lost_events": found["lost_events"],
    }))
}

/// Five runs of one process at full speed, each total compared.
fn one_process(programs: &Programs, server: &OwnServer, events: u64) -> Result<Value> {
    let mut rates = Vec::new();
    let mut elided = 0;
    for seed in 1..=5 {
        let account = compared(programs, server, events, &[seed])?;
        let account = account.first().context("one workload, one account")?;
        let figure = |name: &str| account[name].as_f64().unwrap_or(f64::NAN);
        rates.push(figure("events") / figure("flushed_after_seconds"));
        elided += account["elided_events"].as_u64().unwrap_or(0);
    }
    Ok(json!({
        "runs": rates,
        "events_per_second_best": best(&rates),
        "events_each": events,
        "elided_events": elided,
        "totals": "equal",
    }))
}

/// Sixteen processes at once, each total compared.
fn sixteen_processes(programs: &Programs, server: &OwnServer, events: u64) -> Result<Value> {
    let seeds: Vec<u64> = (1..=16).collect();
    let accounts = compared(programs, server, events, &seeds)?;
    let longest = accounts
        .iter()
        .filter_map(|account| account["flushed_after_seconds"].as_f64());
    let longest = longest.fold(f64::NAN, f64::max);
    let all: u64 = accounts
        .iter()
        .filter_map(|account| account["events"].as_u64())
        .sum();
    Ok(json!({
        "events": all,
        "events_per_second": all as f64 / longest,
        "totals": "equal",
    }))
}

/// Runs workloads at the same time and compares each one's account with the server's.
fn compared(
    programs: &Programs,
    server: &OwnServer,
    events: u64,
    seeds: &[u64],
) -> Result<Vec<Value>> {
    let mut running = Vec::new();
    for seed in seeds {
        let (events, seed) = (events.to_string(), seed.to_string());
        let words = ["--events", &events, "--seed", &seed, "--hold"];
        running.push(start_workload(programs, server, &words)?);
    }
    let mut accounts = Vec::new();
    for workload in &mut running {
        let output = workload.stdout.as_mut().context("its output is piped")?;
        accounts.push(read_account(output)?);
    }
    let snapshot: Snapshot = ApiClient::new(server.socket.clone()).snapshot()?;
    for account in &accounts {
        compare(account, &snapshot)?;
    }
    for mut workload in running {
        drop(workload.stdin.take());
        workload.wait().context("cannot reap a workload")?;
    }
    Ok(accounts)
}

/// Fails unless the server's account of a process is the process's own, to the byte.
pub(super) fn compare(account: &Value, snapshot: &Snapshot) -> Result<()> {
    let pid = account["pid"].as_u64();
    let process = snapshot.processes.iter();
    let mut process = process.filter(|process| process.pid.map(u64::from) == pid);
    let process = process.next().context("the server does not know it")?;
    ensure!(account["flushed"] == true, "{pid:?} was not confirmed");
    ensure!(process.lost_events == 0, "events were lost: {account}");
    let ours = account["devices"].as_array().context("no devices")?;
    for ours in ours {
        let theirs = process.devices.iter();
        let mut theirs = theirs.filter(|device| ours["id"] == device.id);
        let theirs = theirs.next().context("the server does not know a device")?;
        let theirs = json!({
            "id": theirs.id,
            "dram_bytes": theirs.dram_bytes,
            "l1_bytes": theirs.l1_bytes,
            "cb_bytes": theirs.cb_bytes,
            "kernel_bytes": theirs.kernel_bytes,
            "buffers": theirs.buffers,
        });
        ensure!(*ours == theirs, "its account {ours}, the server's {theirs}");
    }
    Ok(())
}

/// The record path while the server is stopped, second by second.
fn server_stopped(programs: &Programs, seconds: u64) -> Result<Value> {
    let server = OwnServer::start(programs, &["--quiet"])?;
    let whole = (seconds + 4).to_string();
    let mut command = own(&server, &["record", "--steady", "100000", &whole])?;
    let child = command.stdout(Stdio::piped()).spawn()?;
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    let pid = pid.context("a pid is a positive number")?;
    std::thread::sleep(Duration::from_secs(2));
    kill_process(pid, Signal::STOP).context("cannot stop the server")?;
    std::thread::sleep(Duration::from_secs(seconds));
    kill_process(pid, Signal::CONT).context("cannot let the server go on")?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "the workload failed");
    let found: Value = serde_json::from_slice(&output.stdout).context("no JSON")?;
    let rows = found["seconds"].as_array().context("no seconds")?;
    let figures = |stopped: bool, name: &str| {
        let rows = rows.iter().filter(|row| {
            let second = row["second"].as_u64().unwrap_or(0);
            // The seconds at the edges are neither.
            if stopped {
                (3..seconds + 1).contains(&second)
            } else {
                second < 2
            }
        });
        median(rows.filter_map(|row| row[name].as_f64()).collect())
    };
    Ok(json!({
        "stopped_seconds": seconds,
        "events": found["events"],
        "lost_events": found["lost_events"],
        "elided_events": found["elided_events"],
        "nanos_median_before": figures(false, "nanos_median"),
        "nanos_median_stopped": figures(true, "nanos_median"),
        "nanos_p999_before": figures(false, "nanos_p999"),
        "nanos_p999_stopped": figures(true, "nanos_p999"),
    }))
}
