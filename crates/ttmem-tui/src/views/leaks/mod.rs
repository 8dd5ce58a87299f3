//! To be written.

use super::{Chosen, KeyHelp, Outcome, View};
use crate::data::Data;
use crate::glossary::Word;
use crate::input::{Key, Pointer};
use crate::look::Look;
use crate::wants::Wants;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// To be written.
#[derive(Debug, Default)]
pub(crate) struct Leaks;

impl View for Leaks {
    fn keys(&self) -> &'static [KeyHelp] {
        &[]
    }

    fn words(&self) -> &'static [Word] {
        &[]
    }

    fn wants(&self, _data: &Data, _chosen: &Chosen) -> Wants {
        Wants::default()
    }

    fn handle(&mut self, _key: Key, _data: &Data, _chosen: &mut Chosen) -> Outcome {
        Outcome::Unused
    }

    fn point(&mut self, _pointer: Pointer, _data: &Data, _chosen: &mut Chosen) -> Outcome {
        Outcome::Unused
    }

    fn draw(
        &mut self,
        _canvas: &mut Buffer,
        _area: Rect,
        _data: &Data,
        _chosen: &Chosen,
        _look: Look,
    ) {
    }
}
