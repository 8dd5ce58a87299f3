//! What a process says of where it runs: its job, its rank, its container.
//!
//! It is the word of the process, so it is bounded here, shown, and used for nothing else.

use std::sync::Arc;
use ttmem_account::state::codec::{Codec, Out, Reader};

/// Labels of one process.
pub const MAX_LABELS: usize = 16;
const MAX_KEY_BYTES: usize = 32;
/// Characters of a label's value.
pub const MAX_LABEL_CHARS: usize = 128;

/// A key and its value.
type Label = (Arc<str>, Arc<str>);

/// Labels by their keys, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    by_key: Option<Arc<[Label]>>,
}

impl Labels {
    /// Those of some pairs that can be labels: of several with one key the last, and of too many the first by their keys.
    #[must_use]
    pub fn new<'t>(pairs: impl IntoIterator<Item = (&'t str, &'t str)>) -> Self {
        let mut labels: Vec<Label> = Vec::new();
        for (key, value) in pairs {
            if !is_key(key) || value.is_empty() {
                continue;
            }
            let value: String = value.chars().take(MAX_LABEL_CHARS).collect();
            let label = (Arc::from(key), Arc::from(value));
            match labels.binary_search_by(|(known, _value)| (**known).cmp(key)) {
                Ok(place) => labels[place] = label,
                Err(place) => labels.insert(place, label),
            }
            labels.truncate(MAX_LABELS);
        }
        Self {
            by_key: (!labels.is_empty()).then(|| labels.into()),
        }
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.by_key.iter().flat_map(|labels| labels.iter());
        labels.map(|(key, value)| (&**key, &**value))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_none()
    }
}

/// A letter, then letters, digits and `_`.
fn is_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    key.len() <= MAX_KEY_BYTES
        && bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Codec for Labels {
    const NAME: &'static str = "Labels";
    fn put(&self, out: &mut Out) {
        let labels: Vec<Label> = self
            .by_key
            .iter()
            .flat_map(|labels| labels.to_vec())
            .collect();
        labels.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        if read.is_first_layout {
            return Some(Self::default());
        }
        let labels: Vec<Label> = read.get()?;
        Some(Self::new(
            labels.iter().map(|(key, value)| (&**key, &**value)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_label_is_one_and_not_too_many() {
        let long = "x".repeat(1000);
        let labels = Labels::new([
            ("job", "1"),
            ("", "no key"),
            ("9", "no letter first"),
            ("a b", "a space"),
            ("a\"}\n", "hostile"),
            (&*"k".repeat(33), "a long key"),
            ("empty", ""),
            ("rank", &long),
            ("job", "2"),
        ]);
        let found: Vec<_> = labels.iter().collect();
        assert_eq!(found, [("job", "2"), ("rank", &long[..MAX_LABEL_CHARS])]);
        let keys: Vec<String> = (0..100).map(|number| format!("k{number:03}")).collect();
        let many = Labels::new(keys.iter().map(|key| (key.as_str(), "v")));
        assert_eq!(many.iter().count(), MAX_LABELS);
        assert_eq!(many.iter().next(), Some(("k000", "v")));
        assert!(Labels::new([]).is_empty() && !many.is_empty());
    }
}
