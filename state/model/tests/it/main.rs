//! What the model must show, as tests over its public interface.

mod account;
mod behaviours;
mod random_calls;
mod real_runs;
mod rig;
mod scenarios;
mod statements;
mod system_programs;
