//! Behaviours of the runtime that no note states and every account depends on.

mod caches;
mod failures;
mod lifetimes;
mod meshes;
mod storage;
mod sub_devices;
mod traces;
