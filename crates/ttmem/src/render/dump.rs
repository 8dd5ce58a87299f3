//! Tables of single buffers, circular buffers and kernels.
//!
//! Rows come in pages, and there may be a million: a [`Dump`] turns each page into text as it
//! arrives and remembers only the sums for its last line.

use std::marker::PhantomData;

use ttmem_api::{BufferRow, CbRow, KernelRow};

use super::cells::{Paint, clip, left, right};
use super::layout_width;
use ttmem_tui::format::{COUNT_WIDTH, SIZE_WIDTH, bytes, bytes_or_unknown, count, counted, ids};

/// Enough for the largest pid Linux gives, 4194304.
const PID_WIDTH: usize = 7;

/// Enough for `0-31,33`; longer lists are cut, JSON has them whole.
const DEVICES_WIDTH: usize = 7;

/// Enough for any 64-bit number in hex.
const HEX_WIDTH: usize = 18;

/// The columns of a buffer before its operation.
const BUFFER_COLUMNS: usize = 66;

/// The columns of a kernel before its name.
const KERNEL_COLUMNS: usize = 68;

/// A kind of row that can be dumped.
pub(crate) trait DumpRow {
    /// What one row is called.
    const NOUN: &'static str;

    /// The head of the table.
    fn head(width: usize) -> String;

    /// The row, in the columns of the head.
    fn line(&self, width: usize) -> String;

    /// Bytes on each device, and the number of devices.
    fn size(&self) -> (u64, usize);
}

/// A table in the making.
#[derive(Debug)]
pub(crate) struct Dump<R> {
    width: usize,
    paint: Paint,
    rows: u64,
    total_bytes: u64,
    row: PhantomData<R>,
}

impl<R: DumpRow> Dump<R> {
    /// An empty table for a terminal of `width` columns.
    pub(crate) fn new(width: usize, color: bool) -> Self {
        Self {
            width: layout_width(width),
            paint: Paint { color },
            rows: 0,
            total_bytes: 0,
            row: PhantomData,
        }
    }

    /// The text of some more rows; the first ones come with the table's head.
    pub(crate) fn rows(&mut self, rows: &[R]) -> String {
        let mut text = String::with_capacity(rows.len() * (self.width + 1));
        for row in rows {
            if self.rows == 0 {
                text.push_str(&self.paint.heading(&R::head(self.width)));
                text.push('\n');
            }
            let (size_bytes, devices) = row.size();
            let devices = u64::try_from(devices).expect("usize has at most 64 bits");
            self.rows += 1;
            self.total_bytes = self
                .total_bytes
                .saturating_add(size_bytes.saturating_mul(devices));
            text.push_str(row.line(self.width).trim_end());
            text.push('\n');
        }
        text
    }

    /// The last line: how much it was, on all devices together.
    pub(crate) fn finish(self) -> String {
        if self.rows == 0 {
            return format!("no live {}s\n", R::NOUN);
        }
        format!(
            "{}, {} on all devices together\n",
            counted(self.rows, R::NOUN),
            bytes(self.total_bytes)
        )
    }
}

/// A pid, where this namespace has one for the process.
fn pid(pid: Option<u32>) -> String {
    pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string())
}

/// The columns every table begins with.
fn owner(pid: &str, devices: &str) -> String {
    format!("{} {}", right(pid, PID_WIDTH), left(devices, DEVICES_WIDTH))
}

impl DumpRow for BufferRow {
    const NOUN: &'static str = "buffer";

    fn head(width: usize) -> String {
        buffer_line(
            width,
            [
                "PID",
                "DEVICES",
                "CLASS",
                "ADDRESS",
                "REQUESTED",
                "CHARGED",
                "OPERATION",
            ],
        )
    }

