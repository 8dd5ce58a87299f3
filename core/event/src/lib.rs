//! The vocabulary that every part of ttmem speaks.
//!
//! A tracker records [`event::Event`]s; the [`wire`] codec carries them from a
//! client to the server as fixed 64-byte records, with [`define::Definition`]s
//! for everything that has no fixed size (texts, core sets, devices, meshes).
//! [`legacy`] is the codec of the predecessor's socket protocol, and
//! [`catalogue`] describes the boards.
//!
//! This crate is linked into other people's processes: it has no async
//! runtime, no serde, no logging, does no I/O and never panics on input.

pub mod catalogue;
pub mod core;
pub mod define;
pub mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod ids;
pub mod legacy;
pub mod wire;

pub use crate::core::{CoreRange, CoreSet, CoreType};
pub use crate::define::{Definition, DeviceDefinition, MeshDefinition};
pub use crate::event::{
    BinaryStatus, CacheResult, CbKind, ClashKind, Class, Direction, DispatchPath, Event, EventKind,
    KernelKind, Layout, MeshKind, Source,
};
pub use crate::ids::{BufferId, CoresId, DeviceId, KernelId, MeshId, ProgramId, TextId, TraceId};
