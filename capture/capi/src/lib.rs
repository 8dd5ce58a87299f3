//! The C ABI of ttmem: `libttmem`, described by `include/ttmem.h`.
//!
//! Everything here translates: integers of C become the words of the vocabulary
//! or an error code, pointers become references or an error code, and the rest is
//! [`ttmem_client::Tracker`]. The header is generated from these sources, so
//! their comments are written for the reader of the header, and macros must not
//! make exported functions: the generator does not see through them.
//!
//! * [`client`]: start, flush, close, statistics. Guarded against panics.
//! * [`account`]: what this process holds. Guarded against panics.
//! * [`define`]: texts, core sets, devices, meshes. Guarded against panics.
//! * [`record`]: one function per kind of event. These are the record path of the
//!   host program: no lock, no allocation, no system call and nothing that panics.
//! * [`legacy`]: the old client's six reports, for `ttmem_allocation_client.hpp`.

#![expect(
    non_camel_case_types,
    reason = "the names are those of the C header, where types are lower case and end in _t"
)]

/// No allocation of ours may end the host.
#[global_allocator]
static HEAP: ttmem_ring::heap::Heap = ttmem_ring::heap::Heap;

pub mod account;
pub mod client;
pub mod code;
pub mod constants;
pub mod define;
pub mod ids;
pub mod legacy;
pub mod record;
mod sized;
pub mod version;

#[cfg(test)]
mod tests;
