//! The five notes that the project began with, statement by statement.
//!
//! One module for each note, one test for each statement, named after it. A statement that a later
//! note or the runtime itself supersedes is here as what is true instead. `docs/seeds.md` maps all
//! of them, also those that concern the server and are shown elsewhere.

mod binaries;
mod dispatch;
mod fast_dispatch;
mod map;
mod mesh_cbs;
mod per_core;
