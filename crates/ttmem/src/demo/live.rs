//! A story on the screen: the server's account, redrawn four times a second.
//!
//! Draws on the terminal's second screen and gives back the first one however it ends: what was
//! there before the demo is there after it.

use super::player::{Piece, Player};
use super::progress::Progress;
use crate::interrupt::News;
use crate::output::{PrintError, Screen};
use crate::render;
use anyhow::{Result, bail};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use ttmem_api::ApiClient;

/// Four times a second: as often as anybody can read figures.
const FRAME: Duration = Duration::from_millis(250);

/// Rows of a terminal that does not say how many it has.
const DEFAULT_HEIGHT: usize = 24;

/// To the second screen, without a cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
/// The cursor, and the first screen with all that was on it.
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
const TO_THE_TOP: &str = "\u{1b}[H";
const CLEAR_REST_OF_LINE: &str = "\u{1b}[K";
const CLEAR_BELOW: &str = "\u{1b}[J";

/// Shows a story until it ends or the user wants it to.
pub(super) fn show(
    piece: &Piece,
    player: &Player,
    server: &ApiClient,
    screen: Screen,
    news: &Receiver<News>,
) -> Result<()> {
    let begun = Instant::now();
    let second = SecondScreen::enter()?;
    loop {
        let page = page(piece, &player.progress(), server, begun.elapsed());
        let size = size(screen);
        let snapshot = server.snapshot()?;
        second.draw(&render::live(&page, &snapshot, size))?;
        match news.recv_timeout(FRAME) {
            Ok(News::Ended | News::Interrupted) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the story's thread is gone"),
        }
    }
}

/// What stands above and below the account.
fn page(
    piece: &Piece,
    progress: &Progress,
    server: &ApiClient,
    elapsed: Duration,
) -> render::LivePage {
    let speed = match piece.speed {
        0.0 => "as fast as it goes".to_owned(),
        speed => format!("speed {speed}"),
    };
    let said = [progress.mark.as_str(), progress.doing.as_str()];
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    render::LivePage {
        title: format!(
            "{} on {}, seed {}, {speed}",
            piece.story.scenario().name,
            piece.board.name(),
            piece.seed
        ),
        about: piece.story.scenario().about.clone(),
        doing: said.join(", "),
        steps: progress.steps,
        elapsed_seconds: elapsed.as_secs(),
        failure: progress.failure.clone(),
        hint: format!(
            "Ctrl-C ends it. Meanwhile: ttmem status --socket {}",
            server.server()
        ),
    }
}

/// The terminal's size now: it may be changed at any time.
fn size(screen: Screen) -> render::LiveSize {
    let terminal = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let known = |figure: u16| Some(usize::from(figure)).filter(|figure| *figure > 0);
    render::LiveSize {
        width: terminal
            .and_then(|size| known(size.ws_col))
            .unwrap_or(screen.width),
        height: terminal
            .and_then(|size| known(size.ws_row))
            .unwrap_or(DEFAULT_HEIGHT),
        color: screen.color,
    }
}

/// The terminal's second screen; dropping it gives back the first.
struct SecondScreen;

impl SecondScreen {
    fn enter() -> Result<Self, PrintError> {
        let second = Self;
        print(ENTER)?;
        Ok(second)
    }

    /// Draws over what is there: clearing first would flicker.
    fn draw(&self, lines: &[String]) -> Result<(), PrintError> {
        let mut frame = String::from(TO_THE_TOP);
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                frame.push_str("\r\n");
            }
            frame.push_str(line);
            frame.push_str(CLEAR_REST_OF_LINE);
        }
        frame.push_str(CLEAR_BELOW);
        print(&frame)
    }
}

impl Drop for SecondScreen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing back.
        let _gone = print(LEAVE);
    }
}

fn print(text: &str) -> Result<(), PrintError> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(PrintError)
}
