//! The statistics that a signal and the server's end print.

use std::fmt::{self, Write as _};

use ttmem_event::{Class, KernelKind};
use ttmem_ledger::{Anomalies, Totals, View};

use super::{label, sorted_devices};
use crate::log::number::kilobytes;
use crate::log::plain::kernel_kind;

pub(super) fn write(out: &mut String, view: &View) -> fmt::Result {
    writeln!(out, "📊 Current Statistics:")?;
    let mut active = 0;
    for (_, device) in sorted_devices(view) {
        let totals = &device.totals;
        let buffers = totals.buffers();
        if buffers + totals.cb.count + totals.kernel.count == 0 {
            continue;
        }
        active += buffers;
        writeln!(out, "  Device {}:", label(device, view))?;
        writeln!(out, "    Buffers: {buffers}")?;
        write_totals(out, totals)?;
    }
    writeln!(out, "  Active allocations: {active}")?;
    write_anomalies(out, &view.anomalies)?;
    write_audit(out, view)
}

fn write_totals(out: &mut String, totals: &Totals) -> fmt::Result {
    let mut total_bytes = 0;
    for class in Class::ALL {
        let bytes = totals.class(*class).charged.bytes();
        write_bytes(out, class.name(), bytes)?;
        out.push('\n');
        total_bytes += bytes;
    }
    let (cb, kernel) = (&totals.cb, &totals.kernel);
    write_bytes(out, "CB", cb.registered.bytes())?;
    writeln!(out, ", {} CBs", cb.count)?;
    write_bytes(out, "Kernel", kernel.registered.bytes())?;
    write!(out, ", {} kernels", kernel.count)?;
    for (kind, bytes) in KernelKind::ALL.iter().zip(kernel.by_kind) {
        if bytes > 0 {
            write!(out, ", {} {} KB", kernel_kind(*kind), kilobytes(bytes))?;
        }
    }
    out.push('\n');
    total_bytes += cb.registered.bytes() + kernel.registered.bytes();
    writeln!(out, "    Total: {total_bytes} bytes")
}

fn write_bytes(out: &mut String, name: &str, bytes: u64) -> fmt::Result {
    write!(out, "    {name}: {bytes} bytes ({} KB)", kilobytes(bytes))
}

fn write_anomalies(out: &mut String, anomalies: &Anomalies) -> fmt::Result {
    let total = anomalies.total();
    if total == 0 {
        return Ok(());
    }
    write!(out, "  Anomalies: {total}")?;
    let mut separator = " (";
    for (anomaly, count) in anomalies.iter().filter(|(_, count)| *count > 0) {
        write!(out, "{separator}{} {count}", anomaly.name())?;
        separator = ", ";
    }
    writeln!(out, ")")
}

/// Whether every total equals a recount of the live set.
fn write_audit(out: &mut String, view: &View) -> fmt::Result {
    match view.audit() {
        Ok(()) => writeln!(out, "  Audit: ✓ every total equals the live set"),
        Err(difference) => writeln!(out, "  Audit: ✗ {difference}"),
    }
}
