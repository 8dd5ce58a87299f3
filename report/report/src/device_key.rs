//! Which device a part of a document is of: the one rule by which readers put documents together.

use crate::{Device, DeviceHistory, HexId, History, ProcessDevice};

/// A device, whatever its place in a document.
///
/// A chip's own id tells it from all others. Without one, its logical id does, together with the
/// visible-device set under which that counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKey {
    /// The chip's own id.
    Chip(HexId),
    /// Its logical id, and the visible-device set under which that counts.
    Number(u32, Option<String>),
}

impl DeviceKey {
    pub(crate) fn new(id: u32, unique_id: Option<HexId>, scope: Option<&str>) -> Self {
        match unique_id {
            Some(unique_id) => Self::Chip(unique_id),
            None => Self::Number(id, scope.map(str::to_owned)),
        }
    }

    /// How the paths of the read API name it.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Chip(unique_id) => unique_id.to_string(),
            Self::Number(id, _scope) => id.to_string(),
        }
    }
}

impl Device {
    /// Which device it is.
    #[must_use]
    pub fn key(&self) -> DeviceKey {
        DeviceKey::new(self.id, self.unique_id, self.scope.as_deref())
    }

    /// What a person calls it: its number, with an `R` if it is remote, and its board as far as it is known.
    #[must_use]
    pub fn short_name(&self) -> String {
        let remote = if self.remote == Some(true) { "R" } else { "" };
        let number = format!("{}{remote}", self.id);
        match &self.board {
            Some(board) => format!("{number} {board}"),
            None => number,
        }
    }
}

impl ProcessDevice {
    /// Which device it is.
    #[must_use]
    pub fn key(&self) -> DeviceKey {
        DeviceKey::new(self.id, self.unique_id, self.scope.as_deref())
    }
}

impl History {
    /// What a device had; none of one that the history does not know.
    #[must_use]
    pub fn of(&self, device: &Device) -> Option<&DeviceHistory> {
        let key = device.key();
        let mut devices = self.devices.iter();
        devices.find(|of| DeviceKey::new(of.id, of.unique_id, of.scope.as_deref()) == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chip_is_one_whatever_its_number_and_a_number_counts_within_its_set() {
        let chip = |id, scope| DeviceKey::new(id, Some(HexId(7)), scope);
        assert_eq!(chip(0, None), chip(3, Some("3")));
        assert_eq!(chip(0, None).path(), HexId(7).to_string());
        let number = |id, scope| DeviceKey::new(id, None, scope);
        assert_ne!(number(0, None), number(0, Some("3")));
        assert_ne!(number(0, None), number(1, None));
        assert_eq!(number(4, Some("3")).path(), "4");
    }
}
