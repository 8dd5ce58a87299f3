//! An executable model of the TT-Metal host runtime's memory behaviour.
//!
//! The pure parts say where things lie: [`allocator`] and [`buffer`] for what an allocator hands
//! out, [`program`] for what it never sees (circular buffers, kernels, configuration),
//! [`config_ring`], [`prefetcher`] and [`trace_layout`] for the caches of dispatch. [`runtime`]
//! joins them as TT-Metal does, and calls the tracker ([`hooks`]) where TT-Metal does. [`ttnn`]
//! runs operations on it, with a program cache; [`scenario`] plays whole programs from files.
//!
//! It drives the demo and load tests, and it is held against the real runtime address by address.

pub mod allocator;
pub mod board;
pub mod buffer;
pub mod config_ring;
pub mod hooks;
pub mod jit;
pub mod prefetcher;
pub mod program;
pub mod runtime;
pub mod scenario;
pub mod tensor;
pub mod trace_layout;
pub mod ttnn;
