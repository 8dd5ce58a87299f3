//! Where the model reports what it does: the tracker's interface, as a trait.
//!
//! The real tracker is one per process, and a model of the runtime is run many times in one test.
//! So the model reports to [`Hooks`]: a program passes the calls on to its tracker, [`Journal`]
//! records them.

use std::cell::RefCell;
use std::rc::Rc;
use ttmem_event::{
    BufferId, CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, EventKind, MeshDefinition,
    MeshId, ProgramId, TextId,
};

/// The calls that a runtime makes to be tracked.
pub trait Hooks {
    fn track(&mut self, event: EventKind);
    /// The id of a text.
    fn text(&mut self, text: &str) -> TextId;
    /// The id of a set of cores.
    fn cores(&mut self, cores: &CoreSet) -> CoresId;
    /// The id of a device; the one inside of the definition is not used.
    fn device(&mut self, device: &DeviceDefinition) -> DeviceId;
    /// The id of a mesh; the one inside of the definition is not used.
    fn mesh(&mut self, mesh: &MeshDefinition) -> MeshId;
    /// An id for a new buffer.
    fn next_buffer(&mut self) -> BufferId;
    /// An id for a new program.
    fn next_program(&mut self) -> ProgramId;
}

/// What the model reported, in order: definitions stand before the events that use them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Defined(Definition),
    Happened(EventKind),
}

/// Hooks that record every call; every copy is the same journal.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    pages: Rc<RefCell<Pages>>,
}

#[derive(Debug, Default)]
struct Pages {
    entries: Vec<Entry>,
    read: usize,
    /// Texts and core sets are few; what they were called is looked up, as the tracker does.
    known: Vec<Definition>,
    last_buffer: u64,
    last_program: u64,
}

impl Journal {
    /// An empty journal.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything since the last time this was asked.
    #[must_use]
    pub fn news(&self) -> Vec<Entry> {
        let mut pages = self.pages.borrow_mut();
        let news = pages.entries[pages.read..].to_vec();
        pages.read = pages.entries.len();
        news
    }

    /// Everything that happened so far.
    #[must_use]
    pub fn events(&self) -> Vec<EventKind> {
        let pages = self.pages.borrow();
        let happened = |entry: &Entry| match entry {
            Entry::Happened(event) => Some(*event),
            Entry::Defined(_) => None,
        };
        pages.entries.iter().filter_map(happened).collect()
    }

    /// The id of a definition: the one it has, or a new one of its kind.
    fn define(&self, with_id: impl Fn(u32) -> Definition) -> u32 {
        let mut pages = self.pages.borrow_mut();
        let kind = std::mem::discriminant(&with_id(0));
        let mut last = 0;
        for known in &pages.known {
            if std::mem::discriminant(known) == kind {
                last += 1;
                if *known == with_id(last) {
                    return last;
                }
            }
        }
        let new = with_id(last + 1);
        pages.known.push(new.clone());
        pages.entries.push(Entry::Defined(new));
        last + 1
    }
}

impl Hooks for Journal {
    fn track(&mut self, event: EventKind) {
        self.pages.borrow_mut().entries.push(Entry::Happened(event));
    }

    fn text(&mut self, text: &str) -> TextId {
        TextId(self.define(|id| Definition::Text {
            id: TextId(id),
            text: text.to_owned(),
        }))
    }

    fn cores(&mut self, cores: &CoreSet) -> CoresId {
        CoresId(self.define(|id| Definition::Cores {
            id: CoresId(id),
            cores: *cores,
        }))
    }

    fn device(&mut self, device: &DeviceDefinition) -> DeviceId {
        DeviceId(self.define(|id| {
            Definition::Device(DeviceDefinition {
                id: DeviceId(id),
                ..device.clone()
            })
        }))
    }

    fn mesh(&mut self, mesh: &MeshDefinition) -> MeshId {
        MeshId(self.define(|id| {
            Definition::Mesh(MeshDefinition {
                id: MeshId(id),
                ..mesh.clone()
            })
        }))
    }

    fn next_buffer(&mut self) -> BufferId {
        let mut pages = self.pages.borrow_mut();
        pages.last_buffer += 1;
        BufferId(pages.last_buffer)
    }

    fn next_program(&mut self) -> ProgramId {
        let mut pages = self.pages.borrow_mut();
        pages.last_program += 1;
        ProgramId(pages.last_program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_definitions_have_one_id_and_stand_before_their_use() {
        let journal = Journal::new();
        let mut hooks: Box<dyn Hooks> = Box::new(journal.clone());
        let first = hooks.text("matmul");
        let other = hooks.text("add");
        assert_eq!(hooks.text("matmul"), first);
        assert_ne!(first, other);
        hooks.track(EventKind::Marked {
            name: other,
            number: 7,
        });
        let news = journal.news();
        assert_eq!(news.len(), 3);
        assert!(matches!(
            &news[1],
            Entry::Defined(Definition::Text { id, text }) if *id == other && text == "add"
        ));
        assert!(journal.news().is_empty());
        assert_eq!(journal.events().len(), 1);
        assert_ne!(hooks.next_buffer(), hooks.next_buffer());
    }
}
