//! Texts and core sets that events refer to by id.

use crate::Map;
use std::sync::Arc;
use ttmem_event::{CoreSet, CoresId, TextId};

/// What a process defined, shared with readers.
#[derive(Clone, Debug, Default)]
pub struct Definitions {
    texts: Layers<Arc<str>>,
    cores: Layers<CoreSet>,
    pub(crate) text_bytes: usize,
}

impl Definitions {
    /// A text, whole.
    #[must_use]
    pub fn text(&self, id: TextId) -> Option<&Arc<str>> {
        self.texts.get(id.0)
    }

    /// The name that a text begins with: its first line.
    #[must_use]
    pub fn name(&self, id: TextId) -> Option<&str> {
        self.text(id).map(|text| name_and_stack(text).0)
    }

    /// The Python stack behind that name, the innermost frame first; none if there is none.
    pub fn python_stack(&self, id: TextId) -> impl Iterator<Item = &str> {
        let stack = self.text(id).map(|text| name_and_stack(text).1);
        stack.unwrap_or_default().lines()
    }

    #[must_use]
    #[inline]
    pub fn cores(&self, id: CoresId) -> Option<&CoreSet> {
        self.cores.get(id.0)
    }

    /// Core sets alone, for readers whom the texts do not concern.
    #[must_use]
    pub fn without_texts(&self) -> Self {
        Self {
            texts: Layers::default(),
            ..self.clone()
        }
    }

    /// Every text, by id.
    pub(crate) fn all_texts(&self) -> Vec<(TextId, &Arc<str>)> {
        let texts = self.texts.sorted().into_iter();
        texts.map(|(id, text)| (TextId(id), text)).collect()
    }

    /// Every core set, by id.
    pub(crate) fn all_cores(&self) -> Vec<(CoresId, &CoreSet)> {
        let sets = self.cores.sorted().into_iter();
        sets.map(|(id, cores)| (CoresId(id), cores)).collect()
    }

    /// What they take on the heap, texts included.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        let texts = self.texts.len * 40 + self.text_bytes;
        self.texts.heap_bytes() + self.cores.heap_bytes() + texts as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len + self.cores.len
    }

    pub(crate) fn insert_text(&mut self, id: TextId, text: &str) {
        self.text_bytes += text.len();
        self.texts.insert(id.0, text.into());
    }

    pub(crate) fn insert_cores(&mut self, id: CoresId, cores: CoreSet) {
        self.cores.insert(id.0, cores);
    }
}

/// A text in its two parts: an operation's is followed by the Python stack that called it, a line
/// for each frame, where one was recorded.
#[must_use]
pub fn name_and_stack(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

/// Definitions in a layer that is still written to: what a reader makes us copy at most.
const SMALL_LAYER: usize = 64;

/// A map that only grows, and that readers keep while it does.
///
/// In one map, each definition after a view would copy all that came before it. Here only the
/// last layer is written to, and layers are joined when they are of about one size: an entry is
/// copied as often as the number of entries doubles, and found in as few layers.
#[derive(Clone, Debug, Default)]
struct Layers<V> {
    /// Largest first.
    layers: Vec<Arc<Map<u32, V>>>,
    len: usize,
}

impl<V> Layers<V> {
    /// What the tables take; of what is shared, a share.
    fn heap_bytes(&self) -> u64 {
        let layers = self.layers.iter();
        let layers = layers.map(|layer| (layer.allocation_size() + 64) / Arc::strong_count(layer));
        layers.sum::<usize>() as u64
    }
}

impl<V: Clone> Layers<V> {
    #[inline]
    fn get(&self, id: u32) -> Option<&V> {
        self.layers.iter().find_map(|layer| layer.get(&id))
    }

    fn sorted(&self) -> Vec<(u32, &V)> {
        let layers = self.layers.iter().flat_map(|layer| layer.iter());
        let mut all: Vec<(u32, &V)> = layers.map(|(id, value)| (*id, value)).collect();
        all.sort_unstable_by_key(|(id, _value)| *id);
        all
    }

    /// Adds what is not there yet.
    fn insert(&mut self, id: u32, value: V) {
        self.len += 1;
        match self.layers.last_mut() {
            Some(last) if last.len() < SMALL_LAYER => {
                Arc::make_mut(last).insert(id, value);
            }
            _full => {
                self.join();
                let mut layer = Map::default();
                layer.insert(id, value);
                self.layers.push(Arc::new(layer));
            }
        }
    }

    /// Joins the last layers for as long as they are of about one size.
    fn join(&mut self) {
        while let [.., before, last] = &mut self.layers[..]
            && before.len() < 2 * last.len()
        {
            let last = Arc::clone(last);
            self.layers.pop();
            if let Some(before) = self.layers.last_mut() {
                let joined = Arc::make_mut(before);
                joined.reserve(last.len());
                joined.extend(last.iter().map(|(id, value)| (*id, value.clone())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_found_in_few_layers_and_readers_keep_theirs() {
        let mut layers = Layers::default();
        let mut held = layers.clone();
        for id in 0..100_000_u32 {
            layers.insert(id.wrapping_mul(0x9e37_79b1), id);
            if id == 5_000 {
                held = layers.clone();
            }
            assert!(layers.layers.len() <= 12, "{}", layers.layers.len());
        }
        for id in 0..100_000_u32 {
            let key = id.wrapping_mul(0x9e37_79b1);
            assert_eq!(layers.get(key), Some(&id));
            assert_eq!(held.get(key), Some(&id).filter(|id| **id <= 5_000));
        }
        assert_eq!((layers.len, held.len), (100_000, 5_001));
    }
}
