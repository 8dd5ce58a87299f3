//! `ttmem load`: the model of the runtime as a load on a server.
//!
//! A process has one tracker, so each client is a process: this program again, with a hidden
//! command. They play scenarios for a while, end them, and wait; the server is asked what it holds
//! for them while they still live, because it would release everything of a process that is gone.
//! Each holds the reading end of a pipe from here and ends in order when that breaks. When this process is killed, the
//! kernel kills them: started by the main thread, they end with it.

mod client;
mod clients;
mod meter;
mod summary;

pub(crate) use client::{LoadClientOptions, run as run_client};

use crate::cli::LoadOptions;
use crate::commands::reach::{self, NoServer};
use crate::embedded::{EmbeddedServer, Target};
use crate::interrupt::{self, StopReason};
use crate::output::Screen;
use crate::render;
use anyhow::{Context, Result};
use clients::Clients;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::time::Instant;
use summary::Summary;

/// The most clients: each is a process with threads of its own.
pub(crate) const MAX_CLIENTS: u32 = 64;

pub(crate) const MAX_SECONDS: u32 = 3600;

/// Connections that a server of its own takes beside the clients.
const OTHER_CONNECTIONS: usize = 16;

/// Puts a load on a server and prints what became of it.
pub(crate) fn run(options: &LoadOptions, socket: Option<PathBuf>, screen: Screen) -> Result<()> {
    let count = usize::try_from(options.clients).context("more clients than memory has places")?;
    // Room for both words of every client and one of the user: nothing is dropped.
    let (news, to_react_to) = sync_channel(2 * count + 1);
    interrupt::watch(news.clone())?;
    let target = Target::find(socket, |no_server| {
        // Whatever else is wrong with a server that runs: it is the one to get the load.
        let no_server = no_server.is::<NoServer>();
        let room = count.saturating_add(OTHER_CONNECTIONS);
        let board = options
            .play
            .scenario
            .board(None)
            .map_err(anyhow::Error::from);
        no_server.then(|| EmbeddedServer::start(Some(board?), room, None, None))
    })?;
    let before = reach::patiently(|| target.server.snapshot())?;
    let begun = Instant::now();
    let mut clients = Clients::start(options, &target.socket, &news)?;
    let mut ended = 0;
    while ended < count {
        match to_react_to
            .recv()
            .context("the clients' threads are gone")?
        {
            StopReason::Ended => ended += 1,
            StopReason::Interrupted => clients.end_early(),
        }
    }
    let took = begun.elapsed();
    let accounts = clients.accounts()?;
    let after = reach::patiently(|| target.server.snapshot())?;
    clients.dismiss()?;
    let summary = Summary::new(
        options,
        took,
        accounts,
        &before,
        &after,
        target.own.is_some(),
    );
    let whose = match &target.own {
        Some(_server) => "no server was running: a server of its own, for this run only\n",
        None => "",
    };
    let text = (!options.json).then(|| format!("{whose}{}", summary.text(screen)));
    let failure = "the load did not go well";
    let printed = render::print_report(&summary, text, &summary.problems(), failure);
    if let Some(server) = target.own {
        server.stop()?;
    }
    printed
}
