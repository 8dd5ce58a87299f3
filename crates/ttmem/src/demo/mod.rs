//! `ttmem demo`: the main job with no hardware and no server running.
//!
//! This process becomes everything at once: a server on a private socket, a program that is
//! tracked (the model of the runtime plays a scenario on a thread of its own), and a reader that
//! shows the server's account. All three meet over the real socket with the real protocols.

mod headless;
mod live;
mod player;
mod progress;
mod witness;

pub(crate) use headless::{DeviceReport, Report};

use crate::cli::DemoOptions;
use crate::embedded::EmbeddedServer;
use crate::interrupt::{self, News};
use crate::output::{Output, Screen};
use crate::overheard::FLUSH_TIMEOUT;
use crate::{render, story};
use anyhow::{Context, Result, bail, ensure};
use player::{Piece, Player};
use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use ttmem_api::ApiClient;
use ttmem_client::{Config, Tracker};
use ttmem_event::Source;

/// Connections that the demo's server takes: its own program, and some of curious users.
const MAX_CLIENTS: usize = 64;

/// How long the program may take to say goodbye to a server in the same process.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Plays a scenario and shows it.
pub(crate) fn run(options: &DemoOptions, screen: Screen) -> Result<()> {
    let mut output = Output::stdout();
    if options.list {
        output.print(&render::scenarios(&story::list(), screen))?;
        return Ok(output.finish()?);
    }
    drop(output);
    // The screen takes keys, too.
    let on_a_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let live = !options.headless && !options.json && on_a_terminal;
    let piece = Piece {
        story: options.play.scenario.clone(),
        board: options.play.scenario.board(options.board)?,
        seed: options.play.seed,
        // What nobody watches need not take its time.
        speed: options.speed.unwrap_or(if live { 1.0 } else { 0.0 }),
    };
    let (news, to_react_to) = sync_channel(2);
    interrupt::watch(news.clone())?;
    let report = {
        let stage = Stage::set(&piece)?;
        let report = stage.play(&piece, live, news, &to_react_to)?;
        stage.server.stop()?;
        report
    };
    let mut output = Output::stdout();
    let problems = report.problems();
    if options.json {
        output.print(&render::json_report(&report, &problems)?)?;
    } else {
        output.print(&render::played(&report, screen))?;
    }
    output.finish()?;
    if !problems.is_empty() {
        bail!(
            "the account is not as it should be: {}",
            problems.join("; ")
        );
    }
    Ok(())
}

/// What a story needs: somebody who records, and somebody who keeps the account.
struct Stage {
    server: EmbeddedServer,
    reader: ApiClient,
    tracker: Tracker,
}

impl Stage {
    fn set(piece: &Piece) -> Result<Self> {
        ensure!(
            std::env::var_os("TTMEM_DISABLE").is_none_or(|value| value != "1"),
            "TTMEM_DISABLE=1 turns tracking off, and with it the demo"
        );
        let server = EmbeddedServer::start(Some(piece.board), MAX_CLIENTS)?;
        let tracker = Tracker::start(Config {
            socket: Some(server.socket().to_owned()),
            source: Source::Model,
            name: Some(piece.story.scenario().name.clone()),
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

    fn play(
        &self,
        piece: &Piece,
        live: bool,
        news: SyncSender<News>,
        to_react_to: &Receiver<News>,
    ) -> Result<Report> {
        let player = Player::start(piece.clone(), self.tracker, self.server.socket(), news)?;
        if live {
            live::show(piece, &player, &self.reader, to_react_to)?;
        } else {
            // Whether it has ended or is to end: both are waited for below.
            to_react_to.recv().context("the story's thread is gone")?;
        }
        let performance = player.finish()?;
        self.tracker
            .flush(FLUSH_TIMEOUT)
            .context("the server did not confirm the story")?;
        // Asked before the program says goodbye: what it holds now, nobody gave back for it.
        let after_story = self.reader.snapshot()?;
        let statistics = self.tracker.statistics();
        self.tracker
            .close(CLOSE_TIMEOUT)
            .context("the server did not hear the goodbye")?;
        let after_close = self.reader.snapshot()?;
        Ok(Report::new(
            piece,
            performance,
            statistics,
            &after_story,
            &after_close,
        ))
    }
}