    fn line(&self, width: usize) -> String {
        buffer_line(
            width,
            [
                &pid(self.pid),
                &ids(&self.device_ids),
                self.class.as_str(),
                // Old senders send one number for both: their id is the address.
                &format!("{:#x}", self.address.unwrap_or(self.id.0)),
                &bytes(self.requested_bytes),
                &bytes(self.charged_bytes),
                self.operation.as_deref().unwrap_or("-"),
            ],
        )
    }

    fn size(&self) -> (u64, usize) {
        (self.charged_bytes, self.device_ids.len())
    }
}

fn buffer_line(
    width: usize,
    [pid, devices, class, address, requested, charged, operation]: [&str; 7],
) -> String {
    format!(
        "{} {} {} {} {} {}",
        owner(pid, devices),
        left(class, 8),
        right(address, HEX_WIDTH),
        right(requested, SIZE_WIDTH),
        right(charged, SIZE_WIDTH),
        clip(operation, width.saturating_sub(BUFFER_COLUMNS)),
    )
}

impl DumpRow for KernelRow {
    const NOUN: &'static str = "kernel";

    fn head(width: usize) -> String {
        kernel_line(
            width,
            [
                "PID",
                "DEVICES",
                "KIND",
                "CORE TYPE",
                "BINARY",
                "CORES",
                "TOTAL",
                "NAME",
            ],
        )
    }

    fn line(&self, width: usize) -> String {
        let name = self.name.as_deref().or(self.program_name.as_deref());
        let kernel = self.kernel.to_string();
        kernel_line(
            width,
            [
                &pid(self.pid),
                &ids(&self.device_ids),
                self.kind.as_str(),
                self.core_type.map_or("-", |core_type| core_type.as_str()),
                &bytes_or_unknown(self.binary_bytes),
                &self
                    .cores
                    .map_or_else(|| "-".to_owned(), |cores| count(cores.into())),
                &bytes(self.total_bytes),
                name.unwrap_or(&kernel),
            ],
        )
    }

    fn size(&self) -> (u64, usize) {
        (self.total_bytes, self.device_ids.len())
    }
}

fn kernel_line(
    width: usize,
    [pid, devices, kind, core_type, binary, cores, total, name]: [&str; 8],
) -> String {
    format!(
        "{} {} {} {} {} {} {}",
        owner(pid, devices),
        left(kind, 11),
        left(core_type, 10),
        right(binary, SIZE_WIDTH),
        right(cores, COUNT_WIDTH),
        right(total, SIZE_WIDTH),
        clip(name, width.saturating_sub(KERNEL_COLUMNS)),
    )
}

impl DumpRow for CbRow {
    const NOUN: &'static str = "CB";

    fn head(_: usize) -> String {
        cb_line([
            "PID", "DEVICES", "PROGRAM", "KIND", "ADDRESS", "SIZE", "CORES", "TOTAL",
        ])
    }

    fn line(&self, _: usize) -> String {
        cb_line([
            &pid(self.pid),
            &ids(&self.device_ids),
            &self
                .program
                .map_or_else(|| "-".to_owned(), |program| program.to_string()),
            self.kind.map_or("-", |kind| kind.as_str()),
            &format!("{:#x}", self.address.unwrap_or(self.cb.0)),
            &bytes(self.size_bytes),
            &self
                .cores
                .map_or_else(|| "-".to_owned(), |cores| count(cores.into())),
            &bytes(self.total_bytes),
        ])
    }

    fn size(&self) -> (u64, usize) {
        (self.total_bytes, self.device_ids.len())
    }
}

fn cb_line([pid, devices, program, kind, address, size, cores, total]: [&str; 8]) -> String {
    // Addresses are L1 offsets; only what old senders call an id can be cut here.
    format!(
        "{} {} {} {} {} {} {}",
        owner(pid, devices),
        right(program, 8),
        left(kind, 10),
        right(address, 14),
        right(size, SIZE_WIDTH),
        right(cores, COUNT_WIDTH),
        right(total, SIZE_WIDTH),
    )
}
