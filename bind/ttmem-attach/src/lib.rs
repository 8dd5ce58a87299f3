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
//! * `places` and `programs`: what is known of its devices and programs; `thread` and `pending`:
//!   what a thread is at.
//! * `stacks`: call stacks, for those who ask for them.
//! * `report`: what becomes which event. Nothing there touches the runtime.
//!
//! The host must not notice. Nothing runs when the library is loaded; in a process
//! without TT-Metal nothing ever does. Exceptions of the runtime pass through every
//! hook, which is why hooks are `extern "C-unwind"` and never catch anything around the
//! real call; our own part that could panic is contained and turns its family off.

mod control;
mod family;
mod forks;
mod generation;
mod hooks;
mod operation;
mod patient_lock;
mod pending;
mod place_map;
mod places;
mod programs;
mod quiet;
mod regions;
mod report;
mod ring_managers;
mod runtime;
mod stacks;
mod symbols;
mod thread;

pub use control::{ttmem_attach_flush, ttmem_attach_pause, ttmem_attach_status};
