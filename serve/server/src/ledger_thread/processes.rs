//! What commands do to a process: as much of each as its turn allows.

use super::{
    Answer, COMMAND_UNITS, DEFINITION_UNITS, ForgetError, LOG_BATCH, LedgerThread, MAX_RECOVERING,
    ProcessCommand, ProcessNumber, Reports, ResyncMemory,
};
use crate::ingest::Recovery;
use crate::journal::{Batch, NamedBatch, Names};
use crate::log::{FailedNote, LogEntry, LogFormat, LogOptions, Note};
use std::sync::Arc;
use ttmem_event::{Event, EventKind};
use ttmem_ledger::{
    ApplyLimits, Change, Departure, EVENT_WORK, Effect, EffectKind, ProcessState, Released, Resync,
    is_same_user,
};

impl LedgerThread {
    /// Changes what is known of a process; what that cost, and what is left to do.
    pub(super) fn update_process(
        &mut self,
        slot: u32,
        command: ProcessCommand,
        budget: u64,
    ) -> (u64, Option<ProcessCommand>) {
        let mut units = COMMAND_UNITS;
        match command {
            ProcessCommand::Change(change) => {
                if let Change::Define { definitions, .. } = &change {
                    units += DEFINITION_UNITS * definitions.len() as u64;
                }
                self.change_process(slot, change.moved_to(slot));
            }
            ProcessCommand::Events(reports) => {
                let (units, rest) = self.apply_and_record(slot, reports, budget);
                return (units, rest.map(ProcessCommand::Events));
            }
            ProcessCommand::Recover(recovery) => return self.recover(slot, recovery, budget),
            ProcessCommand::Lost {
                gone_events,
                lost_events,
                time,
            } => {
                let process = self.ledger.process(slot);
                let reported = process.map_or(0, |process| process.account.lost_events);
                let unreported = lost_events.saturating_sub(reported);
                let count = unreported.saturating_add(gone_events);
                if count > 0 {
                    let kind = EventKind::EventsLost { count };
                    let reports = Reports::recovered(vec![Event { time, kind }]);
                    self.apply_and_record(slot, reports, u64::MAX);
                }
            }
            ProcessCommand::Resync(resync, memory) => {
                return (units, self.resync(slot, resync, memory, budget));
            }
        }
        (units, None)
    }

    /// Makes a change of a process, all of it; its departure takes turns: see `execute`.
    fn change_process(&mut self, slot: u32, change: Change) {
        let state = match &change {
            Change::SetState { state, .. } => Some(*state),
            _other => None,
        };
        // What is refused is counted where it happens.
        let outcome = self.make(change);
        let pid = self.pid(slot);
        match (outcome.state_before, state) {
            (Some(ProcessState::Detached), Some(ProcessState::Live)) => {
                self.note(Note::ProcessReturned { pid });
            }
            (_, Some(ProcessState::Detached)) => self.note(Note::ProcessDetached { pid }),
            _unchanged => {}
        }
    }

    /// Builds a process's new state as far as the budget goes; what is left.
    fn resync(
        &mut self,
        slot: u32,
        resync: Arc<Resync>,
        memory: ResyncMemory,
        budget: u64,
    ) -> Option<ProcessCommand> {
        let change = Change::Resync {
            process: slot,
            resync: Arc::clone(&resync),
        };
        let outcome = self.ledger.apply(&change, within(budget), None);
        if outcome.rest.is_some() {
            return Some(ProcessCommand::Resync(resync, memory));
        }
        self.record(|| change);
        self.answer(Answer::Resynced(memory));
        None
    }

    /// Reads and applies what a dead process left, as far as the budget goes.
    fn recover(
        &mut self,
        slot: u32,
        mut recovery: Box<Recovery>,
        budget: u64,
    ) -> (u64, Option<ProcessCommand>) {
        if !recovery.has_begun() {
            if self.recovering >= MAX_RECOVERING {
                // Others are in the middle of it, and come first.
                return (budget, Some(ProcessCommand::Recover(recovery)));
            }
            self.recovering += 1;
        }
        let (mut units, work) = (0, self.ledger.work());
        loop {
            let spent = units + (self.ledger.work() - work);
            if spent >= budget {
                return (units, Some(ProcessCommand::Recover(recovery)));
            }
            let Some((next, read)) = recovery.next() else {
                self.abandon(ProcessCommand::Recover(recovery));
                return (units + COMMAND_UNITS, None);
            };
            let (own, rest) = self.update_process(slot, next, budget - spent);
            recovery.put_back(rest);
            units += read + own;
        }
    }

