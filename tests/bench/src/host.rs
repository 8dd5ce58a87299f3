//! `cargo xtask bench host`: what one look at a machine with 32 devices takes, and what others can make it take.
//!
//! A made-up Galaxy in a folder: every file of the driver, and a file of TT-Metal's counters per chip. The first look reads
//! everything, later ones what changes. Then the same with as many files of others as are read, every slot of which names another
//! process, and with a hundred thousand entries that are none of TT-Metal's: what a look takes, and a server's share of a core.

use super::harness::{OwnServer, Programs, cpu_seconds, median};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::chown;
use std::time::{Duration, Instant};
use ttmem_machine::fuzz::{WrittenRegion, WrittenSlot};
use ttmem_machine::shm::Bytes;
use ttmem_machine::tree::{Tree, galaxy};
use ttmem_machine::{Reader, Sample, Watch};
use ttmem_reader::ApiClient;

const LOOKS: usize = 1000;
const PID: i32 = 4242;

/// Users who make files, and how many each: as many as are read.
const OWNERS: u32 = 16;
const FILES_OF_OWNER: u64 = 64;
const SLOTS: usize = 64;

const FOREIGN: u32 = 100_000;

pub(super) fn measure(programs: &Programs, quick: bool) -> Result<Value> {
    let scale = if quick { 10 } else { 1 };
    let tree = full_galaxy();
    let mut found = looks(&tree, LOOKS / scale)?;
    found["devices"] = json!(32);
    found["target_ms"] = json!(10);
    let hostile = hostile_galaxy()?;
    let crowded = crowded_galaxy()?;
    let seconds = 60 / scale as u64;
    for (name, tree) in [("hostile_files", hostile), ("foreign_entries", crowded)] {
        found[name] = json!({
            "looks": looks(&tree, 50 / scale)?,
            "server": server(programs, &tree, seconds)?,
        });
    }
    Ok(found)
}

/// What looks take, the first of which reads everything.
fn looks(tree: &Tree, looks: usize) -> Result<Value> {
    // On a busy machine any file may seem to hang, and what is timed would be less than a look.
    let patient = Reader::with_deadline(Duration::from_secs(60));
    let mut watch = Watch::with_reader(tree.roots(), patient);
    let (first, sample) = timed(&mut watch);
    check(&sample)?;
    let mut times = Vec::with_capacity(looks);
    let before = cpu_seconds(std::process::id())?;
    for _look in 0..looks {
        let (time, sample) = timed(&mut watch);
        check(&sample)?;
        times.push(time.as_secs_f64() * 1e3);
    }
    let cpu = cpu_seconds(std::process::id())? - before;
    let worst = times.iter().copied().fold(0.0, f64::max);
    Ok(json!({
        "looks": looks,
        "first_ms": first.as_secs_f64() * 1e3,
        "median_ms": median(times),
        "worst_ms": worst,
        "processor_ms": cpu * 1e3 / looks as f64,
    }))
}

/// The share of a core that a server takes: while nobody reads, and while somebody does once a second.
fn server(programs: &Programs, tree: &Tree, seconds: u64) -> Result<Value> {
    let root = tree.at("");
    let root = root.to_str().context("a path that is no text")?;
    let server = OwnServer::start(programs, &["--quiet", "--host-root", root])?;
    let client = ApiClient::new(server.socket.clone());
    let mut shares = Vec::new();
    for is_read in [false, true] {
        let (begun, before) = (Instant::now(), server.cpu_seconds()?);
        for _second in 0..seconds {
            if is_read {
                client.snapshot()?;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        let used = server.cpu_seconds()? - before;
        shares.push(used / begun.elapsed().as_secs_f64() * 100.0);
    }
    Ok(json!({
        "seconds": seconds,
        "percent_of_a_core_while_nobody_reads": shares[0],
        "percent_of_a_core_while_one_reads": shares[1],
    }))
}

/// A Galaxy in whose folder others have made all files that are read, each slot with a process of its own that is gone.
fn hostile_galaxy() -> Result<Tree> {
    let tree = full_galaxy();
    let mut pid = 100_000;
    for owner in 0..OWNERS {
        for file in 0..FILES_OF_OWNER {
            let slot = |slot: usize| {
                pid += 1;
                WrittenSlot {
                    slot,
                    pid,
                    name: "a name of fifteen",
                    bytes: Bytes {
                        dram: 4096,
                        ..Bytes::default()
                    },
                }
            };
            let region = WrittenRegion {
                version: 4,
                id: u64::from(owner) * FILES_OF_OWNER + file + 1,
                device_id: 77,
                processes: (0..SLOTS).map(slot).collect(),
            };
            tree.count(&region);
            let path = tree.at(&format!("dev/shm/tt_device_{}_memory", region.id));
            chown(path, Some(100_000 + owner), None)
                .context("files of other users are made by root only")?;
        }
    }
    Ok(tree)
}

/// A Galaxy with a hundred thousand entries beside its counters.
fn crowded_galaxy() -> Result<Tree> {
    let tree = full_galaxy();
    for entry in 0..FOREIGN {
        File::create(tree.at(&format!("dev/shm/sem.foreign_{entry}")))?;
    }
    Ok(tree)
}

/// Every chip open and counted by one process.
fn full_galaxy() -> Tree {
    let cards = galaxy();
    let tree = Tree::with(&cards);
    tree.process(PID, "python", 10);
    for card in &cards {
        let pids = format!("proc/driver/tenstorrent/{}/pids", card.ordinal);
        tree.put(&pids, format!("{PID}\n"));
        let slot = WrittenSlot {
            slot: 0,
            pid: PID,
            name: "python",
            bytes: Bytes {
                dram: 1 << 30,
                ..Bytes::default()
            },
        };
        tree.count(&WrittenRegion {
            version: 4,
            id: 0xA000_0000_0000_0000 + u64::from(card.ordinal),
            device_id: card.ordinal,
            processes: vec![slot],
        });
    }
    tree
}

fn timed(watch: &mut Watch) -> (Duration, Sample) {
    let begun = Instant::now();
    let sample = watch.look();
    (begun.elapsed(), sample)
}

/// What is timed is right.
fn check(sample: &Sample) -> Result<()> {
    let cards = sample.devices.as_deref().unwrap_or_default();
    let warm = cards
        .iter()
        .filter(|card| card.sensors.temperature_millidegrees.is_ok());
    ensure!(warm.count() == 32, "a temperature is missing");
    let regions = sample.regions.as_deref().unwrap_or_default();
    let counted = regions.iter().filter(|file| file.content.is_ok());
    ensure!(counted.count() >= 32, "counters are missing");
    Ok(())
}
