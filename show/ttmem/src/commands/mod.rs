//! The commands, and the way from the command line to them.

mod answers;
mod dump;
mod explain;
mod fleet;
pub(crate) mod reach;
mod record;
mod replay;
mod serve;
pub(crate) mod top;

#[cfg(test)]
mod tests;

use crate::cli::{Cli, Command};
use crate::exit::UsageError;
use crate::output::{Output, Screen};
use crate::recording_file::Source;
use crate::{check, config, demo, doctor, load, manual, report_file, run, service, wait};
use anyhow::Result;
use std::io::{BufWriter, StdoutLock};
use std::process::ExitCode;
use ttmem_reader::ApiClient;

/// Runs the command; the exit code if it did what it was asked for.
pub(crate) fn run(cli: Cli) -> Result<ExitCode> {
    let screen = Screen::detect(&std::io::stdout());
    match cli.command {
        Command::Serve(options) => serve::run(&options, cli.socket)?,
        Command::Top(options) => {
            if let Some(prometheus) = fleet::prometheus(&options.prometheus)? {
                top::run_fleet(&prometheus, &options, screen, Output::stdout())?;
                return Ok(ExitCode::SUCCESS);
            }
            let source = Source::find(cli.socket, &options.http, &options.recorded)?;
            top::run(&source, &options, Output::stdout())?;
        }
        Command::Status(options) => {
            let client = reach::client(cli.socket, &options.http)?;
            printed(|output| answers::status(&client, &options, screen, output))?;
        }
        Command::Dump(options) => {
            let client = reach::client(cli.socket, &options.http)?;
            printed(|output| dump::run(&client, &options, screen, output))?;
        }
        Command::Explain(options) => {
            let failures = match &options.log {
                Some(log) => explain::of_log(log)?,
                None => {
                    let client = reach::client(cli.socket, &options.http)?;
                    explain::newest(&client)?
                }
            };
            printed(|output| explain::print(&failures, &options, screen, output))?;
            explain::found(&failures, options.log.as_deref())?;
        }
        Command::Fleet(options) => {
            let named = fleet::prometheus(&options.prometheus)?;
            let prometheus = named.ok_or_else(|| {
                UsageError("--prometheus <URL> says which Prometheus to ask".to_owned())
            })?;
            let rows = options.limit.unwrap_or(fleet::ROWS);
            printed(|output| fleet::print(&prometheus, options.json, rows, screen, output))?;
        }
        Command::Forget(options) => {
            let client = ApiClient::new(reach::socket(cli.socket)?);
            printed(|output| answers::forget(&client, options.pid, output))?;
        }
        Command::Mark(options) => {
            let client = reach::client(cli.socket, &options.http)?;
            printed(|output| answers::mark(&client, &options.name, output))?;
        }
        Command::Run(options) => return run::run(&options, cli.socket),
        Command::Check(options) => return check::run(&options, cli.socket),
        Command::Report(options) => report_file::run(&options)?,
        Command::Record(options) => record::run(&options, cli.socket, Output::stdout())?,
        Command::Replay(options) => replay::run(&options, Output::stdout())?,
        Command::Env(options) => {
            let environment = run::environment(&options, cli.socket)?;
            printed(|output| Ok(output.print(&environment)?))?;
        }
        Command::Config(options) => {
            let variable = |name: &str| std::env::var_os(name);
            printed(|output| config::run(options.action, variable, output))?;
        }
        Command::Service(options) => {
            let variable = |name: &str| std::env::var_os(name);
            printed(|output| service::run(options.action, variable, output))?;
        }
        Command::Doctor(options) => {
            let mut code = ExitCode::SUCCESS;
            printed(|output| {
                code = doctor::run(&options, cli.socket, screen, output)?;
                Ok(())
            })?;
            return Ok(code);
        }
        Command::Wait(options) => wait::run(&options, cli.socket, Output::stdout())?,
        Command::GenerateManual(options) => manual::generate(&options.folder)?,
        Command::Demo(options) => demo::run(&options, screen)?,
        Command::Load(options) => load::run(&options, cli.socket, screen)?,
        Command::LoadClient(options) => load::run_client(&options, cli.socket)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs a command that prints; all others have standard output for themselves.
fn printed(
    command: impl FnOnce(&mut Output<BufWriter<StdoutLock<'static>>>) -> Result<()>,
) -> Result<()> {
    let mut output = Output::stdout();
    let outcome = command(&mut output);
    // What was printed before a failure is for the user, too.
    output.finish()?;
    outcome
}
