//! A server process of a measurement's own, and how to look at it.

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use ttmem_event::catalogue::Arch;
use ttmem_event::{DeviceDefinition, DeviceId, MeshDefinition, MeshId, MeshKind, TextId};

/// The file in a server's folder that has its standard error.
const COMPLAINTS: &str = "complaints";

/// The programs that measurements start.
#[derive(Clone, Debug)]
pub struct Programs {
    pub ttmem: PathBuf,
    /// Starts [`crate::workload`] with these words, as a process of its own.
    pub workload: fn(&[&str]) -> Result<Command>,
}

/// A server process on a private socket; ends with this value.
#[derive(Debug)]
pub(super) struct OwnServer {
    child: Child,
    pub(super) socket: PathBuf,
    folder: tempfile::TempDir,
}

impl OwnServer {
    /// Starts one with these options beside its socket.
    pub(super) fn start(programs: &Programs, options: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a private folder")?;
        let socket = folder.path().join("ttmem.sock");
        let complaints = folder.path().join(COMPLAINTS);
        let complaints = File::create(&complaints).context("cannot make a file")?;
        let child = Command::new(&programs.ttmem)
            .arg("serve")
            .arg("--socket")
            .arg(&socket)
            .args(options)
            .env_remove("TTMEM_SOCKET")
            .stdout(Stdio::null())
            .stdin(Stdio::null())
            .stderr(complaints)
            .spawn()
            .context("cannot start a server")?;
        let server = Self {
            child,
            socket,
            folder,
        };
        let begun = Instant::now();
        while UnixStream::connect(&server.socket).is_err() {
            ensure!(
                begun.elapsed() < Duration::from_secs(10),
                "the server did not come up: {}",
                server.complaints()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to its standard error: a panic would be there.
    pub(super) fn complaints(&self) -> String {
        let complaints = std::fs::read(self.folder.path().join(COMPLAINTS));
        String::from_utf8_lossy(&complaints.unwrap_or_default()).into_owned()
    }

    pub(super) fn connect(&self) -> Result<UnixStream> {
        let stream = UnixStream::connect(&self.socket).context("cannot reach the server")?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(stream)
    }

    /// Bytes of memory that are its own.
    pub(super) fn memory_bytes(&self) -> Result<u64> {
        memory_bytes(self.pid())
    }

    /// Processor time it has used so far.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.pid())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// An n150 by this number.
pub(super) fn n150(number: u32) -> DeviceDefinition {
    DeviceDefinition {
        id: DeviceId(number),
        logical_id: number,
        unique_id: Some(0xB0_0000 + u64::from(number)),
        arch: Arch::Wormhole,
        board: TextId::NONE,
        remote: Some(false),
        grid_columns: 8,
        grid_rows: 8,
        l1_bytes_per_core: 1_499_136,
        l1_reserved_bytes: 105_824,
    }
}

/// A mesh of some devices in a row.
pub(super) fn mesh(id: MeshId, handle: u64, devices: &[DeviceId]) -> MeshDefinition {
    MeshDefinition {
        id,
        kind: MeshKind::Mesh,
        handle,
        rows: 1,
        columns: u16::try_from(devices.len()).unwrap_or(u16::MAX),
        devices: devices.to_vec(),
    }
}

/// Bytes of memory that are a process's own: resident, less what is shared with files.
pub(super) fn memory_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kib.context("the kernel reports no RssAnon")? * 1024)
}

/// Processor time that a process has used so far.
pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit_once(')').map_or("", |(_name, fields)| fields);
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next().and_then(|field| field.parse::<f64>().ok());
    let (user, system) = (ticks().unwrap_or(0.0), ticks().unwrap_or(0.0));
    // Linux counts these in hundredths of a second on every architecture we serve.
    Ok((user + system) / 100.0)
}

/// Runs `ttmem` with these arguments and returns how long it took, in milliseconds.
pub(super) fn time_command(programs: &Programs, arguments: &[&str]) -> Result<(f64, Vec<u8>)> {
    let begun = Instant::now();
    let output = Command::new(&programs.ttmem)
        .args(arguments)
        .output()
        .context("cannot run it")?;
    let millis = begun.elapsed().as_secs_f64() * 1e3;
    ensure!(
        output.status.success(),
        "it failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok((millis, output.stdout))
}

/// The middle one of some figures.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The largest of some figures.
pub(super) fn best(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::NAN, f64::max)
}
