//! A process's whole state, sent anew: built aside a part at a time, then put in the place of what
//! was known.
//!
//! Until then the ledger has what was known before, and others go on. What is aside
//! uses devices, but books nothing on them.

use crate::counts::{DeviceCounts, ring_stalls};
use crate::follower::Follower;
use crate::incomplete::IncompleteReason;
use crate::ledger::{Leaving, Ledger};
use crate::process::{Process, ProcessIdentity};
use std::sync::Arc;
use ttmem_account::state::Loading;
use ttmem_account::{Account, Anomaly, GaugeKind};
use ttmem_event::Definition;
use ttmem_event::wire::Clock;

/// The whole state of a process, as it sent it.
#[derive(Clone, Debug)]
pub struct Resync {
    /// What its state and its events refer to.
    pub definitions: Vec<Definition>,
    /// The bytes of its account.
    pub state: Vec<u8>,
    /// How to read the times in there.
    pub clock: Clock,
    pub lost_events: u64,
    /// Events it elided so far.
    pub elided_events: u64,
}

/// A state on its way into the ledger.
#[derive(Debug)]
pub(crate) struct Resyncing {
    resync: Arc<Resync>,
    /// The process as it will be, without its account: that is in its stage.
    fresh: Process,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// So many definitions are known.
    Defining(Box<Account>, usize),
    Loading(Box<Loading>),
    /// It is loaded, and what was known before is on its way out.
    Leaving(u64, Box<Leaving>),
    Done,
}

impl Resyncing {
    fn new(identity: &ProcessIdentity, resync: &Arc<Resync>) -> Self {
        let mut fresh = Process::new(identity.clone());
        let account = Box::new(std::mem::take(&mut fresh.account));
        Self {
            resync: Arc::clone(resync),
            fresh,
            stage: Stage::Defining(account, 0),
        }
    }
}

/// What a definition costs at least, in work units.
const DEFINITION_WORK: u64 = 4;

impl Ledger {
    /// Replaces the known state of a process by the one that it sent, within a limit on the work;
    /// false if it is to be called again, for the rest of it.
    pub(crate) fn resync(&mut self, index: u32, resync: &Arc<Resync>, work: u64) -> bool {
        let known = self.processes.get_mut(index as usize);
        let Some(known) = known.and_then(Option::as_mut) else {
            return true;
        };
        let identity = &known.facts.identity;
        let begun = known.resyncing.take();
        let (mut going, outdated) = match begun {
            Some(begun) if Arc::ptr_eq(&begun.resync, resync) => (begun, None),
            outdated => (Box::new(Resyncing::new(identity, resync)), outdated),
        };
        if let Some(outdated) = outdated {
            self.abandon_resync(index, &outdated);
        }
        let is_done = self.go_on_with_resync(index, resync, &mut going, work);
        if !is_done && let Some(process) = self.processes[index as usize].as_mut() {
            process.resyncing = Some(going);
        }
        is_done
    }

    /// Continues up to this many work units; true when the new state is in place.
    fn go_on_with_resync(
        &mut self,
        index: u32,
        resync: &Resync,
        going: &mut Resyncing,
        work: u64,
    ) -> bool {
        let until = self.work.saturating_add(work);
        loop {
            if self.work >= until && !matches!(going.stage, Stage::Done) {
                return false;
            }
            going.stage = match std::mem::replace(&mut going.stage, Stage::Done) {
                Stage::Defining(account, known) => {
                    self.define_aside(index, resync, &mut going.fresh, account, known, until)
                }
                Stage::Loading(mut loading) => {
                    if !self.load_aside(index, resync, &mut going.fresh, &mut loading, until) {
                        going.stage = Stage::Loading(loading);
                        return false;
                    }
                    let (account, latest) = loading.finish();
                    going.fresh.account = account;
                    match self.begin_leaving(index) {
                        Some(leaving) => Stage::Leaving(latest, Box::new(leaving)),
                        None => {
                            self.leave_devices(index, &going.fresh);
                            Stage::Done
                        }
                    }
                }
                Stage::Leaving(latest, mut leaving) => {
                    if !self.go_on_leaving(index, &mut leaving, until - self.work) {
                        going.stage = Stage::Leaving(latest, leaving);
                        return false;
                    }
                    self.put_in_place(index, resync, &mut going.fresh, *leaving, latest);
                    Stage::Done
                }
                Stage::Done => return true,
            };
        }
    }

    fn define_aside(
        &mut self,
        index: u32,
        resync: &Resync,
        fresh: &mut Process,
        mut account: Box<Account>,
        mut known: usize,
        until: u64,
    ) -> Stage {
        while let Some(definition) = resync.definitions.get(known) {
            if self.work >= until {
                return Stage::Defining(account, known);
            }
            let before = account.work();
            self.aside(index, fresh, |limits, follower| {
                // A refusal is counted where it happens.
                let _refused = account.define(definition, limits, follower);
            });
            self.work += DEFINITION_WORK + (account.work() - before);
            known += 1;
        }
        Stage::Loading(Box::new(Loading::new(*account)))
    }

