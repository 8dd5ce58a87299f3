//! Tracks an unmodified TT-Metal: a library to preload.
//!
//! It defines functions of `libtt_metal.so` under their own names. The loader binds
//! the runtime's calls to these, because a preloaded library comes first; each looks
//! at what passes by and calls the real function.
//!
//! * `hooks`: the functions, one module per family. A family is on only if all that
//!   it needs is there (`family`); otherwise its functions just pass the call on.
//! * `symbols`: the real functions behind those names; `generation`: what release they are like.
//! * `runtime`: the runtime's objects, read through its own accessors.
//! * `open_devices`, `program_table` and `mesh_objects`: what is known of its devices, programs and
//!   config rings; `thread`, `call_context` and `pending`: what a thread is at.
//! * `quiescence`: moments at which statistics may be compared; `lock_free`: what threads share.
//! * `python`: the Python stack behind a report; `stacks`: native ones, for those who ask for them.
//! * `report`: what becomes which event. Nothing there touches the runtime.
//!
//! The host must not notice. Nothing runs when the library is loaded; in a process
//! without TT-Metal nothing ever does. Exceptions of the runtime pass through every
//! hook, which is why hooks are `extern "C-unwind"` and never catch anything around the
//! real call; our own part that could panic is contained and turns its family off.

mod lock_free;

/// No allocation of ours may end the host.
#[cfg(not(loom))]
#[global_allocator]
static HEAP: ttmem_ring::heap::Heap = ttmem_ring::heap::Heap;

#[cfg(not(loom))]
mod call_context;
#[cfg(not(loom))]
mod config_ring_managers;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod family;
#[cfg(not(loom))]
mod forks;
#[cfg(not(loom))]
mod generation;
#[cfg(not(loom))]
mod hooks;
#[cfg(not(loom))]
mod hot;
#[cfg(not(loom))]
mod mesh_objects;
#[cfg(not(loom))]
mod open_devices;
#[cfg(not(loom))]
mod operation;
#[cfg(not(loom))]
mod pending;
#[cfg(not(loom))]
mod program_table;
#[cfg(not(loom))]
mod python;
#[cfg(not(loom))]
mod quiescence;
#[cfg(not(loom))]
mod regions;
#[cfg(not(loom))]
mod report;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod stacks;
#[cfg(not(loom))]
mod symbols;
#[cfg(not(loom))]
mod thread;

#[cfg(not(loom))]
pub use control::{
    ttmem_attach_ask, ttmem_attach_flush, ttmem_attach_free, ttmem_attach_mark, ttmem_attach_pause,
    ttmem_attach_status,
};
