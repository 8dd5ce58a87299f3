//! A story on the screen: `ttmem top` on the demo's own server, with the story's lines above.

use super::player::{Piece, Player};
use super::progress::Progress;
use crate::interrupt::News;
use anyhow::Result;
use std::cell::Cell;
use std::sync::mpsc::Receiver;
use ttmem_api::ApiClient;
use ttmem_tui::{Companion, CompanionLine, INTERVAL, Tab, Theme, TopOptions, top};

/// Shows a story until it ends or the user wants it to.
///
/// A story that ends while the user looks around leaves the screen to the user.
pub(super) fn show(
    piece: &Piece,
    player: &Player,
    server: &ApiClient,
    news: &Receiver<News>,
) -> Result<()> {
    let beside = Beside {
        title: title(piece),
        about: &piece.story.scenario().about,
        player,
        news,
        heard: Cell::new(None),
    };
    top(TopOptions {
        client: server.clone(),
        address: server.server().to_string(),
        interval: INTERVAL,
        tab: Tab::Overview,
        theme: Theme::detect(|name| std::env::var_os(name)),
        companion: Some(&beside),
    })?;
    Ok(())
}

/// A story that runs beside the screen.
struct Beside<'a> {
    title: String,
    about: &'a str,
    player: &'a Player,
    news: &'a Receiver<News>,
    /// The first news, which is all there is.
    heard: Cell<Option<News>>,
}

impl Beside<'_> {
    fn heard(&self) -> Option<News> {
        if self.heard.get().is_none() {
            self.heard.set(self.news.try_recv().ok());
        }
        self.heard.get()
    }
}

impl Companion for Beside<'_> {
    fn lines(&self) -> Vec<CompanionLine> {
        let progress = self.player.progress();
        let doing = if self.heard() == Some(News::Ended) {
            "the story has ended, q shows its report".to_owned()
        } else {
            doing(&progress)
        };
        let told = match &progress.failure {
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
        vec![line(format!("{}: {doing}", self.title)), told]
    }

    fn is_over(&self) -> bool {
        self.heard() == Some(News::Ended)
    }

    fn must_leave(&self) -> bool {
        self.heard() == Some(News::Interrupted)
    }
}

fn line(text: String) -> CompanionLine {
    CompanionLine {
        text,
        is_warning: false,
    }
}

fn title(piece: &Piece) -> String {
    let speed = match piece.speed {
        0.0 => "as fast as it goes".to_owned(),
        speed => format!("speed {speed}"),
    };
    format!(
        "ttmem demo: {} on {}, seed {}, {speed}",
        piece.story.scenario().name,
        piece.board.name(),
        piece.seed
    )
}

fn doing(progress: &Progress) -> String {
    let said = [progress.mark.as_str(), progress.doing.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    format!("step {}, {}", progress.steps, said.join(", "))
}