    /// A command comes to nothing more, or its process is unknown.
    pub(super) fn abandon(&mut self, command: ProcessCommand) {
        match command {
            ProcessCommand::Recover(recovery) => {
                self.recovering -= usize::from(recovery.has_begun());
                let count = recovery.segments();
                self.queue.close_segments(recovery.holder, count);
                self.answered = true;
            }
            ProcessCommand::Resync(_resync, memory) => self.answer(Answer::Resynced(memory)),
            _no_part => {}
        }
    }

    pub(super) fn pid(&self, slot: u32) -> Option<u32> {
        self.ledger.identity(slot)?.pid
    }

    /// Applies events as far as the budget goes; all that were applied are kept for the log, for
    /// streams and for questions about the past. What that cost, and what is left.
    fn apply_and_record(
        &mut self,
        slot: u32,
        mut reports: Reports,
        budget: u64,
    ) -> (u64, Option<Reports>) {
        let units = self.apply(slot, &mut reports, budget);
        if reports.applied < reports.events.len() {
            return (units, Some(reports));
        }
        let batch = self.config.journal.push(Batch {
            first_id: 0,
            slot,
            pid: self.pid(slot),
            applied: crate::clock::unix_nanos(),
            recovered: reports.recovered,
            events: reports.events,
            anomalies: reports.anomalies,
        });
        if let Some(batch) = batch {
            self.log_batch(batch);
        }
        (units, None)
    }

    /// Whether the log has the effects of events, and not the events themselves.
    fn logs_effects(&self) -> bool {
        let options = self.config.log.options;
        options.format == LogFormat::Plain && !options.quiet
    }

    /// Logs what the effects of its events do not.
    fn log_batch(&mut self, batch: Arc<Batch>) {
        let LogOptions { format, quiet, .. } = self.config.log.options;
        // `--quiet` hides events, but not what is wrong with them.
        if quiet && batch.anomalies.is_empty() {
            return;
        }
        match format {
            LogFormat::Plain if quiet => {
                for (index, anomaly) in &batch.anomalies {
                    let Event { time, kind: event } = batch.events[*index];
                    let anomaly = *anomaly;
                    let effect = Effect {
                        time,
                        process: batch.slot,
                        device: None,
                        kind: EffectKind::Contradicted { anomaly, event },
                    };
                    self.entries.push(LogEntry {
                        effect,
                        pid: batch.pid,
                        device: None,
                    });
                }
            }
            LogFormat::Plain => {}
            LogFormat::Json => {
                // With their names: the process may be gone when they are written.
                if let Some(process) = self.ledger.process(batch.slot) {
                    let logical_id = |device| self.ledger.logical_id(device);
                    let names = Names::of(process, logical_id, batch.events.iter());
                    self.batched_events += batch.events.len();
                    self.batches.push(NamedBatch { batch, names });
                }
            }
        }
    }

    /// Applies events until the budget is used; returns what they cost besides what they touched.
    fn apply(&mut self, slot: u32, reports: &mut Reports, budget: u64) -> u64 {
        let logs_effects = self.logs_effects();
        let (first, work) = (reports.applied, self.ledger.work());
        let mut units = 0;
        let mut unfinished = None;
        let mut rest = Some(Change::Apply(ttmem_ledger::Batch {
            process: slot,
            recovered: reports.recovered,
            events: Arc::clone(&reports.events),
            range: first..reports.events.len(),
        }));
        while let Some(change) = rest {
            let spent = units + (self.ledger.work() - work);
            if spent >= budget || unfinished.is_some() {
                break;
            }
            let limits = ApplyLimits {
                work: budget - spent,
                effects: LOG_BATCH,
                stops_at_failures: true,
            };
            let effects = logs_effects.then_some(&mut self.effects);
            let outcome = self.ledger.apply(&change, limits, effects);
            units += EVENT_WORK * outcome.applied as u64;
            reports.applied += outcome.applied;
            reports.anomalies.extend(outcome.anomalies);
            if outcome.is_failure {
                self.note_failure(slot);
            }
            if self.effects.len() >= LOG_BATCH {
                // One event of a large mesh has many effects, and a batch has many events.
                self.collect_entries(slot);
                self.flush();
            }
            (unfinished, rest) = (outcome.unfinished, outcome.rest);
        }
        self.collect_entries(slot);
        if reports.applied > first {
            self.record(|| {
                Change::Apply(ttmem_ledger::Batch {
                    process: slot,
                    recovered: reports.recovered,
                    events: Arc::clone(&reports.events),
                    range: first..reports.applied,
                })
            });
        }
        if let Some((event, work)) = unfinished {
            self.record(|| Change::ApplyEvent {
                process: slot,
                event,
                work,
            });
        }
        units
    }

