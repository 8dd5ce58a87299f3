//! The names of a chip, side by side, and choosing one by any of them.
//!
//! The kernel counts cards (`/dev/tenstorrent/N`), PCI has addresses, boards and chips have numbers of
//! their own, and TT-Metal counts the chips it reaches. The last number is the only one that the driver
//! does not tell: it is derived as the runtime does it by default, the chips with a card entry first and
//! those behind them after, and differs in a process with `TT_VISIBLE_DEVICES`.

use crate::device::Device;
use std::fmt;
use std::str::FromStr;
use ttmem_event::catalogue::{Arch, BoardKind, ChipAttachment};

/// A PCI address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bdf {
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
    pub function: u8,
}

impl FromStr for Bdf {
    type Err = NotASelector;

    /// With or without the domain.
    fn from_str(text: &str) -> Result<Self, NotASelector> {
        let parsed = || {
            let (rest, function) = text.split_once('.')?;
            let (rest, device) = rest.rsplit_once(':')?;
            let (domain, bus) = rest.split_once(':').unwrap_or(("0", rest));
            let hex = |text: &str| {
                let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_hex.then(|| u32::from_str_radix(text, 16).ok())?
            };
            let below = |text: &str, limit: u32| hex(text).filter(|number| *number < limit);
            Some(Self {
                domain: hex(domain)?,
                bus: u8::try_from(hex(bus)?).ok()?,
                device: u8::try_from(below(device, 32)?).ok()?,
                function: u8::try_from(below(function, 8)?).ok()?,
            })
        };
        parsed().ok_or_else(|| NotASelector(text.to_owned()))
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
            function,
        } = self;
        write!(
            formatter,
            "{domain:04x}:{bus:02x}:{device:02x}.{function:x}"
        )
    }
}

/// A place in a Galaxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tray {
    /// From 1.
    pub tray: u8,
    pub chip: u8,
}

impl Tray {
    /// The place of a chip, by the bus that its tray has.
    fn of(board: BoardKind, bdf: Bdf) -> Option<Self> {
        let trays = match board {
            BoardKind::GalaxyWormhole => [0xC, 0x8, 0x0, 0x4],
            BoardKind::GalaxyBlackhole => [0x0, 0x4, 0xC, 0x8],
            _ => return None,
        };
        let place = trays.iter().position(|bus| *bus == bdf.bus >> 4)?;
        Some(Self {
            tray: u8::try_from(place + 1).ok()?,
            chip: bdf.bus & 0xF,
        })
    }
}

impl fmt::Display for Tray {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "tray{}/chip{}", self.tray, self.chip)
    }
}

/// A chip with all its names; those of a chip behind another are its card's where it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chip {
    /// As TT-Metal counts by default.
    pub logical_id: u32,
    /// N of `/dev/tenstorrent/N`: its own, or that of the chip through which it is reached.
    pub ordinal: u32,
    pub is_remote: bool,
    pub bdf: Option<Bdf>,
    pub board: Option<BoardKind>,
    pub arch: Option<Arch>,
    /// The board's number.
    pub serial: Option<u64>,
    /// The chip's own number; the driver does not know that of a remote chip.
    pub asic_id: Option<u64>,
    pub tray: Option<Tray>,
}

impl Chip {
    /// Its place on its board, as it is in the numbers that TT-Metal makes of both.
    #[must_use]
    pub fn place_on_board(&self) -> u64 {
        match self.tray {
            Some(place) => u64::from(place.tray) << 4 | u64::from(place.chip),
            None => u64::from(self.is_remote),
        }
    }

    /// The numbers that TT-Metal may give the file of its counters: its own, and those made of its board.
    pub(crate) fn counter_ids(&self) -> impl Iterator<Item = u64> + use<> {
        let place = self.place_on_board();
        let serial = self.serial;
        let of_board = serial.map(|serial| [serial, serial << 5 | place, serial << 8 | place]);
        self.asic_id
            .into_iter()
            .chain(of_board.into_iter().flatten())
    }

    /// The name below `/dev/tenstorrent/by-id`.
    #[must_use]
    pub fn by_id(&self) -> Option<String> {
        let arch = match self.arch? {
            Arch::Wormhole => "wormhole",
            Arch::Blackhole => "blackhole",
            _ => return None,
        };
        Some(format!("{arch}-{:016X}", self.asic_id?))
    }
}

