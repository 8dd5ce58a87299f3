//! What the ledger must show, as tests over its public interface.
//!
//! [`world`] is the language the other modules are written in. Each test reads
//! the ledger through it, and every reading audits all totals first.

mod captures;
mod changes;
mod damaged_states;
mod defects;
mod departed;
mod failures;
mod geometry;
mod model;
mod properties;
mod reconnect;
mod restored;
mod rulings;
mod scripts;
mod seeds;
mod shares;
mod state;
mod traces;
mod world;
