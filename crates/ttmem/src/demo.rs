//! `ttmem demo`: the main job with no hardware and no server running.
//!
//! Starts a server of its own on a private socket and plays the part of an old
//! instrumented runtime against it, over the real protocol: four devices of a
//! T3000 running a data-parallel model. What the server logs goes to stdout as
//! it happens; the account is read back through the read API like any other
//! reader would.

use crate::render;
use anyhow::{Context, Result};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use ttmem_api::ApiClient;
use ttmem_event::catalogue::Board;
use ttmem_event::legacy::{BufferTypeNumbering, Generation, Request, RequestKind};
use ttmem_event::{Class, KernelKind};
use ttmem_server::log::{LogFormat, LogTarget};
use ttmem_server::{LogConfig, Server, ServerConfig, Signals, SocketConfig};

const DEVICES: i32 = 4;
const MIB: u64 = 1 << 20;

/// Runs the demo and returns the final page.
pub(crate) fn run(quiet: bool, width: usize, color: bool) -> Result<String> {
    let folder = tempfile::tempdir().context("cannot make a private folder")?;
    let socket = folder.path().join("ttmem.sock");
    let config = ServerConfig {
        sockets: vec![SocketConfig {
            path: socket.clone(),
            mode: 0o600,
            group: None,
        }],
        board: Some(Board::parse("t3000")),
        log: LogConfig {
            target: LogTarget::Stdout,
            format: LogFormat::Plain,
            quiet,
            verbose: false,
        },
        max_clients: 8,
        buffer_types: BufferTypeNumbering::Runtime,
    };
    let server = Server::start(config, Signals::Ignore)?;
    let handle = server.handle();
    let serving = std::thread::spawn(move || server.run());
    let outcome = play(&socket).and_then(|kept_open| {
        // The account is read while the workload still holds its memory.
        let snapshot = ApiClient::new(&socket).snapshot()?;
        drop(kept_open);
        Ok(render::status(&snapshot, width, color))
    });
    handle.stop();
    match serving.join() {
        Ok(served) => served.context("the server failed")?,
        Err(_panic) => anyhow::bail!("the server's thread failed"),
    }
    outcome
}

/// Sends the story and waits until the server has applied it.
fn play(socket: &Path) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(socket).context("cannot reach the demo's own server")?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut bytes = Vec::new();
    for request in story() {
        request.encode(Generation::G4, &mut bytes);
    }
    stream.write_all(&bytes)?;
    // A question is answered after all that came before it.
    let mut question = Vec::new();
    request(RequestKind::Query, 0, 0, 0, 0).encode(Generation::G4, &mut question);
    stream.write_all(&question)?;
    let mut reply = vec![0; Generation::G4.record_bytes()];
    std::io::Read::read_exact(&mut stream, &mut reply).context("the server did not answer")?;
    Ok(stream)
}

fn request(kind: RequestKind, device: i32, size: u64, number: u8, id: u64) -> Request {
    Request {
        kind,
        device_id: device,
        size,
        buffer_type: number,
        process_id: i32::try_from(std::process::id()).unwrap_or(0),
        buffer_id: id,
        timestamp: 0,
    }
}

/// What an instrumented runtime reports of a data-parallel model on four devices.
fn story() -> Vec<Request> {
    let mut story = Vec::new();
    let alloc = |device, class: Class, size, id| {
        request(RequestKind::Alloc, device, size, class.code(), id)
    };
    let kernel = |device, kind: KernelKind, size, id| {
        request(RequestKind::KernelLoad, device, size, kind.code(), id)
    };
    for device in 0..DEVICES {
        // At open: routers on 16 Ethernet cores, command queues on 2 cores.
        story.push(kernel(device, KernelKind::Fabric, 57_344 * 16, 0xfab0));
        story.push(kernel(device, KernelKind::Dispatch, 47_104 * 2, 0xd150));
        story.push(alloc(device, Class::Trace, 24 * MIB, 0x3f80_0000));
        // Weights of 32 layers, then the cache.
        for layer in 0..32 {
            story.push(alloc(
                device,
                Class::Dram,
                52 * MIB,
                1_048_640 + layer * 5 * MIB,
            ));
        }
        story.push(alloc(device, Class::Dram, 1024 * MIB, 0x2000_0000));
    }
    for device in 0..DEVICES {
        for op in 0..12_u64 {
            let program = 0x7f00_0000 + op;
            // Two circular buffers of each program start at the same address.
            story.push(request(RequestKind::CbAlloc, device, MIB / 4, 0, 105_824));
            story.push(request(
                RequestKind::CbAlloc,
                device,
                MIB / 8,
                0,
                105_824 + 4096,
            ));
            story.push(kernel(
                device,
                KernelKind::Application,
                102_400 * 64,
                program,
            ));
            story.push(alloc(
                device,
                Class::L1,
                MIB + op * MIB / 8,
                1_400_000 - op * 32_768,
            ));
        }
        // Cached runs: nothing is loaded again.
        for op in 0..12_u64 {
            story.push(kernel(
                device,
                KernelKind::Application,
                102_400 * 64,
                0x7f00_0000 + op,
            ));
        }
        // A program leaves the cache: an old client's free carries no size.
        story.push(request(RequestKind::CbFree, device, 0, 0, 105_824));
        story.push(request(
            RequestKind::KernelUnload,
            device,
            0,
            0,
            0x7f00_0000,
        ));
        story.push(request(RequestKind::Free, device, 0, 0, 1_400_000));
    }
    // A buffer from before tracking began: counted, and nothing else.
    story.push(request(RequestKind::Free, 0, 0, 0, 0xdead_0000));
    story
}