/// The chips behind some cards, numbered as the runtime numbers them by default.
#[must_use]
pub fn chips(devices: &[Device]) -> Vec<Chip> {
    let mut cards: Vec<&Device> = devices.iter().collect();
    cards.sort_by_key(|device| device.ordinal);
    let mut local = Vec::new();
    let mut remote = Vec::new();
    for card in cards {
        let bdf = card.bdf.clone().ok();
        let own = Chip {
            logical_id: 0,
            ordinal: card.ordinal,
            is_remote: false,
            bdf,
            board: card.board,
            arch: card.arch,
            serial: card.serial.clone().ok(),
            asic_id: card.asic_id.clone().ok(),
            tray: card
                .board
                .zip(bdf)
                .and_then(|(board, bdf)| Tray::of(board, bdf)),
        };
        // One entry of the driver is one chip that is reached directly, whatever the product has in all.
        let behind = card.board.map_or(0, |board| {
            let gateway = |attachment| attachment == ChipAttachment::Remote { gateway: 0 };
            board
                .chips()
                .filter(|chip| gateway(chip.attachment))
                .count()
        });
        for _chip in 0..behind {
            remote.push(Chip {
                is_remote: true,
                asic_id: None,
                ..own.clone()
            });
        }
        local.push(own);
    }
    let mut chips: Vec<Chip> = local.into_iter().chain(remote).collect();
    for (id, chip) in (0..).zip(&mut chips) {
        chip.logical_id = id;
    }
    chips
}

/// One of the names of a chip, as a user writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// `3`: as TT-Metal counts.
    Logical(u32),
    /// `/dev/tenstorrent/3`.
    Ordinal(u32),
    /// `0000:0a:00.0`, `0a:00.0`.
    Bdf(Bdf),
    /// Sixteen hexadecimal digits, or up to as many behind `0x`: of a board or of a chip; also a name of
    /// `/dev/tenstorrent/by-id`.
    Id(u64),
    /// `tray1/chip5`.
    Tray(Tray),
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no device: a number (3), a node (/dev/tenstorrent/3), a PCI address (0000:0a:00.0), sixteen digits of \
     a board or chip (or fewer behind 0x), or a place in a Galaxy (tray1/chip5) does"
)]
pub struct NotASelector(String);

impl FromStr for Selector {
    type Err = NotASelector;

    fn from_str(text: &str) -> Result<Self, NotASelector> {
        let unknown = || NotASelector(text.to_owned());
        let digits = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<u32>().ok())?
        };
        let id = |text: &str| {
            let short = text.strip_prefix("0x").filter(|digits| digits.len() <= 16);
            let text = short.or((text.len() == 16).then_some(text))?;
            let is_id = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_id.then(|| u64::from_str_radix(text, 16).ok())?
        };
        let name = text.strip_prefix("/dev/tenstorrent/by-id/").unwrap_or(text);
        let asic = name.strip_prefix("wormhole-");
        let asic = asic.or_else(|| name.strip_prefix("blackhole-"));
        if let Some(asic) = asic {
            return id(asic).map(Self::Id).ok_or_else(unknown);
        }
        if let Some(ordinal) = text.strip_prefix("/dev/tenstorrent/") {
            return digits(ordinal).map(Self::Ordinal).ok_or_else(unknown);
        }
        if let Some(id) = id(text) {
            return Ok(Self::Id(id));
        }
        if let Some(place) = text.strip_prefix("tray") {
            let place = place.split_once("/chip").and_then(|(tray, chip)| {
                let tray = u8::try_from(digits(tray)?).ok()?;
                let chip = u8::try_from(digits(chip)?).ok()?;
                Some(Tray { tray, chip })
            });
            return place.map(Self::Tray).ok_or_else(unknown);
        }
        if text.contains(':') {
            return text.parse().map(Self::Bdf);
        }
        digits(text).map(Self::Logical).ok_or_else(unknown)
    }
}

impl Selector {
    /// Whether a chip is meant. A card or a board means every chip that is reached through it.
    #[must_use]
    pub fn means(&self, chip: &Chip) -> bool {
        match *self {
            Self::Logical(id) => chip.logical_id == id,
            Self::Ordinal(ordinal) => chip.ordinal == ordinal,
            Self::Bdf(bdf) => chip.bdf == Some(bdf),
            Self::Id(id) => chip.serial == Some(id) || chip.asic_id == Some(id),
            Self::Tray(tray) => chip.tray == Some(tray),
        }
    }
}
