//! The columns of the tables of a device.

use crate::widgets::table::Column;

pub(super) const CLASSES: &[Column] = &[
    Column::words("MEMORY", 8, 0),
    Column::figures("CHARGED", 10, 0),
    Column::figures("CAPACITY", 10, 2),
    Column::figures("%", 6, 0),
    Column::figures("PEAK", 10, 3),
    Column::words("AT", 10, 4),
    Column::figures("LARGEST FREE", 12, 1),
    Column::figures("BUFFERS", 7, 5),
    Column::figures("REQUESTED", 10, 6),
    Column::figures("OVERLAP", 10, 7),
];

pub(super) const ALLOCATORS: &[Column] = &[
    Column::words("ALLOCATOR", 9, 0),
    Column::figures("PID", 7, 2),
    Column::figures("FREE", 10, 0),
    Column::figures("LARGEST FREE", 12, 0),
    Column::figures("FRAGMENTED", 10, 0),
    Column::words("VERIFIED", 8, 1),
    Column::figures("CHARGED", 10, 3),
    Column::figures("BUFFERS", 7, 4),
    Column::figures("MESH", 5, 5),
];

pub(super) const MARKS: &[Column] = &[
    Column::words("PEAK SINCE MARK", 16, 0).growing(),
    Column::words("AGE", 11, 3),
    Column::figures("DRAM", 10, 0),
    Column::figures("L1", 10, 0),
    Column::figures("CBS", 10, 1),
    Column::figures("KERNELS", 10, 2),
    Column::figures("L1_SMALL", 10, 4),
    Column::figures("TRACE", 10, 5),
    Column::figures("SYSTEM", 10, 6),
];