    /// Logs the failure that was just applied; of one that repeats, only ever tenfold as many.
    fn note_failure(&mut self, slot: u32) {
        let Some(moment) = self.ledger.failures().newest().map(Arc::clone) else {
            return;
        };
        if !is_power_of_ten(moment.times) {
            return;
        }
        let devices = moment.devices.iter();
        let device_ids = devices.filter_map(|device| self.ledger.logical_id(*device));
        let mut device_ids: Vec<u32> = device_ids.collect();
        device_ids.sort_unstable();
        self.collect_entries(slot);
        self.note(Note::Failed(FailedNote { moment, device_ids }));
    }

    /// Turns the effects so far into log entries.
    fn collect_entries(&mut self, slot: u32) {
        let omitted = self.ledger.take_omitted_effects();
        if omitted > 0 {
            self.config.log.count_lost(omitted);
        }
        if self.effects.is_empty() {
            return;
        }
        let pid = self.pid(slot);
        let ledger = &self.ledger;
        self.entries
            .extend(self.effects.drain(..).map(|effect| LogEntry {
                effect,
                pid,
                device: effect.device.and_then(|index| ledger.logical_id(index)),
            }));
        // A mesh that closed with a million buffers must not cost their room for good.
        self.effects.shrink_to(2 * LOG_BATCH);
    }

    /// Lets a process go as far as the budget allows, but keeps its last events; it keeps its slot until that
    /// is done.
    pub(super) fn let_go(
        &mut self,
        process: ProcessNumber,
        departure: Departure,
        time: u64,
        budget: u64,
    ) -> Option<Released> {
        let slot = *self.slots.get(&process)?;
        let change = Change::Depart {
            process: slot,
            departure,
            time,
        };
        let outcome = self.ledger.apply(&change, within(budget), None);
        if outcome.rest.is_some() {
            return None;
        }
        self.slots.remove(&process);
        let departed = outcome.departed?;
        let (known, exit) = (departed.process(), departed.exit);
        let pid = known.facts.identity.pid;
        let logical_ids = departed.logical_ids();
        let logical_id = |device| logical_ids.get(&device).copied();
        self.config.journal.depart(slot, known, logical_id);
        self.record(|| change);
        // Without room there it is dropped here.
        let _full = self.dropper.try_send(departed.into_account());
        self.note(Note::ProcessDeparted { pid, exit });
        Some(exit.released)
    }

    pub(super) fn forget(
        &mut self,
        pid: u32,
        uid: u32,
        time: u64,
    ) -> Result<Vec<Released>, ForgetError> {
        let processes = self.slots.iter().filter_map(|(number, slot)| {
            let identity = self.ledger.identity(*slot)?;
            (identity.pid == Some(pid)).then_some((*number, identity.uid))
        });
        let found: Vec<(ProcessNumber, u32)> = processes.collect();
        if found.is_empty() {
            return Err(ForgetError::Unknown(pid));
        }
        let may = |owner: u32| uid == 0 || uid == self.config.uid || is_same_user(uid, owner);
        if !found.iter().all(|(_number, owner)| may(*owner)) {
            return Err(ForgetError::NotAllowed(pid));
        }
        let mut released = Vec::new();
        for (process, _owner) in found {
            // Somebody waits for the answer.
            released.extend(self.let_go(process, Departure::Forgotten, time, u64::MAX));
            self.answer(Answer::Forgotten(process));
        }
        Ok(released)
    }
}

/// All of a change within a budget.
fn within(budget: u64) -> ApplyLimits {
    ApplyLimits {
        work: budget,
        ..ApplyLimits::NONE
    }
}

const fn is_power_of_ten(mut number: u64) -> bool {
    while number > 1 && number.is_multiple_of(10) {
        number /= 10;
    }
    number == 1
}
