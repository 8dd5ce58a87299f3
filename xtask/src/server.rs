//! A server on a private socket for the checks that need one, and what it says that a process holds.

use crate::command::{program, read};
use anyhow::{Context, bail};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for what should take milliseconds, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The totals that examples print: the server's names for them.
const TOTALS: [&str; 5] = [
    "dram_bytes",
    "l1_bytes",
    "cb_bytes",
    "kernel_bytes",
    "buffers",
];

/// What a process holds on each of its devices, in the order of [`TOTALS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holdings([u64; TOTALS.len()]);

impl Holdings {
    /// Reads `dram_bytes=1 l1_bytes=2 …`.
    pub(crate) fn parse(line: &str) -> anyhow::Result<Self> {
        let mut held = Self::default();
        for (total, name) in held.0.iter_mut().zip(TOTALS) {
            let words = line.split_whitespace();
            let value = words
                .filter_map(|word| word.split_once('='))
                .find(|(key, _)| *key == name);
            let (_name, value) = value.with_context(|| format!("no {name}"))?;
            *total = value
                .parse()
                .with_context(|| format!("{name} is {value:?}"))?;
        }
        Ok(held)
    }

    /// What the server's document has of every device of a process; nothing if it has none.
    fn of_process(status: &Value, pid: u32) -> Vec<Self> {
        let devices = devices(status, |process| process["pid"] == pid);
        let total = |device: &Value, name: &str| device[name].as_u64().unwrap_or(u64::MAX);
        devices
            .map(|device| Self(TOTALS.map(|name| total(device, name))))
            .collect()
    }
}

/// The devices of some processes of the server's document.
fn devices<'d>(
    status: &'d Value,
    is_meant: impl Fn(&Value) -> bool,
) -> impl Iterator<Item = &'d Value> {
    let list = |value: &'d Value| value.as_array().into_iter().flatten();
    list(&status["processes"])
        .filter(move |process| is_meant(process))
        .flat_map(move |process| list(&process["devices"]))
}

/// A server of a check's own.
#[derive(Debug)]
pub(crate) struct Server {
    ttmem: PathBuf,
    socket: PathBuf,
    folder: SocketFolder,
    _running: Running,
}

impl Server {
    /// Starts `ttmem serve` and waits until it answers; it records into a folder of its own, so that all paths
    /// have something to answer.
    pub(crate) fn start(ttmem: &Path) -> anyhow::Result<Self> {
        let folder = SocketFolder::make()?;
        let socket = folder.0.join("ttmem.sock");
        let mut serve = program(ttmem);
        serve
            .args(["serve", "--no-legacy-socket", "--quiet", "--socket"])
            .arg(&socket)
            .arg("--record")
            .arg(folder.0.join("recordings"));
        let serve = serve.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let server = Self {
            ttmem: ttmem.to_owned(),
            socket,
            folder,
            _running: Running(serve.context("cannot start ttmem serve")?),
        };
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = server.status() {
            if Instant::now() > deadline {
                return Err(error.context("ttmem serve does not answer"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// A folder of its own, which goes with it.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Waits until somebody holds a buffer.
    pub(crate) fn wait_for_buffers(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let has_buffers = |status: &Value| {
            devices(status, |_process| true).any(|device| device["buffers"].as_u64() > Some(0))
        };
        while !has_buffers(&self.status()?) {
            if Instant::now() > deadline {
                bail!("nobody allocates anything");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// A path on which nobody listens.
    pub(crate) fn nowhere(&self) -> PathBuf {
        self.folder.0.join("nowhere.sock")
    }

    /// Waits until the account says that each device of a process holds this.
    pub(crate) fn wait_for(&self, pid: u32, held: &Holdings) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = self.status()?;
            let found = Holdings::of_process(&status, pid);
            let nothing = *held == Holdings::default();
            if found.iter().all(|found| found == held) && (nothing || !found.is_empty()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "it should hold {held:?} ({TOTALS:?}); the server says {found:?}:\n{status:#}"
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its snapshot of everything.
    pub(crate) fn status(&self) -> anyhow::Result<Value> {
        let mut status = program(&self.ttmem);
        status.args(["status", "--json", "--socket"]);
        let json = read(status.arg(&self.socket))?;
        serde_json::from_str(&json).context("ttmem status printed no JSON")
    }
}

/// A program that does not outlive the check.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail when it has ended, which is what is wanted.
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A folder for a socket: the path of one must be short, and the build directory's may not be.
#[derive(Debug)]
pub(crate) struct SocketFolder(PathBuf);

impl SocketFolder {
    /// Makes one.
    pub(crate) fn make() -> anyhow::Result<Self> {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("ttmem-xtask-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        // In /tmp, what cannot be removed now is removed later.
        let _removed = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn holdings_are_read_from_an_example() {
        let line = "dram_bytes=1 l1_bytes=2 cb_bytes=3 kernel_bytes=4 buffers=5\n";
        assert_eq!(Holdings::parse(line).unwrap(), Holdings([1, 2, 3, 4, 5]));
        assert!(Holdings::parse("dram_bytes=1").is_err());
        assert!(Holdings::parse("").is_err());
    }

    #[test]
    fn holdings_are_read_from_the_server() {
        let device = |first: u64| {
            let totals = TOTALS.iter().zip(first..);
            let totals = totals.map(|(name, total)| ((*name).to_owned(), json!(total)));
            Value::Object(totals.collect())
        };
        let status = json!({ "processes": [
            { "pid": 7, "devices": [] },
            { "pid": 70, "devices": [device(1), device(6)] },
        ] });
        let expected = [Holdings([1, 2, 3, 4, 5]), Holdings([6, 7, 8, 9, 10])];
        assert_eq!(Holdings::of_process(&status, 70), expected);
        assert_eq!(Holdings::of_process(&status, 7), []);
        assert_eq!(Holdings::of_process(&status, 0), []);
    }
}
