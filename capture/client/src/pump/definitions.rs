//! Which definitions the account and the server know.

use super::history::History;
use crate::client::Client;
use ttmem_event::Definition;
use ttmem_event::wire::{Frame, FrameKind};

/// How far each segment of the dictionary was read.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    learned: Vec<usize>,
    sent: Vec<usize>,
}

impl Definitions {
    /// Gives the account what is new.
    pub(super) fn learn(&mut self, client: &Client, history: &mut History) {
        for bytes in new_bytes(client, &mut self.learned) {
            let Ok(Frame::Define(definitions)) = Frame::decode(FrameKind::Define as u8, &bytes)
            else {
                continue;
            };
            for definition in definitions.flatten() {
                history.define(&definition);
            }
        }
    }

    /// Appends what the server does not know yet.
    pub(super) fn put_new(&mut self, client: &Client, out: &mut Vec<u8>) {
        for bytes in new_bytes(client, &mut self.sent) {
            Frame::put(out, FrameKind::Define, |out| out.extend_from_slice(&bytes));
        }
    }

    /// Another server: it knows nothing.
    pub(super) fn forget_sent(&mut self) {
        self.sent.clear();
    }
}

/// All texts so far.
pub(super) fn texts(client: &Client) -> Vec<Definition> {
    let mut texts = Vec::new();
    for bytes in new_bytes(client, &mut Vec::new()) {
        if let Ok(Frame::Define(definitions)) = Frame::decode(FrameKind::Define as u8, &bytes) {
            let all = definitions.flatten();
            texts.extend(all.filter(|each| matches!(each, Definition::Text { .. })));
        }
    }
    texts
}

/// The bytes of each segment beyond those that were seen; a segment is less than a frame may be.
fn new_bytes(client: &Client, seen: &mut Vec<usize>) -> Vec<Vec<u8>> {
    let mut new = Vec::new();
    for (number, segment) in client.dictionary.segments().enumerate() {
        if number == seen.len() {
            seen.push(0);
        }
        if let Some(seen) = seen.get_mut(number)
            && segment.published() > *seen
        {
            let mut bytes = Vec::new();
            *seen = segment.copy(*seen, &mut bytes);
            new.push(bytes);
        }
    }
    new
}
