//! What an event costs a thread, by way of handing it over and by clock: a report, never a gate.
//!
//! `cargo bench -p ttmem-ring --bench ways` prints two tables. The first has the
//! nanoseconds per event of 64 bytes: the median over blocks of events, and the
//! 99.9th percentile of single events, less what reading the timer costs. Events
//! come in bursts that fit; nobody waits for room. The second says how often a
//! stamp is older than a stamp that its thread had read before taking it.

#[cfg(target_arch = "x86_64")]
mod ways {
    pub(crate) mod clock;
    mod litmus;
    mod measure;
    mod way;

    use clock::{Cycles, CyclesAfterFence, CyclesAfterLoads, Monotonic};
    use measure::measure;
    use std::io::Write;
    use way::{Channel, Locked, Rings, Ticketed};

    pub(crate) fn report() -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        let speed = measure::ticks_per_nano();
        writeln!(out, "ns per event: median / 99.9 %")?;
        writeln!(
            out,
            "{:<34}{:>16}{:>16}{:>16}{:>16}",
            "", "1 thread", "+ consumer", "2 threads", "+ consumer"
        )?;
        let mut row = |name: &str, cells: [measure::Cost; 4]| {
            write!(out, "{name:<34}")?;
            for cost in cells {
                let cell = format!("{:.1} / {:.0}", cost.median_nanos, cost.rare_nanos);
                write!(out, "{cell:>16}")?;
            }
            writeln!(out)
        };
        row(
            "ring per thread, no stamp",
            measure(speed, Rings::<()>::new),
        )?;
        row(
            "ring per thread, rdtsc",
            measure(speed, Rings::<Cycles>::new),
        )?;
        let ordered = measure(speed, Rings::<CyclesAfterLoads>::new);
        row("ring per thread, rdtscp", ordered)?;
        let fenced = measure(speed, Rings::<CyclesAfterFence>::new);
        row("ring per thread, lfence; rdtsc", fenced)?;
        let system = measure(speed, Rings::<Monotonic>::new);
        row("ring per thread, clock_gettime", system)?;
        row("one ring with tickets", measure(speed, Ticketed::new))?;
        row("Mutex<Vec>", measure(speed, Locked::new))?;
        row("bounded channel", measure(speed, Channel::new))?;
        writeln!(out, "\nstamps older than what was read before them")?;
        for (name, inversions) in litmus::run() {
            let (older, of) = (inversions.older, inversions.fresh_reads);
            let most = inversions.most_ticks as f64 / speed;
            writeln!(
                out,
                "{name:<34}{older:>10} of {of} reads, by {most:.0} ns at most"
            )?;
        }
        Ok(())
    }
}

#[cfg(target_arch = "x86_64")]
fn main() -> std::io::Result<()> {
    ways::report()
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {}
