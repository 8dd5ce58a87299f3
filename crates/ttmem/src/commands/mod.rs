//! One module per command, and the way from the command line to it.

mod dump;
mod forget;
pub(crate) mod reach;
mod serve;
mod status;

#[cfg(test)]
mod tests;

use crate::cli::{BenchCommand, Cli, Command};
use crate::output::{Output, Screen};
use crate::{bench, demo, load};
use anyhow::Result;

/// Runs the command.
pub(crate) fn run(cli: Cli) -> Result<()> {
    let mut output = Output::stdout();
    let screen = Screen::detect();
    match cli.command {
        // The server's log has standard output for itself.
        Command::Serve(options) => {
            drop(output);
            return serve::run(&options, cli.socket);
        }
        Command::Status(options) => {
            let client = reach::client(cli.socket)?;
            status::run(&client, &options, screen, &mut output)?;
        }
        Command::Dump(options) => {
            let client = reach::client(cli.socket)?;
            dump::run(&client, &options, screen, &mut output)?;
        }
        Command::Forget(options) => {
            let client = reach::client(cli.socket)?;
            forget::run(&client, options.pid, &mut output)?;
        }
        Command::Demo(options) => {
            drop(output);
            return demo::run(&options, screen);
        }
        Command::Load(options) => {
            drop(output);
            return load::run(&options, cli.socket, screen);
        }
        Command::LoadClient(options) => {
            drop(output);
            return load::run_client(&options, cli.socket);
        }
        Command::Bench(options) => match options.what {
            BenchCommand::Server { quick } => {
                let found = bench::server(quick)?;
                output.print(&format!("{found:#}\n"))?;
            }
            BenchCommand::Client { quick } => {
                let found = bench::client(quick)?;
                output.print(&format!("{found:#}\n"))?;
            }
            BenchCommand::Hold => bench::hold(&reach::client(cli.socket)?)?,
            BenchCommand::Workload(options) => bench::workload(&options, cli.socket)?,
            BenchCommand::Record(options) => {
                let found = bench::record(&options, cli.socket)?;
                output.print(&format!("{found:#}\n"))?;
            }
        },
    }
    output.finish()?;
    Ok(())
}
