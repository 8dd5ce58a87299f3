//! What was live when a device, or a process on it, held most.

use super::vocabulary;
use ttmem_api::{HexId, PeakContents, PeakGroup, PeakOf, SCHEMA, Timestamp};
use ttmem_event::Class;
use ttmem_ledger::{GaugeKind, View};

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

/// A peak of a device, or of a process on it; none when the process has never been there.
pub(super) fn contents(
    view: &View,
    index: usize,
    (of, gauge): (PeakOf, GaugeKind),
    pid: Option<u32>,
    time: Timestamp,
) -> Option<PeakContents> {
    let device = &view.devices[index];
    let composition = match pid {
        None => view.device_peak(index, gauge)?,
        Some(pid) => {
            let mut processes = view.processes.iter();
            let process = processes.find(|process| process.facts.identity.pid == Some(pid))?;
            view.process_peak(process.index, index, gauge)?
        }
    };
    let mut groups: Vec<PeakGroup> = composition
        .groups
        .iter()
        .map(|group| PeakGroup {
            pid: group.pid,
            departed: group.departed,
            name: group.name.as_deref().and_then(vocabulary::known_text),
            count: group.count,
            bytes: group.bytes,
        })
        .collect();
    if groups.len() > MAX_GROUPS {
        let rest: Vec<PeakGroup> = groups.drain(MAX_GROUPS - 1..).collect();
        groups.push(PeakGroup {
            pid: None,
            departed: false,
            name: None,
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
        pid,
        of,
        peak_bytes: peak.bytes,
        peak_time: (peak.bytes > 0).then(|| Timestamp::from_unix_nanos(peak.time)),
        groups,
    })
}
