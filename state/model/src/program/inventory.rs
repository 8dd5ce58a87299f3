//! What a program keeps in L1 beside its config, and whether it has its place.
//!
//! Owns the storage that was added, the checks on it, and the note that the layout has to be
//! computed (anew). Where things lie is the layout's; only the program calls this module.

use super::error::ProgramError;
use super::layout::{Ground, Layout};
use super::ranges::CoreRanges;
use super::storage::{CbPlace, CbSpec, PlacedStorage, StorageFamily, StorageKind, StorageSpec};
use ttmem_event::catalogue::Grid;
use ttmem_event::{CbKind, CoreSet};

/// The device counts pages in 16 bits.
const MAX_CB_PAGES: u64 = 65_535;

/// Refuses a circular buffer for what it is, before any program is asked.
pub(super) fn check_cb(spec: &CbSpec, max_cbs: u32) -> Result<(), ProgramError> {
    let CbSpec {
        index, size, page, ..
    } = *spec;
    check_bank(size, spec.place)?;
    if u32::from(index) >= max_cbs {
        return Err(ProgramError::IndexTooLarge {
            index,
            limit: max_cbs,
        });
    }
    if page == 0 {
        return Err(ProgramError::EmptyPage { index });
    }
    if !size.is_multiple_of(page) {
        return Err(ProgramError::PartialPage { index, size, page });
    }
    Ok(())
}

/// A circular buffer inside an L1 buffer is at most as large as that.
const fn check_bank(size: u64, place: CbPlace) -> Result<(), ProgramError> {
    match place {
        CbPlace::Global { bank_bytes, .. } | CbPlace::Remote { bank_bytes, .. }
            if size > bank_bytes =>
        {
            Err(ProgramError::LargerThanBuffer { size, bank_bytes })
        }
        _ => Ok(()),
    }
}

/// The highest local and the lowest remote circular buffer index on some cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CbIndices {
    /// Behind the highest local index; 0 without local ones.
    pub(super) local_end: u32,
    /// The lowest remote index; `None` without remote ones.
    pub(super) remote_start: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Cb {
        index: u8,
        page: u64,
        place: CbPlace,
    },
    Dataflow {
        slot: u32,
        borrowed: bool,
    },
    Scratchpad,
}

#[derive(Debug)]
struct Item {
    what: What,
    cores: CoreRanges,
    set: CoreSet,
    size: u64,
    address: Option<u64>,
}

impl Item {
    const fn is_cb(&self) -> bool {
        matches!(self.what, What::Cb { .. })
    }

    const fn is_dataflow(&self) -> bool {
        matches!(self.what, What::Dataflow { .. })
    }

    const fn kind(&self) -> CbKind {
        match self.what {
            What::Cb { place, .. } => match place {
                CbPlace::Local => CbKind::Local,
                CbPlace::Global { .. } | CbPlace::Remote { .. } => CbKind::Global,
            },
            What::Dataflow { borrowed, .. } if borrowed => CbKind::DataflowBorrowed,
            What::Dataflow { .. } => CbKind::Dataflow,
            What::Scratchpad => CbKind::Scratchpad,
        }
    }
}

/// Everything a program keeps in L1 beside its config.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// In the order in which it was added; the place is the number.
    items: Vec<Item>,
    layout: Layout,
    /// Set when something is to be placed; only then is the layout computed.
    layout_needed: bool,
    /// Counts the changes of what lies where.
    revision: u64,
}

impl Inventory {
    /// Adds a circular buffer that [`check_cb`] has let pass; returns its number.
    pub(super) fn add_cb(&mut self, spec: CbSpec) -> Result<u32, ProgramError> {
        if self.items.iter().any(Item::is_dataflow) {
            return Err(ProgramError::CbBesideDataflow);
        }
        if self.items.iter().any(|item| item.what == What::Scratchpad) {
            return Err(ProgramError::CbBesideScratchpad);
        }
        let pages = spec.size.checked_div(spec.page).unwrap_or(0);
        if pages > MAX_CB_PAGES {
            return Err(ProgramError::TooManyPages {
                index: spec.index,
                pages,
                limit: MAX_CB_PAGES,
            });
        }
        let set = spec.cores.set();
        let taken = self.items.iter().any(|item| {
            matches!(item.what, What::Cb { index, .. } if index == spec.index)
                && !item.set.intersection(&set).is_empty()
        });
        if taken {
            return Err(ProgramError::IndexTaken { index: spec.index });
        }
        let address = match spec.place {
            CbPlace::Local => {
                self.invalidate();
                None
            }
            CbPlace::Global { address, .. } | CbPlace::Remote { address, .. } => Some(address),
        };
        // For global ones too, as the runtime does: no address depends on it, only the order in
        // which ranges are checked.
        self.layout.cover(&spec.cores);
        Ok(self.push(Item {
            what: What::Cb {
                index: spec.index,
                page: spec.page,
                place: spec.place,
            },
            cores: spec.cores,
            set,
            size: spec.size,
            address,
        }))
    }

