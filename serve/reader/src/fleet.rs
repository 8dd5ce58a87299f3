//! The fleet as a Prometheus reports it: queries in their order, and the document made of the answers.

mod queries;
#[cfg(test)]
mod tests;
mod values;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::prometheus::{Labels, Sample};
use crate::{Prometheus, PrometheusError};
use queries::{Figures, ROWS};
use ttmem_report::{
    Fleet, FleetDevice, FleetHost, FleetJob, FleetProblem, FleetProblemKind, WeekSource,
};
use ttmem_report::{MemoryClass, SCHEMA, Timestamp};
use values::{Asked, Values};

const NANOS_PER_SECOND: f64 = 1e9;

impl Prometheus {
    /// The fleet at one moment of the Prometheus' clock.
    pub fn fleet(&self) -> Result<Fleet, PrometheusError> {
        let prometheus = &self.hurried();
        let now = prometheus.now()?;
        let rules = || prometheus.has_rule(queries::RECORDED_NAME);
        let mut fleet = fleet_of(now, |query| prometheus.query(query, now), rules)?;
        fleet.prometheus = prometheus.url().to_string();
        Ok(fleet)
    }
}

/// Makes the document of what each query gives, and of whether the recording rules are loaded.
fn fleet_of<E>(
    now: f64,
    ask: impl FnMut(&str) -> Result<Vec<Sample>, E>,
    has_rules: impl FnOnce() -> Result<bool, E>,
) -> Result<Fleet, E> {
    let mut asked = Asked::new(ask);
    let mut hosts = Hosts::default();
    // Who has the rules has recorded this of every host that answers.
    let recorded = asked.samples(queries::RECORDED.used, Values::Share(0.0))?;
    let (figures, source) = if !recorded.is_empty() {
        (queries::RECORDED, WeekSource::RecordingRules)
    } else if has_rules()? {
        (queries::EXPOSED, WeekSource::RulesWithoutValues)
    } else {
        (queries::EXPOSED, WeekSource::Samples)
    };
    for sample in asked.samples(queries::UP, Values::Exactly(1.0))? {
        hosts.of(&sample).is_up = true;
    }
    let mut problems = Vec::new();
    for sample in asked.samples(queries::ABSENT, Values::Exactly(0.0))? {
        hosts.of(&sample).is_up = false;
        problems.push(problem(FleetProblemKind::Absent, &sample));
    }
    let mut cut = false;
    for (query, values, kind) in [
        (
            queries::FAILING,
            Values::SomeIncrease,
            FleetProblemKind::Failing,
        ),
        (figures.full, Values::Share(0.95), FleetProblemKind::Full),
        (
            figures.in_pieces,
            Values::Share(0.75),
            FleetProblemKind::Fragmented,
        ),
        (
            queries::GROWING,
            Values::Whole(1),
            FleetProblemKind::Growing,
        ),
        (
            queries::INCOMPLETE,
            Values::Whole(1),
            FleetProblemKind::Incomplete,
        ),
    ] {
        let found = asked.samples(query, values)?;
        cut |= found.len() >= ROWS;
        for sample in found {
            let host = hosts.of(&sample);
            match kind {
                FleetProblemKind::Failing => {
                    host.failures = host.failures.saturating_add(count(sample.value));
                }
                FleetProblemKind::Incomplete => {
                    host.incomplete_processes = count(sample.value);
                }
                _other => {}
            }
            problems.push(problem(kind, &sample));
        }
    }
    hosts.figures(&mut asked, &figures)?;
    hosts.week(&mut asked, &figures, source)?;
    let mut devices = asked.samples(figures.fullest, Values::Share(0.0))?;
    devices.sort_by(|one, other| other.value.total_cmp(&one.value));
    let jobs = jobs(&mut asked, source)?;
    problems.sort_by(|one, other| {
        let rank = |problem: &FleetProblem| (problem.kind, problem.instance.clone());
        // Of one kind the worst first.
        one.kind
            .cmp(&other.kind)
            .then(other.value.total_cmp(&one.value))
            .then(rank(one).cmp(&rank(other)))
    });
    Ok(Fleet {
        schema: SCHEMA,
        prometheus: String::new(),
        time: moment(now),
        devices_known: { hosts.0.values() }.fold(0, |sum, host| sum.saturating_add(host.devices)),
        hosts: hosts.in_order(&problems),
        jobs,
        devices: devices.iter().filter_map(device).collect(),
        problems,
        problems_cut: cut,
        week_source: source,
        impossible_values: asked.impossible,
        impossible_example: asked.impossible_example,
    })
}

