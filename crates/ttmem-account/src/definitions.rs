//! Texts and core sets that events refer to by id.

use crate::Map;
use std::sync::Arc;
use ttmem_event::{CoreSet, CoresId, TextId};

/// What a process defined, shared with readers.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    texts: Map<u32, Arc<str>>,
    cores: Map<u32, CoreSet>,
    pub(crate) text_bytes: usize,
}

impl Definitions {
    /// A defined text.
    #[must_use]
    pub fn text(&self, id: TextId) -> Option<&Arc<str>> {
        self.texts.get(&id.0)
    }

    /// A defined core set.
    #[must_use]
    pub fn cores(&self, id: CoresId) -> Option<&CoreSet> {
        self.cores.get(&id.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len() + self.cores.len()
    }

    pub(crate) fn insert_text(&mut self, id: TextId, text: &str) {
        self.text_bytes += text.len();
        self.texts.insert(id.0, text.into());
    }

    pub(crate) fn insert_cores(&mut self, id: CoresId, cores: CoreSet) {
        self.cores.insert(id.0, cores);
    }
}
