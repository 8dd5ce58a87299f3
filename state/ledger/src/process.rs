//! A tracked process: who it is, and its account.

use crate::growth::Series;
use crate::incomplete::IncompleteReasons;
use crate::labels::Labels;
use crate::ledger::Leaving;
use crate::left_behind::LeftBuffers;
use crate::resync::Resyncing;
use crate::shares::Holder;
use crate::view::ProcessRef;
use std::collections::HashMap;
use std::sync::Arc;
use ttmem_account::{Account, Released};
use ttmem_event::Source;

/// Who a process is, according to the kernel and the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Its pid where the server can see it.
    pub pid: Option<u32>,
    /// Its start, in nanoseconds since the epoch.
    pub start_time: Option<u64>,
    /// The instance id of its handshake; old senders have none.
    pub instance: Option<[u8; 16]>,
    pub uid: u32,
    pub name: Arc<str>,
    /// Its command line when it came; empty if that is not known.
    pub command: Arc<str>,
    /// How its events become known.
    pub source: Source,
    /// The visible-device set its logical ids are counted in.
    pub visible_devices: Arc<str>,
}

impl ProcessIdentity {
    /// Leaves out what only its user may see.
    pub(crate) fn hide_names(&mut self) {
        self.name = Arc::from("");
        self.command = Arc::from("");
    }
}

/// Whether a process can still send something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    Live,
    /// Alive, but its connection ended and it did not: it keeps what it holds.
    Detached,
    /// Gone: it holds nothing any more.
    Exited,
}

/// Why a process was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It closed its connection in order, as the last thing it did.
    Exited,
    /// It ended without that: killed, or by an exit that runs nothing. Which of them only its
    /// parent can know.
    Ended,
    /// Another instance runs under its pid.
    Replaced,
    /// A user asked to forget it.
    Forgotten,
}

impl Departure {
    /// The word for JSON and text.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Ended => "ended",
            Self::Replaced => "replaced",
            Self::Forgotten => "forgotten",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub time: u64,
    pub departure: Departure,
    pub released: Released,
}

/// What is known of a process besides its account.
#[derive(Clone, Debug)]
pub struct ProcessFacts {
    pub identity: ProcessIdentity,
    pub state: ProcessState,
    pub connections: u32,
    /// The pid it claims; shown, never used.
    pub claimed_pid: Option<i64>,
    /// What it says of where it runs; shown, never used.
    pub labels: Labels,
    /// Whether it is sending its whole state anew.
    pub resyncing: bool,
    /// What was refused since it last sent its whole state.
    pub refused: IncompleteReasons,
    /// The marks that it set itself.
    pub series: Arc<Series>,
    /// Whether its name and texts were left out for the audience of a view.
    pub names_are_hidden: bool,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) facts: ProcessFacts,
    pub(crate) account: Account,
    /// The ledger's number of each device of the account.
    pub(crate) devices: Vec<u32>,
    /// Blocks that were copied to explain its failures.
    pub(crate) copied_blocks: u64,
    /// What it held when it closed its meshes.
    pub(crate) left_at_close: Arc<LeftBuffers>,
    /// Its departure and its resync, if either takes more than one call; never saved.
    pub(crate) leaving: Option<Box<Leaving>>,
    pub(crate) resyncing: Option<Box<Resyncing>>,
}

/// A process that left a ledger, as it was before that. Its account may take long to drop.
#[derive(Debug)]
pub struct DepartedProcess {
    pub exit: Exit,
    pub(crate) process: Process,
    /// The logical ids of its devices: another process may describe them differently afterwards.
    pub(crate) logical_ids: Vec<u32>,
}

impl DepartedProcess {
    #[must_use]
    pub fn process(&self) -> ProcessRef<'_> {
        ProcessRef {
            facts: &self.process.facts,
            account: self.process.account.facts(),
            devices: &self.process.devices,
        }
    }

    /// The logical ids that its devices had, by the ledger's numbers of them.
    #[must_use]
    pub fn logical_ids(&self) -> HashMap<u32, u32> {
        let devices = self.process.devices.iter().copied();
        devices.zip(self.logical_ids.iter().copied()).collect()
    }

    #[must_use]
    pub fn into_account(self) -> Account {
        self.process.account
    }
}

impl Process {
    pub(crate) fn new(identity: ProcessIdentity) -> Self {
        let account = Account::new(identity.source == Source::Legacy);
        Self {
            facts: ProcessFacts {
                identity,
                state: ProcessState::Live,
                connections: 0,
                claimed_pid: None,
                labels: Labels::default(),
                resyncing: false,
                refused: IncompleteReasons::default(),
                series: Arc::default(),
                names_are_hidden: false,
            },
            account,
            devices: Vec::new(),
            copied_blocks: 0,
            left_at_close: Arc::default(),
            leaving: None,
            resyncing: None,
        }
    }

    /// As whom it takes devices; `index` is its slot.
    pub(crate) fn holder(&self, index: u32) -> Holder {
        Holder {
            uid: self.facts.identity.uid,
            process: index.into(),
        }
    }
}
