//! The client processes of a load, from their start to their end.

use crate::cli::LoadOptions;
use crate::interrupt::StopReason;
use crate::threads;
use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

/// What a client reports at its end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ClientAccount {
    pub(super) pid: u32,
    pub(super) stories: u64,
    pub(super) events: u64,
    pub(super) flushed: bool,
    pub(super) lost_events: u64,
    pub(super) elided_events: u64,
    pub(super) recording_seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) pump_cpu_seconds: f64,
}

#[derive(Debug)]
pub(super) struct Clients(Vec<Client>);

/// A client; one that still runs is killed when this is dropped.
#[derive(Debug)]
struct Client {
    process: Child,
    /// The client ends when this is closed.
    input: Option<ChildStdin>,
    reader: Option<JoinHandle<Result<ClientAccount>>>,
}

impl Clients {
    /// Starts them; each sends news when it has reported its account, or never will.
    pub(super) fn start(
        options: &LoadOptions,
        socket: &Path,
        news: &SyncSender<StopReason>,
    ) -> Result<Self> {
        let mut clients = Self(Vec::new());
        for number in 0..options.clients {
            let client = Client::start(options, number, socket, news.clone())?;
            clients.0.push(client);
        }
        Ok(clients)
    }

    /// Has them end before their time.
    pub(super) fn end_early(&mut self) {
        for client in &mut self.0 {
            drop(client.input.take());
        }
    }

    /// Their accounts; waits for those that have not reported.
    pub(super) fn accounts(&mut self) -> Result<Vec<ClientAccount>> {
        let readers = self.0.iter_mut().filter_map(|client| client.reader.take());
        let joined = readers.map(|reader| {
            reader
                .join()
                .map_err(|_panic| anyhow!("a reader of a client failed"))?
        });
        joined.collect()
    }

    pub(super) fn dismiss(mut self) -> Result<()> {
        self.end_early();
        for client in &mut self.0 {
            let status = client.process.wait().context("cannot wait for a client")?;
            ensure!(status.success(), "a client failed: {status}");
        }
        Ok(())
    }
}

impl Client {
    fn start(
        options: &LoadOptions,
        number: u32,
        socket: &Path,
        news: SyncSender<StopReason>,
    ) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut process = Command::new(program)
            .arg("load-client")
            .args(["--number", &number.to_string()])
            .args([
                "--rate",
                &share(options.rate, options.clients, number).to_string(),
            ])
            .args(["--duration", &options.duration.to_string()])
            .arg(format!("--scenario={}", options.play.scenario.asked()))
            .args([
                "--seed",
                &options
                    .play
                    .seed
                    .wrapping_add(u64::from(number) << 32)
                    .to_string(),
            ])
            .args(["--parent", &std::process::id().to_string()])
            .arg("--socket")
            .arg(socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a client")?;
        let input = process.stdin.take();
        let output = process
            .stdout
            .take()
            .context("a client without an output")?;
        let mut client = Self {
            process,
            input,
            reader: None,
        };
        let reader = threads::spawn("ttmem-reader", "a client", move || {
            let account = read_account(output);
            // There is room for all words of all clients.
            if account.is_err() {
                // With one client less, the load is not what was asked for.
                let _sent = news.try_send(StopReason::Interrupted);
            }
            let _sent = news.try_send(StopReason::Ended);
            account
        });
        client.reader = Some(reader?);
        Ok(client)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Gone already is as good as killed.
        let _gone = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// The part of a rate that one of some clients gets; at least 1, because 0 is no rate at all.
fn share(rate: u64, clients: u32, number: u32) -> u64 {
    if rate == 0 {
        return 0;
    }
    let clients = u64::from(clients.max(1));
    let more = u64::from(u64::from(number) < rate % clients);
    (rate / clients + more).max(1)
}

fn read_account(output: ChildStdout) -> Result<ClientAccount> {
    let mut line = String::new();
    BufReader::new(output)
        .read_line(&mut line)
        .context("cannot read from a client")?;
    ensure!(
        !line.is_empty(),
        "a client ended before it had reported what it did"
    );
    serde_json::from_str(&line).context("a client printed something else than an account")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_make_up_the_rate() {
        for (rate, clients) in [(100_000, 3), (7, 7), (64, 64), (1_000_001, 4)] {
            let sum: u64 = (0..clients)
                .map(|number| share(rate, clients, number))
                .sum();
            assert_eq!(sum, rate);
        }
        assert_eq!(share(0, 4, 1), 0);
        // Fewer events than clients: nobody may run without a limit.
        assert_eq!(share(2, 4, 3), 1);
    }
}
