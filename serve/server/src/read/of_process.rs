//! Documents about one process: found by pid and instance, also when it is gone.

use super::failures::{self, Callers};
use super::vocabulary;
use std::collections::BTreeMap;
use ttmem_ledger::{DepartedView, GaugeKind, PeakComposition, ProcessIdentity, ProcessView, View};
use ttmem_report::{LeftBehind, LeftGroup, SCHEMA, Timestamp};

/// Which process is meant: of several with one pid the one that lives, else the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'q> {
    pub(super) pid: Option<u32>,
    pub(super) instance: Option<&'q str>,
}

impl Wanted<'_> {
    fn is(self, identity: &ProcessIdentity) -> bool {
        let instance = || identity.instance.map(vocabulary::instance);
        (self.pid.is_some() || self.instance.is_some())
            && self.pid.is_none_or(|pid| identity.pid == Some(pid))
            && self
                .instance
                .is_none_or(|wanted| instance().as_deref() == Some(wanted))
    }

    fn live(self, view: &View) -> impl Iterator<Item = &ProcessView> {
        let processes = view.processes.iter();
        processes.filter(move |process| self.is(&process.facts.identity))
    }

    fn departed(self, view: &View) -> impl Iterator<Item = &DepartedView> {
        let processes = view.departed.iter().rev();
        processes.filter(move |process| self.is(&process.identity))
    }
}

/// What a process held on a device at its own peak; none if it was never there.
pub(super) fn peak(
    view: &View,
    wanted: Wanted<'_>,
    device: usize,
    gauge: GaugeKind,
) -> Option<PeakComposition> {
    let mut live = wanted.live(view);
    live.find_map(|process| view.process_peak(process.index, device, gauge))
        .or_else(|| {
            let mut departed = wanted.departed(view);
            departed.find_map(|process| view.departed_peak(process, device, gauge))
        })
}

pub(super) fn left(view: &View, wanted: Wanted<'_>, time: Timestamp) -> Option<LeftBehind> {
    let document = |identity: &ProcessIdentity, at_close, at_exit| LeftBehind {
        schema: SCHEMA,
        time,
        pid: identity.pid,
        instance: identity.instance.map(vocabulary::instance),
        at_close,
        at_exit,
    };
    if let Some(process) = wanted.live(view).next() {
        let at_close = groups(&process.left_at_close().groups);
        return Some(document(&process.facts.identity, at_close, Vec::new()));
    }
    let process = wanted.departed(view).next()?;
    let (at_close, at_exit) = (&process.left_at_close, &process.left_at_exit);
    Some(document(
        &process.identity,
        groups(&at_close.groups),
        groups(&at_exit.groups),
    ))
}

/// By class, operation, line of Python and call stack, the most bytes first: calls that differ further
/// out are one group.
fn groups(groups: &[ttmem_ledger::LeftGroup]) -> Vec<LeftGroup> {
    let mut found: BTreeMap<_, (u64, u64, Callers<'_>)> = BTreeMap::new();
    for group in groups {
        let origin = failures::origin(group.operation.as_deref());
        let class = vocabulary::class(group.class);
        let key = (class, origin, &group.stack);
        let (buffers, bytes, callers) = found.entry(key).or_default();
        *buffers += group.births.sum.buffers;
        *bytes = bytes.saturating_add(group.bytes);
        callers.add(group.operation.as_deref(), group.bytes);
    }
    let found = found.into_iter();
    let groups = found.map(
        |((class, (operation, line), stack), (buffers, bytes, callers))| LeftGroup {
            class,
            operation,
            line,
            callers: callers.most(),
            stack: stack.as_deref().map(vocabulary::frames),
            buffers,
            bytes,
        },
    );
    let mut groups: Vec<LeftGroup> = groups.collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.bytes));
    groups
}
