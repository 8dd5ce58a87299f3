//! What several views draw with.

pub(crate) mod bar;
pub(crate) mod cursor;
pub(crate) mod curve;
pub(crate) mod line;
pub(crate) mod pane;
pub(crate) mod pen;
pub(crate) mod prompt;
pub(crate) mod share;
pub(crate) mod table;
pub(crate) mod text;
