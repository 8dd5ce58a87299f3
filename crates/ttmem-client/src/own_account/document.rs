//! The account as a JSON document, for whoever asked.
//!
//! Written by hand: no serde comes into other people's processes.

use super::{Answer, Described, Point};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use ttmem_account::totals::GaugeKind;
use ttmem_account::{AccountRows, BufferRow, HeldDevice, PeakSet};
use ttmem_event::{Class, TextId};

/// Writes an object or a list: what separates its parts is written once they are there.
struct Json {
    text: String,
}

impl Json {
    fn separate(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(['{', '[', ':']) {
            self.text.push(',');
        }
    }

    fn key(&mut self, key: &str) -> &mut Self {
        self.text(key);
        self.text.push(':');
        self
    }

    fn number(&mut self, number: u64) {
        self.separate();
        // Writing to a text cannot fail.
        let _fits = write!(self.text, "{number}");
    }

    fn maybe(&mut self, number: Option<u64>) {
        match number {
            Some(number) => self.number(number),
            None => self.null(),
        }
    }

    fn null(&mut self) {
        self.separate();
        self.text.push_str("null");
    }

    fn text(&mut self, text: &str) {
        self.separate();
        self.text.push('"');
        for letter in text.chars() {
            match letter {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                control if control < ' ' => {
                    let _fits = write!(self.text, "\\u{:04x}", u32::from(control));
                }
                letter => self.text.push(letter),
            }
        }
        self.text.push('"');
    }

    fn object(&mut self, fill: impl FnOnce(&mut Self)) {
        self.enclose(['{', '}'], fill);
    }

    fn list(&mut self, fill: impl FnOnce(&mut Self)) {
        self.enclose(['[', ']'], fill);
    }

    fn enclose(&mut self, brackets: [char; 2], fill: impl FnOnce(&mut Self)) {
        self.separate();
        self.text.push(brackets[0]);
        fill(self);
        self.text.push(brackets[1]);
    }
}

pub(super) fn write(answer: &Answer) -> String {
    let mut json = Json {
        text: String::new(),
    };
    json.object(|json| {
        json.key("stretch").number(answer.stretch);
        json.key("order").number(answer.order);
        json.key("lost_events").number(answer.facts.lost_events);
        json.key("untracked").list(|json| untracked(json, answer));
        json.key("devices").list(|json| {
            let devices = answer.facts.devices.iter().zip(&answer.devices);
            for (slot, (held, described)) in devices.enumerate() {
                let peaks = answer.peaks.get(slot).copied().unwrap_or_default();
                json.object(|json| device(json, held, described, &peaks));
            }
        });
        json.key("timeline").list(|json| {
            for point in &answer.timeline {
                json.object(|json| write_point(json, point));
            }
        });
        if let Some((rows, most)) = &answer.rows {
            write_rows(json, answer, rows, *most);
        }
    });
    json.text
}

/// What is known not to be reported, by its name.
fn untracked(json: &mut Json, answer: &Answer) {
    for untracked in &answer.facts.untracked {
        let name = answer.facts.definitions.name(untracked.what);
        json.text(name.unwrap_or("something"));
    }
}

/// The word for a figure, as the read API has it: `dram`, `l1`, …, `cb`, `kernel`.
fn word(kind: GaugeKind) -> String {
    match kind {
        GaugeKind::Class(Class::System) => "system".to_owned(),
        GaugeKind::Class(class) => class.name().to_ascii_lowercase(),
        GaugeKind::Cb => "cb".to_owned(),
        GaugeKind::Kernel => "kernel".to_owned(),
    }
}

