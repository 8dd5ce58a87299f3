//! One frame as text, for pipes, mails and documents.

use crate::app::App;
use crate::data::{Link, Update};
use crate::export::ExportForm;
use crate::fetch::{Document, fetch_all, fetch_last_events};
use crate::theme::{ColourDepth, Theme};
use crate::views::Tab;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::time::{Duration, Instant};
use ttmem_reader::{ApiClient, ApiRequestError};
use ttmem_report::{GroupBy, Timestamp};

/// A view knows which documents it needs when it has seen what there is: a map needs a device, then a core.
const ROUNDS: usize = 3;

/// Rows of a frame that nobody said the rows of; more where a list is longer.
const ROWS: u16 = 50;

/// A list of more rows is cut, because a screen of them all would not fit into memory.
const MOST_ROWS: u16 = 2_000;

#[derive(Debug, Clone)]
pub struct OnceOptions {
    pub address: String,
    pub tab: Tab,
    /// An instant of a recording, in place of now or its end.
    pub at: Option<Timestamp>,
    /// Columns, and rows; without a number of rows as many as the view has something for.
    pub size: (u16, Option<u16>),
    pub unicode: bool,
    /// What buffers are put together by, in their view.
    pub group: Option<GroupBy>,
    /// What the view shows for other programs, instead of its text.
    pub export: Option<ExportForm>,
}

/// A frame of a view, as lines of text.
///
/// # Errors
/// When the server does not answer.
pub fn once(client: &ApiClient, options: &OnceOptions) -> Result<String, ApiRequestError> {
    // Without colours: kinds of memory differ by their signs, which survive any pipe.
    let theme = Theme::new(ColourDepth::None, options.unicode);
    let mut app = App::new(
        options.address.clone(),
        Duration::from_secs(1),
        options.tab,
        theme,
    );
    app.begin_at(options.at);
    if let Some(by) = options.group {
        app.group_buffers(by);
    }
    let client = &client.clone().at_instant(options.at);
    let take = |app: &mut App, update| app.take(update, Instant::now());
    take(&mut app, Update::Instant(options.at, Vec::new()));
    take(&mut app, Update::Link(Link::Up));
    fetch_all(client, &Document::TOTALS, |update| take(&mut app, update))?;
    let (width, height) = options.size;
    let mut canvas = canvas(width, height.unwrap_or(ROWS));
    for _round in 0..ROUNDS {
        canvas.reset();
        app.draw_alone(&mut canvas, Instant::now());
        let documents = app.settings().documents;
        fetch_all(client, &documents, |update| take(&mut app, update))?;
    }
    if app.settings().streams_events {
        fetch_last_events(client, |update| take(&mut app, update))?;
    }
    canvas.reset();
    app.draw_alone(&mut canvas, Instant::now());
    if height.is_none() {
        // More than a screen: once more, with room for all of it.
        let hidden = u16::try_from(app.hidden_rows()).unwrap_or(u16::MAX);
        canvas = self::canvas(width, ROWS.saturating_add(hidden).min(MOST_ROWS));
        app.draw_alone(&mut canvas, Instant::now());
        let documents = app.settings().documents;
        fetch_all(client, &documents, |update| take(&mut app, update))?;
        canvas.reset();
        app.draw_alone(&mut canvas, Instant::now());
    }
    if let Some(form) = options.export {
        return Ok(app.exported().text(form));
    }
    let text = lines(&canvas);
    Ok(text.trim_end().to_owned() + "\n")
}

fn canvas(width: u16, height: u16) -> Buffer {
    Buffer::empty(Rect::new(0, 0, width.max(40), height.max(8)))
}

/// What is on a canvas, without blanks at the ends of lines.
pub(crate) fn lines(canvas: &Buffer) -> String {
    let mut text = String::new();
    for line in canvas.content.chunks(usize::from(canvas.area.width.max(1))) {
        let mut drawn = String::new();
        let mut hidden = 0;
        for cell in line {
            // A wide sign covers the cell behind it.
            if hidden == 0 {
                drawn.push_str(cell.symbol());
                hidden = crate::widgets::text::width(cell.symbol()).saturating_sub(1);
            } else {
                hidden -= 1;
            }
        }
        text.push_str(drawn.trim_end());
        text.push('\n');
    }
    text
}
