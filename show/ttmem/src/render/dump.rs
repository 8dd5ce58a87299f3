//! Tables of single buffers, circular buffers and kernels.
//!
//! Rows come in pages, and there may be a million: a [`Dump`] turns each page into text as it
//! arrives and remembers only the sums for its last line.

use std::marker::PhantomData;

use serde::Serialize;
use ttmem_report::{BufferRow, CbRow, KernelRow, Row};

use super::paint::Paint;
use super::{known, layout_width};
use ttmem_report::format::{bytes, bytes_or_unknown, count, counted, ids};
use ttmem_tui::text::{Column, Table};

/// Enough for the largest pid Linux gives, 4194304.
const PID: Column = Column::figures("PID", 7, 0);

/// Enough for `0-31,33`; longer lists are cut, JSON has them whole.
const DEVICES: Column = Column::words("DEVICES", 7, 0);

/// Enough for any 64-bit number in hex.
const HEX_WIDTH: u16 = 18;

pub(crate) trait DumpRow: Row + Serialize {
    const NOUN: &'static str;

    /// What its rows are called in a JSON document.
    const KEY: &'static str;

    const COLUMNS: &'static [Column];

    fn cells(&self) -> Vec<String>;

    /// Bytes on each device, and the number of devices.
    fn size(&self) -> (u64, usize);
}

#[derive(Debug)]
pub(crate) struct Dump<R> {
    width: usize,
    paint: Paint,
    rows: u64,
    total_bytes: u64,
    row: PhantomData<R>,
}

impl<R: DumpRow> Dump<R> {
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
        let table = Table::of(R::COLUMNS);
        let mut text = String::with_capacity(rows.len() * (self.width + 1));
        for row in rows {
            if self.rows == 0 {
                text.push_str(&self.paint.heading(&table.heading(self.width)));
                text.push('\n');
            }
            let (size_bytes, devices) = row.size();
            let devices = u64::try_from(devices).expect("usize has at most 64 bits");
            self.rows += 1;
            self.total_bytes = self
                .total_bytes
                .saturating_add(size_bytes.saturating_mul(devices));
            text.push_str(&table.line(&row.cells(), self.width));
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

impl DumpRow for BufferRow {
    const NOUN: &'static str = "buffer";
    const KEY: &'static str = "buffers";

    const COLUMNS: &'static [Column] = &[
        PID,
        DEVICES,
        Column::words("CLASS", 8, 0),
        Column::figures("ADDRESS", HEX_WIDTH, 0),
        Column::size("REQUESTED"),
        Column::size("CHARGED"),
        Column::words("OPERATION", 9, 0).growing(),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            known(self.pid),
            ids(&self.device_ids),
            self.class.to_string(),
            // Old senders send one number for both: their id is the address.
            format!("{:#x}", self.address.unwrap_or(self.id.0)),
            bytes(self.requested_bytes),
            bytes(self.charged_bytes),
            known(self.operation.as_ref()),
        ]
    }

    fn size(&self) -> (u64, usize) {
        (self.charged_bytes, self.device_ids.len())
    }
}

impl DumpRow for KernelRow {
    const NOUN: &'static str = "kernel";
    const KEY: &'static str = "kernels";

    const COLUMNS: &'static [Column] = &[
        PID,
        DEVICES,
        Column::words("KIND", 11, 0),
        Column::words("CORE TYPE", 10, 0),
        Column::size("BINARY"),
        Column::figures("CORES", 6, 0),
        Column::size("TOTAL"),
        Column::words("NAME", 9, 0).growing(),
    ];

    fn cells(&self) -> Vec<String> {
        let name = self.name.as_ref().or(self.program_name.as_ref());
        vec![
            known(self.pid),
            ids(&self.device_ids),
            self.kind.to_string(),
            known(self.core_type),
            bytes_or_unknown(self.binary_bytes),
            known(self.cores.map(|cores| count(cores.into()))),
            bytes(self.total_bytes),
            name.map_or_else(|| self.kernel.to_string(), String::clone),
        ]
    }

    fn size(&self) -> (u64, usize) {
        (self.total_bytes, self.device_ids.len())
    }
}

impl DumpRow for CbRow {
    const NOUN: &'static str = "CB";
    const KEY: &'static str = "cbs";

    const COLUMNS: &'static [Column] = &[
        PID,
        DEVICES,
        Column::figures("PROGRAM", 8, 0),
        Column::words("KIND", 10, 0),
        // Addresses are L1 offsets; only what old senders call an id can be cut here.
        Column::figures("ADDRESS", 14, 0),
        Column::size("SIZE"),
        Column::figures("CORES", 6, 0),
        Column::size("TOTAL"),
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            known(self.pid),
            ids(&self.device_ids),
            known(self.program),
            known(self.kind),
            format!("{:#x}", self.address.unwrap_or(self.cb.0)),
            bytes(self.size_bytes),
            known(self.cores.map(|cores| count(cores.into()))),
            bytes(self.total_bytes),
        ]
    }

    fn size(&self) -> (u64, usize) {
        (self.total_bytes, self.device_ids.len())
    }
}
