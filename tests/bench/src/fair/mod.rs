//! Whether one client can hold up or blind another.
//!
//! An honest client of each protocol measures its round trip, and a reader its own, beside some processes that
//! attack, beside as many that are busy and do not, and alone. A server of its own for each, in one run, so that
//! what the machine does besides counts for all. At the end the server's figures of the honest
//! process are compared with what it reported: a process whose figures are missing or wrong is
//! blind.

mod attacks;
mod costly;
mod honest;

pub use attacks::{AttackOptions, run as attack};

use super::harness::{OwnServer, Programs};
use anyhow::{Context, Result};
use attacks::Attack;
use clap::ValueEnum;
use honest::{Honest, RoundTrips};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Processes that attack at a time, or are busy.
const PROCESSES: usize = 4;

/// How many times as long an honest client may wait beside attackers.
const TARGET: f64 = 3.0;

pub(super) fn measure(programs: &Programs, quick: bool) -> Result<Value> {
    let time = Duration::from_millis(if quick { 500 } else { 3000 });
    let mut rows = Vec::new();
    for attack in Attack::value_variants() {
        if *attack == Attack::Busy || *attack == Attack::Once {
            continue;
        }
        let name = attack.name();
        let quiet = beside(programs, None, time)?;
        let busy = beside(programs, Some(Attack::Busy), time)?;
        let attacked = beside(programs, Some(*attack), time);
        let attacked = attacked.with_context(|| format!("beside {name}"))?;
        let references = [("quiet", quiet), ("busy", busy)];
        writeln!(std::io::stderr(), "{}", line(&name, &references, &attacked))?;
        rows.push(row(&name, &references, &attacked));
    }
    Ok(json!({
        "processes": PROCESSES,
        "target_ratio": TARGET,
        "attacks": rows,
    }))
}

/// The honest clients beside processes of one kind, or alone.
fn beside(programs: &Programs, attack: Option<Attack>, time: Duration) -> Result<Measured> {
    let server = OwnServer::start(programs, &["--quiet"])?;
    let mut honest = Honest::connect(&server)?;
    let mut others = Vec::new();
    for number in 0..PROCESSES {
        let other = attack.map(|attack| Other::start(&server, attack, number));
        others.extend(other.transpose()?);
    }
    honest.run(&server, Duration::from_millis(200))?;
    let measured = honest.run(&server, time)?;
    let blind = honest.is_blind(&server)?;
    drop(others);
    Ok(Measured { measured, blind })
}

struct Measured {
    measured: [RoundTrips; 3],
    blind: Option<String>,
}

/// A process beside the honest one; ends with this value.
struct Other(Child);

impl Other {
    fn start(server: &OwnServer, attack: Attack, number: usize) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .args(["attack", "--kind", &attack.name(), "--socket"])
            .arg(&server.socket)
            .args(["--number", &number.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a process")?;
        let mut other = Self(child);
        // It says when it has begun: until then it prepares.
        if let Some(output) = other.0.stdout.take() {
            BufReader::new(output).read_line(&mut String::new())?;
        }
        Ok(other)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

const WHO: [&str; 3] = ["new", "old", "healthz"];

/// What is compared with, by name.
type References = [(&'static str, Measured); 2];

fn row(name: &str, references: &References, attacked: &Measured) -> Value {
    let mut row = json!({ "attack": name, "blind": attacked.blind });
    for (index, who) in WHO.iter().enumerate() {
        let found = &attacked.measured[index];
        row[who] = json!({ "attacked": found.figures() });
        for (reference, measured) in references {
            let other = &measured.measured[index];
            row[who][reference] = other.figures();
            row[who][format!("ratio_median_{reference}")] =
                json!(ratio(found.median(), other.median()));
            row[who][format!("ratio_p99_{reference}")] = json!(ratio(found.p99(), other.p99()));
        }
    }
    row
}

fn ratio(attacked: f64, busy: f64) -> f64 {
    (attacked / busy * 100.0).round() / 100.0
}

/// A line of the table that is printed while it runs: times, and ratios to each reference.
fn line(name: &str, references: &References, attacked: &Measured) -> String {
    let mut line = format!("{name:18}");
    for (index, who) in WHO.iter().enumerate() {
        let found = &attacked.measured[index];
        let ratios = |of: fn(&RoundTrips) -> f64| {
            let ratios = references
                .iter()
                .map(|(_name, measured)| ratio(of(found), of(&measured.measured[index])));
            let ratios: Vec<String> = ratios.map(|ratio| format!("{ratio:.2}×")).collect();
            ratios.join(", ")
        };
        let (median, p99) = (found.median(), found.p99());
        line += &format!(
            " {who}: {median:6.0} µs ({}), p99 {p99:7.0} µs ({}) ",
            ratios(RoundTrips::median),
            ratios(RoundTrips::p99)
        );
    }
    line + attacked.blind.as_deref().unwrap_or("sees all")
}
