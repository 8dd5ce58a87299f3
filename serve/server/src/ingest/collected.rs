//! What the messages of a connection lead to, gathered before it is sent on.

use super::recovery::HandedSegment;
use super::session::Session;
use crate::ledger_thread::{Command, ProcessCommand, ProcessNumber, ResyncMemory};
use crate::log::Note;
use std::sync::Arc;
use ttmem_event::Event;
use ttmem_event::wire::RingPosition;
use ttmem_ledger::{Anomaly, Holder, IncompleteReason, Resync};

#[derive(Debug)]
pub(super) struct Collected {
    holder: Holder,
    /// Whose messages they are, once that is known.
    pub(super) process: Option<ProcessNumber>,
    pub(super) commands: Vec<Command>,
    /// Events that no command has yet.
    pub(super) events: Vec<Event>,
    /// How many answers the ledger thread is to send.
    pub(super) answers: u32,
    pub(super) notes: Vec<Note>,
    pub(super) handed: Vec<HandedSegment>,
    /// Reports of an old sender that were dropped.
    pub(super) dropped: u64,
    /// Bytes of whole states among the commands.
    pub(super) resync_bytes: u64,
    /// How far rings were received.
    pub(super) drained: Vec<RingPosition>,
}

impl Collected {
    /// Nothing yet, of a connection.
    pub(super) fn of(session: &Session) -> Self {
        Self {
            holder: session.holder,
            process: session.process,
            commands: Vec::new(),
            events: Vec::new(),
            answers: 0,
            notes: Vec::new(),
            handed: Vec::new(),
            dropped: 0,
            resync_bytes: 0,
            drained: Vec::new(),
        }
    }

    /// Adds a command after the events so far.
    pub(super) fn push(&mut self, command: Command) {
        self.flush_events();
        self.commands.push(command);
    }

    pub(super) fn push_for_process(&mut self, command: ProcessCommand) {
        if let Some(process) = self.process {
            self.push(Command::Process(process, command));
        }
    }

    /// Adds a whole state, with what it takes in memory.
    pub(super) fn complete_resync(&mut self, (resync, bytes): (Resync, u64)) {
        let holder = self.holder;
        let memory = ResyncMemory { holder, bytes };
        if self.process.is_some() {
            self.resync_bytes += bytes;
        }
        let resync = Arc::new(resync);
        self.push_for_process(ProcessCommand::Resync(resync, memory));
    }

    /// Counts a report that is refused.
    pub(super) fn refuse(&mut self, anomaly: Anomaly) {
        if let Some(process) = self.process {
            let refuse = ProcessCommand::refuse(anomaly, 1);
            self.commands.push(Command::Process(process, refuse));
        }
    }

    pub(super) fn flush_events(&mut self) {
        if let (Some(process), 1..) = (self.process, self.dropped) {
            let count = std::mem::take(&mut self.dropped);
            let dropped = ProcessCommand::incomplete(IncompleteReason::MessagesDropped, count);
            self.commands.push(Command::Process(process, dropped));
        }
        if let (Some(process), false) = (self.process, self.events.is_empty()) {
            let events = ProcessCommand::Events(std::mem::take(&mut self.events).into());
            self.commands.push(Command::Process(process, events));
        }
    }
}
