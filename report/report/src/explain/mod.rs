//! Why an allocation or a program was refused.
//!
//! [`explain`] is a pure function from the [`Moment`] of a failure to an
//! [`Explanation`]: no clock, no I/O. The server calls it with what the
//! account knew when the failure happened, [`log`] with what the runtime wrote into a log. What
//! neither knows stays null, and the explanation says so.

mod bank;
mod holders;
pub mod log;
mod moment;
mod refused;
mod setting;
mod storage;
mod words;

#[cfg(test)]
mod tests;

pub use moment::{
    BelowLimit, BlockTable, Caller, Failure, Moment, Refused, StorageRefused, TraceRegion, Witness,
};
pub use setting::regions;

use crate::{Explanation, Verdict};

/// Explains a failure by what was known when it happened.
#[must_use]
pub fn explain(moment: &Moment) -> Explanation {
    let mut explanation = blank(&moment.caller);
    match &moment.failure {
        Failure::Refused(refused) => refused::explain(moment, refused, &mut explanation),
        Failure::Storage(storage) => storage::explain(moment, storage, &mut explanation),
        Failure::TraceRegion(region) => trace_region(region, &mut explanation),
        Failure::ConfigRing {
            need_bytes,
            ring_bytes,
            core_type,
        } => config_ring(
            moment,
            *need_bytes,
            *ring_bytes,
            core_type,
            &mut explanation,
        ),
        Failure::OutsideGrid {
            program,
            cores,
            grid,
        } => outside_grid(*program, cores.as_deref(), *grid, &mut explanation),
    }
    if moment.witness == Witness::Log
        && explanation.verdict == Verdict::Unknown
        && explanation.advice.is_empty()
    {
        explanation.advice.push(
            "run the program under `ttmem run`: it records what was free, who held the rest and what \
             to release"
                .to_owned(),
        );
    }
    if moment.witness == Witness::Log && explanation.python.is_none() {
        explanation
            .unknown
            .push("which line of Python: no traceback stands beside the message".to_owned());
    }
    explanation
}

fn blank(caller: &Caller) -> Explanation {
    Explanation {
        verdict: Verdict::Unknown,
        heading: String::new(),
        sentence: String::new(),
        time: caller.time,
        last_time: caller.time,
        times: 1,
        device_ids: caller.device_ids.clone(),
        pid: caller.pid,
        process: caller.process.clone(),
        names_hidden: false,
        operation: caller.operation.clone(),
        python: caller.python.clone(),
        request: None,
        clash: None,
        holders: None,
        release: None,
        other_release: None,
        map: None,
        setting: None,
        unknown: Vec::new(),
        advice: Vec::new(),
        log: None,
    }
}

/// What only an account knows: said of what was read from a log.
pub(crate) fn holders_unknown(witness: Witness) -> String {
    match witness {
        Witness::Log => "who holds the memory: the message does not say. \
                         Run the program under `ttmem run` to see it"
            .to_owned(),
        Witness::Account => "who holds the memory: its blocks were not recorded".to_owned(),
    }
}

fn trace_region(region: &TraceRegion, explanation: &mut Explanation) {
    explanation.verdict = Verdict::RegionTooSmall;
    let [need, has] = words::sizes([region.need_bytes, region.region_bytes]);
    let setting = setting::for_traces(region);
    let needed = setting
        .as_ref()
        .map_or_else(|| ".".to_owned(), setting::needed);
    explanation.sentence = format!(
        "The trace region is too small: the traces captured so far need {need}, and \
         trace_region_size={} gives them {has}{needed}",
        region.region_bytes
    );
    if let Some(setting) = &setting {
        let advice = setting::advice(setting, "what is captured later");
        explanation.advice.push(advice);
    }
    if region.banks.is_none() {
        explanation.unknown.push(
            "bytes per bank: the message does not say over how many banks the region is spread"
                .to_owned(),
        );
    }
    explanation.setting = setting;
}

fn config_ring(
    moment: &Moment,
    need_bytes: u64,
    ring_bytes: u64,
    core_type: &str,
    explanation: &mut Explanation,
) {
    let over = need_bytes.saturating_sub(ring_bytes);
    explanation.verdict = Verdict::RegionTooSmall;
    explanation.sentence = format!(
        "The kernel config ring is too small: the code and arguments of {} need {need_bytes} B on \
         each {core_type} core, and the ring has {ring_bytes} B, {over} B too few.",
        match &moment.caller.operation {
            Some(operation) => words::operation(operation),
            None => "the program".to_owned(),
        }
    );
    explanation.advice.push(format!(
        "shorten the kernels or their arguments by {over} B, or open the device with a \
         worker_l1_size that is smaller by as much, which enlarges the ring"
    ));
}

fn outside_grid(
    program: Option<u64>,
    cores: Option<&str>,
    grid: Option<(u64, u64)>,
    explanation: &mut Explanation,
) {
    explanation.sentence = format!(
        "Not a matter of memory: {} uses cores{} outside the compute grid{}.",
        program.map_or_else(|| "a program".to_owned(), |id| format!("program {id}")),
        cores.map_or_else(String::new, |cores| format!(" {cores}")),
        grid.map_or_else(String::new, |(x, y)| format!(" of {x}x{y}")),
    );
    explanation
        .advice
        .push("place the program on cores that this device has".to_owned());
}
