//! The terminal view: what the read API says, on a screen that people keep open.
//!
//! * `fetch`: threads that ask the server for documents and hand over what it says.
//! * `data`: the latest documents, each with its age, and how the connection is.
//! * `views`: one module per tab. A view keeps only what the user chose in it (row, sort, filter);
//!   it is drawn from the data and says which documents it needs.
//! * `widgets`: what several views draw with. `theme`: colours and signs, for every terminal.
//! * `glossary`: what every figure means, in one sentence each.
//! * `playback`: the time cursor of a recording. `timebar`: where it is.
//! * `app`: keys in, frames out. `terminal`: the screen, which is always given back.
//! * `once`: one frame as text. `fleet`: many servers, as a Prometheus knows them.
//!
//! Nothing here knows the ledger or the server: all of it goes through `ttmem-report` and `ttmem-reader`.

mod app;
mod data;
pub mod explanation;
mod export;
mod fetch;
pub mod fleet;
mod frame;
mod glossary;
mod input;
mod once;
mod playback;
mod terminal;
#[cfg(test)]
mod testing;
mod theme;
mod timebar;
mod trends;
mod views;
mod widgets;

/// Text for terminals, made harmless and measured in columns; for all who print what a server said.
pub mod text {
    pub use crate::widgets::text::{clip, left, paragraph, right, width};
    pub use crate::widgets::{Column, Table, bar};
}

pub use app::{Companion, CompanionLine, INTERVAL, Left, TopError, TopOptions, top};
pub use export::ExportForm;
pub use once::{OnceOptions, once};
pub use playback::highest_peak;
pub use theme::{Background, ColourDepth, Theme};
pub use views::Tab;
pub use views::buffers::groups::GROUPINGS;
