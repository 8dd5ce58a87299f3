//! Whether one client can hold up or blind another.
//!
//! An honest client of each protocol measures its round trip beside some processes that attack,
//! and beside as many that are busy and do not. A server of its own for each, in one run, so that
//! what the machine does besides counts for both. At the end the server's figures of the honest
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
        let busy = beside(programs, Attack::Busy, time)?;
        let attacked = beside(programs, *attack, time);
        let attacked = attacked.with_context(|| format!("beside {name}"))?;
        writeln!(std::io::stderr(), "{}", line(&name, &busy, &attacked))?;
        rows.push(row(&name, &busy, &attacked));
    }
    Ok(json!({
        "processes": PROCESSES,
        "target_ratio": TARGET,
        "attacks": rows,
    }))
}

/// Both honest clients beside processes of one kind.
fn beside(programs: &Programs, attack: Attack, time: Duration) -> Result<Measured> {
    let server = OwnServer::start(programs, &["--quiet"])?;
    let mut honest = Honest::connect(&server)?;
    let mut others = Vec::new();
    for number in 0..PROCESSES {
        others.push(Other::start(&server, attack, number)?);
    }
    honest.run(Duration::from_millis(200))?;
    let measured = honest.run(time)?;
    let blind = honest.is_blind(&server)?;
    drop(others);
    Ok(Measured { measured, blind })
}

struct Measured {
    measured: [RoundTrips; 2],
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

const PROTOCOLS: [&str; 2] = ["new", "old"];

fn row(name: &str, busy: &Measured, attacked: &Measured) -> Value {
    let mut row = json!({ "attack": name, "blind": attacked.blind });
    let both = busy.measured.iter().zip(&attacked.measured);
    for (protocol, (busy, attacked)) in PROTOCOLS.iter().zip(both) {
        row[protocol] = json!({
            "busy": busy.figures(),
            "attacked": attacked.figures(),
            "ratio_median": ratio(attacked.median(), busy.median()),
            "ratio_p99": ratio(attacked.p99(), busy.p99()),
        });
    }
    row
}

fn ratio(attacked: f64, busy: f64) -> f64 {
    (attacked / busy * 100.0).round() / 100.0
}

/// A line of the table that is printed while it runs.
fn line(name: &str, busy: &Measured, attacked: &Measured) -> String {
    let mut line = format!("{name:18}");
    let both = busy.measured.iter().zip(&attacked.measured);
    for (protocol, (busy, attacked)) in PROTOCOLS.iter().zip(both) {
        let (median, p99) = (attacked.median(), attacked.p99());
        let ratios = (ratio(median, busy.median()), ratio(p99, busy.p99()));
        line += &format!(
            " {protocol}: {median:7.0} µs ({:5.2}×), p99 {p99:8.0} µs ({:5.2}×) ",
            ratios.0, ratios.1
        );
    }
    line + attacked.blind.as_deref().unwrap_or("sees all")
}
