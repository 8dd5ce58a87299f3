//! What is shown over time, of a recording.

use super::handlers::{NoQuery, bounded};
use super::http::Refusal;
use super::routes::Context;
use super::{snapshot, vocabulary};
use crate::recorded::{
    DEFAULT_RECTANGLES, MAX_POINTS, MAX_RECTANGLES, Moment, OverTime, Recorded, Window,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::HashSet;
use std::sync::Arc;
use ttmem_event::Class;
use ttmem_ledger::Audience;
use ttmem_report::{Allocations, GroupBy, Mark, MemoryClass, Recording, Timeline, Timestamp};

pub(super) fn get_recording(context: &Context, NoQuery {}: NoQuery) -> Result<Recording, Refusal> {
    let recorded = context.recorded()?;
    let mut recording = recorded.recording()?;
    let audience = context.audience();
    if audience != Audience::Everything {
        // Files name no owners of marks; the ledger does, of the newest.
        let view = match context.state.live {
            Some(_) => context.view()?,
            None => Arc::new(
                recorded
                    .moment(None, Some(&context.gone))?
                    .view
                    .for_audience(audience),
            ),
        };
        hide_names(&mut recording.marks, &snapshot::marks(&view));
    }
    Ok(recording)
}

/// Leaves out the names of all marks but those that are shown elsewhere.
fn hide_names(marks: &mut [Mark], known: &[Mark]) {
    let shown: HashSet<(u64, &str)> = known
        .iter()
        .filter(|mark| !mark.name_hidden)
        .map(|mark| (mark.number, mark.name.as_str()))
        .collect();
    for mark in marks {
        if !shown.contains(&(mark.number, mark.name.as_str())) {
            mark.name.clear();
            mark.name_hidden = true;
        }
    }
}

const DEFAULT_POINTS: u32 = 300;

/// What the buffers of a layer can have in common.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LayersBy {
    Operation,
    Line,
    Process,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TimelineQuery {
    /// The class; `dram` by default.
    class: Option<MemoryClass>,
    /// What the buffers of a layer have in common; `line` by default.
    by: Option<LayersBy>,
    /// From this instant on; from the first by default.
    from: Option<Timestamp>,
    /// Up to this instant; up to the last by default.
    to: Option<Timestamp>,
    /// At most so many steps; 300 by default.
    #[schemars(range(min = 1, max = MAX_POINTS))]
    points: Option<u32>,
}

pub(super) fn get_timeline(context: &Context, query: TimelineQuery) -> Result<Timeline, Refusal> {
    let recorded = context.recorded()?;
    let by = match query.by.unwrap_or(LayersBy::Line) {
        LayersBy::Operation => GroupBy::Operation,
        LayersBy::Line => GroupBy::Line,
        LayersBy::Process => GroupBy::Process,
    };
    let points = bounded("points", query.points, DEFAULT_POINTS, MAX_POINTS)?;
    let over = over_time(context, query.class, (query.from, query.to))?;
    let next = if recorded.draws_all() {
        others(&over, recorded)?
    } else {
        Vec::new()
    };
    let how = (points, context.audience());
    Ok(recorded.timeline((&over, &next), by, how)?)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AllocationsQuery {
    /// The class; `dram` by default.
    class: Option<MemoryClass>,
    /// From this instant on; from the first by default.
    from: Option<Timestamp>,
    /// Up to this instant; up to the last by default.
    to: Option<Timestamp>,
    /// At most so many buffers; 5000 by default.
    #[schemars(range(min = 1, max = MAX_RECTANGLES))]
    limit: Option<u32>,
}

pub(super) fn get_allocations(
    context: &Context,
    query: AllocationsQuery,
) -> Result<Allocations, Refusal> {
    let recorded = context.recorded()?;
    let limit = bounded("limit", query.limit, DEFAULT_RECTANGLES, MAX_RECTANGLES)?;
    let over = over_time(context, query.class, (query.from, query.to))?;
    let how = (limit, context.audience());
    Ok(recorded.allocations(&over, how)?)
}

/// A class of the device of a path, in a window.
fn over_time(
    context: &Context,
    class: Option<MemoryClass>,
    (from, to): (Option<Timestamp>, Option<Timestamp>),
) -> Result<OverTime, Refusal> {
    let class = vocabulary::class_named(class.unwrap_or(MemoryClass::Dram));
    let class = class.ok_or_else(|| Refusal::unknown_word("class"))?;
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(Refusal::bad_request("from is after to"));
    }
    let recorded = context.recorded()?;
    let window = recorded.window(from, to)?;
    let mut end = recorded.moment(
        Some(Timestamp::from_unix_nanos(window.to)),
        Some(&context.gone),
    )?;
    let number = match context.device_in(&end.view) {
        Ok(number) => number,
        // A window may end before the device came to be known.
        Err(_unknown) => {
            end = recorded.moment(None, Some(&context.gone))?;
            context.device_in(&end.view)?
        }
    };
    Ok(OverTime {
        gone: Some(Arc::clone(&context.gone)),
        ..of_device(&end, number, class, window)?
    })
}

fn of_device(
    end: &Moment,
    number: usize,
    class: Class,
    window: Window,
) -> Result<OverTime, Refusal> {
    let device = &end.view.devices[number];
    let geometry = end.geometry()?;
    let capacity = geometry.devices.get(number);
    let capacity = capacity.and_then(|layout| layout.classes[class.index()].capacity);
    Ok(OverTime {
        window,
        key: device.key.clone(),
        logical_id: device.facts.logical_id,
        capacity_bytes: capacity.map(|capacity| capacity.total_bytes()),
        class,
        gone: None,
    })
}

/// The other classes of devices that held anything, those behind it first.
fn others(over: &OverTime, recorded: &Recorded) -> Result<Vec<OverTime>, Refusal> {
    let window = over.window;
    let end = recorded.moment(
        Some(Timestamp::from_unix_nanos(window.to)),
        over.gone.as_ref(),
    )?;
    let mut all = Vec::new();
    for number in 0..end.view.devices.len() {
        let totals = &end.view.devices[number].totals;
        let held = [Class::Dram, Class::L1, Class::L1Small, Class::Trace].into_iter();
        let held = held.filter(|class| totals.class(*class).charged.peak().bytes > 0);
        for class in held {
            all.push(of_device(&end, number, class, window)?);
        }
    }
    let is_it = |other: &OverTime| other.key == over.key && other.class == over.class;
    if let Some(place) = all.iter().position(is_it) {
        all.rotate_left(place);
        all.remove(0);
    }
    Ok(all)
}
