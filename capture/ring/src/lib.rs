//! The lock-free part of ttmem: rings and dictionary in sealed shared memory.
//!
//! A workload's threads write events into [`ring`]s, one producer each, and the
//! client's pump thread reads them; definitions go into an append-only
//! [`dictionary`] before an event uses their ids. Both lie in [`memory`] that a
//! server is given at the handshake, so that it can read what a process
//! recorded but could no longer send: that reading is [`recovery`], which works
//! on plain bytes and believes none of them. What the threads of a process agree
//! on is a [`page`], and what they ask the pump for a [`flush`]. The libraries that run
//! inside other programs allocate from a [`heap`] that never ends them.
//!
//! Every atomic comes from [`sync`], so that the same code runs under the model
//! checker (`cargo xtask loom`). Non-relaxed orderings carry a label,
//! `SYNC(name)`, found at both ends.

pub mod dictionary;
pub mod flush;
#[cfg(not(loom))]
pub mod heap;
mod index;
#[cfg(not(loom))]
pub mod memory;
pub mod page;
pub mod published;
#[cfg(not(loom))]
pub mod recovery;
pub mod registry;
pub mod ring;
#[cfg(not(loom))]
pub mod segment;
pub mod sync;
#[cfg(not(loom))]
pub mod thread_exit;
#[cfg(not(loom))]
pub mod uid;

#[cfg(all(loom, test))]
mod tests {
    mod models;
}

/// Rings of the first segment; each further one has twice as many as the one before.
pub const FIRST_RINGS: usize = 8;

/// Ring segments of a process.
pub const MAX_RING_SEGMENTS: usize = 13;

/// Rings of a process in all its segments; what bounds them before that is memory.
pub const MAX_RINGS: usize = FIRST_RINGS * ((1 << MAX_RING_SEGMENTS) - 1);

/// Dictionary segments of a process: with their size, as much text as a server keeps.
pub const MAX_DICTIONARY_SEGMENTS: usize = 64;
