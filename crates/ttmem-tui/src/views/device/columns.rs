//! The columns of the tables of a device.

use crate::widgets::table::Column;

/// A column with text at the left.
const fn words(title: &'static str, width: u16, gives_way: u8) -> Column {
    Column {
        title,
        width,
        grows: false,
        right: false,
        gives_way,
    }
}

/// A column of figures.
const fn figures(title: &'static str, width: u16, gives_way: u8) -> Column {
    Column {
        title,
        width,
        grows: false,
        right: true,
        gives_way,
    }
}

/// Of the classes.
pub(super) const CLASSES: &[Column] = &[
    words("MEMORY", 8, 0),
    figures("CHARGED", 10, 0),
    figures("CAPACITY", 10, 2),
    figures("%", 6, 0),
    figures("PEAK", 10, 3),
    words("AT", 10, 4),
    figures("LARGEST FREE", 12, 1),
    figures("BUFFERS", 7, 5),
    figures("REQUESTED", 10, 6),
    figures("OVERLAP", 10, 7),
];

/// Of the allocators.
pub(super) const ALLOCATORS: &[Column] = &[
    words("ALLOCATOR", 9, 0),
    figures("PID", 7, 2),
    figures("FREE", 10, 0),
    figures("LARGEST FREE", 12, 0),
    figures("FRAGMENTED", 10, 0),
    words("VERIFIED", 8, 1),
    figures("CHARGED", 10, 3),
    figures("BUFFERS", 7, 4),
    figures("MESH", 5, 5),
];

/// Of the marks.
pub(super) const MARKS: &[Column] = &[
    Column {
        title: "PEAK SINCE MARK",
        width: 16,
        grows: true,
        right: false,
        gives_way: 0,
    },
    words("AGE", 11, 3),
    figures("DRAM", 10, 0),
    figures("L1", 10, 0),
    figures("CBS", 10, 1),
    figures("KERNELS", 10, 2),
    figures("L1_SMALL", 10, 4),
    figures("TRACE", 10, 5),
    figures("SYSTEM", 10, 6),
];
