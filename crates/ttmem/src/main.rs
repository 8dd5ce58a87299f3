//! The `ttmem` program: subcommands, nothing else.
//!
//! Each command is a function from its options to a result; this file parses, runs and turns the
//! result into an exit code. A command that only reads goes through the read API like any other
//! viewer and needs no privilege beyond connecting to the socket.

mod cli;
mod commands;
mod demo;
mod embedded;
mod exit;
mod interrupt;
mod load;
mod observer;
mod output;
mod render;
mod run;
mod scenarios;
mod threads;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::understand(std::env::args_os()) {
        Ok(cli) => exit::report(commands::run(cli)),
        Err(not_understood) => not_understood.exit(),
    }
}
