//! The `ttmem` program: subcommands, nothing else.
//!
//! Each command is a function from its options to a result; this file parses, runs and turns the
//! result into an exit code. A command that only reads goes through the read API like any other
//! viewer and needs no privilege beyond connecting to the socket.

mod check;
mod cli;
mod commands;
mod config;
mod demo;
mod doctor;
mod embedded;
mod exit;
mod interrupt;
mod load;
mod manual;
mod notify;
mod observer;
mod output;
mod recording_file;
mod render;
mod report_file;
mod run;
mod scenarios;
mod service;
mod threads;
mod wait;

use clap::ArgMatches;
use cli::{Cli, Command};
use config::Config;
use std::process::ExitCode;

fn main() -> ExitCode {
    if run::is_witness(std::env::args_os().next().as_deref()) {
        return run::serve_as_witness();
    }
    match cli::Cli::parsed(std::env::args_os()) {
        Ok((cli, matches)) => exit::report(configured(cli, &matches)),
        Err(not_understood) => exit::report_usage(&not_understood),
    }
}

fn configured(mut cli: Cli, matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let variable = |name: &str| std::env::var_os(name);
    // A broken file must not stand in the way of the command that says where it is.
    if !matches!(cli.command, Command::Config(_)) {
        let no_colour = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        Config::load(variable)?.apply(&mut cli, matches, no_colour);
    }
    commands::run(cli)
}
