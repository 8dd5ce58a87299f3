//! What several views draw with.

mod area;
mod bar;
mod canvas;
mod cursor;
mod curve;
mod list;
mod pane;
mod panel;
mod pen;
mod prompt;
mod table;
pub(crate) mod text;

pub(crate) use area::{Area, draw_area};
pub(crate) use bar::Bar;
pub use bar::bar;
pub(crate) use canvas::{Canvas, above, below, left_of, right_of, row_of};
pub(crate) use cursor::Cursor;
pub(crate) use curve::sparkline;
pub(crate) use list::{List, Sort, SortKey};
pub(crate) use pane::{Fact, Pane};
pub(crate) use panel::panel;
pub(crate) use pen::Pen;
pub(crate) use prompt::Prompt;
pub(crate) use table::Cell;
pub use table::{Column, Table};