    /// Adds other storage; a core has so many slots for dataflow buffers. Returns its number.
    pub(super) fn add(&mut self, spec: StorageSpec, slots: u32) -> Result<u32, ProgramError> {
        let has_cbs = self.items.iter().any(Item::is_cb);
        if spec.size == 0 {
            return Err(ProgramError::EmptyStorage);
        }
        let set = spec.cores.set();
        let (what, address) = match spec.kind {
            StorageKind::Scratchpad if has_cbs => return Err(ProgramError::ScratchpadBesideCb),
            StorageKind::Scratchpad => (What::Scratchpad, None),
            _ if has_cbs => return Err(ProgramError::DataflowBesideCb),
            kind => {
                let slot = self.free_slot(&set, slots)?;
                self.layout.cover(&spec.cores);
                let address = match kind {
                    StorageKind::DataflowBorrowed { address } => Some(address),
                    StorageKind::Dataflow | StorageKind::Scratchpad => None,
                };
                let borrowed = address.is_some();
                (What::Dataflow { slot, borrowed }, address)
            }
        };
        self.layout_needed = true;
        Ok(self.push(Item {
            what,
            cores: spec.cores,
            set,
            size: spec.size,
            address,
        }))
    }

    /// The lowest slot that no dataflow buffer has on any of the cores.
    fn free_slot(&self, set: &CoreSet, slots: u32) -> Result<u32, ProgramError> {
        let taken = self.slots_on(set);
        (0..slots)
            .find(|slot| taken.iter().all(|other| other != slot))
            .ok_or_else(|| ProgramError::NoDataflowSlot {
                number: self.items.iter().filter(|item| item.is_dataflow()).count(),
                slots,
            })
    }

    fn slots_on(&self, cores: &CoreSet) -> Vec<u32> {
        let on_cores = |item: &&Item| !item.set.intersection(cores).is_empty();
        self.items
            .iter()
            .filter(on_cores)
            .filter_map(|item| match item.what {
                What::Dataflow { slot, .. } => Some(slot),
                What::Cb { .. } | What::Scratchpad => None,
            })
            .collect()
    }

    fn push(&mut self, item: Item) -> u32 {
        let number = u32::try_from(self.items.len()).unwrap_or(u32::MAX);
        self.items.push(item);
        self.revision += 1;
        number
    }

    /// Has the layout computed anew, from empty stacks unless that is due anyway.
    fn invalidate(&mut self) {
        if !self.layout_needed {
            self.layout.reset();
            self.layout_needed = true;
        }
    }

    /// The circular buffer of that number, with its page and its place.
    fn cb_mut(&mut self, cb: u32) -> Option<(&mut Item, u64, CbPlace)> {
        let item = self.items.get_mut(usize::try_from(cb).ok()?)?;
        match item.what {
            What::Cb { page, place, .. } => Some((item, page, place)),
            What::Dataflow { .. } | What::Scratchpad => None,
        }
    }

    /// Changes the size of a circular buffer; a local one has to be placed again.
    pub(super) fn resize_cb(
        &mut self,
        program: u64,
        cb: u32,
        size: u64,
    ) -> Result<(), ProgramError> {
        let (item, page, place) = self
            .cb_mut(cb)
            .ok_or(ProgramError::NoSuchCb { cb, program })?;
        check_bank(size, place)?;
        if !size.is_multiple_of(page) {
            return Err(ProgramError::ResizedToPartialPage { size, page });
        }
        item.size = size;
        self.revision += 1;
        if place == CbPlace::Local {
            self.invalidate();
        }
        Ok(())
    }

    /// Puts a global circular buffer into another L1 buffer.
    pub(super) fn move_cb(
        &mut self,
        program: u64,
        cb: u32,
        address: u64,
        bank_bytes: u64,
    ) -> Result<(), ProgramError> {
        let (item, page, place) = self
            .cb_mut(cb)
            .ok_or(ProgramError::NoSuchCb { cb, program })?;
        match place {
            CbPlace::Local => return Err(ProgramError::NotGlobal { cb, program }),
            CbPlace::Remote { .. } => return Err(ProgramError::RemoteCannotMove),
            CbPlace::Global { .. } => {}
        }
        let place = CbPlace::Global {
            address,
            bank_bytes,
        };
        check_bank(item.size, place)?;
        if let What::Cb { index, .. } = item.what {
            item.what = What::Cb { index, page, place };
        }
        let moved = item.address.replace(address) != Some(address);
        self.revision += u64::from(moved);
        Ok(())
    }

