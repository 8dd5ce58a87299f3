//! Clients that take all they can of what the server has for everybody.

use super::WATCHDOG;
use super::client::{Client, n150};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use ttmem_event::wire::{Frame, FrameKind, FrameReader, Hello, Preamble};
use ttmem_event::{Definition, DeviceId, Source};

/// Connections on which nothing is sent.
pub(crate) fn silent(socket: &Path, count: u64) -> Vec<UnixStream> {
    let connect = |_number| UnixStream::connect(socket).expect("the server listens");
    (0..count).map(connect).collect()
}

/// Connections of a storm that are open at a time.
const STORM: u64 = 200;

/// Connects, says hello if it is to, and ends the connection, again and again for this long.
///
/// In a session of its own, as another user's programs are: the system shares processors among sessions.
pub(crate) fn storm(socket: &Path, says_hello: bool, time: Duration) {
    rustix::process::setsid().expect("it leads no group");
    let begun = Instant::now();
    let mut number = u128::from(std::process::id()) << 64;
    while begun.elapsed() < time {
        let mut open = Vec::new();
        for _connection in 0..STORM {
            number += 1;
            let Ok(mut stream) = connect_at_once(socket) else {
                continue;
            };
            if !says_hello {
                continue;
            }
            let mut bytes = Preamble::OURS.encode().to_vec();
            let hello = Hello {
                instance: number.to_le_bytes(),
                pid: 1,
                source: Source::Client,
                name: "storm",
                visible_devices: "",
                labels: vec![],
            };
            Frame::put_hello(&mut bytes, &hello);
            // Refused ones are closed while this is sent.
            let _refused = stream.write_all(&bytes);
            open.push(stream);
        }
    }
}

/// A connection that is made without waiting for room; reads and writes on it do not wait either.
pub(crate) fn connect_at_once(socket: &Path) -> rustix::io::Result<UnixStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let connection = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&connection, &SocketAddrUnix::new(socket)?)?;
    Ok(connection.into())
}

/// Defines so many devices of its own, whether or not the server takes them.
pub(crate) fn define_devices(socket: &Path, count: u32) -> Client {
    let pid = std::process::id();
    let mut client = connect(socket);
    let devices: Vec<Definition> = (0..count)
        .flat_map(|id| {
            let unique_id = (u64::from(pid) << 32) + u64::from(id);
            let [device, _mesh] = <[Definition; 2]>::try_from(n150(id, unique_id)).expect("two");
            let Definition::Device(mut device) = device else {
                return None;
            };
            device.id = DeviceId(id);
            Some(Definition::Device(device))
        })
        .collect();
    let mut bytes = Vec::new();
    Frame::put_define(&mut bytes, &devices);
    client.send_bytes(&bytes);
    client.send(&[]);
    client
}

fn connect(socket: &Path) -> Client {
    let mut instance = [0xAA; 16];
    instance[..4].copy_from_slice(&std::process::id().to_le_bytes());
    Client::connect(socket, instance)
}

/// Sends a state without an end until so many bytes were sent or the server refuses more.
pub(crate) fn endless_state(socket: &Path, bytes: u64) -> Client {
    const PIECE: usize = 1 << 20;
    let mut client = connect(socket);
    let mut begin = Vec::new();
    Frame::put(&mut begin, FrameKind::ResyncBegin, |_empty| {});
    client.send_bytes(&begin);
    let mut piece = Vec::new();
    Frame::put_state(&mut piece, &vec![0; PIECE]);
    for _piece in 0..bytes / PIECE as u64 {
        if client.stream.write_all(&piece).is_err() {
            break;
        }
    }
    client
}

/// Begins frames on so many connections and ends none; how many of them the server refused.
pub(crate) fn unfinished_frames(socket: &Path, count: u64) -> (Vec<UnixStream>, usize) {
    const FRAME: u32 = 1 << 20;
    let mut streams = silent(socket, count);
    let mut refused = 0;
    for stream in &mut streams {
        let mut bytes = Preamble::OURS.encode().to_vec();
        bytes.extend_from_slice(&FRAME.to_le_bytes());
        bytes.extend_from_slice(&[FrameKind::Events as u8, 0, 0, 0]);
        bytes.resize(FRAME as usize, 0);
        // Refused ones are closed while this is sent.
        let _refused = stream.write_all(&bytes);
    }
    for stream in &mut streams {
        stream.set_read_timeout(Some(WATCHDOG)).expect("a timeout");
        stream.set_nonblocking(true).expect("a socket");
    }
    // What was sent is read by now, unless the server is slow: it answers nobody else meanwhile.
    drop(UnixStream::connect(socket).expect("the server listens"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    for stream in &mut streams {
        refused += usize::from(is_refused(stream));
    }
    (streams, refused)
}

fn is_refused(stream: &mut UnixStream) -> bool {
    let mut reader = FrameReader::default();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        reader.push(&buffer[..count]);
        if let Ok(Some(Frame::Refused { .. })) = reader.next_frame() {
            return true;
        }
    }
    false
}
