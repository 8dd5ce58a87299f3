//! The answer to DUMP_REMAINING: everything that is still held.

use std::fmt::{self, Write as _};

use ttmem_event::Class;
use ttmem_ledger::program::{Cb, Kernel};
use ttmem_ledger::{BufferRow, Totals, View};

use super::holdings::{self, Held, write_largest};
use super::{RowLimit, label, sorted_devices, write_title};
use crate::log::display::OrUnknown;
use crate::log::number::{kilobytes, megabytes};
use crate::log::plain::kernel_kind;

pub(super) fn write(out: &mut String, view: &View, mut limit: RowLimit) -> fmt::Result {
    let totals = || view.devices.iter().map(|device| &device.totals);
    let buffers: u64 = totals().map(Totals::buffers).sum();
    let cbs: u64 = totals().map(|totals| totals.cb.count).sum();
    let kernels: u64 = totals().map(|totals| totals.kernel.count).sum();

    writeln!(out, "📋 Received DUMP_REMAINING request...")?;
    write_title(out, "REMAINING ALLOCATED BUFFERS")?;
    writeln!(out, "Total tracked allocations: {buffers}\n")?;
    if buffers + cbs + kernels == 0 {
        writeln!(out, "✓ No buffers remaining - perfect cleanup!")?;
    } else {
        for (index, device) in sorted_devices(view) {
            let totals = &device.totals;
            if totals.buffers() + totals.cb.count + totals.kernel.count == 0 {
                continue;
            }
            writeln!(out, "Device {}:", label(device, view))?;
            write_device(out, view, index, &device.totals, &mut limit)?;
            out.push('\n');
        }
        writeln!(out, "Total remaining buffers: {buffers}")?;
        if cbs + kernels > 0 {
            writeln!(out, "Total remaining CBs: {cbs}, kernels: {kernels}")?;
        }
    }
    writeln!(out, "📋 DUMP_REMAINING complete.")
}

fn write_device(
    out: &mut String,
    view: &View,
    index: u32,
    totals: &Totals,
    limit: &mut RowLimit,
) -> fmt::Result {
    for (class, rows) in Class::ALL.iter().zip(holdings::buffers(view, index)) {
        let bytes = totals.class(*class).charged.bytes();
        let size_and_id = |held: &Held<'_, BufferRow>| (held.row.charged_bytes(), held.row.id);
        let heading = (class.name(), "buffers", bytes);
        write_list(out, heading, rows, limit, write_buffer, size_and_id)?;
    }
    let heading = ("CB", "CBs", totals.cb.registered.bytes());
    let size_and_id = |held: &Held<'_, Cb>| (held.row.total_bytes(), held.row.address);
    let rows = holdings::cbs(view, index);
    write_list(out, heading, rows, limit, write_cb, size_and_id)?;
    let heading = ("KERNEL", "kernels", totals.kernel.registered.bytes());
    let size_and_id = |held: &Held<'_, Kernel>| (held.row.total_bytes, held.row.id.0);
    let rows = holdings::kernels(view, index);
    write_list(out, heading, rows, limit, write_kernel, size_and_id)
}

/// Rows of one kind under a heading: what they are, what one is called, and their bytes.
fn write_list<T>(
    out: &mut String,
    (name, unit, bytes): (&str, &str, u64),
    rows: Vec<T>,
    limit: &mut RowLimit,
    write_row: impl Fn(&mut String, &T) -> fmt::Result,
    size_and_id: impl Fn(&T) -> (u64, u64),
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let (count, total) = (rows.len(), megabytes(bytes));
    writeln!(out, "  {name}: {count} {unit}, {total} MB total")?;
    write_largest(out, rows, limit, "    ", size_and_id, write_row)
}

fn write_buffer(out: &mut String, held: &Held<'_, BufferRow>) -> fmt::Result {
    writeln!(
        out,
        "    - Buffer {:#x}: {} KB (PID {}, ref_count={})",
        held.row.id,
        kilobytes(held.row.charged_bytes()),
        OrUnknown(held.pid()),
        held.row.references
    )
}

fn write_cb(out: &mut String, held: &Held<'_, Cb>) -> fmt::Result {
    let cb = held.row;
    write!(
        out,
        "    - CB {:#x}: {} KB (PID {}, {}",
        cb.address,
        kilobytes(cb.total_bytes()),
        OrUnknown(held.pid()),
        cb.kind.name()
    )?;
    // Old senders name neither program nor cores.
    if let Some(program) = held.program {
        let (program, cores) = (program.id.0, cb.core_count);
        write!(out, ", program {program}, {cores} cores")?;
    }
    writeln!(out, ")")
}

fn write_kernel(out: &mut String, held: &Held<'_, Kernel>) -> fmt::Result {
    let kernel = held.row;
    writeln!(
        out,
        "    - Kernel {:#x}: {} KB (PID {}, {})",
        kernel.id.0,
        kilobytes(kernel.total_bytes),
        OrUnknown(held.pid()),
        kernel_kind(kernel.kind)
    )
}
