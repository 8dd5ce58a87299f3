//! The server's own notes as text, in the old server's words where it had any.

use std::fmt::{self, Write as _};

use ttmem_event::catalogue::Arch;
use ttmem_ledger::{Departure, Exit, Released};
use ttmem_report::Explanation;

use super::display::{Escaped, OrUnknown};
use super::entry::{Note, NotedDevice};
use super::number::megabytes;

pub(super) fn write_note(out: &mut String, note: &Note) {
    write_lines(out, note).expect("a String takes any text");
}

fn write_lines(out: &mut String, note: &Note) -> fmt::Result {
    match note {
        Note::ServerStarted { sockets, devices } => {
            write_devices(out, devices)?;
            writeln!(out, "🚀 Allocation Server started")?;
            for socket in sockets {
                writeln!(out, "   Listening on: {}", Escaped(socket))?;
            }
            writeln!(out, "   Press Ctrl+C to stop")
        }
        Note::ServerStopped => writeln!(out, "🛑 Allocation Server stopped"),
        Note::ProcessJoined { pid, name } => {
            writeln!(
                out,
                "✓ [PID {}] Connected ({})",
                OrUnknown(*pid),
                Escaped(name)
            )
        }
        Note::ProcessDetached { pid } => writeln!(
            out,
            "⚠ [PID {}] Disconnected while alive: what it holds is kept",
            OrUnknown(*pid)
        ),
        Note::ProcessReturned { pid } => {
            writeln!(out, "✓ [PID {}] Connected again", OrUnknown(*pid))
        }
        Note::ProcessDeparted { pid, exit } => write_departure(out, OrUnknown(*pid), exit),
        Note::ProcessIncomplete { pid, reason } => writeln!(
            out,
            "⚠️  [PID {}] Incomplete: {}",
            OrUnknown(*pid),
            reason.name()
        ),
        Note::Failed(failed) => write_failure(out, &failed.explained()),
        Note::ConnectionRefused { pid, reason } => writeln!(
            out,
            "⚠️  [PID {}] Connection refused: {}",
            OrUnknown(*pid),
            Escaped(reason)
        ),
        Note::ConnectionClosed { pid, reason } => writeln!(
            out,
            "⚠️  [PID {}] Connection closed: {}",
            OrUnknown(*pid),
            Escaped(reason)
        ),
        Note::InvalidBufferType {
            buffer_type,
            id,
            device,
            ..
        } => writeln!(
            out,
            "⚠️  Invalid buffer_type {buffer_type} for buffer {} on device {device}",
            id.0
        ),
        Note::UnknownMessage { message_type, .. } => {
            writeln!(out, "Unknown message type: {message_type}")
        }
        Note::DumpsLeftOut { pid } => writeln!(
            out,
            "⚠ [PID {}] Asks for dumps too often: some are left out",
            OrUnknown(*pid)
        ),
        Note::ServerFailed { reason } | Note::LogFailed { reason } => {
            writeln!(out, "{}", Escaped(reason))
        }
        // One wording for any number, so that one pattern finds them all.
        Note::LogGap { lines, reason } => {
            writeln!(out, "… {lines} log lines were not written: {reason}")
        }
        Note::Dump { text, .. } => out.write_str(text),
    }
}

/// The one sentence of a failure.
fn write_failure(out: &mut String, failure: &Explanation) -> fmt::Result {
    write!(out, "⚠ [PID {}] Failed", OrUnknown(failure.pid))?;
    let ids = failure.device_ids.as_deref().unwrap_or_default();
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    if !ids.is_empty() {
        write!(out, " on device {}", ids.join(","))?;
    }
    write!(out, ": {}", Escaped(&failure.sentence))?;
    if failure.times > 1 {
        write!(out, " ({} times)", failure.times)?;
    }
    writeln!(out)
}

fn write_departure(out: &mut String, pid: OrUnknown<u32>, exit: &Exit) -> fmt::Result {
    let Released {
        buffers,
        buffer_bytes,
        cbs,
        cb_bytes,
        kernels,
        kernel_bytes,
    } = exit.released;
    let (buffer_mb, cb_mb) = (megabytes(buffer_bytes), megabytes(cb_bytes));
    let kernel_mb = megabytes(kernel_bytes);
    let why = match exit.departure {
        Departure::Ended => "Ended",
        Departure::Exited => "Exited",
        Departure::Replaced => "Replaced by another program",
        Departure::Forgotten => "Forgotten on request",
    };
    writeln!(
        out,
        "✗ [PID {pid}] {why}, released {buffers} buffers ({buffer_mb} MB), \
         {cbs} CBs ({cb_mb} MB), {kernels} kernels ({kernel_mb} MB)"
    )
}

fn write_devices(out: &mut String, devices: &[NotedDevice]) -> fmt::Result {
    if devices.is_empty() {
        return writeln!(
            out,
            "   No devices detected\n   Server will track allocations anyway"
        );
    }
    for device in devices {
        write!(
            out,
            "   Device {}: {} ({}GB DRAM, {}MB L1)",
            device.id,
            arch_name(device.arch),
            OrUnknown(device.dram_bytes.map(|bytes| bytes >> 30)),
            OrUnknown(device.l1_bytes.map(|bytes| bytes >> 20)),
        )?;
        match device.remote {
            Some(true) => out.push_str(" [Remote]"),
            Some(false) => out.push_str(" [Local]"),
            None => {}
        }
        out.push('\n');
    }
    writeln!(out, "   Total: {} device(s) detected", devices.len())
}

/// The old server's words for architectures.
const fn arch_name(arch: Option<Arch>) -> &'static str {
    match arch {
        Some(Arch::Grayskull) => "Grayskull",
        Some(Arch::Wormhole) => "Wormhole_B0",
        Some(Arch::Blackhole) => "Blackhole",
        Some(Arch::Quasar) => "Quasar",
        Some(Arch::Unknown(_)) | None => "Unknown",
    }
}

#[cfg(test)]
mod tests;
