//! What was live when a device, or a process on it, held most.

use super::failures::Callers;
use super::of_process::{self, Wanted};
use super::vocabulary;
use std::collections::HashMap;
use ttmem_event::Class;
use ttmem_ledger::{GaugeKind, View, name_and_stack};
use ttmem_report::{HexId, PeakContents, PeakGroup, PeakOf, SCHEMA, Timestamp};

/// The most groups that are listed; the smallest are put together.
const MAX_GROUPS: usize = 1000;

/// The gauge of a word; none of a word that is not known.
pub(super) fn gauge(of: PeakOf) -> Option<GaugeKind> {
    Some(match of {
        PeakOf::Dram => GaugeKind::Class(Class::Dram),
        PeakOf::L1 => GaugeKind::Class(Class::L1),
        PeakOf::L1Small => GaugeKind::Class(Class::L1Small),
        PeakOf::Trace => GaugeKind::Class(Class::Trace),
        PeakOf::System => GaugeKind::Class(Class::System),
        PeakOf::Cb => GaugeKind::Cb,
        PeakOf::Kernel => GaugeKind::Kernel,
        PeakOf::Other => return None,
    })
}

/// The word for a gauge.
pub(crate) fn of(gauge: GaugeKind) -> PeakOf {
    match gauge {
        GaugeKind::Class(Class::Dram) => PeakOf::Dram,
        GaugeKind::Class(Class::L1) => PeakOf::L1,
        GaugeKind::Class(Class::L1Small) => PeakOf::L1Small,
        GaugeKind::Class(Class::Trace) => PeakOf::Trace,
        GaugeKind::Class(Class::System) => PeakOf::System,
        GaugeKind::Cb => PeakOf::Cb,
        GaugeKind::Kernel => PeakOf::Kernel,
    }
}

/// Groups by operation and line of Python, the most bytes first: calls that differ further out are
/// one group.
fn by_line(groups: &[ttmem_ledger::PeakGroup]) -> Vec<PeakGroup> {
    let mut found: HashMap<_, (u64, u64, Callers<'_>)> = HashMap::new();
    for group in groups {
        let text = group.name.as_deref();
        let (name, stack) = name_and_stack(text.unwrap_or_default());
        let line = ttmem_report::user_frame(stack.lines());
        let key = (group.pid, group.departed, name, line);
        let (count, bytes, callers) = found.entry(key).or_default();
        *count += group.count;
        *bytes = bytes.saturating_add(group.bytes);
        callers.add(text, group.bytes);
    }
    let found = found.into_iter();
    let named = found.map(
        |((pid, departed, name, line), (count, bytes, callers))| PeakGroup {
            pid,
            departed,
            name: vocabulary::known_text(name),
            line: line.map(vocabulary::text),
            callers: callers.most(),
            count,
            bytes,
        },
    );
    let mut named: Vec<PeakGroup> = named.collect();
    named.sort_unstable_by(|one, other| {
        let names = |group: &PeakGroup| (group.name.clone(), group.line.clone(), group.pid);
        let bytes = other.bytes.cmp(&one.bytes);
        bytes.then_with(|| names(one).cmp(&names(other)))
    });
    named
}

/// A peak of a device, or of a process on it; none when the process has never been there.
pub(super) fn contents(
    view: &View,
    index: usize,
    (of, gauge): (PeakOf, GaugeKind),
    wanted: Option<Wanted<'_>>,
    time: Timestamp,
) -> Option<PeakContents> {
    let device = &view.devices[index];
    let composition = match wanted {
        None => view.device_peak(index, gauge)?,
        Some(wanted) => of_process::peak(view, wanted, index, gauge)?,
    };
    let mut groups = by_line(&composition.groups);
    if groups.len() > MAX_GROUPS {
        let rest: Vec<PeakGroup> = groups.drain(MAX_GROUPS - 1..).collect();
        groups.push(PeakGroup {
            pid: None,
            departed: false,
            name: None,
            line: None,
            callers: Vec::new(),
            count: rest.iter().map(|group| group.count).sum(),
            bytes: rest.iter().map(|group| group.bytes).sum(),
        });
    }
    let peak = composition.peak;
    Some(PeakContents {
        schema: SCHEMA,
        time,
        device: device.facts.logical_id,
        unique_id: device.facts.unique_id.map(HexId),
        pid: wanted.and_then(|wanted| wanted.pid),
        of,
        peak_bytes: peak.bytes,
        peak_time: (peak.bytes > 0).then(|| Timestamp::from_unix_nanos(peak.time)),
        groups,
    })
}
