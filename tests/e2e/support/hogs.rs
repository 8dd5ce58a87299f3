//! Clients that take all they can of what the server has for everybody.

use super::WATCHDOG;
use super::client::{Client, n150};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use ttmem_event::wire::{Frame, FrameKind, FrameReader, Preamble};
use ttmem_event::{Definition, DeviceId};

/// Connections on which nothing is sent.
pub(crate) fn silent(socket: &Path, count: u64) -> Vec<UnixStream> {
    let connect = |_number| UnixStream::connect(socket).expect("the server listens");
    (0..count).map(connect).collect()
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
