//! Leaving out what names people's programs: texts are replaced by placeholders before they are kept.
//!
//! One text always gets the same placeholder, so that what belongs together still does. What only
//! says which hardware is there stays.

use std::collections::HashMap;
use std::sync::Arc;
use ttmem_event::Definition;
use ttmem_event::catalogue::{BoardKind, is_device_list};
use ttmem_ledger::{Change, Labels, ProcessIdentity, Resync};

/// Texts whose placeholders are remembered; beyond, a text that comes again gets another one.
const MAX_TEXTS: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Redaction {
    known: HashMap<Arc<str>, Arc<str>>,
    count: u64,
}

impl Redaction {
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        let placeholder = placeholder_number(text);
        if names_hardware(text) || placeholder.is_some() {
            // What stands for a text already, in a state that was loaded, stands for no other.
            self.count = self.count.max(placeholder.unwrap_or(0));
            return Arc::from(text);
        }
        if let Some(known) = self.known.get(text) {
            return Arc::clone(known);
        }
        if self.known.len() >= MAX_TEXTS {
            self.known.clear();
        }
        self.count += 1;
        let placeholder: Arc<str> = Arc::from(format!("{PREFIX}{}", self.count));
        self.known.insert(Arc::from(text), Arc::clone(&placeholder));
        placeholder
    }

    /// The same change without names.
    pub(crate) fn change(&mut self, change: &Change) -> Change {
        match change {
            Change::Join {
                identity,
                claimed_pid,
            } => Change::Join {
                identity: ProcessIdentity {
                    name: self.text(&identity.name),
                    command: Arc::from(""),
                    visible_devices: self.text(&identity.visible_devices),
                    ..identity.clone()
                },
                claimed_pid: *claimed_pid,
            },
            Change::SetLabels { process, .. } => Change::SetLabels {
                process: *process,
                labels: Labels::default(),
            },
            Change::Define {
                process,
                definitions,
            } => Change::Define {
                process: *process,
                definitions: Arc::new(self.definitions(definitions)),
            },
            Change::Resync { process, resync } => Change::Resync {
                process: *process,
                resync: Arc::new(Resync {
                    definitions: self.definitions(&resync.definitions),
                    ..Resync::clone(resync)
                }),
            },
            Change::SetMark {
                user,
                time,
                name,
                number,
            } => Change::SetMark {
                user: *user,
                time: *time,
                name: self.text(name),
                number: *number,
            },
            other => other.clone(),
        }
    }

    fn definitions(&mut self, definitions: &[Definition]) -> Vec<Definition> {
        let definitions = definitions.iter();
        let redacted = definitions.map(|definition| match definition {
            Definition::Text { id, text } => Definition::Text {
                id: *id,
                text: self.text(text).to_string(),
            },
            other => other.clone(),
        });
        redacted.collect()
    }
}

const PREFIX: &str = "text-";

/// No recording has as many texts.
const MAX_NUMBER: u64 = 1 << 48;

/// The number of a placeholder; none if the text is no placeholder that we make.
fn placeholder_number(text: &str) -> Option<u64> {
    let digits = text.strip_prefix(PREFIX)?;
    let number: u64 = digits.parse().ok()?;
    (number < MAX_NUMBER && number.to_string() == digits).then_some(number)
}

/// A board, a list of devices, or nothing.
fn names_hardware(text: &str) -> bool {
    BoardKind::from_name(text).is_some() || is_device_list(text)
}
