//! `cargo xtask bench host`: what one look at a machine with 32 devices takes.
//!
//! A made-up Galaxy in a folder: every file of the driver, and a file of TT-Metal's counters per chip. The first look reads
//! everything, later ones what changes.

use super::harness::median;
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use ttmem_host::fuzz::{WrittenRegion, WrittenSlot};
use ttmem_host::shm::Bytes;
use ttmem_host::tree::{Tree, galaxy};
use ttmem_host::{Sample, Watch};

const LOOKS: usize = 1000;
const PID: i32 = 4242;

pub(super) fn measure(quick: bool) -> Result<Value> {
    let tree = full_galaxy();
    let mut watch = Watch::new(tree.roots());
    let (first, sample) = timed(&mut watch);
    check(&sample)?;
    let looks = if quick { LOOKS / 10 } else { LOOKS };
    let mut times = Vec::with_capacity(looks);
    for _look in 0..looks {
        let (time, sample) = timed(&mut watch);
        check(&sample)?;
        times.push(time.as_secs_f64() * 1e3);
    }
    let worst = times.iter().copied().fold(0.0, f64::max);
    Ok(json!({
        "devices": 32,
        "looks": looks,
        "first_ms": first.as_secs_f64() * 1e3,
        "median_ms": median(times),
        "worst_ms": worst,
        "target_ms": 10,
    }))
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
    ensure!(counted.count() == 32, "counters are missing");
    Ok(())
}