#[derive(Default)]
struct Hosts(BTreeMap<String, FleetHost>);

impl Hosts {
    fn of(&mut self, sample: &Sample) -> &mut FleetHost {
        let instance = &sample.labels.instance;
        self.0.entry(instance.clone()).or_insert_with(|| FleetHost {
            instance: instance.clone(),
            ..FleetHost::default()
        })
    }

    fn figures<E>(
        &mut self,
        asked: &mut Asked<impl FnMut(&str) -> Result<Vec<Sample>, E>>,
        figures: &Figures,
    ) -> Result<(), E> {
        for sample in asked.samples(queries::DEVICES, Values::Whole(0))? {
            self.of(&sample).devices = count(sample.value);
        }
        for sample in asked.samples(figures.charged, Values::Whole(0))? {
            self.of(&sample).dram_charged_bytes = Some(count(sample.value));
        }
        for sample in asked.samples(figures.capacity, Values::Whole(0))? {
            self.of(&sample).dram_capacity_bytes = Some(count(sample.value));
        }
        for sample in asked.samples(figures.used, Values::Share(0.0))? {
            let share = Some(sample.value);
            let host = self.of(&sample);
            match &*sample.labels.class {
                "dram" => host.dram_used = share,
                "l1" => host.l1_used = share,
                _other => {}
            }
        }
        for sample in asked.samples(figures.fragmented, Values::Share(0.0))? {
            self.of(&sample).dram_fragmented = Some(sample.value);
        }
        for sample in asked.samples(figures.grown_hour, Values::Difference)? {
            self.of(&sample).dram_grown_hour_bytes = Some(difference(sample.value));
        }
        for sample in asked.samples(queries::GROWING_COUNT, Values::Whole(0))? {
            self.of(&sample).growing_processes = count(sample.value);
        }
        Ok(())
    }

    /// The figures of the week; what was in pieces is known where it was recorded.
    fn week<E>(
        &mut self,
        asked: &mut Asked<impl FnMut(&str) -> Result<Vec<Sample>, E>>,
        figures: &Figures,
        source: WeekSource,
    ) -> Result<(), E> {
        if source == WeekSource::RecordingRules {
            for sample in asked.samples(queries::RECORDED_FRAGMENTED_WEEK, Values::Share(0.0))? {
                self.of(&sample).dram_fragmented_week = Some(sample.value);
            }
        }
        for sample in asked.samples(figures.used_week, Values::Share(0.0))? {
            let share = Some(sample.value);
            let host = self.of(&sample);
            match &*sample.labels.class {
                "dram" => host.dram_used_week = share,
                "l1" => host.l1_used_week = share,
                _other => {}
            }
        }
        for sample in asked.samples(figures.peak_week, Values::Share(0.0))? {
            let host = self.of(&sample);
            let highest = match &*sample.labels.class {
                "dram" => &mut host.dram_used_week,
                "l1" => &mut host.l1_used_week,
                _other => continue,
            };
            *highest = Some(highest.unwrap_or(0.0).max(sample.value));
        }
        for sample in asked.samples(figures.grown_week, Values::Difference)? {
            self.of(&sample).dram_grown_week_bytes = Some(difference(sample.value));
        }
        for sample in asked.samples(queries::FAILED_WEEK, Values::Increase)? {
            self.of(&sample).failures_week = Some(count(sample.value));
        }
        Ok(())
    }

