//! What the model must show, as tests over its public interface.

mod account;
mod real_runs;
mod system_programs;