    fn load_aside(
        &mut self,
        index: u32,
        resync: &Resync,
        fresh: &mut Process,
        loading: &mut Loading,
        until: u64,
    ) -> bool {
        let (before, work) = (loading.account().work(), until - self.work);
        let clock = |ticks| resync.clock.unix_nanos_at(ticks);
        let is_done = self.aside(index, fresh, |limits, follower| {
            loading.go_on(&resync.state, &clock, limits, follower, work)
        });
        self.work += loading.account().work() - before;
        is_done
    }

    /// Lets an account work that is no part of the ledger yet: it uses devices, but books nothing.
    fn aside<T>(
        &mut self,
        index: u32,
        fresh: &mut Process,
        work: impl FnOnce(&ttmem_account::Limits, &mut Follower<'_>) -> T,
    ) -> T {
        let mut follower = Follower {
            process: index,
            source: fresh.facts.identity.source,
            visible: &fresh.facts.identity.visible_devices,
            slots: &mut fresh.devices,
            table: &mut self.table,
            anomalies: &mut self.anomalies,
            effects: None,
            omitted_effects: &mut self.omitted_effects,
            exceptions: &mut self.exceptions,
            uid: fresh.facts.identity.uid,
            order: self.events,
            aside: true,
            left_at_close: &mut fresh.left_at_close,
            series: [
                &fresh.facts.series,
                self.series.of(fresh.facts.identity.uid),
            ],
        };
        work(&self.limits.account, &mut follower)
    }

    /// Puts what was built aside in the place of what was known.
    fn put_in_place(
        &mut self,
        index: u32,
        resync: &Resync,
        fresh: &mut Process,
        leaving: Leaving,
        latest: u64,
    ) {
        let identity = fresh.facts.identity.clone();
        let mut fresh = std::mem::replace(fresh, Process::new(identity));
        let slot = self.processes.get_mut(index as usize);
        let Some(old) = slot.and_then(Option::take) else {
            return self.leave_devices(index, &fresh);
        };
        let mut undescribed = self.release_holdings(index, &old, leaving);
        fresh.facts.claimed_pid = old.facts.claimed_pid;
        fresh.facts.labels = old.facts.labels.clone();
        fresh.facts.connections = old.facts.connections;
        fresh.facts.series = Arc::clone(&old.facts.series);
        fresh.left_at_close = Arc::clone(&old.left_at_close);
        let peaks_before: Vec<_> = self.table.devices.iter().map(|each| each.peaks).collect();
        self.book_all(&mut fresh, latest);
        let account = &mut fresh.account;
        let refused_devices = account.facts().anomalies.of(Anomaly::NoRoom);
        account.take_over(&old.account, resync.lost_events, resync.elided_events);
        let known = old.account.facts();
        self.counts.add(
            resync.lost_events.saturating_sub(known.lost_events),
            resync.elided_events.saturating_sub(known.elided_events),
        );
        for (anomaly, count) in account.facts().anomalies.iter() {
            let known = old.account.facts().anomalies.of(anomaly);
            self.anomalies.add(anomaly, count.saturating_sub(known));
        }
        self.restore_marks(&mut fresh, &old);
        self.restore_devices(index, &mut fresh, &old, &peaks_before);
        self.count_stalls_beyond(&fresh, &old);
        let holder = fresh.holder(index);
        for device in &fresh.devices {
            if undescribed.remove(device) {
                self.table.change(*device).described_by = Some(holder);
            }
        }
        self.processes[index as usize] = Some(fresh);
        self.describe_devices(undescribed);
        self.mark_incomplete(index, IncompleteReason::DevicesRefused, refused_devices);
    }

    /// Counts the stalls that a process has counted beyond those that are known of it.
    fn count_stalls_beyond(&mut self, fresh: &Process, old: &Process) {
        let known = ring_stalls(old);
        for (number, stalls) in ring_stalls(fresh) {
            let known = known.get(&number).copied().unwrap_or(0);
            let more = DeviceCounts::of_stalls(stalls.saturating_sub(known));
            self.table.change(number).counts.add(&more);
        }
    }

    /// Adds a process's holdings to the devices.
    pub(crate) fn book_all(&mut self, fresh: &mut Process, latest: u64) {
        let (order, events) = (fresh.account.order(), self.events);
        let mut moments = Vec::new();
        let held = fresh.account.facts().devices.iter();
        for ((slot, number), held) in (0..).zip(&fresh.devices).zip(held) {
            let device = self.table.change(*number);
            let raised = device.totals.add(held.totals, latest, events);
            for gauge in GaugeKind::all() {
                let raised = raised[gauge.index()];
                let peaks = &mut device.peaks[gauge.index()];
                *peaks += u64::from(raised);
                // A device's peak that came with this state has all that lives in it, an
                // earlier one has none of it.
                moments.push((slot, gauge, *peaks, if raised { order } else { 0 }));
            }
        }
        for (slot, gauge, number, order) in moments {
            fresh.account.set_moment(slot, gauge, number, order);
        }
    }

    /// What was aside uses no device any more.
    pub(crate) fn abandon_resync(&mut self, index: u32, going: &Resyncing) {
        self.leave_devices(index, &going.fresh);
    }

    fn leave_devices(&mut self, index: u32, fresh: &Process) {
        let holder = fresh.holder(index);
        for device in &fresh.devices {
            // What is left in the ledger of this process is charged as before.
            let _still_charged = self.table.release(*device, holder);
        }
    }
}
