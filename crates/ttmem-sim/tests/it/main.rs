//! What the model must show, as tests over its public interface.

mod account;
mod system_programs;
