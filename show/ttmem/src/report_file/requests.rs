//! What the page asks for, as `show/web/src/views/` does: the requests whose answers a report has.

use ttmem_report::routes::{
    ALLOCATIONS, BLOCKS, BUFFER_GROUPS, BUFFERS, FAILURES, HISTORY, L1_MAP, LAST, LEAKS, PEAK,
    PROBLEMS, PROGRAMS, RECORDING, SNAPSHOT, TIMELINE,
};
use ttmem_report::{Device, MemoryClass, PeakOf, Recording, Snapshot, Timestamp};

/// Classes that a device has.
const CLASSES: [(MemoryClass, PeakOf); 4] = [
    (MemoryClass::Dram, PeakOf::Dram),
    (MemoryClass::L1, PeakOf::L1),
    (MemoryClass::L1Small, PeakOf::L1Small),
    (MemoryClass::Trace, PeakOf::Trace),
];

/// What layers of a timeline have in common.
const LAYERS: [&str; 3] = ["line", "operation", "process"];

/// What groups of buffers have in common.
const GROUPS: [&str; 5] = ["line", "operation", "process", "layout", "stack"];

/// The same of those that were allocated since a mark.
const SINCE_A_MARK: [&str; 2] = ["line", "operation"];

/// Steps of a timeline: what a wide screen can show.
const POINTS: u32 = 1_000;

/// Steps of totals over time, of which a report has every device.
const HISTORY_POINTS: u32 = 300;

/// The largest buffers of an instant; how many there are is known all the same.
const ROWS: u32 = 1_000;

/// As far as totals over time can be asked for.
const MOST_SECONDS: u64 = 86_400;

/// A request, and under what the page finds its answer: without what it may ask for in another way.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) key: String,
    pub(super) target: String,
}

impl Request {
    /// A request with the parameters that the page looks for and others; in alphabetical order.
    fn new(path: &str, looked_for: &str, others: &str) -> Self {
        let with = |query: &str| match query {
            "" => path.to_owned(),
            query => format!("{path}?{query}"),
        };
        let separator = if looked_for.is_empty() || others.is_empty() {
            ""
        } else {
            "&"
        };
        Self {
            key: with(looked_for),
            target: with(&format!("{looked_for}{separator}{others}")),
        }
    }
}

/// Requests for what is drawn over the whole time.
pub(super) fn over_time(about: &Recording, end: &Snapshot) -> Vec<Request> {
    let [from, to] = [about.from, about.to].map(Timestamp::unix_nanos);
    let seconds = (to.saturating_sub(from) / 1_000_000_000 + 1).clamp(1, MOST_SECONDS);
    let mut requests = vec![
        Request::new(RECORDING, "", ""),
        Request::new(
            HISTORY,
            "",
            &format!("points={HISTORY_POINTS}&seconds={seconds}"),
        ),
    ];
    for device in &end.devices {
        let path = device.key().path();
        let peaks = about.peaks.iter();
        let peaks =
            peaks.filter(|peak| (peak.device, peak.unique_id) == (device.id, device.unique_id));
        let held: Vec<PeakOf> = peaks.map(|peak| peak.of).collect();
        for (class, of) in CLASSES {
            if !held.contains(&of) {
                continue;
            }
            for by in LAYERS {
                let (path, others) = (format!("{TIMELINE}/{path}"), format!("points={POINTS}"));
                requests.push(Request::new(
                    &path,
                    &format!("by={by}&class={class}"),
                    &others,
                ));
            }
            let path = format!("{ALLOCATIONS}/{path}");
            requests.push(Request::new(&path, &format!("class={class}"), ""));
        }
    }
    requests
}

/// Requests for what is shown of an instant, which had these totals.
pub(super) fn of_instant(snapshot: &Snapshot) -> Vec<Request> {
    let rows = format!("descending=true&limit={ROWS}&sort=size");
    let mut requests = vec![
        Request::new(SNAPSHOT, "", ""),
        Request::new(FAILURES, "", "count=64"),
        Request::new(LEAKS, "", ""),
        Request::new(PROBLEMS, "", ""),
        Request::new(LAST, "", "count=100"),
        Request::new(PROGRAMS, "", &format!("limit={ROWS}")),
        Request::new(BUFFERS, "", &rows),
    ];
    for by in GROUPS {
        requests.push(Request::new(BUFFER_GROUPS, &format!("by={by}"), ""));
        for (class, _of) in CLASSES {
            if snapshot.devices.iter().any(|device| is_used(device, class)) {
                let looked_for = format!("by={by}&class={class}");
                requests.push(Request::new(BUFFER_GROUPS, &looked_for, ""));
            }
        }
    }
    if let Some(mark) = snapshot.marks.last() {
        let since = mark.time.to_string().replace(':', "%3A");
        for by in SINCE_A_MARK {
            let looked_for = format!("by={by}&since={since}");
            requests.push(Request::new(BUFFER_GROUPS, &looked_for, ""));
        }
    }
    for device in &snapshot.devices {
        let path = device.key().path();
        // One core by address: mostly all are alike.
        requests.push(Request::new(&format!("{L1_MAP}/{path}"), "", "x=0&y=0"));
        for (class, of) in CLASSES {
            if !is_used(device, class) {
                continue;
            }
            let (blocks, peak) = (format!("{BLOCKS}/{path}"), format!("{PEAK}/{path}"));
            requests.push(Request::new(
                &blocks,
                &format!("class={class}"),
                "cells=1024",
            ));
            requests.push(Request::new(&peak, &format!("of={of}"), ""));
        }
    }
    requests
}

/// Whether a class of a device holds something, or did.
fn is_used(device: &Device, class: MemoryClass) -> bool {
    let usage = match class {
        MemoryClass::Dram => &device.dram,
        MemoryClass::L1 => &device.l1,
        MemoryClass::L1Small => &device.l1_small,
        _trace => &device.trace,
    };
    usage.charged_bytes > 0 || usage.peak_bytes > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_finds_an_answer_without_what_it_may_ask_for_in_another_way() {
        let request = Request::new("/p", "class=dram", "limit=5");
        assert_eq!(
            (request.key.as_str(), request.target.as_str()),
            ("/p?class=dram", "/p?class=dram&limit=5")
        );
        let request = Request::new("/p", "", "limit=5");
        assert_eq!(
            (request.key.as_str(), request.target.as_str()),
            ("/p", "/p?limit=5")
        );
        assert_eq!(Request::new("/p", "", "").target, "/p");
    }
}
