//! The answer to DUMP_KERNELS: every kernel in detail.

use std::fmt::{self, Write as _};

use ttmem_ledger::View;
use ttmem_ledger::program::Kernel;

use super::holdings::{self, Held, write_largest};
use super::{RowLimit, label, sorted_devices, write_title};
use crate::log::display::{Escaped, OrUnknown};
use crate::log::number::{kilobytes, megabytes};
use crate::log::plain::kernel_kind;

/// Columns of the line around a device's kernels.
const RULE_COLUMNS: usize = 57;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

pub(super) fn write(
    out: &mut String,
    view: &View,
    now_nanos: u64,
    mut limit: RowLimit,
) -> fmt::Result {
    let devices = view.devices.iter();
    let count: u64 = devices.map(|device| device.totals.kernel.count).sum();
    writeln!(out, "📋 Received DUMP_KERNELS request...")?;
    write_title(out, "DETAILED KERNEL ALLOCATIONS")?;
    writeln!(out, "Total kernel allocations: {count}\n")?;
    for (index, device) in sorted_devices(view) {
        let totals = &device.totals.kernel;
        if totals.count == 0 {
            continue;
        }
        writeln!(
            out,
            "📊 Device {} - Total: {} MB ({} kernels)",
            label(device, view),
            megabytes(totals.registered.bytes()),
            totals.count
        )?;
        writeln!(out, "  ┌{:─<RULE_COLUMNS$}", "")?;
        let rows = holdings::kernels(view, index);
        let size_and_id = |held: &Held<'_, Kernel>| (held.row.total_bytes, held.row.id.0);
        write_largest(out, rows, &mut limit, "  │ ", size_and_id, |out, held| {
            write_kernel(out, held, now_nanos)
        })?;
        writeln!(out, "  └{:─<RULE_COLUMNS$}\n", "")?;
    }
    writeln!(out, "📋 DUMP_KERNELS complete.")
}

fn write_kernel(out: &mut String, held: &Held<'_, Kernel>, now_nanos: u64) -> fmt::Result {
    let kernel = held.row;
    writeln!(out, "  │ Kernel ID: {:#x}", kernel.id.0)?;
    if let Some(name) = held.text(kernel.name) {
        writeln!(out, "  │   Name:      {}", Escaped(name))?;
    }
    writeln!(out, "  │   Type:      {}", kernel_kind(kernel.kind))?;
    writeln!(out, "  │   Size:      {} KB", kilobytes(kernel.total_bytes))?;
    if let (Some(binary_bytes), Some(cores), Some(program)) =
        (kernel.binary_bytes, kernel.core_count, held.program)
    {
        writeln!(out, "  │   Binary:    {} KB", kilobytes(binary_bytes))?;
        let core_type = OrUnknown(kernel.core_type.map(|core_type| core_type.name()));
        writeln!(out, "  │   Cores:     {cores} ({core_type})")?;
        // An old sender's program is but the kernel's id again.
        write!(out, "  │   Program:   {}", program.id.0)?;
        match held.text(program.name) {
            Some(name) => writeln!(out, " ({})", Escaped(name))?,
            None => out.push('\n'),
        }
    }
    writeln!(out, "  │   Owner PID: {}", OrUnknown(held.pid()))?;
    let age = now_nanos.saturating_sub(kernel.time) / NANOS_PER_SECOND;
    writeln!(out, "  │   Age:       {age} seconds")?;
    writeln!(out, "  │")
}
