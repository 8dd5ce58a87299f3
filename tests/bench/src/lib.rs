//! Measurements that print what they found as JSON.
//!
//! Each starts the real program: a server process on a private socket, talked to
//! over the real protocols. Nothing here asserts a time; the targets
//! are printed beside what was measured.

mod api;
mod churn;
mod client;
mod fair;
mod filler;
mod harness;
mod host;
mod memory;
mod metrics;
mod old_client;
mod record;
mod recording;
mod recording_cost;
mod release;
mod report;
mod screen;
mod short;
mod top;
mod wire_client;
mod workload;

pub use client::read_account;
pub use fair::{AttackOptions, attack};
pub use harness::Programs;
pub use metrics::hold_as_member;
pub use record::{RecordOptions, run as record};
pub use recording::RecordingOptions;
pub use release::hold;
pub use workload::{WorkloadOptions, run as workload};

use anyhow::Result;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub enum Subject {
    Server,
    Client,
    Top,
    Api,
    Metrics,
    Host,
    Churn,
    Short,
    Fair,
    Recording(RecordingOptions),
}

/// Events of the recording that is reported on: a long run on eight devices.
const REPORT_EVENTS: u64 = 7_000_000;

/// Measures one subject; with `quick`, a part of the work.
pub fn measure(subject: Subject, programs: &Programs, quick: bool) -> Result<Value> {
    let mut found = match subject {
        Subject::Server => {
            let scale = if quick { 10 } else { 1 };
            json!({
                "bench": "server",
                "old_protocol": old_client::measure(programs, scale)?,
                "memory": memory::measure(programs, scale)?,
                "release": release::measure(programs)?,
            })
        }
        Subject::Client => {
            json!({ "bench": "client", "client": client::measure(programs, quick)? })
        }
        Subject::Top => json!({ "bench": "top", "top": top::measure(programs, quick)? }),
        Subject::Fair => json!({ "bench": "fair", "fair": fair::measure(programs, quick)? }),
        Subject::Metrics => {
            json!({ "bench": "metrics", "metrics": metrics::measure(programs, quick)? })
        }
        Subject::Host => json!({ "bench": "host", "host": host::measure(programs, quick)? }),
        Subject::Api => json!({ "bench": "api", "api": api::measure(programs, quick)? }),
        Subject::Recording(options) => {
            let events = options.events / if quick { 10 } else { 1 };
            let report = report::measure(programs, REPORT_EVENTS.min(events))?;
            if options.only_report {
                json!({ "bench": "recording", "report": report })
            } else {
                let options = RecordingOptions { events, ..options };
                let found = recording::measure(&options)?;
                let cost = recording_cost::measure(programs, quick)?;
                json!({ "bench": "recording", "recording": found, "cost": cost, "report": report })
            }
        }
        Subject::Short => json!({ "bench": "short", "short": short::measure(programs, quick)? }),
        Subject::Churn => json!({ "bench": "churn", "churn": churn::measure(programs, quick)? }),
    };
    found["schema"] = json!(1);
    found["quick"] = json!(quick);
    found["cores"] = json!(std::thread::available_parallelism().map_or(0, std::num::NonZero::get));
    Ok(found)
}
