//! What the messages of a connection lead to, gathered before it is sent on.

use super::recovery::HandedSegment;
use crate::ledger_thread::{Command, ProcessCommand, ProcessNumber};
use crate::log::Note;
use ttmem_event::Event;
use ttmem_event::wire::RingPosition;
use ttmem_ledger::Anomaly;

#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Whose messages they are, once that is known.
    pub(super) process: Option<ProcessNumber>,
    pub(super) commands: Vec<Command>,
    /// Events that no command has yet.
    pub(super) events: Vec<Event>,
    /// How many answers the ledger thread is to send.
    pub(super) answers: u32,
    pub(super) notes: Vec<Note>,
    pub(super) handed: Vec<HandedSegment>,
    /// How far rings were received.
    pub(super) drained: Vec<RingPosition>,
}

impl Collected {
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

    /// Counts a report that is refused.
    pub(super) fn refuse(&mut self, anomaly: Anomaly) {
        if let Some(process) = self.process {
            let refuse = ProcessCommand::Refuse(anomaly, 1);
            self.commands.push(Command::Process(process, refuse));
        }
    }

    pub(super) fn flush_events(&mut self) {
        if let (Some(process), false) = (self.process, self.events.is_empty()) {
            let events = ProcessCommand::Events(std::mem::take(&mut self.events).into());
            self.commands.push(Command::Process(process, events));
        }
    }
}
