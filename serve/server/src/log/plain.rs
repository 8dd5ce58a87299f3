//! Log entries as the lines of the old allocation server, and others in its manner.
//!
//! People and scripts read these lines (`grep KERNEL_LOAD`), so the patterns that the old server
//! had are kept to the character. The log's threads call this for every event: it
//! appends to the text of a batch and makes no string of its own.

use std::fmt::{self, Write as _};

use ttmem_event::event::FieldValue;
use ttmem_event::{CoresId, DeviceId, EventKind, KernelKind, MeshId, TextId};
use ttmem_ledger::{Anomaly, EffectKind};

use super::display::OrUnknown;
use super::entry::LogEntry;
use super::number::{kilobytes, megabytes};

/// Appends the lines of an entry; none if only `verbose` logs show it.
///
/// `uptime_ms` is how long the server had been running when it happened.
pub(super) fn write_entry(out: &mut String, entry: &LogEntry, uptime_ms: u64, verbose: bool) {
    if entry.is_shown(verbose) {
        write_change(out, entry, uptime_ms).expect("a String takes any text");
    }
}

fn write_change(out: &mut String, entry: &LogEntry, uptime_ms: u64) -> fmt::Result {
    let pid = OrUnknown(entry.pid);
    let device = OrUnknown(entry.device);
    match entry.effect.kind {
        EffectKind::BufferBooked {
            class,
            id,
            bytes,
            references,
            ..
        } => {
            let class = class.name();
            write!(
                out,
                "✓ [PID {pid}] Allocated {bytes} bytes of {class} on device {device} \
                 (buffer_id={id:#x}"
            )?;
            if references > 1 {
                write!(out, ", ref_count={references}")?;
            }
            writeln!(out, ")")
        }
        EffectKind::BufferReleased {
            id,
            bytes,
            references,
            ..
        } => {
            write!(
                out,
                "✗ [PID {pid}] Freed buffer {id:#x} on device {device} ({bytes} bytes, "
            )?;
            match references {
                0 => writeln!(out, "FINAL)"),
                left => writeln!(out, "ref_count={left} remaining)"),
            }
        }
        EffectKind::CbBooked {
            bytes, total_bytes, ..
        } => {
            let (more, total) = (megabytes(bytes), megabytes(total_bytes));
            writeln!(
                out,
                "✓ [CB_ALLOC] Device {device}: +{more} MB (Total: {total} MB)"
            )
        }
        EffectKind::CbReleased {
            bytes, total_bytes, ..
        } => {
            let (less, total) = (megabytes(bytes), megabytes(total_bytes));
            writeln!(
                out,
                "✗ [CB_FREE] Device {device}: -{less} MB (Total: {total} MB)"
            )
        }
        EffectKind::KernelBooked {
            kind,
            binary_bytes,
            cores,
            bytes,
            total_bytes,
            ..
        } => {
            let kind = kernel_kind(kind);
            let (more, total) = (megabytes(bytes), megabytes(total_bytes));
            write!(
                out,
                "✓ [KERNEL_LOAD] {kind} kernel on Device {device}: +{more} MB (Total: {total} MB)"
            )?;
            if let (Some(binary_bytes), Some(cores)) = (binary_bytes, cores) {
                let (binary, total) = (kilobytes(binary_bytes), kilobytes(bytes));
                write!(
                    out,
                    ", Binary Size: {binary} KB, Cores: {cores}, Total L1: {total} KB"
                )?;
            }
            writeln!(out)
        }
        EffectKind::KernelReleased {
            kind,
            bytes,
            total_bytes,
            ..
        } => {
            let kind = kernel_kind(kind);
            let (less, total) = (megabytes(bytes), megabytes(total_bytes));
            writeln!(
                out,
                "✗ [KERNEL_UNLOAD] {kind} kernel on Device {device}: \
                 -{less} MB (Total: {total} MB)"
            )
        }
        EffectKind::L1Peak { bytes, buffers } => {
            let peak = megabytes(bytes);
            writeln!(
                out,
                "[{uptime_ms}ms] L1 Peak on device {device}: {peak} MB ({buffers} buffers)"
            )
        }
        EffectKind::Happened(event) => write_happened(out, entry, &event),
        EffectKind::Contradicted { anomaly, event } => write_anomaly(out, pid, anomaly, &event),
    }
}

