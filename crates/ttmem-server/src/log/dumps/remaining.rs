//! The answer to DUMP_REMAINING: everything that is still held.

use std::fmt::{self, Write as _};

use ttmem_event::Class;
use ttmem_ledger::{Totals, View};

use super::holdings::{self, HeldBuffer, HeldCb, HeldKernel, keep_largest};
use super::{Label, RowLimit, Titled, sorted_devices};
use crate::log::number::{kilobytes, megabytes};
use crate::log::plain::kernel_kind;
use crate::log::shown::Known;

pub(super) fn write(out: &mut String, view: &View, mut limit: RowLimit) -> fmt::Result {
    let totals = || view.devices.iter().map(|device| &device.totals);
    let buffers: u64 = totals()
        .flat_map(|totals| totals.classes.iter().map(|class| class.buffers))
        .sum();
    let cbs: u64 = totals().map(|totals| totals.cb.count).sum();
    let kernels: u64 = totals().map(|totals| totals.kernel.count).sum();

    writeln!(out, "📋 Received DUMP_REMAINING request...")?;
    write!(out, "{}", Titled("REMAINING ALLOCATED BUFFERS"))?;
    writeln!(out, "Total tracked allocations: {buffers}\n")?;
    if buffers + cbs + kernels == 0 {
        writeln!(out, "✓ No buffers remaining - perfect cleanup!")?;
    } else {
        for (place, device) in sorted_devices(view) {
            let totals = &device.totals;
            let classes = totals.classes.iter();
            let count: u64 = classes.map(|class| class.buffers).sum();
            if count + totals.cb.count + totals.kernel.count == 0 {
                continue;
            }
            writeln!(out, "Device {}:", Label::of(device, view))?;
            write_device(out, view, place, &device.totals, &mut limit)?;
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
    place: u32,
    totals: &Totals,
    limit: &mut RowLimit,
) -> fmt::Result {
    for (class, rows) in Class::ALL.iter().zip(holdings::buffers(view, place)) {
        let bytes = totals.class(*class).charged.bytes();
        let list = List {
            name: class.name(),
            unit: "buffers",
            bytes,
        };
        list.write(out, rows, limit, write_buffer, |held| {
            (held.row.charged_bytes(), held.row.id)
        })?;
    }
    let list = List {
        name: "CB",
        unit: "CBs",
        bytes: totals.cb.registered.bytes(),
    };
    let rows = holdings::cbs(view, place);
    list.write(out, rows, limit, write_cb, |held| {
        (held.cb.total_bytes(), held.cb.address)
    })?;
    let list = List {
        name: "KERNEL",
        unit: "kernels",
        bytes: totals.kernel.registered.bytes(),
    };
    let rows = holdings::kernels(view, place);
    list.write(out, rows, limit, write_kernel, |held| {
        (held.kernel.total_bytes, held.kernel.id.0)
    })
}

/// Rows of one kind under a heading.
struct List {
    name: &'static str,
    unit: &'static str,
    bytes: u64,
}

impl List {
    fn write<T>(
        &self,
        out: &mut String,
        mut rows: Vec<T>,
        limit: &mut RowLimit,
        write_row: impl Fn(&mut String, &T) -> fmt::Result,
        size_and_id: impl Fn(&T) -> (u64, u64),
    ) -> fmt::Result {
        let count = rows.len();
        if count == 0 {
            return Ok(());
        }
        let (name, unit, total) = (self.name, self.unit, megabytes(self.bytes));
        writeln!(out, "  {name}: {count} {unit}, {total} MB total")?;
        keep_largest(&mut rows, limit.take(count), size_and_id);
        for row in &rows {
            write_row(out, row)?;
        }
        match count - rows.len() {
            0 => Ok(()),
            hidden => writeln!(out, "    … and {hidden} more"),
        }
    }
}

fn write_buffer(out: &mut String, held: &HeldBuffer<'_>) -> fmt::Result {
    writeln!(
        out,
        "    - Buffer {:#x}: {} KB (PID {}, ref_count={})",
        held.row.id,
        kilobytes(held.row.charged_bytes()),
        Known(held.pid),
        held.row.references
    )
}

fn write_cb(out: &mut String, held: &HeldCb<'_>) -> fmt::Result {
    let cb = held.cb;
    write!(
        out,
        "    - CB {:#x}: {} KB (PID {}, {}",
        cb.address,
        kilobytes(cb.total_bytes()),
        Known(held.pid),
        cb.kind.name()
    )?;
    // Old senders name neither program nor cores.
    if held.program.0 != 0 {
        let (program, cores) = (held.program.0, cb.core_count);
        write!(out, ", program {program}, {cores} cores")?;
    }
    out.push_str(")\n");
    Ok(())
}

fn write_kernel(out: &mut String, held: &HeldKernel<'_>) -> fmt::Result {
    let kernel = held.kernel;
    writeln!(
        out,
        "    - Kernel {:#x}: {} KB (PID {}, {})",
        kernel.id.0,
        kilobytes(kernel.total_bytes),
        Known(held.pid()),
        kernel_kind(kernel.kind)
    )
}
