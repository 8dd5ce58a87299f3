//! How soon a killed process's memory is given back.
//!
//! A process of its own allocates and is killed without warning; another
//! connection asks for the totals until they are zero. The clock runs from the
//! kill to the first answer that shows nothing held.

use super::harness::{OwnServer, Programs, median};
use super::old_client::{GENERATION, ask};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use ttmem_event::legacy::{Request, RequestKind};

const RUNS: usize = 21;
const BUFFERS: u64 = 10_000;
const READY: &str = "holding";

pub(super) fn measure(programs: &Programs) -> Result<Value> {
    let server = OwnServer::start(programs, &["--quiet"])?;
    let mut viewer = server.connect()?;
    let mut millis = Vec::new();
    for _run in 0..RUNS {
        let mut workload = Command::new(std::env::current_exe()?)
            .args(["hold", "--socket"])
            .arg(&server.socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a workload")?;
        let output = workload.stdout.take().context("its output is piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line.trim() == READY, "the workload printed {line:?}");
        ensure!(ask(&mut viewer)? > 0, "the workload holds nothing");
        workload.kill().context("cannot kill the workload")?;
        let killed = Instant::now();
        while ask(&mut viewer)? > 0 {
            ensure!(
                killed.elapsed() < Duration::from_secs(10),
                "it is never given back"
            );
        }
        millis.push(killed.elapsed().as_secs_f64() * 1e3);
        workload.wait().context("cannot reap the workload")?;
    }
    let worst = millis.iter().copied().fold(f64::NAN, f64::max);
    Ok(json!({
        "buffers": BUFFERS,
        "runs": RUNS,
        "millis_from_kill_to_zero_median": median(millis),
        "millis_from_kill_to_zero_worst": worst,
        "target_millis": 100,
    }))
}

/// The workload: allocates, prints a line, and waits to be killed.
pub fn hold(socket: &Path) -> Result<()> {
    let mut stream = UnixStream::connect(socket).context("cannot reach the server")?;
    let mut bytes = Vec::new();
    for number in 0..BUFFERS {
        let request = Request {
            kind: RequestKind::Alloc,
            device_id: 0,
            size: 4096,
            buffer_type: 0,
            process_id: 0,
            buffer_id: 4096 * number,
            timestamp: 0,
        };
        request.encode(GENERATION, &mut bytes);
    }
    stream.write_all(&bytes)?;
    ask(&mut stream)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{READY}")?;
    stdout.flush()?;
    // Ends by itself when whoever started it is gone.
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
