//! The commands, and the way from the command line to them.

mod answers;
mod dump;
pub(crate) mod reach;
mod serve;
mod top;

#[cfg(test)]
mod tests;

use crate::cli::{Cli, Command};
use crate::output::{Output, Screen};
use crate::{demo, load, run};
use anyhow::Result;
use std::process::ExitCode;
use ttmem_api::ApiClient;

/// Runs the command; the exit code if it did what it was asked for.
pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    let mut output = Output::stdout();
    let screen = Screen::detect(&std::io::stdout());
    match cli.command {
        // The server's log has standard output for itself.
        Command::Serve(options) => {
            drop(output);
            serve::run(&options, cli.socket)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Top(options) => {
            let client = reach::client(cli.socket, &options.http)?;
            top::run(client, &options, output)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Status(options) => {
            let client = reach::client(cli.socket, &options.http)?;
            answers::status(&client, &options, screen, &mut output)?;
        }
        Command::Dump(options) => {
            let client = reach::client(cli.socket, &options.http)?;
            dump::run(&client, &options, screen, &mut output)?;
        }
        Command::Forget(options) => {
            let client = ApiClient::new(reach::socket(cli.socket)?);
            answers::forget(&client, options.pid, &mut output)?;
        }
        Command::Mark(options) => {
            let client = reach::client(cli.socket, &options.http)?;
            answers::mark(&client, &options.name, &mut output)?;
        }
        Command::Run(options) => {
            // Standard output is the program's.
            drop(output);
            return run::run(&options, cli.socket);
        }
        Command::Env(options) => {
            output.print(&run::environment(&options, cli.socket)?)?;
        }
        Command::Demo(options) => {
            drop(output);
            demo::run(&options, screen)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Load(options) => {
            drop(output);
            load::run(&options, cli.socket, screen)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::LoadClient(options) => {
            drop(output);
            load::run_client(&options, cli.socket)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}
