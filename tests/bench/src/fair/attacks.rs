//! What processes do beside the honest one, each in a loop until it is ended.

use super::costly;
use crate::harness::{mesh, n150};
use crate::old_client::GENERATION;
use crate::wire_client::WireClient;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use ttmem_event::legacy::{Request, RequestKind};
use ttmem_event::wire::Preamble;
use ttmem_event::{Definition, EventKind, MeshId};

/// Connections of an attack by numbers, of each process.
const CONNECTIONS: usize = 300;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// No attack: allocations and frees, a few batches ahead of what is confirmed.
    Busy,
    /// Runs on 256 devices that leave a thousand cores each.
    DispatchBomb,
    /// Old messages about one address with 65,536 entries.
    CbScan,
    /// A whole state of a million rows, again and again.
    Resync,
    /// A mesh of 64 devices that closes with 20,000 buffers.
    MeshClose,
    /// Marks, which begin a stretch on every device of everybody.
    Marks,
    /// Frames of a kind that does not exist.
    UnknownFrames,
    /// Requests to print everything.
    DumpFlood,
    /// Questions on many connections.
    QueryFlood,
    /// Connections that say nothing.
    Silent,
    /// Frames of a megabyte that never end.
    PartialFrames,
    /// Readers that ask byte by byte, and read nothing.
    SlowReaders,
    /// Readers that ask for everything, all the time.
    ReaderFlood,
    /// All the devices that a process may have.
    Devices,
    /// Processes that report a little and end.
    ShortProcesses,
    /// Connections that say hello and end, as fast as they can be made.
    Storm,
    /// Connections with a whole state that is not one, each of another instance.
    BrokenResyncs,
    /// Readers that have a hundred thousand buffers sorted, all the time.
    SortedReaders,
    /// One of those.
    Once,
}

impl Attack {
    pub(super) fn name(self) -> String {
        let name = self.to_possible_value();
        name.map_or_else(String::new, |name| name.get_name().to_owned())
    }
}

#[derive(Debug, Args)]
pub struct AttackOptions {
    #[arg(long)]
    socket: PathBuf,
    #[arg(long)]
    kind: Attack,
    /// Which of several.
    #[arg(long, default_value_t = 0)]
    number: usize,
}

impl AttackOptions {
    fn connect(&self) -> Result<UnixStream> {
        UnixStream::connect(&self.socket).context("cannot reach the server")
    }

    pub(super) fn greet(&self) -> Result<WireClient> {
        let mut instance = [0; 16];
        instance[..4].copy_from_slice(&std::process::id().to_le_bytes());
        self.greet_as(instance)
    }

    pub(super) fn greet_as(&self, instance: [u8; 16]) -> Result<WireClient> {
        WireClient::greet(self.connect()?, instance, "other")
    }
}

/// An instance that no other client has.
pub(super) fn new_instance() -> [u8; 16] {
    static LAST: AtomicU64 = AtomicU64::new(1);
    let mut instance = [0; 16];
    instance[..4].copy_from_slice(&std::process::id().to_le_bytes());
    instance[8..].copy_from_slice(&LAST.fetch_add(1, Relaxed).to_le_bytes());
    instance
}

/// Says that it has begun what it does.
pub(super) fn begun() -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "begun")?;
    Ok(stdout.flush()?)
}

/// Attacks until it is killed, or its parent is gone.
pub fn run(options: &AttackOptions) -> Result<()> {
    if options.kind == Attack::Once {
        return once(options);
    }
    std::thread::spawn(end_with_parent);
    match options.kind {
        Attack::Busy | Attack::Once => costly::busy(options),
        Attack::DispatchBomb => costly::dispatch(options),
        Attack::Resync => costly::resync(options),
        Attack::MeshClose => costly::close_meshes(options),
        Attack::Marks => costly::mark(options),
        Attack::CbScan => scan_cbs(options),
        Attack::UnknownFrames => send_unknown(options),
        Attack::DumpFlood => flood_old(options, RequestKind::DumpRemaining, 1),
        Attack::QueryFlood => flood_old(options, RequestKind::Query, CONNECTIONS),
        Attack::Silent => stay(options, &[]),
        Attack::PartialFrames => stay(options, &partial_frame()),
        Attack::SlowReaders => stay(options, b"G"),
        Attack::ReaderFlood => flood_readers(options),
        Attack::Devices => take_devices(options),
        Attack::ShortProcesses => spawn_short(options),
        Attack::Storm => storm(options),
        Attack::BrokenResyncs => costly::broken_resyncs(options),
        Attack::SortedReaders => sort_buffers(options),
    }
}

