//! The last events, a line for each.
//!
//! Lines are as long as they are: whoever asks what a process did last wants all of it.

use std::fmt::Write as _;
use ttmem_report::{FieldValue, LastEvent, LastEvents};
use ttmem_tui::text::clip;

/// Characters of a name or a field; a server cuts its own far below this.
const MAX_TEXT: usize = 1024;

/// The events, or a line that says there are none.
pub(crate) fn last_events(last: &LastEvents) -> String {
    if last.events.is_empty() {
        return "no events are kept\n".to_owned();
    }
    last.events.iter().map(line).collect()
}

/// Time, process, what happened and with what; what is not known is left out.
fn line(event: &LastEvent) -> String {
    let pid = event.pid.map_or("-".to_owned(), |pid| pid.to_string());
    let process = event.process.as_deref().unwrap_or("-");
    let mut line = format!(
        "{} [{pid} {}] {}",
        event.time,
        clip(process, MAX_TEXT),
        clip(&event.event, MAX_TEXT)
    );
    for (name, value) in &event.fields.0 {
        let text = match value {
            FieldValue::Unknown => continue,
            FieldValue::Text(text) if text.is_empty() || text.contains([' ', '"']) => {
                format!("{text:?}")
            }
            other => other.to_string(),
        };
        let (name, text) = (clip(name, MAX_TEXT), clip(&text, MAX_TEXT));
        write!(line, " {name}={text}").expect("a String takes any text");
    }
    if event.recovered {
        line.push_str(" (recovered)");
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttmem_report::{EventFields, SCHEMA, Timestamp};

    #[test]
    fn each_event_is_one_line_that_steers_no_terminal() {
        let field = |name: &str, value| (name.to_owned(), value);
        let event = |process: Option<&str>, recovered| LastEvent {
            time: Timestamp::from_unix_nanos(1_794_731_103_000_000_001),
            pid: process.map(|_named| 42),
            process: process.map(str::to_owned),
            recovered,
            event: "dispatched".to_owned(),
            fields: EventFields(vec![
                field("devices", FieldValue::Devices(vec![0, 1])),
                field(
                    "operation",
                    FieldValue::Text("ttnn add\u{1b}[2J\n".to_owned()),
                ),
                field("cores", FieldValue::Unknown),
                field("hit", FieldValue::Flag(true)),
            ]),
        };
        let last = LastEvents {
            schema: SCHEMA,
            events: vec![event(Some("py\nthon"), true), event(None, false)],
        };
        assert_eq!(
            last_events(&last),
            "2026-11-15T08:25:03.000000001Z [42 py\u{fffd}thon] dispatched devices=0,1 \
             operation=\"ttnn add\\u{1b}[2J\\n\" hit=true (recovered)\n\
             2026-11-15T08:25:03.000000001Z [- -] dispatched devices=0,1 \
             operation=\"ttnn add\\u{1b}[2J\\n\" hit=true\n"
        );
        let none = LastEvents {
            schema: SCHEMA,
            events: Vec::new(),
        };
        assert_eq!(last_events(&none), "no events are kept\n");
    }
}
