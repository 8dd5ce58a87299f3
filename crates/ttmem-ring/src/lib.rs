//! The lock-free part of ttmem: rings and dictionary in sealed shared memory.
//!
//! A workload's threads write events into [`ring`]s, one producer each, and the
//! client's pump thread reads them; definitions go into an append-only
//! [`dictionary`] before an event uses their ids. Both lie in [`memory`] that a
//! server is given at the handshake, so that it can read what a process
//! recorded but could no longer send: that reading is [`recovery`], which works
//! on plain bytes and believes none of them. What the threads of a process agree
//! on is a [`page`], and what they ask the pump for a [`flush`].
//!
//! Every atomic comes from [`sync`], so that the same code runs under the model
//! checker (`cargo xtask loom`). Non-relaxed orderings carry a label,
//! `SYNC(name)`, found at both ends.

pub mod dictionary;
pub mod flush;
mod index;
#[cfg(not(loom))]
pub mod memory;
pub mod page;
pub mod published;
#[cfg(not(loom))]
pub mod recovery;
pub mod ring;
#[cfg(not(loom))]
pub mod segment;
pub mod sync;

#[cfg(all(loom, test))]
mod tests {
    mod models;
}

/// Rings that one segment holds.
pub const RINGS_PER_SEGMENT: usize = 8;

/// Ring segments of a process: enough for 512 threads that record at the same time.
pub const MAX_RING_SEGMENTS: usize = 64;

/// Dictionary segments of a process: with their size, as much text as a server keeps.
pub const MAX_DICTIONARY_SEGMENTS: usize = 64;