#[expect(clippy::exit, reason = "an attack has no other end")]
fn end_with_parent() {
    // Nothing is written there.
    let _ended = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

fn request(kind: RequestKind, size: u64) -> Request {
    Request {
        kind,
        device_id: 1,
        size,
        buffer_type: 0,
        process_id: 1,
        buffer_id: 0x5000,
        timestamp: 0,
    }
}

fn scan_cbs(options: &AttackOptions) -> Result<()> {
    let mut stream = options.connect()?;
    let mut bytes = Vec::new();
    for _entry in 0..65_536 {
        request(RequestKind::CbAlloc, 8).encode(GENERATION, &mut bytes);
    }
    stream.write_all(&bytes)?;
    bytes.clear();
    for _pair in 0..5000 {
        request(RequestKind::CbFree, 9).encode(GENERATION, &mut bytes);
        request(RequestKind::CbAlloc, 8).encode(GENERATION, &mut bytes);
    }
    begun()?;
    loop {
        stream.write_all(&bytes)?;
    }
}

fn send_unknown(options: &AttackOptions) -> Result<()> {
    let mut client = options.greet()?;
    let mut bytes = Vec::new();
    for _frame in 0..8192 {
        // No bytes of a kind that no version has.
        bytes.extend_from_slice(&[0, 0, 0, 0, 0x7F, 0, 0, 0]);
    }
    begun()?;
    loop {
        client.write(&bytes)?;
    }
}

/// Sends one request over and over, reading whatever comes back.
fn flood_old(options: &AttackOptions, kind: RequestKind, connections: usize) -> Result<()> {
    let mut bytes = Vec::new();
    for _request in 0..64 {
        request(kind, 0).encode(GENERATION, &mut bytes);
    }
    let mut streams = Vec::new();
    for _connection in 0..connections {
        let stream = options.connect()?;
        stream.set_nonblocking(true)?;
        streams.push(stream);
    }
    begun()?;
    let mut answers = vec![0; 1 << 16];
    loop {
        // It attacks the server, not the processor: a loop that spins would slow anybody.
        let interest = PollFlags::IN | PollFlags::OUT;
        let mut fds: Vec<PollFd<'_>> = streams
            .iter()
            .map(|stream| PollFd::new(stream, interest))
            .collect();
        poll(&mut fds, None)?;
        let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        for (stream, ready) in streams.iter_mut().zip(ready) {
            if ready.intersects(PollFlags::OUT) {
                // What does not fit is sent the next time; half a message is as good as a whole one.
                let _full = stream.write(&bytes);
            }
            if ready.intersects(PollFlags::IN) {
                let _none = stream.read(&mut answers);
            }
        }
    }
}

fn partial_frame() -> Vec<u8> {
    let mut bytes = Preamble::OURS.encode().to_vec();
    bytes.extend_from_slice(&(1_u32 << 20).to_le_bytes());
    bytes.extend_from_slice(&[4, 0, 0, 0]);
    bytes.resize(1 << 17, 0);
    bytes
}

/// Connects many times, sends this, and stays.
fn stay(options: &AttackOptions, bytes: &[u8]) -> Result<()> {
    let mut streams = Vec::new();
    for _connection in 0..CONNECTIONS {
        let Ok(mut stream) = options.connect() else {
            break;
        };
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        // It may be refused: that is what is tried.
        let _refused = stream.write_all(bytes);
        streams.push(stream);
    }
    begun()?;
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn flood_readers(options: &AttackOptions) -> Result<()> {
    begun()?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let Ok(mut stream) = options.connect() else {
            continue;
        };
        let sent = stream
            .write_all(b"GET /api/v1/snapshot HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        while sent.is_ok() && stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
    }
}

/// Connections of a storm that are open at a time.
const STORM: usize = 200;

fn storm(options: &AttackOptions) -> Result<()> {
    let address = SocketAddrUnix::new(&options.socket)?;
    begun()?;
    loop {
        let mut open = Vec::with_capacity(STORM);
        for _connection in 0..STORM {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            // It may be refused: that is what is tried.
            if rustix::net::connect(&socket, &address).is_ok() {
                let mut stream = UnixStream::from(socket);
                let _refused =
                    stream.write_all(&WireClient::hello(new_instance(), "other", Vec::new()));
                open.push(stream);
            }
        }
    }
}

fn sort_buffers(options: &AttackOptions) -> Result<()> {
    const READERS: usize = 30;
    let mut client = options.greet()?;
    costly::open_chip(&mut client)?;
    client.send(&costly::allocations(0..100_000))?;
    client.wait_for_ack()?;
    begun()?;
    let read = || {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let Ok(mut stream) = options.connect() else {
                continue;
            };
            let sent = stream.write_all(
                b"GET /api/v1/buffers?sort=size&limit=10 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            );
            while sent.is_ok() && stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
        }
    };
    std::thread::scope(|scope| {
        for _reader in 0..READERS {
            scope.spawn(read);
        }
    });
    Ok(())
}

fn take_devices(options: &AttackOptions) -> Result<()> {
    let mut client = options.greet()?;
    let first = 1000 * (u32::try_from(options.number)? + 1);
    for chip in first..first + 1000 {
        let device = n150(chip);
        let mesh = mesh(MeshId(chip), u64::from(chip), &[device.id]);
        client.define(&[Definition::Device(device), Definition::Mesh(mesh)])?;
    }
    client.send(&costly::events([EventKind::EventsElided { count: 1 }]))?;
    client.wait_for_ack()?;
    begun()?;
    costly::on_meshes(&mut client, first..first + 1000)
}

fn spawn_short(options: &AttackOptions) -> Result<()> {
    begun()?;
    loop {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["attack", "--kind", "once", "--socket"])
            .arg(&options.socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start a process")?;
        child.wait()?;
    }
}

fn once(options: &AttackOptions) -> Result<()> {
    let mut client = options.greet()?;
    costly::open_chip(&mut client)?;
    client.send(&costly::allocations(0..1000))
}
