//! A recording of a world: two hours before its moment, and five minutes after it.

use super::{NOW, World, ago};
use crate::data::Update;
use ttmem_report::{
    LastEvents, Mark, PeakOf, RecordedFailure, RecordedFailureKind, RecordedPeak, Recording,
    RecordingSource, SCHEMA, Timestamp,
};

/// So many seconds after the moment of every world.
pub(crate) const fn later(seconds: u64) -> Timestamp {
    Timestamp::from_unix_nanos(NOW.unix_nanos() + seconds * 1_000_000_000)
}

impl World {
    pub(crate) fn recording(self, source: RecordingSource) -> Recording {
        let failures = self.failures().failures;
        let mut failures: Vec<RecordedFailure> = failures
            .into_iter()
            .filter_map(|failure| {
                Some(RecordedFailure {
                    time: failure.time?,
                    kind: RecordedFailureKind::Refused,
                    pid: failure.pid,
                    device_ids: failure.device_ids.unwrap_or_default(),
                })
            })
            .collect();
        failures.sort_by_key(|failure| failure.time);
        let classes = [PeakOf::Dram, PeakOf::L1, PeakOf::Trace];
        let peaks = (0..self.devices).flat_map(|place| {
            let device = self.device(place);
            let bytes = [&device.dram, &device.l1, &device.trace].map(|class| class.charged_bytes);
            (0..)
                .zip(classes)
                .zip(bytes)
                .map(move |((number, of), bytes)| RecordedPeak {
                    time: ago(2700 - 300 * number - u64::from(place)),
                    device: device.id,
                    unique_id: device.unique_id,
                    of,
                    bytes,
                })
        });
        let marks = [
            (5400, "warm-up"),
            (3600, "step 1"),
            (1800, "step 2"),
            (60, "step 3"),
        ];
        let marks = marks.map(|(seconds, name)| Mark {
            name_hidden: false,
            number: 0,
            name: self.name(name, 0),
            time: ago(seconds),
        });
        Recording {
            schema: SCHEMA,
            source,
            from: ago(7200),
            to: later(300),
            events: 1_000_000,
            missing_events: 0,
            damage: None,
            redacted: false,
            marks: marks.to_vec(),
            failures,
            peaks: peaks.collect(),
            left_out: 0,
        }
    }

    /// All documents of its moment, as those of an instant of that recording.
    pub(crate) fn instant(self, at: Timestamp) -> Update {
        let updates = self
            .updates()
            .into_iter()
            .filter_map(|update| match update {
                Update::Link(_) => None,
                Update::Problems(_) => Some(Update::Problems(self.problems(at))),
                Update::Events(events) => Some(Update::LastEvents(LastEvents {
                    schema: SCHEMA,
                    events: events.into_iter().map(|event| event.event).collect(),
                })),
                update => Some(update),
            });
        Update::Instant(Some(at), updates.collect())
    }
}
