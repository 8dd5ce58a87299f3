//! A scenario on the screen: `ttmem top` on the demo's own server, with the scenario's lines above.

use super::player::{PlayOptions, Player};
use super::progress::Progress;
use crate::cli::Look;
use crate::commands::top::show_beside;
use crate::interrupt::StopReason;
use anyhow::Result;
use std::cell::Cell;
use std::sync::mpsc::Receiver;
use ttmem_reader::ApiClient;
use ttmem_tui::{Companion, CompanionLine};

/// Shows a scenario until it ends or the user wants it to.
///
/// A scenario that has ended leaves its last state on the screen until the user leaves; at a planted
/// failure it waits.
pub(super) fn show(
    options: &PlayOptions,
    player: &Player,
    server: &ApiClient,
    stop_reasons: &Receiver<StopReason>,
    look: &Look,
) -> Result<()> {
    let playing = Playing {
        title: title(options),
        about: &options.scenario.scenario().about,
        player,
        stop_reasons,
        stopped: Cell::new(None),
    };
    show_beside(server, &playing, look)?;
    Ok(())
}

/// A scenario that runs beside the screen.
struct Playing<'a> {
    title: String,
    about: &'a str,
    player: &'a Player,
    stop_reasons: &'a Receiver<StopReason>,
    /// The first reason, which is all there is.
    stopped: Cell<Option<StopReason>>,
}

impl Playing<'_> {
    fn stopped(&self) -> Option<StopReason> {
        if self.stopped.get().is_none() {
            self.stopped.set(self.stop_reasons.try_recv().ok());
        }
        self.stopped.get()
    }
}

impl Companion for Playing<'_> {
    fn lines(&self) -> Vec<CompanionLine> {
        let progress = self.player.progress();
        // What the user can do comes first: a narrow screen cuts the end.
        let first = if self.stopped() == Some(StopReason::Ended) {
            format!("ended; q shows the report ({})", self.title)
        } else if progress.held {
            let keys = "c continues, q shows the report";
            format!("stopped at the failure; {keys} ({})", self.title)
        } else {
            format!("{}: {}", self.title, doing(&progress))
        };
        let second = match &progress.failure {
            // The latest one: the report at the end has them all.
            Some(failure) => CompanionLine {
                text: format!(
                    "! {}: {}; {}",
                    failure.kind, failure.figures, failure.meaning
                ),
                is_warning: true,
            },
            None => line(self.about.to_owned()),
        };
        vec![line(first), second]
    }

    fn is_over(&self) -> bool {
        self.stopped() == Some(StopReason::Ended)
    }

    fn must_leave(&self) -> bool {
        self.stopped() == Some(StopReason::Interrupted)
    }

    fn stays(&self) -> bool {
        true
    }

    fn is_held(&self) -> bool {
        self.player.progress().held
    }

    fn go_on(&self) {
        self.player.go_on();
    }
}

fn line(text: String) -> CompanionLine {
    CompanionLine {
        text,
        is_warning: false,
    }
}

fn title(options: &PlayOptions) -> String {
    let speed = match options.speed {
        0.0 => "as fast as it goes".to_owned(),
        speed => format!("speed {speed}"),
    };
    format!(
        "ttmem demo: {} on {}, seed {}, {speed}",
        options.scenario.scenario().name,
        options.board.name(),
        options.seed
    )
}

fn doing(progress: &Progress) -> String {
    let said = [progress.mark.as_str(), progress.doing.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    format!("step {}, {}", progress.steps, said.join(", "))
}
