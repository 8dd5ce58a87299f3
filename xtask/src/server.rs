//! A server on a private socket for the checks that need one, and what it says that a process holds.

use crate::command::{program, read};
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How long to wait for what should take milliseconds, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The totals that examples tell: the server's names for them.
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

    /// What the server's JSON says of every device of a process; nothing if it has none.
    ///
    /// The document is the server's own, whose keys come in a fixed order: a process begins with
    /// its pid, and only devices of processes have these totals. A reader of JSON would be the
    /// only dependency of this program that is not about errors.
    fn of_process(json: &str, pid: u32) -> Vec<Self> {
        let text: String = json.split_whitespace().collect();
        let mark = "{\"pid\":";
        // The first is the server itself.
        let processes = text.split(mark).skip(2);
        let own = processes.filter(|process| process.starts_with(&format!("{pid},")));
        let own: Vec<&str> = own.collect();
        let devices = own
            .iter()
            .flat_map(|process| process.split("\"dram_bytes\":").skip(1));
        devices
            .map(|device| {
                let device = format!("\"dram_bytes\":{device}");
                Self(TOTALS.map(|name| number_after(&device, name)))
            })
            .collect()
    }
}

fn number_after(text: &str, name: &str) -> u64 {
    let key = format!("\"{name}\":");
    let value = text.split_once(&key).map_or("", |(_before, after)| after);
    let end = value.find(|digit: char| !digit.is_ascii_digit());
    // What is no number is a total that no example has.
    value[..end.unwrap_or(value.len())]
        .parse()
        .unwrap_or(u64::MAX)
}

/// Whether the server's JSON tells of a buffer.
fn has_buffers(json: &str) -> bool {
    let text: String = json.split_whitespace().collect();
    let mut counts = text.split("\"buffers\":").skip(1);
    counts.any(|count| count.starts_with(|digit: char| ('1'..='9').contains(&digit)))
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
    /// Starts `ttmem serve` and waits until it answers.
    pub(crate) fn start(ttmem: &Path) -> anyhow::Result<Self> {
        let folder = SocketFolder::make()?;
        let socket = folder.0.join("ttmem.sock");
        let mut serve = program(ttmem);
        serve
            .args(["serve", "--no-legacy-socket", "--quiet", "--socket"])
            .arg(&socket);
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
            let json = self.status()?;
            let found = Holdings::of_process(&json, pid);
            let nothing = *held == Holdings::default();
            if found.iter().all(|found| found == held) && (nothing || !found.is_empty()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("it should hold {held:?} ({TOTALS:?}); the server says {found:?}:\n{json}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it says of everything, in JSON.
    pub(crate) fn status(&self) -> anyhow::Result<String> {
        let mut status = program(&self.ttmem);
        read(
            status
                .args(["status", "--json", "--socket"])
                .arg(&self.socket),
        )
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
    /// Makes one; a process has one at a time.
    pub(crate) fn make() -> anyhow::Result<Self> {
        let name = format!("ttmem-xtask-{}", std::process::id());
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

    const JSON: &str = r#"{ "server": { "pid": 7, "version": "0" }, "processes": [
        { "pid": 7, "devices": [] },
        { "pid": 70, "devices": [
            { "id": 0, "dram_bytes": 1, "l1_bytes": 2, "l1_small_bytes": 9, "cb_bytes": 3,
              "kernel_bytes": 4, "buffers": 5 },
            { "id": 1, "dram_bytes": 6, "l1_bytes": 7, "l1_small_bytes": 9, "cb_bytes": 8,
              "kernel_bytes": 9, "buffers": 10 } ] } ] }"#;

    #[test]
    fn holdings_are_read_from_an_example() {
        let line = "dram_bytes=1 l1_bytes=2 cb_bytes=3 kernel_bytes=4 buffers=5\n";
        assert_eq!(Holdings::parse(line).unwrap(), Holdings([1, 2, 3, 4, 5]));
        assert!(Holdings::parse("dram_bytes=1").is_err());
        assert!(Holdings::parse("").is_err());
    }

    #[test]
    fn holdings_are_read_from_the_server() {
        let expected = [Holdings([1, 2, 3, 4, 5]), Holdings([6, 7, 8, 9, 10])];
        assert_eq!(Holdings::of_process(JSON, 70), expected);
        assert_eq!(Holdings::of_process(JSON, 7), []);
        assert_eq!(Holdings::of_process(JSON, 0), []);
    }

    #[test]
    fn buffers_are_seen_where_there_are_any() {
        assert!(has_buffers(JSON));
        assert!(!has_buffers(
            &JSON.replace("\"buffers\": ", "\"buffers\": 0")
        ));
    }
}