    /// Those with problems in the order of these, then the fullest; those that are absent, of which nothing is known, last.
    fn in_order(self, problems: &[FleetProblem]) -> Vec<FleetHost> {
        let mut worst = BTreeMap::new();
        for (place, problem) in problems.iter().enumerate() {
            worst.entry(problem.instance.as_str()).or_insert(place);
        }
        let mut hosts: Vec<FleetHost> = self.0.into_values().collect();
        hosts.sort_by(|one, other| {
            let place = |host: &FleetHost| worst.get(host.instance.as_str()).copied();
            let used = |host: &FleetHost| host.dram_used.unwrap_or(-1.0);
            let unwell = |host: &FleetHost| place(host).unwrap_or(usize::MAX);
            (!one.is_up, unwell(one))
                .cmp(&(!other.is_up, unwell(other)))
                .then(used(other).total_cmp(&used(one)))
        });
        hosts
    }
}

fn jobs<E>(
    asked: &mut Asked<impl FnMut(&str) -> Result<Vec<Sample>, E>>,
    week: WeekSource,
) -> Result<Vec<FleetJob>, E> {
    let mut jobs: BTreeMap<(String, String), FleetJob> = BTreeMap::new();
    let key = |labels: &Labels| (labels.workload.clone(), labels.user.clone());
    for sample in asked.samples(queries::JOBS, Values::Whole(0))? {
        let job = jobs.entry(key(&sample.labels)).or_insert_with(|| FleetJob {
            job: sample.labels.workload.clone(),
            user: known(&sample.labels.user),
            ..FleetJob::default()
        });
        match &*sample.labels.class {
            "dram" => job.dram_bytes = Some(count(sample.value)),
            "l1" => job.l1_bytes = Some(count(sample.value)),
            _other => {}
        }
    }
    for sample in asked.samples(queries::JOB_HOSTS, Values::Whole(0))? {
        if let Some(job) = jobs.get_mut(&key(&sample.labels)) {
            job.hosts = count(sample.value);
        }
    }
    for sample in asked.samples(queries::JOB_GROWTH, Values::Whole(0))? {
        if let Some(job) = jobs.get_mut(&key(&sample.labels)) {
            job.grows_per_mark_bytes = Some(count(sample.value));
        }
    }
    if week == WeekSource::RecordingRules {
        for sample in asked.samples(queries::RECORDED_JOB_WEEK, Values::Whole(0))? {
            if let Some(job) = jobs.get_mut(&key(&sample.labels)) {
                job.dram_week_bytes = Some(count(sample.value));
            }
        }
    }
    let mut jobs: Vec<FleetJob> = jobs.into_values().collect();
    jobs.sort_by_key(|job| Reverse((job.dram_bytes, job.l1_bytes)));
    Ok(jobs)
}

fn problem(kind: FleetProblemKind, sample: &Sample) -> FleetProblem {
    let labels = &sample.labels;
    FleetProblem {
        kind,
        instance: labels.instance.clone(),
        device: known(&labels.device),
        class: class(&labels.class),
        pid: known(&labels.pid),
        name: known(&labels.name),
        job: known(&labels.workload),
        value: sample.value,
    }
}

fn device(sample: &Sample) -> Option<FleetDevice> {
    Some(FleetDevice {
        instance: sample.labels.instance.clone(),
        device: sample.labels.device.clone(),
        class: class(&sample.labels.class)?,
        used: sample.value,
    })
}

fn class(label: &str) -> Option<MemoryClass> {
    Some(match label {
        "dram" => MemoryClass::Dram,
        "l1" => MemoryClass::L1,
        "l1_small" => MemoryClass::L1Small,
        "trace" => MemoryClass::Trace,
        _unknown => return None,
    })
}

fn known(label: &str) -> Option<String> {
    (!label.is_empty()).then(|| label.to_owned())
}

/// A count or a size: `increase` gives parts of one, and nobody's memory is beyond 64 bits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a float saturates"
)]
fn count(value: f64) -> u64 {
    value.round() as u64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a cast of a float saturates"
)]
fn difference(value: f64) -> i64 {
    value.round() as i64
}

fn moment(seconds: f64) -> Timestamp {
    Timestamp::from_unix_nanos(count(seconds * NANOS_PER_SECOND))
}