/// An event that changes no bytes.
fn write_happened(out: &mut String, entry: &LogEntry, event: &EventKind) -> fmt::Result {
    let pid = OrUnknown(entry.pid);
    match *event {
        EventKind::DeviceOpened { device } => {
            let device = entry.device.unwrap_or(device.0);
            writeln!(out, "✓ [PID {pid}] Opened device {device}")
        }
        EventKind::DeviceClosed { device } => {
            let device = entry.device.unwrap_or(device.0);
            writeln!(out, "✗ [PID {pid}] Closed device {device}")
        }
        EventKind::MeshOpened { mesh } => writeln!(out, "✓ [PID {pid}] Opened mesh {}", mesh.0),
        EventKind::MeshClosed { mesh } => writeln!(out, "✗ [PID {pid}] Closed mesh {}", mesh.0),
        EventKind::CapacityReported {
            mesh,
            class,
            banks,
            per_bank_bytes,
            ..
        } => {
            let total = megabytes(per_bank_bytes.saturating_mul(u64::from(banks)));
            let (mesh, class) = (mesh.0, class.name());
            writeln!(
                out,
                "✓ [PID {pid}] Capacity of {class} on mesh {mesh}: \
                 {banks} banks of {per_bank_bytes} bytes ({total} MB)"
            )
        }
        EventKind::TraceBegan { mesh, trace } => {
            let (mesh, trace) = (mesh.0, trace.0);
            writeln!(out, "✓ [PID {pid}] Trace {trace} began on mesh {mesh}")
        }
        EventKind::TraceEnded { mesh, trace, bytes } => {
            let (mesh, trace) = (mesh.0, trace.0);
            writeln!(
                out,
                "✓ [PID {pid}] Trace {trace} ended on mesh {mesh} ({bytes} bytes)"
            )
        }
        EventKind::TraceReleased { mesh, trace } => {
            let (mesh, trace) = (mesh.0, trace.0);
            writeln!(out, "✗ [PID {pid}] Released trace {trace} on mesh {mesh}")
        }
        EventKind::Marked { number, .. } => writeln!(out, "✓ [PID {pid}] Mark {number}"),
        EventKind::EventsLost { count } => {
            writeln!(
                out,
                "⚠ [PID {pid}] Lost {count} events: its totals are not exact"
            )
        }
        EventKind::EventsElided { count } => {
            writeln!(
                out,
                "⚠ [PID {pid}] Left out {count} events: its totals are exact"
            )
        }
        EventKind::NotTracked { .. } => writeln!(
            out,
            "⚠ [PID {pid}] Does not track everything: `ttmem status` says what and why"
        ),
        _ => {
            write!(out, "· [PID {pid}] {}", event.name())?;
            write_fields(out, event)
        }
    }
}

/// An event that contradicts the ledger; for old reports in the old server's words.
fn write_anomaly(
    out: &mut String,
    pid: OrUnknown<u32>,
    anomaly: Anomaly,
    event: &EventKind,
) -> fmt::Result {
    match (anomaly, *event, event.legacy_device()) {
        (Anomaly::InvalidDevice, _, Some(device)) => {
            writeln!(out, "⚠️  Invalid device_id {device} - ignoring message")
        }
        (Anomaly::ZeroSize | Anomaly::AbsurdSize, _, Some(_)) => {
            let mut size_bytes = 0;
            event.visit(|name, value| {
                if let ("size_bytes", FieldValue::Number(number)) = (name, value) {
                    size_bytes = number;
                }
            });
            writeln!(out, "⚠️  Invalid size {size_bytes} - ignoring message")
        }
        (Anomaly::UnknownFree, EventKind::LegacyFreed { device, id }, _) => writeln!(
            out,
            "⚠ [PID {pid}] Deallocation for unknown buffer {id:#x} on device {device} \
             (allocated before tracking started)"
        ),
        _ => {
            write!(out, "⚠ [PID {pid}] {}: {}", anomaly.name(), event.name())?;
            write_fields(out, event)
        }
    }
}

fn write_fields(out: &mut String, event: &EventKind) -> fmt::Result {
    let mut outcome = Ok(());
    event.visit(|name, value| {
        let written = match value {
            FieldValue::Number(number) => write!(out, " {name}={number}"),
            FieldValue::Signed(number) => write!(out, " {name}={number}"),
            FieldValue::Hex(id) => write!(out, " {name}={id:#x}"),
            FieldValue::Word(word) => write!(out, " {name}={word}"),
            FieldValue::Class(class) => write!(out, " {name}={}", class.name()),
            FieldValue::Flag(flag) => write!(out, " {name}={flag}"),
            FieldValue::All => write!(out, " {name}=all"),
            FieldValue::Text(TextId(id))
            | FieldValue::Cores(CoresId(id))
            | FieldValue::Mesh(MeshId(id))
            | FieldValue::Device(DeviceId(id)) => write!(out, " {name}={id}"),
        };
        outcome = outcome.and(written);
    });
    out.push('\n');
    outcome
}

/// The old server's words for what a kernel is for.
pub(super) const fn kernel_kind(kind: KernelKind) -> &'static str {
    match kind {
        KernelKind::Application => "Application",
        KernelKind::Fabric => "Fabric",
        KernelKind::Dispatch => "Dispatch",
        KernelKind::Unknown => "Unknown",
    }
}

#[cfg(test)]
mod tests;
