//! Players that stay where somebody looked, so that the next look is near.

use super::error::RecordedError;
use super::files::{FilePlayer, KnownFile};
use std::collections::VecDeque;
use ttmem_record::Turn;

/// Players that are held: for two who look at two places.
const MOST: usize = 2;

/// Players, the one that was used last behind.
#[derive(Debug, Default)]
pub(super) struct Players {
    held: VecDeque<Held>,
}

#[derive(Debug)]
struct Held {
    inode: u64,
    /// The last instant that it knows of: the file may have grown since.
    to: u64,
    player: FilePlayer,
}

impl Held {
    fn reaches(&self, file: &KnownFile, time: u64) -> bool {
        self.inode == file.inode && (time < self.to || self.to == file.to)
    }
}

impl Players {
    /// Has none stay: what they take is needed.
    pub(super) fn clear(&mut self) {
        self.held.clear();
    }

    /// A player at an instant of a file: one that is near before it, or else the one that was not used
    /// for longest.
    pub(super) fn at(
        &mut self,
        file: &KnownFile,
        time: u64,
        turn: Turn,
    ) -> Result<&mut FilePlayer, RecordedError> {
        let player = self.of(file, time, turn)?;
        player.seek(time)?;
        Ok(player)
    }

    /// A player of a file for an instant, wherever it is.
    pub(super) fn of(
        &mut self,
        file: &KnownFile,
        time: u64,
        turn: Turn,
    ) -> Result<&mut FilePlayer, RecordedError> {
        let most = if file.is_large() { 1 } else { MOST };
        while self.held.len() > most {
            self.held.pop_front();
        }
        let candidates = self.held.iter().enumerate();
        let near = candidates.filter(|(_, held)| held.reaches(file, time));
        let near = near.filter(|(_, held)| held.player.is_near(time));
        let nearest = near.max_by_key(|(_, held)| held.player.time());
        let mut place = nearest.map(|(place, _held)| place);
        if place.is_none() && self.held.len() >= most {
            let oldest = self.held.front();
            place = oldest
                .is_some_and(|held| held.reaches(file, time))
                .then_some(0);
            if place.is_none() {
                self.held.pop_front();
            }
        }
        let held = match place.and_then(|place| self.held.remove(place)) {
            Some(mut held) => {
                let _earlier = held.player.begin_turn(turn);
                held
            }
            None => Held {
                inode: file.inode,
                to: file.to,
                player: file.player(turn)?,
            },
        };
        self.held.push_back(held);
        let newest = self.held.back_mut().ok_or(RecordedError::Nothing)?;
        Ok(&mut newest.player)
    }
}
