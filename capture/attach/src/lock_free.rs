//! What threads share without a lock of the system.
//!
//! Everything with an ordering that is not relaxed is here, under labels (`SYNC(name)`) that
//! stand at both ends, and in `tests`, which `cargo xtask loom` runs. Nothing here knows
//! the runtime, and under the model checker nothing else of this library is compiled.

#![cfg_attr(loom, allow(dead_code, reason = "only the models use it there"))]

pub(crate) mod address_map;
pub(crate) mod gate;
pub(crate) mod patient_lock;
pub(crate) mod per_process;

#[cfg(all(loom, test))]
mod tests;

#[cfg(loom)]
use loom::{sync, thread};
#[cfg(not(loom))]
use std::{sync, thread};

/// Defines functions that are `const` where atomics are made at compile time: not by the model
/// checker.
macro_rules! const_where_possible {
    ($($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block)*) => {
        $(
            $(#[$attribute])*
            #[cfg(not(loom))]
            $visibility const fn $name($($argument: $type),*) -> $result $body

            #[cfg(loom)]
            $visibility fn $name($($argument: $type),*) -> $result $body
        )*
    };
}
use const_where_possible;
