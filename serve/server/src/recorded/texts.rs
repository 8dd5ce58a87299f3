//! What buffers are called: operations and lines of processes, for an audience.

use crate::read::vocabulary;
use std::collections::HashMap;
use std::sync::Arc;
use ttmem_event::TextId;
use ttmem_ledger::{Audience, Ledger};

/// Where a buffer comes from, in words.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) pid: Option<u32>,
    /// The process: its pid and its name.
    pub(super) process: Option<String>,
    pub(super) operation: Option<String>,
    pub(super) line: Option<String>,
}

/// Origins by process and text, each made once.
#[derive(Debug)]
pub(super) struct Texts {
    audience: Audience,
    known: HashMap<u32, HashMap<TextId, Arc<Origin>>>,
}

impl Texts {
    pub(super) fn new(audience: Audience) -> Self {
        Self {
            audience,
            known: HashMap::new(),
        }
    }

    /// Another process may be in this slot now.
    pub(super) fn forget(&mut self, process: u32) {
        self.known.remove(&process);
    }

    pub(super) fn forget_all(&mut self) {
        self.known.clear();
    }

    pub(super) fn origin(&mut self, ledger: &Ledger, process: u32, id: TextId) -> Arc<Origin> {
        let of_process = self.known.entry(process).or_default();
        let origin = of_process
            .entry(id)
            .or_insert_with(|| Arc::new(origin(ledger, process, id, self.audience)));
        Arc::clone(origin)
    }
}

fn origin(ledger: &Ledger, process: u32, id: TextId, audience: Audience) -> Origin {
    let Some(known) = ledger.process(process) else {
        return Origin {
            pid: None,
            process: None,
            operation: None,
            line: None,
        };
    };
    let identity = &known.facts.identity;
    let may_see = audience.may_see(Some(identity.uid));
    let definitions = &known.account.definitions;
    let name = if may_see { &*identity.name } else { "" };
    let operation = definitions.name(id).filter(|_name| may_see);
    let line = ttmem_report::user_frame(definitions.python_stack(id)).filter(|_line| may_see);
    Origin {
        pid: identity.pid,
        process: Some(vocabulary::process_label(identity.pid, name)),
        operation: operation.and_then(vocabulary::known_text),
        line: line.map(vocabulary::text),
    }
}
