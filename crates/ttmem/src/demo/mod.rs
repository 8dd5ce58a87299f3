//! `ttmem demo`: the main job with no hardware and no server running.
//!
//! This process becomes everything at once: a server on a private socket, a program that is
//! tracked (the model of the runtime plays a scenario on a thread of its own), and a reader that
//! shows the server's account. All three meet over the real socket with the real protocols.

mod live;
mod observed;
mod player;
mod progress;
mod report;

pub(crate) use report::{DeviceReport, Report};

use crate::cli::{DemoOptions, Look};
use crate::commands::top::terminal_obstacle;
use crate::embedded::EmbeddedServer;
use crate::interrupt::{self, StopReason};
use crate::observer::FLUSH_TIMEOUT;
use crate::output::{Output, Screen};
use crate::{render, scenarios};
use anyhow::{Context, Result, ensure};
use player::{PlayOptions, Player};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use ttmem_api::ApiClient;
use ttmem_client::{Config, Tracker};
use ttmem_event::Source;

/// Connections that the demo's server takes: its own program, and some of curious users.
const MAX_CLIENTS: usize = 64;

/// How long the program may take to disconnect from a server in the same process.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn run(options: &DemoOptions, screen: Screen) -> Result<()> {
    if options.list {
        let mut output = Output::stdout();
        output.print(&render::scenarios(&scenarios::list(), screen))?;
        return Ok(output.finish()?);
    }
    let live = !options.headless && !options.json && terminal_obstacle().is_none();
    let play = PlayOptions {
        scenario: options.play.scenario.clone(),
        board: options.play.scenario.board(options.board)?,
        seed: options.play.seed,
        // What nobody watches need not take its time.
        speed: options.speed.unwrap_or(if live { 1.0 } else { 0.0 }),
        holds: live,
    };
    let (stop, stopped) = sync_channel(2);
    interrupt::watch(stop.clone())?;
    let report = {
        let session = Session::start(&play)?;
        let report = session.run(&play, live.then_some(&options.look), stop, &stopped)?;
        session.server.stop()?;
        report
    };
    let text = (!options.json).then(|| render::played(&report, screen));
    let failure = "the account is not as it should be";
    render::print_report(&report, text, &report.problems(), failure)
}

/// A tracker, and the server that keeps its account.
struct Session {
    server: EmbeddedServer,
    reader: ApiClient,
    tracker: Tracker,
}

impl Session {
    fn start(play: &PlayOptions) -> Result<Self> {
        ensure!(
            std::env::var_os("TTMEM_DISABLE").is_none_or(|value| value != "1"),
            "TTMEM_DISABLE=1 turns tracking off, and with it the demo"
        );
        let server = EmbeddedServer::start(Some(play.board), MAX_CLIENTS)?;
        let tracker = Tracker::start(Config {
            socket: Some(server.socket().to_owned()),
            source: Source::Model,
            name: Some(play.scenario.scenario().name.clone()),
            // Never lose an event, whatever else this machine does.
            full_ring_wait: FLUSH_TIMEOUT,
            ..Config::default()
        });
        Ok(Self {
            reader: ApiClient::new(server.socket()),
            server,
            tracker,
        })
    }

    fn run(
        &self,
        play: &PlayOptions,
        live: Option<&Look>,
        stop: SyncSender<StopReason>,
        stopped: &Receiver<StopReason>,
    ) -> Result<Report> {
        let player = Player::start(play.clone(), self.tracker, self.server.socket(), stop)?;
        if let Some(look) = live {
            live::show(play, &player, &self.reader, stopped, look)?;
        } else {
            // Whether it has ended or is to end: both are waited for below.
            stopped.recv().context("the scenario's thread is gone")?;
        }
        let played = player.finish()?;
        self.tracker
            .flush(FLUSH_TIMEOUT)
            .context("the server did not confirm the scenario")?;
        // Asked before the program disconnects: what it holds now, nobody released for it.
        let after_play = self.reader.snapshot()?;
        let statistics = self.tracker.statistics();
        self.tracker
            .close(CLOSE_TIMEOUT)
            .context("the server did not confirm that the program disconnected")?;
        let after_close = self.reader.snapshot()?;
        Ok(Report::new(
            play,
            played,
            statistics,
            &after_play,
            &after_close,
        ))
    }
}
