//! Families of metrics as text: OpenMetrics, and the older format of Prometheus.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// What every name begins with.
const PREFIX: &str = "ttmem";

/// Labels of one sample. Their values may be anybody's text: the encoder escapes them.
pub(super) type LabelSet = Vec<(&'static str, String)>;

#[derive(Clone, Debug)]
pub(super) enum Value {
    Whole(u64),
    Signed(i64),
    Real(f64),
    /// The sum of what was observed, and how much of it is within each bound and beyond the one before.
    Histogram(f64, Vec<(f64, u64)>),
}

/// All samples of one name.
#[derive(Debug)]
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    samples: Vec<(LabelSet, Value)>,
}

impl Family {
    fn new(name: &'static str, help: &'static str, unit: Option<Unit>, kind: MetricType) -> Self {
        Self {
            name,
            help,
            unit,
            kind,
            samples: Vec::new(),
        }
    }

    /// A figure that goes up and down.
    pub(super) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, None, MetricType::Gauge)
    }

    /// The same of a size; its name ends in `_bytes`.
    pub(super) fn bytes(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Some(Unit::Bytes), MetricType::Gauge)
    }

    /// The same in another unit, with which its name ends.
    pub(super) fn measured(name: &'static str, help: &'static str, unit: &str) -> Self {
        let unit = Some(Unit::Other(unit.to_owned()));
        Self::new(name, help, unit, MetricType::Gauge)
    }

    /// The same of a time; its name ends in `_seconds`.
    pub(super) fn seconds(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Some(Unit::Seconds), MetricType::Gauge)
    }

    /// A count that never goes back; its name ends in `_total`.
    pub(super) fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, None, MetricType::Counter)
    }

    /// Times by how long they are; its name ends in `_seconds`.
    pub(super) fn histogram(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Some(Unit::Seconds), MetricType::Histogram)
    }

    /// Adds a sample, unless its value is not known.
    pub(super) fn add(&mut self, labels: LabelSet, value: impl Into<Option<Value>>) {
        if let Some(value) = value.into() {
            self.samples.push((labels, value));
        }
    }

    /// The family with the only sample that it has.
    pub(super) fn with(mut self, labels: LabelSet, value: impl Into<Option<Value>>) -> Self {
        self.add(labels, value);
        self
    }
}

impl Value {
    fn encode(&self, kind: MetricType, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match (self, kind) {
            (Self::Whole(count), MetricType::Counter) => {
                encoder.encode_counter::<NoLabelSet, _, f64>(count, None)
            }
            (Self::Whole(figure), _gauge) => encoder.encode_gauge(figure),
            (Self::Signed(figure), _gauge) => encoder.encode_gauge(figure),
            (Self::Real(figure), _gauge) => encoder.encode_gauge(figure),
            (Self::Histogram(sum, buckets), _) => {
                let count = buckets.iter().map(|(_bound, count)| count).sum();
                encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}

/// All families of one scrape.
#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let kind = family.kind;
            let unit = family.unit.as_ref();
            let mut metric = encoder.encode_descriptor(family.name, family.help, unit, kind)?;
            for (labels, value) in &family.samples {
                if labels.is_empty() {
                    value.encode(kind, &mut metric)?;
                } else {
                    value.encode(kind, &mut metric.encode_family(labels)?)?;
                }
            }
        }
        Ok(())
    }
}

/// Families in OpenMetrics.
pub(super) fn open_metrics(families: Vec<Family>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Families(families)));
    let mut exposition = String::new();
    text::encode(&mut exposition, &registry)?;
    Ok(exposition)
}

/// The same in the format that Prometheus had before: names of counters with their ending, no units, no end.
pub(super) fn classic(open_metrics: &str) -> String {
    let mut exposition = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        // Values of labels have no raw ends of lines: what begins with `#` is ours.
        if line.starts_with("# UNIT ") || line == "# EOF" {
            continue;
        }
        if let Some(of) = line.strip_prefix("# HELP ") {
            help = of.split_once(' ');
            continue;
        }
        let described = line
            .strip_prefix("# TYPE ")
            .and_then(|of| of.split_once(' '));
        if let Some((name, kind)) = described {
            let ending = if kind == "counter" { "_total" } else { "" };
            if let Some((_name, help)) = help.take() {
                exposition.push_str(&format!("# HELP {name}{ending} {help}\n"));
            }
            exposition.push_str(&format!("# TYPE {name}{ending} {kind}\n"));
            continue;
        }
        exposition.push_str(line);
        exposition.push('\n');
    }
    exposition
}
