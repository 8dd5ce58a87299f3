//! Runs Python programs on the real ttnn, with no card in the machine.
//!
//! ttnn opens a board that a cluster descriptor tells of, and its own allocator, program
//! cache and operations do on it what they do on a card. The programs run with the attach
//! library preloaded and compare, after every step, what ttnn says that it holds with what
//! our server says.
//!
//! Three things for that can be in no repository: an interpreter that ttnn has wheels for,
//! the wheel, and a compiler for device kernels. [`python`] looks for the first, [`provision`]
//! puts the second and a stand-in for the third into a cache, once. [`descriptor`] writes the
//! boards from our catalogue, [`server`] starts the server, [`programs`] knows what runs
//! where, and [`session`] runs it; what all runs of programs share is `process`. [`behaviour`] runs
//! programs twice, plain and under `ttmem run`, and compares what became of them, [`unharmed`] so
//! many requests. [`reports`] has the reports of programs that fail, for the manual, and [`surroundings`] what a shell
//! needs to run programs that the manual has. [`matrix`] tries every release in [`wheels`].

pub mod behaviour;
pub mod descriptor;
pub mod links;
pub mod matrix;
pub mod memory_limits;
mod own_board;
mod process;
pub mod programs;
pub mod provision;
pub mod python;
pub mod reports;
pub mod server;
pub mod session;
pub mod surroundings;
pub mod unharmed;
pub mod wheels;
