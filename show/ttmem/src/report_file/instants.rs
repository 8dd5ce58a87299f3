//! At which instants a report has documents: the end, failures, peaks, marks, and then ever finer steps.

use std::collections::{HashSet, VecDeque};
use ttmem_report::{MemoryClass, PeakOf, Recording, Timestamp};

/// Failures and marks that have an instant of their own, each; of more the first and the last.
const MOST_OF_A_KIND: usize = 64;

/// Steps of equal width at most.
const MOST_STEPS: u64 = 512;

/// Instants, those that matter most first, none twice.
#[derive(Debug)]
pub(super) struct Instants {
    from: u64,
    to: u64,
    named: VecDeque<u64>,
    /// The steps that come next: their number, and how many of them were given.
    steps: u64,
    step: u64,
    given: HashSet<u64>,
}

impl Instants {
    pub(super) fn of(about: &Recording) -> Self {
        let [from, to] = [about.from, about.to].map(Timestamp::unix_nanos);
        let nanos = |time: &Timestamp| time.unix_nanos();
        let failures: Vec<u64> = about.failures.iter().map(|it| nanos(&it.time)).collect();
        // What was there is what failed beside: the instant before it is of interest, too.
        let around = bounded(failures)
            .into_iter()
            .flat_map(|time| [time, time.saturating_sub(1)]);
        let of_memory = |of: PeakOf| is_memory(of);
        let peaks = about.peaks.iter().filter(|peak| of_memory(peak.of));
        let marks: Vec<u64> = about.marks.iter().map(|it| nanos(&it.time)).collect();
        let mut named = VecDeque::from([to, from]);
        named.extend(around);
        named.extend(peaks.map(|peak| nanos(&peak.time)));
        named.extend(bounded(marks));
        Self {
            from,
            to,
            named,
            steps: 2,
            step: 0,
            given: HashSet::new(),
        }
    }

    /// The next step: halves, then quarters, and so on.
    fn next_step(&mut self) -> Option<u64> {
        self.step += 1;
        if self.step >= self.steps {
            self.steps *= 2;
            self.step = 1;
        }
        if self.steps > MOST_STEPS {
            return None;
        }
        let span = u128::from(self.to.saturating_sub(self.from));
        let offset = span * u128::from(self.step) / u128::from(self.steps);
        Some(self.from + u64::try_from(offset).ok()?)
    }
}

impl Iterator for Instants {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        loop {
            let time = match self.named.pop_front() {
                Some(time) => time,
                None => self.next_step()?,
            };
            if (self.from..=self.to).contains(&time) && self.given.insert(time) {
                return Some(Timestamp::from_unix_nanos(time));
            }
        }
    }
}

fn bounded(mut times: Vec<u64>) -> Vec<u64> {
    if times.len() > MOST_OF_A_KIND {
        let last = times.split_off(times.len() - MOST_OF_A_KIND / 2);
        times.truncate(MOST_OF_A_KIND / 2);
        times.extend(last);
    }
    times
}

/// Whether a peak is one of an allocator's memory.
fn is_memory(of: PeakOf) -> bool {
    let classes = [
        MemoryClass::Dram,
        MemoryClass::L1,
        MemoryClass::L1Small,
        MemoryClass::Trace,
    ];
    classes.iter().any(|class| class.as_str() == of.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_report::{RecordedFailure, RecordedFailureKind, RecordingSource, SCHEMA};

    fn about(from: u64, to: u64, failures: &[u64]) -> Recording {
        let failure = |time: &u64| RecordedFailure {
            time: Timestamp::from_unix_nanos(*time),
            kind: RecordedFailureKind::Refused,
            pid: None,
            device_ids: Vec::new(),
        };
        Recording {
            schema: SCHEMA,
            source: RecordingSource::File,
            from: Timestamp::from_unix_nanos(from),
            to: Timestamp::from_unix_nanos(to),
            events: 0,
            missing_events: 0,
            damage: None,
            redacted: false,
            marks: Vec::new(),
            failures: failures.iter().map(failure).collect(),
            peaks: Vec::new(),
            left_out: 0,
        }
    }

    #[test]
    fn ends_and_failures_come_before_steps_and_nothing_comes_twice() {
        let instants = Instants::of(&about(100, 200, &[150]));
        let times: Vec<u64> = instants.map(Timestamp::unix_nanos).collect();
        assert_eq!(times[..6], [200, 100, 150, 149, 125, 175]);
        let all: HashSet<u64> = times.iter().copied().collect();
        assert_eq!(all.len(), times.len());
        assert!(times.iter().all(|time| (100..=200).contains(time)));
    }

    #[test]
    fn a_recording_of_one_instant_has_that_one() {
        assert_eq!(Instants::of(&about(7, 7, &[])).count(), 1);
    }

    #[test]
    fn of_many_failures_the_first_and_the_last_are_kept() {
        let failures: Vec<u64> = (0..10_000).map(|each| 1_000 + each * 10).collect();
        let instants = Instants::of(&about(0, 200_000, &failures));
        let times: Vec<u64> = instants.map(Timestamp::unix_nanos).collect();
        assert!(times.contains(&1_000) && times.contains(&100_990));
        assert!(times.len() < 1_000);
    }
}
