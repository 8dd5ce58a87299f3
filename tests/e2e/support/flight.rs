//! A client that records into shared memory, written byte by byte.
//!
//! What a client library would have in its rings when it dies is put there by
//! hand, so that tests can also put there what no library would.

use super::WATCHDOG;
use super::client::Client;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use ttmem_event::event::LAYOUT_HASH;
use ttmem_event::wire::Frame;
use ttmem_event::{Definition, Event};

const ASKED: &str = "E2E_FLIGHT";
const READY: &str = "flight ready";

pub(crate) const SLOTS: u64 = 8;

/// The seals of an honest client.
pub(crate) const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// A ring segment as bytes.
#[derive(Clone, Debug)]
pub(crate) struct Rings(pub(crate) Vec<u8>);

impl Rings {
    /// Segment `number` with empty rings.
    pub(crate) fn new(number: u32) -> Self {
        let mut rings = Self(vec![0; 4096 + 8 * 8 * 64]);
        rings.put(0, b"TTMEMRNG");
        rings.put(8, &LAYOUT_HASH.to_le_bytes());
        for (at, word) in [(16, 2), (20, 8), (24, 8), (28, 8 * number)] {
            rings.put(at, &u32::to_le_bytes(word));
        }
        rings
    }

    /// Overwrites bytes.
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Where ring `ring` begins and ends.
    pub(crate) fn positions(mut self, ring: usize, tail: u64, head: u64) -> Self {
        self.put(2048 + 256 * ring, &head.to_le_bytes());
        self.put(2176 + 256 * ring, &tail.to_le_bytes());
        self
    }

    /// Puts events into ring `ring`, the first at `position`.
    pub(crate) fn events(mut self, ring: usize, position: u64, events: &[Event]) -> Self {
        for (position, event) in (position..).zip(events) {
            let slot = usize::try_from(position % SLOTS).expect("small");
            self.put(4096 + (ring * 8 + slot) * 64, &event.encode());
        }
        self
    }
}

/// A dictionary segment with these definitions.
pub(crate) fn dictionary(definitions: &[Definition]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..8].copy_from_slice(b"TTMEMDIC");
    bytes[8] = 1;
    for definition in definitions {
        definition.encode(&mut bytes);
    }
    let published = bytes.len() as u64 - 64;
    bytes[16..24].copy_from_slice(&published.to_le_bytes());
    bytes.resize(bytes.len() + 100, 0xEE);
    bytes
}

/// A memory file with this in it.
pub(crate) fn memory(contents: &[u8], seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create("ttmem-test", flags).expect("a memory file");
    let file = File::from(memory.try_clone().expect("a second descriptor"));
    file.write_all_at(contents, 0).expect("room");
    fcntl_add_seals(&memory, seals).expect("seals");
    memory
}

/// Sends bytes with descriptors beside them.
pub(crate) fn send_beside(client: &Client, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut beside = SendAncillaryBuffer::new(&mut room);
    assert!(beside.push(SendAncillaryMessage::ScmRights(descriptors)));
    let pieces = [IoSlice::new(bytes)];
    let sent = sendmsg(&client.stream, &pieces, &mut beside, SendFlags::NOSIGNAL);
    assert_eq!(sent, Ok(bytes.len()));
}

/// Hands over memory under a claim of its size.
pub(crate) fn hand_over(client: &Client, memory: impl AsFd, rings: u64, dictionary: u64) {
    let mut bytes = Vec::new();
    Frame::put_handover(&mut bytes, rings, dictionary);
    send_beside(client, &bytes, &[memory.as_fd()]);
}

/// Hands over a ring segment as an honest client does.
pub(crate) fn hand_over_rings(client: &Client, rings: &Rings) {
    let size = rings.0.len() as u64;
    hand_over(client, memory(&rings.0, SEALS), size, 0);
}

/// Hands over a dictionary segment as an honest client does.
pub(crate) fn hand_over_dictionary(client: &Client, bytes: &[u8]) {
    let size = bytes.len() as u64;
    hand_over(client, memory(bytes, SEALS), 0, size);
}

/// A process that plays a scenario and waits to be killed.
#[derive(Debug)]
pub(crate) struct Flight {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Flight {
    /// Starts one and waits until it has done all that its scenario says.
    pub(crate) fn start(scenario: &str, socket: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "flight_recorder::flight_process", "--nocapture"])
            .env(ASKED, format!("{scenario} {}", socket.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process starts");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut flight = Self { child, output };
        let mut line = String::new();
        while !line.contains(READY) {
            line.clear();
            let count = flight.output.read_line(&mut line).expect("it prints text");
            assert!(count > 0, "it ended before it was ready");
        }
        flight
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it do what its scenario has left for now.
    pub(crate) fn go_on(&mut self) {
        let commands = self.child.stdin.as_mut().expect("its input is piped");
        commands.write_all(b"go\n").expect("it listens");
    }

    /// Kills it without a word.
    pub(crate) fn kill(mut self) -> u32 {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it is ours");
        self.child.id()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// In a process that was started to play a scenario: which, and against which server.
pub(crate) fn asked() -> Option<(String, std::path::PathBuf)> {
    let text = std::env::var(ASKED).ok()?;
    let (scenario, socket) = text.split_once(' ')?;
    Some((scenario.to_owned(), socket.into()))
}

/// Says that all is done, and waits for the word to go on.
pub(crate) fn say_ready_and_wait() {
    let mut output = std::io::stdout();
    writeln!(output, "{READY}").expect("the test listens");
    output.flush().expect("the test listens");
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
        // The test is over, or forgot it.
        std::thread::sleep(WATCHDOG);
    }
}
