//! For tests: worlds to draw, and screens to compare.

mod leaks;
mod page;
pub(crate) mod pty;
pub(crate) mod screen;
pub(crate) mod world;

pub(crate) use self::leaks::leaks;

use crate::data::Data;
use crate::fetch::Document;
use crate::views::{Chosen, View};
use ttmem_report::{BufferQuery, DeviceKey, MemoryClass};

/// The documents that a view needs, by kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needed {
    pub(crate) history_seconds: Option<u32>,
    pub(crate) l1map: Option<(DeviceKey, Option<(u16, u16)>)>,
    pub(crate) blocks: Option<(DeviceKey, MemoryClass, u32)>,
    pub(crate) kernels: bool,
    pub(crate) buffers: Option<BufferQuery>,
    pub(crate) groups: Option<BufferQuery>,
}

pub(crate) fn needed(view: &dyn View, data: &Data, chosen: &Chosen) -> Needed {
    let mut needed = Needed::default();
    for document in view.documents(data, chosen) {
        match document {
            Document::History(seconds) => needed.history_seconds = Some(seconds),
            Document::L1Map(device, core) => needed.l1map = Some((device, core)),
            Document::Blocks(device, class, cells) => needed.blocks = Some((device, class, cells)),
            Document::Kernels => needed.kernels = true,
            Document::Buffers(query) => needed.buffers = Some(query),
            Document::Groups(query) => needed.groups = Some(query),
            Document::Snapshot
            | Document::Recent
            | Document::Programs
            | Document::Failures
            | Document::Recording
            | Document::LastEvents
            | Document::Leaks
            | Document::Problems => {}
        }
    }
    needed
}
