//! Where devices stand on the screen: as large as fits, in groups if the user likes.
//!
//! Pure: from the devices and the room to places. Both drawing and keys go by it.

use crate::widgets::{left_of, right_of};
use ratatui::layout::Rect;
use ttmem_api::Device;

const GAP: u16 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Density {
    Large,
    Medium,
    /// DRAM in a line, L1 in the next.
    TwoLines,
    OneLine,
}

impl Density {
    const ALL: [Self; 4] = [Self::Large, Self::Medium, Self::TwoLines, Self::OneLine];

    pub(crate) const fn height(self) -> u16 {
        match self {
            Self::Large => 17,
            Self::Medium => 7,
            Self::TwoLines => 2,
            Self::OneLine => 1,
        }
    }

    const fn width(self) -> u16 {
        match self {
            Self::Large | Self::Medium => 60,
            Self::TwoLines => 66,
            Self::OneLine => 44,
        }
    }

    /// Whether columns have a heading, which takes a row.
    pub(crate) const fn has_heading(self) -> bool {
        matches!(self, Self::TwoLines | Self::OneLine)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Nothing: one behind the other.
    #[default]
    Flat,
    Board,
    /// The visible-device set under which they are numbered.
    Scope,
}

impl Grouping {
    pub(crate) const ALL: [Self; 3] = [Self::Flat, Self::Board, Self::Scope];
}

/// Devices that belong together, by their places in the snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// What they have in common; none where nothing is grouped.
    pub(crate) title: Option<String>,
    pub(crate) places: Vec<usize>,
}

pub(crate) fn groups(devices: &[Device], grouping: Grouping) -> Vec<Group> {
    match grouping {
        Grouping::Flat => vec![Group {
            title: None,
            places: (0..devices.len()).collect(),
        }],
        Grouping::Board => boards(devices),
        Grouping::Scope => scopes(devices),
    }
}

/// A chip on PCIe and the remote one that follows it are a board of two.
///
/// Of remote chips that follow each other nobody says which board they are on: they stand
/// together as what they are.
fn boards(devices: &[Device]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut place = 0;
    while let Some(device) = devices.get(place) {
        let remotes = |from: usize| {
            let rest = devices.get(from..).unwrap_or_default().iter();
            let same = |other: &&Device| other.remote == Some(true) && other.board == device.board;
            rest.take_while(same).count()
        };
        let name = device.board.as_deref().unwrap_or("board not known");
        let (title, end) = if device.remote == Some(true) {
            let end = place + remotes(place);
            (format!("{name}, remote chips"), end)
        } else if device.board.is_some() && remotes(place + 1) == 1 {
            (name.to_owned(), place + 2)
        } else {
            (name.to_owned(), place + 1)
        };
        groups.push(Group {
            title: Some(title),
            places: (place..end).collect(),
        });
        place = end;
    }
    groups
}

fn scopes(devices: &[Device]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (place, device) in devices.iter().enumerate() {
        let title = Some(match &device.scope {
            Some(scope) => format!("visible devices {scope}"),
            None => "all devices visible".to_owned(),
        });
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.places.push(place),
            None => groups.push(Group {
                title,
                places: vec![place],
            }),
        }
    }
    groups
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Band {
    Heading(Group),
    /// Devices side by side, by their places in the snapshot.
    Devices(Vec<usize>),
}

impl Band {
    pub(crate) fn places(&self) -> &[usize] {
        match self {
            Self::Heading(_) => &[],
            Self::Devices(places) => places,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrangement {
    pub(crate) density: Density,
    pub(crate) columns: u16,
    pub(crate) bands: Vec<Band>,
}

impl Arrangement {
    /// The largest that fits into a room; the smallest if none does, which is then scrolled.
    pub(crate) fn of(groups: &[Group], compact: bool, (width, height): (u16, u16)) -> Self {
        let densities = if compact {
            &Density::ALL[3..]
        } else {
            &Density::ALL[..]
        };
        let mut last = Self::with(groups, Density::OneLine, 1);
        for density in densities {
            let widest = (width.saturating_add(GAP) / (density.width() + GAP)).max(1);
            if *density != Density::OneLine && width < density.width() {
                continue;
            }
            for columns in 1..=widest {
                let arrangement = Self::with(groups, *density, columns);
                if arrangement.height() <= u64::from(height) {
                    return arrangement;
                }
                last = arrangement;
            }
        }
        last
    }

    fn with(groups: &[Group], density: Density, columns: u16) -> Self {
        let mut bands = Vec::new();
        for group in groups {
            if group.title.is_some() {
                bands.push(Band::Heading(group.clone()));
            }
            let rows = group.places.chunks(usize::from(columns.max(1)));
            bands.extend(rows.map(|row| Band::Devices(row.to_vec())));
        }
        Self {
            density,
            columns: columns.max(1),
            bands,
        }
    }

    pub(crate) const fn height_of(&self, band: &Band) -> u16 {
        match band {
            Band::Heading(_) => 1,
            Band::Devices(_) => self.density.height(),
        }
    }

    /// The rows that all of it takes, heading included.
    pub(crate) fn height(&self) -> u64 {
        let bands = self.bands.iter();
        let rows: u64 = bands.map(|band| u64::from(self.height_of(band))).sum();
        rows + u64::from(self.density.has_heading())
    }

    pub(crate) fn cell(&self, row: Rect, column: usize) -> Rect {
        let gaps = GAP * (self.columns - 1);
        let each = row.width.saturating_sub(gaps) / self.columns;
        let column = u16::try_from(column).unwrap_or(u16::MAX);
        left_of(right_of(row, column.saturating_mul(each + GAP)), each)
    }

    pub(crate) fn find(&self, place: usize) -> Option<(usize, usize)> {
        let mut bands = self.bands.iter().enumerate();
        bands.find_map(|(band, content)| {
            let column = content.places().iter().position(|known| *known == place)?;
            Some((band, column))
        })
    }

    /// The device that is so many rows of devices further down, or up, in the same column.
    pub(crate) fn moved(&self, place: usize, rows: i64) -> Option<usize> {
        let (band, column) = self.find(place)?;
        let has_devices = |band: &&Band| !band.places().is_empty();
        let steps = usize::try_from(rows.unsigned_abs()).unwrap_or(usize::MAX);
        let (above, below) = self.bands.split_at(band);
        // The band itself is the first of those below.
        let to = if rows < 0 {
            let above = above.iter().rev().filter(has_devices);
            above.take(steps).last().or(below.first())
        } else {
            let below = below.iter().filter(has_devices);
            below.take(steps.saturating_add(1)).last()
        };
        let places = to?.places();
        places.get(column).or(places.last()).copied()
    }

    fn places(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.bands.iter().flat_map(Band::places).copied()
    }

    pub(crate) fn first(&self) -> Option<usize> {
        self.places().next()
    }

    pub(crate) fn last(&self) -> Option<usize> {
        self.places().next_back()
    }

    /// The device before or behind one, as they stand.
    pub(crate) fn beside(&self, place: usize, forward: bool) -> Option<usize> {
        let is_other = |known: &usize| *known != place;
        if forward {
            self.places().skip_while(is_other).nth(1)
        } else {
            self.places().rev().skip_while(is_other).nth(1)
        }
    }
}