    /// Puts a borrowing dataflow buffer into another L1 buffer; false if that number has none.
    pub(super) fn move_borrowed(&mut self, number: u32, address: u64) -> bool {
        let item = usize::try_from(number)
            .ok()
            .and_then(|place| self.items.get_mut(place));
        match item {
            Some(item) if matches!(item.what, What::Dataflow { borrowed: true, .. }) => {
                let moved = item.address.replace(address) != Some(address);
                self.revision += u64::from(moved);
                true
            }
            _other => false,
        }
    }

    /// Places what is to be placed, if that is due: buffers in the order in which they were
    /// added, then scratchpads. Whether it was due.
    pub(super) fn place(&mut self, ground: Ground) -> Result<bool, ProgramError> {
        if !self.layout_needed {
            return Ok(false);
        }
        let buffers = [CbKind::Local, CbKind::Dataflow];
        for item in &mut self.items {
            if buffers.contains(&item.kind()) {
                let address = self.layout.place_buffer(&item.cores, item.size, ground)?;
                item.address = Some(address);
            }
        }
        for item in &mut self.items {
            if item.what == What::Scratchpad {
                self.layout.cover(&item.cores);
                let address = self
                    .layout
                    .place_scratchpad(&item.cores, item.size, ground)?;
                item.address = Some(address);
            }
        }
        self.layout_needed = false;
        self.revision += 1;
        Ok(true)
    }

    /// How often what lies where has changed.
    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Everything that has an address, in the order in which it was added.
    pub(super) fn placed(&self) -> Vec<PlacedStorage> {
        (0..)
            .zip(&self.items)
            .filter_map(|(number, item)| {
                Some(PlacedStorage {
                    number,
                    kind: item.kind(),
                    cores: item.cores.clone(),
                    address: item.address?,
                    size: item.size,
                })
            })
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Refuses circular buffers outside the compute grid, then storage that does not fit.
    pub(super) fn check(
        &self,
        program: u64,
        max_l1: u64,
        lowest_l1: Option<u64>,
        grid: Grid,
    ) -> Result<(), ProgramError> {
        let of_cbs = self.items.iter().filter(|item| item.is_cb());
        for range in of_cbs.flat_map(|item| item.cores.iter()) {
            if range.x_last >= grid.x || range.y_last >= grid.y {
                return Err(ProgramError::OutsideGrid {
                    program,
                    range,
                    region_end: self.layout.end_of(range),
                    limit: max_l1,
                    columns: grid.x,
                    rows: grid.y,
                });
            }
        }
        let family = if self.items.iter().any(Item::is_cb) {
            StorageFamily::Circular
        } else {
            StorageFamily::Dataflow
        };
        for (range, region_end) in self.layout.ends() {
            if region_end > max_l1 {
                return Err(ProgramError::BeyondL1 {
                    family,
                    program,
                    range,
                    region_end,
                    limit: max_l1,
                });
            }
            if let Some(limit) = lowest_l1.filter(|lowest| *lowest < region_end) {
                return Err(ProgramError::Clash {
                    family,
                    program,
                    range,
                    region_end,
                    limit,
                });
            }
        }
        Ok(())
    }

    /// The circular buffer indices in use on any of the cores.
    pub(super) fn cb_indices(&self, cores: &CoreSet) -> CbIndices {
        let mut indices = CbIndices {
            local_end: 0,
            remote_start: None,
        };
        for item in &self.items {
            let What::Cb { index, place, .. } = item.what else {
                continue;
            };
            if item.set.intersection(cores).is_empty() {
                continue;
            }
            let index = u32::from(index);
            match place {
                // A global circular buffer has a local index all the same.
                CbPlace::Local | CbPlace::Global { .. } => {
                    indices.local_end = indices.local_end.max(index + 1);
                }
                CbPlace::Remote { .. } => {
                    let lowest = indices.remote_start.map_or(index, |other| other.min(index));
                    indices.remote_start = Some(lowest);
                }
            }
        }
        indices
    }

    /// Behind the highest dataflow buffer slot in use on any of the cores.
    pub(super) fn slot_end(&self, cores: &CoreSet) -> u32 {
        let slots = self.slots_on(cores);
        slots.into_iter().max().map_or(0, |slot| slot + 1)
    }
}
