//! Which of the kept events are rows of the list.
//!
//! Events are looked at once, when they come; only another choice of the user makes all of them be
//! looked at again. Places are those among all events that ever came, so that a row stays the same
//! while older events go.

use super::family::Family;
use super::line::is_address;
use crate::data::Tail;
use std::collections::VecDeque;
use std::fmt::Write as _;
use ttmem_report::{FieldValue, LastEvent, StreamEvent};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) family: Family,
    /// Whether they are recorded ones, which have places of their own.
    pub(super) recorded: bool,
    pub(super) pid: Option<u32>,
    /// With each of these words somewhere in it, whatever the case. One such as `class=l1` is looked
    /// for among fields with their names, any other among values only.
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    Event(u64),
    /// Before the event at this place, so many did not come.
    Missing(u64, u64),
    /// The event at this place is the first of another server.
    Restart(u64),
}

impl Row {
    pub(super) const fn place(self) -> u64 {
        match self {
            Self::Event(place) | Self::Missing(place, _) | Self::Restart(place) => place,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Rows {
    wanted: Wanted,
    words: Vec<String>,
    rows: VecDeque<Row>,
    events: u64,
    next: u64,
    /// The id of the event before it.
    last_id: Option<u64>,
    scratch: String,
}

impl Rows {
    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.rows.len()).unwrap_or(u64::MAX)
    }

    pub(super) const fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn get(&self, number: u64) -> Option<Row> {
        self.rows.get(usize::try_from(number).ok()?).copied()
    }

    pub(super) fn number_of(&self, place: u64) -> u64 {
        let number = self.rows.partition_point(|row| row.place() < place);
        u64::try_from(number).unwrap_or(u64::MAX)
    }

    /// Takes in events that are new, and leaves out those that are gone.
    ///
    /// Whether all rows were made anew: then their numbers are other ones.
    pub(super) fn follow(&mut self, tail: &Tail, wanted: &Wanted) -> bool {
        let anew = *wanted != self.wanted || self.next > tail.end();
        if anew {
            let lower = wanted.text.to_lowercase();
            self.words = lower.split_whitespace().map(str::to_owned).collect();
            self.wanted.clone_from(wanted);
            self.rows.clear();
            self.events = 0;
            self.next = tail.gone;
            self.last_id = None;
        }
        if self.next < tail.gone {
            // These came and went while nobody looked: they are not missing.
            self.next = tail.gone;
            self.last_id = None;
        }
        while let Some(row) = self.rows.pop_front_if(|row| row.place() < tail.gone) {
            self.events -= u64::from(matches!(row, Row::Event(_)));
        }
        while let Some(event) = tail.at(self.next) {
            self.take(event);
        }
        anew
    }

    fn take(&mut self, event: &StreamEvent) {
        let place = self.next;
        match self.last_id.map(|last| (last, event.id.checked_sub(last))) {
            None | Some((_, Some(1))) => {}
            Some((_, None | Some(0))) => self.rows.push_back(Row::Restart(place)),
            Some((_, Some(step))) => self.miss(place, step - 1),
        }
        if self.is_wanted(&event.event) {
            self.rows.push_back(Row::Event(place));
            self.events += 1;
        }
        self.last_id = Some(event.id);
        self.next += 1;
    }

    /// A row for missing events; with nothing between two of them they are one.
    fn miss(&mut self, place: u64, missed: u64) {
        if let Some(Row::Missing(before, sum)) = self.rows.back_mut() {
            *before = place;
            *sum = sum.saturating_add(missed);
        } else {
            self.rows.push_back(Row::Missing(place, missed));
        }
    }

    fn is_wanted(&mut self, event: &LastEvent) -> bool {
        let of_process = self.wanted.pid.is_none_or(|pid| event.pid == Some(pid));
        if !of_process || !self.wanted.family.has(event) {
            return false;
        }
        if self.words.is_empty() {
            return true;
        }
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        put_values(&mut text, event);
        let mut values = text.len();
        if self.words.iter().any(|word| word.contains('=')) {
            put_fields(&mut text, event, true);
        }
        if text.is_ascii() {
            text.make_ascii_lowercase();
        } else {
            // In lower case a text may be of another length.
            let lower = text[..values].to_lowercase();
            text = lower.clone() + &text[values..].to_lowercase();
            values = lower.len();
        }
        let (values, fields) = text.split_at(values);
        let found = self.words.iter().all(|word| {
            let among = if word.contains('=') { fields } else { values };
            among.contains(word.as_str())
        });
        self.scratch = text;
        found
    }
}

fn put_values(text: &mut String, event: &LastEvent) {
    text.push_str(&event.event);
    if let Some(pid) = event.pid {
        write!(text, " {pid}").expect("a String takes any text");
    }
    if let Some(process) = &event.process {
        text.push(' ');
        text.push_str(process);
    }
    if event.recovered {
        text.push_str(" recovered");
    }
    put_fields(text, event, false);
}

/// The values of fields, or fields as `name=value`.
fn put_fields(text: &mut String, event: &LastEvent, named: bool) {
    for (name, value) in &event.fields.0 {
        let (label, equals) = if named {
            (name.as_str(), "=")
        } else {
            ("", "")
        };
        match value {
            FieldValue::Unknown => continue,
            FieldValue::Flag(_) if !named => continue,
            // As it is shown, and as it may have been read elsewhere.
            FieldValue::Number(number) if is_address(name) => {
                write!(text, " {label}{equals}{number} {label}{equals}{number:#x}")
            }
            known => write!(text, " {label}{equals}{known}"),
        }
        .expect("a String takes any text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use ttmem_report::{EventFields, Timestamp};

    fn event(id: u64, name: &str) -> Arc<StreamEvent> {
        let fields = vec![
            ("address".to_owned(), FieldValue::Number(0x1000)),
            (
                "operation".to_owned(),
                FieldValue::Text("ttnn::Matmul Größe".to_owned()),
            ),
            ("cores".to_owned(), FieldValue::Unknown),
        ];
        let event = LastEvent {
            time: Timestamp::from_unix_nanos(id),
            pid: Some(u32::try_from(id % 2).expect("small")),
            process: Some("python3".to_owned()),
            recovered: false,
            event: name.to_owned(),
            fields: EventFields(fields),
        };
        let applied = event.time;
        Arc::new(StreamEvent { id, applied, event })
    }

    fn kept(events: &VecDeque<Arc<StreamEvent>>, gone: u64) -> Tail {
        Tail {
            events: events.clone(),
            gone,
            missed: 0,
        }
    }

    fn wanted(text: &str) -> Wanted {
        Wanted {
            text: text.to_owned(),
            ..Wanted::default()
        }
    }

    fn found(text: &str) -> bool {
        let events = VecDeque::from([event(1, "buffer_allocated")]);
        let mut rows = Rows::default();
        rows.follow(&kept(&events, 0), &wanted(text));
        rows.len() == 1
    }

    #[test]
    fn every_word_must_be_somewhere_in_the_event() {
        for text in [
            "",
            "BUFFER",
            "matmul 0x1000",
            "python3 größe",
            "address=4096",
            "Operation=TTNN::mat",
            "1",
        ] {
            assert!(found(text), "{text}");
        }
        for text in ["freed", "matmul add", "cores=", "=python3"] {
            assert!(!found(text), "{text}");
        }
    }

    #[test]
    fn rows_follow_what_comes_and_what_goes() {
        let mut events: VecDeque<_> = (0..4).map(|id| event(id, "dispatched")).collect();
        let mut rows = Rows::default();
        let of_one = Wanted {
            pid: Some(1),
            ..Wanted::default()
        };
        rows.follow(&kept(&events, 0), &of_one);
        assert_eq!(
            (rows.get(0), rows.get(1)),
            (Some(Row::Event(1)), Some(Row::Event(3)))
        );
        events.drain(..2);
        events.push_back(event(4, "dispatched"));
        events.push_back(event(5, "dispatched"));
        rows.follow(&kept(&events, 2), &of_one);
        assert_eq!((rows.len(), rows.events()), (2, 2));
        assert_eq!(
            (rows.get(0), rows.get(1)),
            (Some(Row::Event(3)), Some(Row::Event(5)))
        );
        assert_eq!(rows.number_of(4), 1);
        assert_eq!(kept(&events, 2).at(5).map(|event| event.id), Some(5));
        assert!(kept(&events, 2).at(1).is_none() && kept(&events, 2).at(6).is_none());
    }

    #[test]
    fn what_is_missing_has_a_row_even_where_nothing_matches() {
        let events = VecDeque::from([
            event(1, "dispatched"),
            event(5, "dispatched"),
            event(7, "dispatched"),
            event(2, "marked"),
        ]);
        let mut rows = Rows::default();
        rows.follow(&kept(&events, 0), &wanted("marked"));
        let all: Vec<Row> = (0..rows.len())
            .filter_map(|number| rows.get(number))
            .collect();
        assert_eq!(all, [Row::Missing(2, 4), Row::Restart(3), Row::Event(3)]);
    }

    #[test]
    fn what_came_and_went_unseen_is_not_missing() {
        let events = VecDeque::from([event(1, "marked")]);
        let mut rows = Rows::default();
        rows.follow(&kept(&events, 0), &Wanted::default());
        let events = VecDeque::from([event(900, "marked"), event(901, "marked")]);
        rows.follow(&kept(&events, 899), &Wanted::default());
        assert_eq!(rows.len(), 2);
        assert_eq!(rows.get(0), Some(Row::Event(899)));
        // Another server's tail: shorter than what was looked at.
        let events = VecDeque::from([event(1, "marked")]);
        rows.follow(&kept(&events, 0), &Wanted::default());
        assert_eq!((rows.len(), rows.get(0)), (1, Some(Row::Event(0))));
    }
}
