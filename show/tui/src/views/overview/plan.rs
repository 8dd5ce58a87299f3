//! How the overview divides its area: the graph, the devices, the processes.
//!
//! Pure: from the number of devices and the room to places. Both drawing and keys go by it.

use crate::widgets::{above, below, left_of, right_of};
use ratatui::layout::Rect;
use ttmem_report::Device;
use ttmem_report::machine_labels::is_reported;

/// How much a device shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// All figures that somebody would act on.
    Card,
    /// DRAM in a line, L1 in the next.
    Strip,
    /// Two percentages.
    Tiny,
}

impl Size {
    const ALL: [Self; 3] = [Self::Card, Self::Strip, Self::Tiny];

    pub(crate) const fn height(self) -> u16 {
        match self {
            Self::Card => 7,
            Self::Strip | Self::Tiny => 2,
        }
    }

    pub(crate) const fn least_width(self) -> u16 {
        match self {
            Self::Card => 64,
            Self::Strip => 34,
            Self::Tiny => 8,
        }
    }
}

/// Devices of a tray of a Galaxy, which stand in a row.
const TRAY: usize = 8;

/// The label before each row of a tray.
pub(crate) const TRAY_LABEL: u16 = 7;

const GAP: u16 = 1;

/// The border of a panel, above and below.
const BORDER: u16 = 2;

/// The processes have at least a border, a heading and two rows, on every screen that has room.
const LEAST_PROCESSES: u16 = BORDER + 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) graph: Rect,
    pub(crate) devices: Rect,
    pub(crate) processes: Rect,
    pub(crate) size: Size,
    pub(crate) columns: u16,
    /// Whether each row is a tray of a Galaxy, with a label before it.
    pub(crate) trays: bool,
    count: usize,
}

impl Plan {
    pub(crate) fn of(devices: &[Device], area: Rect, processes: usize) -> Self {
        let trays = devices.len() > TRAY
            && devices.iter().all(|device| {
                let board = device.board.as_deref().unwrap_or_default();
                board.to_lowercase().contains("galaxy")
            });
        let listed = match area.height {
            0..10 => 0,
            _room => u16::try_from(processes).unwrap_or(u16::MAX),
        };
        // All of them, and the least that is always there.
        let wanted = match listed {
            0 => 0,
            listed => listed.saturating_add(BORDER + 1).max(LEAST_PROCESSES),
        };
        let processes = wanted.min(LEAST_PROCESSES);
        let tall = (area.height / 4).clamp(5, 12);
        // Of what nobody reported there is no history.
        let graphs = if area.height < 16 || !devices.iter().any(is_reported) {
            [0, 0, 0]
        } else {
            [tall, 5, 0]
        };
        let count = devices.len();
        let inner = area.width.saturating_sub(2);
        for size in Size::ALL {
            for graph in graphs {
                let (columns, rows) = arranged(count, size, inner, trays);
                let needed = rows.saturating_mul(size.height()) + BORDER;
                let fits = graph + needed + processes <= area.height;
                let wide_enough =
                    size == Size::Tiny || width_of(inner, columns, trays) >= size.least_width();
                if fits && wide_enough {
                    // Rows that nobody needs make the curves better to read.
                    let spare = area
                        .height
                        .saturating_sub(graph + needed)
                        .saturating_sub(wanted);
                    let most = (area.height / 2).saturating_sub(graph);
                    let more = if graph > 0 { spare.min(most) } else { 0 };
                    let rows = (graph + more, needed);
                    return Self::cut(area, rows, (size, columns, trays), count);
                }
            }
        }
        // Not even the smallest fits: it is cut at the end, the processes stay.
        let (columns, _rows) = arranged(count, Size::Tiny, inner, trays);
        let needed = area.height.saturating_sub(processes).max(BORDER + 1);
        Self::cut(area, (0, needed), (Size::Tiny, columns, trays), count)
    }

    /// Rows that are missing for all devices to be seen, if so many are.
    pub(crate) fn hidden(&self, drawn: usize) -> u64 {
        let missing = self.count.saturating_sub(drawn);
        let rows = missing.div_ceil(usize::from(self.columns.max(1)));
        rows as u64 * u64::from(self.size.height())
    }

    fn cut(
        area: Rect,
        (graph, devices): (u16, u16),
        (size, columns, trays): (Size, u16, bool),
        count: usize,
    ) -> Self {
        let rest = below(area, graph);
        Self {
            graph: above(area, graph),
            devices: above(rest, devices),
            processes: below(rest, devices),
            size,
            columns,
            trays,
            count,
        }
    }

    /// The place of a device inside of the panel of devices; none of one that has no room.
    pub(crate) fn cell(&self, inner: Rect, place: usize) -> Option<Rect> {
        let columns = usize::from(self.columns.max(1));
        let row = u16::try_from(place / columns)
            .ok()?
            .checked_mul(self.size.height())?;
        let column = u16::try_from(place % columns).ok()?;
        let inner = self.without_labels(inner);
        let each = width_of_inner(inner.width, self.columns);
        let line = above(below(inner, row), self.size.height());
        let cell = left_of(right_of(line, column * (each + GAP)), each);
        (cell.height == self.size.height() && cell.width > 0).then_some(cell)
    }

    pub(crate) fn without_labels(&self, inner: Rect) -> Rect {
        right_of(inner, if self.trays { TRAY_LABEL } else { 0 })
    }

    /// The device that is so many rows further down, or up, in the same column.
    pub(crate) fn moved(&self, place: usize, rows: i64) -> usize {
        let columns = usize::from(self.columns.max(1));
        let (row, column) = (place / columns, place % columns);
        let last = self.count.saturating_sub(1);
        let steps = usize::try_from(rows.unsigned_abs()).unwrap_or(usize::MAX);
        let row = if rows < 0 {
            row.saturating_sub(steps)
        } else {
            row.saturating_add(steps).min(last / columns)
        };
        (row * columns + column).min(last)
    }
}

/// Columns and rows of so many devices of a size: as few columns as it takes to fill the width.
fn arranged(count: usize, size: Size, inner: u16, trays: bool) -> (u16, u16) {
    let count = u16::try_from(count.max(1)).unwrap_or(u16::MAX);
    let columns = if trays {
        8
    } else {
        let widest = ((inner + GAP) / (size.least_width() + GAP)).max(1);
        let widest = if size == Size::Tiny {
            widest.min(8)
        } else {
            widest
        };
        // Rows of equal length: 8 devices stand in 2 rows of 4 rather than of 5 and 3.
        let rows = count.div_ceil(widest);
        count.div_ceil(rows)
    };
    (columns, count.div_ceil(columns))
}

fn width_of(inner: u16, columns: u16, trays: bool) -> u16 {
    let inner = inner.saturating_sub(if trays { TRAY_LABEL } else { 0 });
    width_of_inner(inner, columns)
}

const fn width_of_inner(inner: u16, columns: u16) -> u16 {
    let gaps = columns.saturating_sub(1) * GAP;
    match inner.saturating_sub(gaps).checked_div(columns) {
        Some(width) => width,
        None => inner,
    }
}
