//! What the list asks the server: which buffers, in which order, which rows of them.
//!
//! A million rows are never here: filters, order and sums are the server's work. Rows come in a
//! window that is wider than the screen and begins at round places, so that scrolling asks only
//! now and then.

use crate::data::Data;
use crate::playback::Subject;
use crate::theme::Theme;
use crate::views::Chosen;
use crate::views::naming::CLASSES;
use crate::widgets::{Cursor, Prompt};
use ttmem_report::format;
use ttmem_report::{BufferGroups, BufferQuery, Device, GroupBy, MemoryClass, SortBy, Timestamp};

/// Windows begin at multiples of so many rows, or of more on a very high screen.
const STEP: u64 = 64;

/// A third of the most rows that the server gives at once.
const WIDEST_STEP: u64 = 3_333;

/// Sizes below which buffers can be left out.
const SMALLEST: [u64; 6] = [1 << 10, 32 << 10, 1 << 20, 8 << 20, 64 << 20, 512 << 20];

const ORDERS: [SortBy; 3] = [SortBy::Size, SortBy::Address, SortBy::Time];

#[derive(Debug, Clone)]
pub(in crate::views) struct Question {
    pub(in crate::views) find: Prompt,
    /// Of operations whose name has this in it.
    pub(in crate::views) operation: Option<String>,
    /// Frames of Python, of which one must have this.
    pub(in crate::views) line: Prompt,
    pub(in crate::views) class: Option<MemoryClass>,
    /// That take at least so much on a device.
    pub(in crate::views) min_bytes: Option<u64>,
    pub(in crate::views) only_device: bool,
    pub(in crate::views) since: Option<Timestamp>,
    pub(in crate::views) sort: SortBy,
    pub(in crate::views) descending: bool,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            find: Prompt::default(),
            operation: None,
            line: Prompt::default(),
            class: None,
            min_bytes: None,
            only_device: false,
            since: None,
            sort: SortBy::Size,
            descending: true,
        }
    }
}

impl Question {
    /// The next order: the largest, the lowest, the newest first.
    pub(super) fn next_order(&mut self) {
        self.sort = after(&ORDERS, self.sort).unwrap_or(SortBy::Size);
        self.descending = self.sort != SortBy::Address;
    }

    pub(super) fn next_class(&mut self) {
        self.class = match self.class {
            None => Some(MemoryClass::Dram),
            Some(class) => after(&CLASSES, class),
        };
    }

    pub(super) fn step_min(&mut self, up: bool) {
        let now = self.min_bytes.unwrap_or(0);
        let mut steps = SMALLEST.into_iter();
        self.min_bytes = if up {
            steps.find(|size| *size > now).or(self.min_bytes)
        } else {
            steps.rfind(|size| *size < now)
        };
    }

    /// What is being typed into: the line if that is, or else what is looked for.
    pub(super) fn prompt(&mut self) -> &mut Prompt {
        if self.line.is_typing() {
            &mut self.line
        } else {
            &mut self.find
        }
    }

    /// What is being typed, in words.
    pub(super) fn typed(&self, theme: Theme) -> Option<String> {
        if self.line.is_typing() {
            let line = self.line.text();
            return Some(format!("Python line has: {line}{}", theme.caret()));
        }
        self.find.said(theme).filter(|_| self.find.is_typing())
    }

    /// Whether some buffers are left out, other than by process.
    pub(super) fn is_narrow(&self) -> bool {
        !self.find.text().is_empty()
            || self.operation.is_some()
            || !self.line.text().is_empty()
            || self.class.is_some()
            || self.min_bytes.is_some()
            || self.only_device
    }

    /// All buffers again; since a mark if that was where it began.
    pub(super) fn widen(&mut self) {
        *self = Self {
            since: self.since,
            sort: self.sort,
            descending: self.descending,
            ..Self::default()
        };
    }

    /// The device and class that the buffers are of, where they are of one.
    pub(super) fn subject(&self, data: &Data, chosen: &Chosen) -> Subject {
        let device = chosen.device(data).filter(|_| self.only_device);
        Subject {
            device: device.map(Device::key),
            class: self.class,
        }
    }

    fn filters(&self, data: &Data, chosen: &Chosen) -> BufferQuery {
        let device = self.device(data, chosen);
        let unique_id = device.and_then(|device| device.unique_id);
        let [find, python] = [&self.find, &self.line].map(|prompt| {
            let text = prompt.text();
            (!text.is_empty()).then(|| text.to_owned())
        });
        BufferQuery {
            pid: chosen.pid,
            device: device
                .map(|device| device.id)
                .filter(|_| unique_id.is_none()),
            unique_id,
            class: self.class,
            operation: self.operation.clone(),
            python,
            find,
            min_bytes: self.min_bytes,
            since: self.since,
            ..BufferQuery::default()
        }
    }

    fn device<'d>(&self, data: &'d Data, chosen: &Chosen) -> Option<&'d Device> {
        chosen.device(data).filter(|_| self.only_device)
    }

    pub(super) fn rows(&self, data: &Data, chosen: &Chosen, cursor: Cursor) -> BufferQuery {
        let step = cursor.page().max(1).next_multiple_of(STEP).min(WIDEST_STEP);
        let at = cursor.next_top() / step;
        let offset = at.saturating_sub(1) * step;
        // The step that is shown may reach into the next; above the first there is none.
        let steps = if at == 0 { 2 } else { 3 };
        BufferQuery {
            sort: Some(self.sort),
            descending: self.descending,
            // Also of the first row: with an offset the server counts.
            offset: Some(offset),
            limit: u32::try_from(steps * step).ok(),
            ..self.filters(data, chosen)
        }
    }

    pub(in crate::views) fn groups(
        &self,
        data: &Data,
        chosen: &Chosen,
        by: GroupBy,
    ) -> BufferQuery {
        BufferQuery {
            by: Some(by),
            ..self.filters(data, chosen)
        }
    }

    pub(super) fn words(&self, data: &Data, chosen: &Chosen) -> Vec<String> {
        let (find, line) = (self.find.text(), self.line.text());
        [
            chosen.pid.map(|pid| format!("pid {pid}")),
            self.device(data, chosen)
                .map(|device| format!("device {}", device.id)),
            self.class.map(|class| class.to_string()),
            self.min_bytes
                .map(|size| format!("at least {}", format::bytes(size))),
            self.operation
                .as_ref()
                .map(|name| format!("operation has \"{name}\"")),
            (!line.is_empty()).then(|| format!("Python line has \"{line}\"")),
            (!find.is_empty()).then(|| format!("find \"{find}\"")),
            self.since
                .map(|since| format!("since {}", since_text(since, data))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn since_text(since: Timestamp, data: &Data) -> String {
    let now = data.time().unwrap_or(since);
    format!("{} UTC", format::time_near(since, now))
}

/// The sums that answer a question; none while they have not come.
pub(in crate::views) fn sums<'d>(asked: &BufferQuery, data: &'d Data) -> Option<&'d BufferGroups> {
    let (query, groups) = &data.groups.as_ref()?.document;
    same(query, asked).then_some(groups)
}

/// Whether two questions have the same rows for an answer, if not the same window of them.
pub(super) fn same(one: &BufferQuery, other: &BufferQuery) -> bool {
    let all = |query: &BufferQuery| BufferQuery {
        offset: None,
        limit: None,
        cursor: None,
        ..query.clone()
    };
    all(one) == all(other)
}

/// What follows in a list; none behind the last.
fn after<T: PartialEq + Copy>(list: &[T], now: T) -> Option<T> {
    let place = list.iter().position(|known| *known == now)?;
    list.get(place + 1).copied()
}