fn device(json: &mut Json, held: &HeldDevice, described: &Described, peaks: &PeakSet) {
    json.key("id").maybe(described.logical_id.map(u64::from));
    match described.unique_id {
        Some(unique_id) => json.key("unique_id").text(&format!("{unique_id:016x}")),
        None => json.key("unique_id").null(),
    }
    match &described.board {
        Some(board) => json.key("board").text(board),
        None => json.key("board").null(),
    }
    json.key("kinds").object(|json| {
        for kind in GaugeKind::all() {
            let (capacity, count) = match kind {
                GaugeKind::Class(class) => (
                    held.capacities[class.index()].map(|capacity| capacity.total_bytes()),
                    held.totals.class(class).buffers,
                ),
                GaugeKind::Cb => (None, held.totals.cb.count),
                GaugeKind::Kernel => (None, held.totals.kernel.count),
            };
            json.key(&word(kind)).object(|json| {
                json.key("bytes").number(held.totals.gauge(kind).bytes());
                json.key("peak_bytes").number(peaks.peak(kind).bytes);
                json.key("capacity_bytes").maybe(capacity);
                json.key("count").number(count);
            });
        }
    });
}

fn write_point(json: &mut Json, point: &Point) {
    json.key("time").number(point.time);
    for class in Class::ALL {
        let bytes = point.bytes[class.index()];
        if bytes > 0 {
            json.key(&word(GaugeKind::Class(*class))).number(bytes);
        }
    }
}

/// The largest rows, how many there are, and the texts that they refer to.
fn write_rows(json: &mut Json, answer: &Answer, rows: &AccountRows, most: usize) {
    let devices = |row: &BufferRow| {
        let mesh = answer.facts.meshes.get(row.mesh as usize);
        mesh.map_or(&[][..], |mesh| &mesh.devices)
    };
    let total = |row: &BufferRow| {
        row.charged_bytes()
            .saturating_mul(devices(row).len() as u64)
    };
    let wanted = rows.buffers.iter().map(|(_slot, row)| row);
    let mut wanted: Vec<&BufferRow> = wanted
        .filter(|row| row.order > answer.since_order)
        .collect();
    let (count, bytes) = (wanted.len(), wanted.iter().map(|row| total(row)).sum());
    let by_size = |row: &&BufferRow| (std::cmp::Reverse(total(row)), row.order);
    if wanted.len() > most {
        // Only the largest are put in order: there may be a million.
        wanted.select_nth_unstable_by_key(most, by_size);
        wanted.truncate(most);
    }
    wanted.sort_unstable_by_key(by_size);
    json.key("row_count").number(count as u64);
    json.key("row_bytes").number(bytes);
    json.key("rows").list(|json| {
        for row in &wanted {
            json.object(|json| write_row(json, answer, row, devices(row)));
        }
    });
    let texts: BTreeSet<TextId> = wanted.iter().map(|row| row.operation).collect();
    json.key("texts").object(|json| {
        for id in texts {
            if let Some(text) = answer.facts.definitions.text(id) {
                json.key(&id.0.to_string()).text(text);
            }
        }
    });
}

fn write_row(json: &mut Json, answer: &Answer, row: &BufferRow, devices: &[u32]) {
    json.key("kind").text(&word(GaugeKind::Class(row.class)));
    json.key("address").number(row.address);
    json.key("bytes").number(row.charged_bytes());
    json.key("requested_bytes").number(row.requested_bytes);
    json.key("layout").text(row.layout.name());
    json.key("text").number(row.operation.0.into());
    json.key("order").number(row.order);
    json.key("devices").list(|json| {
        for slot in devices {
            let described = answer.devices.get(*slot as usize);
            json.maybe(described.and_then(|known| known.logical_id).map(u64::from));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_parts_are_separated() {
        let mut json = Json {
            text: String::new(),
        };
        json.object(|json| {
            json.key("a \"b\"\\").text("x\ny\u{1}");
            json.key("c").list(|json| {
                json.number(1);
                json.null();
                json.list(|_empty| {});
                json.object(|_empty| {});
            });
            // A text that ends as an opening bracket does.
            json.key("d[").text("{");
            json.key("e").maybe(Some(2));
        });
        let expected = r#"{"a \"b\"\\":"x\ny\u0001","c":[1,null,[],{}],"d[":"{","e":2}"#;
        assert_eq!(json.text, expected);
    }
}
