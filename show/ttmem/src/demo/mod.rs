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
use crate::embedded::{EmbeddedServer, private_folder};
use crate::interrupt::{self, StopReason};
use crate::observer::FLUSH_TIMEOUT;
use crate::output::{Output, Screen};
use crate::{exit, render, scenarios};
use anyhow::{Context, Result, ensure};
use player::{PlayOptions, Player};
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use ttmem_client::{Config, Tracker};
use ttmem_event::Source;
use ttmem_reader::ApiClient;
use ttmem_report::{Snapshot, labels};
use ttmem_server::{RecordConfig, RecordTarget, missing_page};

/// Connections that the demo's server takes: its own program, and some of curious users.
const MAX_CLIENTS: usize = 64;

/// How long the program may take to disconnect from a server in the same process.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the server is asked whether the scenario's process has left.
const DEPARTURE_POLL: Duration = Duration::from_millis(5);

pub(crate) fn run(options: &DemoOptions, screen: Screen) -> Result<()> {
    if options.list {
        let mut output = Output::stdout();
        output.print(&render::scenarios(&scenarios::list(), screen))?;
        return Ok(output.finish()?);
    }
    if options.print {
        let mut output = Output::stdout();
        output.print(options.play.scenario.text())?;
        return Ok(output.finish()?);
    }
    let live = !options.headless && !options.json && terminal_obstacle().is_none();
    let is_watched = live || options.http.is_some();
    let play = PlayOptions {
        scenario: options.play.scenario.clone(),
        board: options.play.scenario.board(options.board)?,
        seed: options.play.seed,
        // What nobody watches need not take its time.
        speed: options.speed.unwrap_or(if is_watched { 1.0 } else { 0.0 }),
        holds: live,
    };
    let (stop, stopped) = sync_channel(2);
    interrupt::watch(stop.clone())?;
    let report = {
        let session = Session::start(&play, options)?;
        if options.http.is_some() && !live {
            session.say_where_the_page_is()?;
        }
        let watching = match (live, options.http) {
            (true, _) => Watching::Here(&options.look),
            (false, Some(_address)) => Watching::ThePage,
            (false, None) => Watching::Nobody,
        };
        let report = session.run(&play, watching, stop, &stopped)?;
        session.server.stop()?;
        report
    };
    let recording = options.record.record.as_deref();
    let text = (!options.json).then(|| render::played(&report, recording, screen));
    let failure = "the account is not as it should be";
    render::print_report(&report, text, &report.problems(), failure)
}

/// Where a scenario is watched.
enum Watching<'a> {
    /// In this terminal.
    Here(&'a Look),
    ThePage,
    Nobody,
}

/// A tracker, and the server that keeps its account.
struct Session {
    server: EmbeddedServer,
    reader: ApiClient,
    tracker: Tracker,
    /// Where it is recorded unless somebody wants to keep that; gone with it.
    _recording: Option<TempDir>,
}

impl Session {
    fn start(play: &PlayOptions, options: &DemoOptions) -> Result<Self> {
        ensure!(
            std::env::var_os("TTMEM_DISABLE").is_none_or(|value| value != "1"),
            "TTMEM_DISABLE=1 turns tracking off, and with it the demo"
        );
        // The page is there to look back; nobody has to think of that before.
        let scratch = (options.http.is_some() && options.record.record.is_none())
            .then(private_folder)
            .transpose()?;
        let record = match &scratch {
            Some(folder) => Some(RecordConfig {
                target: RecordTarget::File(folder.path().join("demo.ttrec")),
                redact: false,
            }),
            None => options.record.config(),
        };
        let server = EmbeddedServer::start(Some(play.board), MAX_CLIENTS, options.http, record)?;
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
            _recording: scratch,
        })
    }

    /// On stderr: what is printed at the end may be JSON.
    fn say_where_the_page_is(&self) -> Result<()> {
        let places = self.reader.snapshot()?.server.sockets;
        let url = places.into_iter().find(|place| place.starts_with("http"));
        let url = url.context("the server does not listen for the page")?;
        if let Some(why) = missing_page() {
            exit::say(why);
        }
        let text = format!("ttmem demo: the page is at {url}; Ctrl-C ends it\n");
        std::io::stderr().write_all(text.as_bytes())?;
        Ok(())
    }

    fn run(
        &self,
        play: &PlayOptions,
        watching: Watching<'_>,
        stop: SyncSender<StopReason>,
        stopped: &Receiver<StopReason>,
    ) -> Result<Report> {
        let player = Player::start(play.clone(), self.tracker, self.server.socket(), stop)?;
        match watching {
            Watching::Here(look) => live::show(play, &player, &self.reader, stopped, look)?,
            // Whether it has ended or is to end: both are waited for below.
            Watching::Nobody => {
                stopped.recv().context("the scenario's thread is gone")?;
            }
            // What has ended stays on the page until the user leaves.
            Watching::ThePage => while stopped.recv().is_ok_and(|why| why == StopReason::Ended) {},
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
        let after_close = self.after_departure()?;
        let mut report = Report::new(play, played, statistics, &after_play, &after_close);
        report.growing = self.reader.leaks()?.growing;
        Ok(report)
    }

    /// All totals once the scenario's process has left: the end of its connection is confirmed before that.
    fn after_departure(&self) -> Result<Snapshot> {
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        loop {
            let snapshot = self.reader.snapshot()?;
            let mut own = snapshot.processes.iter();
            let is_there = own.any(|process| {
                process.pid == Some(std::process::id()) && !labels::is_gone(process)
            });
            if !is_there || Instant::now() > deadline {
                return Ok(snapshot);
            }
            std::thread::sleep(DEPARTURE_POLL);
        }
    }
}
