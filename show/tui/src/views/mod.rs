//! The tabs, one module each.
//!
//! A view keeps only what the user chose in it. It is drawn from the data as it is now; it never
//! asks the server itself but says which documents it needs.

pub(crate) mod buffers;
pub(crate) mod device;
pub(crate) mod events;
pub(crate) mod failures;
pub(crate) mod help;
pub(crate) mod l1map;
pub(crate) mod leaks;
pub(crate) mod naming;
pub(crate) mod notice;
pub(crate) mod overview;
pub(crate) mod problems;
pub(crate) mod processes;
pub(crate) mod programs;

use crate::data::Data;
use crate::fetch::Document;
use crate::glossary::Word;
use crate::input::{Key, Pointer};
use crate::playback::Subject;
use crate::theme::Ink;
use crate::widgets::Canvas;
use ratatui::layout::Rect;
use ttmem_report::{Device, DeviceKey};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tab {
    #[default]
    Overview,
    Processes,
    Device,
    /// Where everything lies in L1 and DRAM.
    L1Map,
    /// Programs, kernels, the config ring.
    Programs,
    Buffers,
    Events,
    Leaks,
    /// What was refused, and why.
    Failures,
}

impl Tab {
    pub const ALL: [Self; 9] = [
        Self::Overview,
        Self::Processes,
        Self::Device,
        Self::L1Map,
        Self::Programs,
        Self::Buffers,
        Self::Events,
        Self::Leaks,
        Self::Failures,
    ];

    #[must_use]
    pub const fn title(self) -> &'static str {
        self.names().0
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        self.names().1
    }

    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Overview => ("Overview", "overview"),
            Self::Processes => ("Processes", "processes"),
            Self::Device => ("Device", "device"),
            Self::L1Map => ("Memory map", "map"),
            Self::Programs => ("Programs", "programs"),
            Self::Buffers => ("Buffers", "buffers"),
            Self::Events => ("Events", "events"),
            Self::Leaks => ("Leaks", "leaks"),
            Self::Failures => ("Failures", "failures"),
        }
    }

    pub(crate) fn view(self) -> Box<dyn View> {
        match self {
            Self::Overview => Box::<overview::Overview>::default(),
            Self::Processes => Box::<processes::Processes>::default(),
            Self::Device => Box::<device::DeviceView>::default(),
            Self::L1Map => Box::<l1map::L1MapView>::default(),
            Self::Programs => Box::<programs::Programs>::default(),
            Self::Buffers => Box::<buffers::Buffers>::default(),
            Self::Events => Box::<events::Events>::default(),
            Self::Leaks => Box::<leaks::Leaks>::default(),
            Self::Failures => Box::<failures::Failures>::default(),
        }
    }
}

/// What all views share: the choices that go along from tab to tab.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// A device; the first if none was chosen or it is gone.
    pub(crate) device: Option<DeviceKey>,
    pub(crate) pid: Option<u32>,
}

impl Chosen {
    pub(crate) fn place(&self, data: &Data) -> usize {
        let Some(chosen) = &self.device else {
            return 0;
        };
        let mut devices = data.devices().iter();
        let place = devices.position(|device| device.key() == *chosen);
        place.unwrap_or(0)
    }

    pub(crate) fn device<'d>(&self, data: &'d Data) -> Option<&'d Device> {
        data.devices().get(self.place(data))
    }

    /// Chooses the device at a place; the last one if there are not so many.
    pub(crate) fn choose(&mut self, place: usize, data: &Data) {
        let devices = data.devices();
        if let Some(device) = devices.get(place).or(devices.last()) {
            self.device = Some(device.key());
        }
    }

    /// Chooses the next device, or the one before, round and round.
    pub(crate) fn step(&mut self, forward: bool, data: &Data) {
        let count = data.devices().len();
        if count > 0 {
            let step = if forward { 1 } else { count - 1 };
            self.choose((self.place(data) + step) % count, data);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The view has no use for the key: the app may have.
    Unused,
    Handled,
    Go(Tab),
}

impl Outcome {
    pub(crate) const fn if_used(used: bool) -> Self {
        if used { Self::Handled } else { Self::Unused }
    }
}

/// A key and what it does here, for the footer and the help.
pub(crate) type KeyHelp = (&'static str, &'static str);

/// A column and what it is, for the help.
pub(crate) type Meaning = (&'static str, &'static str);

/// One of several names to choose from.
///
/// Brackets, because a colour alone says nothing to some, and not every terminal reverses.
fn option(name: &str, is_chosen: bool) -> (String, Ink) {
    if is_chosen {
        (format!("[{name}]"), Ink::Strong)
    } else {
        (format!(" {name} "), Ink::Faint)
    }
}

/// The next or previous item, wrapping around; an unknown item counts as the first.
fn around<T: Copy + PartialEq>(all: &[T], now: T, forward: bool) -> T {
    let place = all.iter().position(|one| *one == now).unwrap_or(0);
    let step = if forward { 1 } else { all.len() - 1 };
    all[(place + step) % all.len()]
}

pub(crate) trait View {
    /// Its keys, those that matter most first; the footer shows as many as fit.
    fn keys(&self) -> &'static [KeyHelp];

    fn words(&self) -> &'static [Word];

    /// What its columns are, where their names are no words of the glossary.
    fn columns(&self) -> &'static [Meaning] {
        &[]
    }

    /// The documents that it shows, besides the totals.
    fn documents(&self, _data: &Data, _chosen: &Chosen) -> Vec<Document> {
        Vec::new()
    }

    /// The device and class that it is about, if it is about one.
    fn subject(&self, _data: &Data, _chosen: &Chosen) -> Subject {
        Subject::default()
    }

    fn streams_events(&self) -> bool {
        false
    }

    /// Whether some events are enough where there are more than anybody can read.
    fn samples_events(&self, _chosen: &Chosen) -> bool {
        false
    }

    /// Takes a key, if it has a use for it.
    ///
    /// While the user types ([`View::is_typing`]) it takes every key.
    fn handle(&mut self, key: Key, data: &Data, chosen: &mut Chosen) -> Outcome;

    /// Takes what the pointer did inside the area that it was last drawn in.
    fn point(&mut self, pointer: Pointer, data: &Data, chosen: &mut Chosen) -> Outcome;

    /// Draws it; what is chosen may be out of range, because the data goes on.
    fn draw(&mut self, canvas: &mut Canvas<'_>, area: Rect, data: &Data, chosen: &Chosen);

    /// Rows of its lists that had no room when it was last drawn.
    fn hidden_rows(&self) -> u64 {
        0
    }

    /// Whether the user types text: then letters are no commands.
    fn is_typing(&self) -> bool {
        false
    }
}
