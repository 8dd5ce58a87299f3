//! Live buffers by what a reader asks for: filtered, sorted, counted, put into groups.
//!
//! Every row is looked at once; only those of the page are made. A page of a million buffers
//! takes some tens of milliseconds of the reader's own thread, and none of the ledger's.

use super::http::Refusal;
use super::rows::{self, PageBytes, PageRequest};
use super::vocabulary;
use std::collections::HashMap;
use std::hash::Hash;
use ttmem_event::TextId;
use ttmem_ledger::{ProcessView, View};
use ttmem_report::{
    BufferGroup, BufferGroups, BufferQuery, BufferRow, GroupBy, MemoryClass, Page, SCHEMA, Search,
    SortBy, Timestamp,
};

/// The most groups of an answer; the rest is counted.
const MAX_GROUPS: usize = 1000;

/// Which buffers, and which of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// What filters, with the operation in lower case.
    query: BufferQuery,
    find: Search,
    order: Order,
    after: Option<Place>,
    limit: usize,
    /// The question without filter and order, for which not every row is looked at.
    plain: Option<PageRequest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    by: SortBy,
    descending: bool,
}

/// The place of a row in the order that was asked for: its key, its process, its slot there.
///
/// In the descending order each is counted from the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    key: u64,
    process: u32,
    slot: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { key, process, slot } = self;
        write!(f, "{CURSOR_PREFIX}{key}-{process}-{slot}")
    }
}

/// What a cursor of this module begins with; those of plain pages begin with a digit.
const CURSOR_PREFIX: &str = "k-";

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let [key, process, slot] = super::dashed(text.strip_prefix(CURSOR_PREFIX)?)?;
        Some(Self {
            key,
            process: u32::try_from(process).ok()?,
            slot: u32::try_from(slot).ok()?,
        })
    }
}

impl Selection {
    pub(super) fn of(mut query: BufferQuery) -> Result<Self, Refusal> {
        let limit = rows::page_rows(query.limit)?;
        for (parameter, is_known) in [
            ("class", query.class != Some(MemoryClass::Other)),
            ("sort", query.sort != Some(SortBy::Other)),
            ("by", query.by != Some(GroupBy::Other)),
        ] {
            if !is_known {
                return Err(Refusal::unknown_word(parameter));
            }
        }
        if query.cursor.is_some() && query.offset.is_some() {
            let detail = "a cursor and an offset say two different things";
            return Err(Refusal::bad_request(detail));
        }
        let order = Order {
            by: query.sort.unwrap_or(SortBy::Place),
            descending: query.descending,
        };
        query.operation = query.operation.map(|text| text.to_lowercase());
        query.python = query.python.map(|text| text.to_lowercase());
        let find = query.find.as_deref().map(Search::of).unwrap_or_default();
        let cursor = query.cursor.take();
        let cursor = cursor.as_deref();
        let unfiltered = BufferQuery {
            sort: query.sort,
            by: query.by,
            limit: query.limit,
            ..BufferQuery::default()
        };
        // Whoever began at an offset goes on with a cursor of that kind.
        let is_plain = query == unfiltered
            && order == Order::AS_IT_IS
            && !cursor.is_some_and(|cursor| cursor.starts_with(CURSOR_PREFIX));
        let (plain, after) = if is_plain {
            let request = PageRequest::new(cursor, query.limit)?;
            (Some(request), None)
        } else {
            let after = rows::parsed_cursor(cursor, Place::parse)?;
            (None, after)
        };
        Ok(Self {
            query,
            find,
            order,
            after,
            limit,
            plain,
        })
    }
}

pub(super) fn buffers(view: &View, selection: &Selection) -> Page<BufferRow> {
    if let Some(request) = selection.plain {
        return rows::buffers(view, request);
    }
    let mut places = Vec::new();
    let (mut matched, mut matched_bytes) = (0_u64, 0_u64);
    for (process, slot, row) in matching(view, selection) {
        matched += 1;
        matched_bytes = matched_bytes.saturating_add(row.charged_bytes());
        let place = selection.order.place(process.index, slot, row);
        if selection.after.is_none_or(|after| place > after) {
            places.push(place);
        }
    }
    let (page, mut more) = part_of(&mut places, selection.query.offset, selection.limit);
    let mut made = Vec::new();
    let mut bytes = PageBytes::default();
    let mut last = None;
    for place in page {
        if !bytes.have_room() {
            more = true;
            break;
        }
        last = Some(place);
        let (process, slot) = selection.order.row(place);
        let process = view.process(process);
        let found = process.and_then(|process| Some((process, process.rows.buffers.get(slot)?)));
        if let Some((process, row)) = found {
            let row = rows::buffer_row(view, process, row);
            bytes.add(&row);
            made.push(row);
        }
    }
    Page {
        schema: SCHEMA,
        rows: made,
        next: last.filter(|_last| more).map(Place::to_string),
        matched: Some(matched),
        matched_bytes: Some(matched_bytes),
    }
}

/// Places from an offset on, sorted, and whether there are more behind them; the others are left in
/// any order.
fn part_of(places: &mut [Place], offset: Option<u64>, limit: usize) -> (&[Place], bool) {
    let offset = usize::try_from(offset.unwrap_or(0)).unwrap_or(usize::MAX);
    if offset >= places.len() {
        return (&[], false);
    }
    if offset > 0 {
        places.select_nth_unstable(offset);
    }
    let rest = &mut places[offset..];
    let count = rest.len().min(limit);
    let more = rest.len() > count;
    if more {
        rest.select_nth_unstable(count);
    }
    let page = &mut rest[..count];
    page.sort_unstable();
    (page, more)
}

impl Order {
    /// As the server has the rows.
    const AS_IT_IS: Self = Self {
        by: SortBy::Place,
        descending: false,
    };

    /// The place of a row, such that the first row has the least.
    fn place(self, process: u32, slot: u32, row: &ttmem_ledger::BufferRow) -> Place {
        let key = match self.by {
            SortBy::Size => row.charged_bytes(),
            SortBy::Address => row.address,
            SortBy::Time => row.time,
            SortBy::Place | SortBy::Other => 0,
        };
        self.turned(Place { key, process, slot })
    }

    /// The process and the slot of the row at a place.
    fn row(self, place: &Place) -> (u32, u32) {
        let place = self.turned(*place);
        (place.process, place.slot)
    }

    /// A place from the other end where that is the order: there and back alike.
    fn turned(self, place: Place) -> Place {
        if !self.descending {
            return place;
        }
        Place {
            key: !place.key,
            process: !place.process,
            slot: !place.slot,
        }
    }
}

/// The rows that a filter lets through, with their processes and slots.
fn matching<'v>(
    view: &'v View,
    selection: &'v Selection,
) -> impl Iterator<Item = (&'v ProcessView, u32, &'v ttmem_ledger::BufferRow)> {
    let (filter, find) = (&selection.query, &selection.find);
    let processes = view
        .processes
        .iter()
        .filter(move |process| filter.pid.is_none() || process.facts.identity.pid == filter.pid);
    processes.flat_map(move |process| {
        let meshes = meshes_on_device(view, process, filter);
        let is_found = find.is_empty() || is_of_process(find, process);
        // Millions of rows share a few operations: each is looked at once.
        let mut operations: HashMap<TextId, bool> = HashMap::new();
        let mut stacks: HashMap<TextId, bool> = HashMap::new();
        let mut found: HashMap<TextId, bool> = HashMap::new();
        let rows = process.rows.buffers.iter();
        rows.filter_map(move |(slot, row)| {
            let is_large = filter
                .min_bytes
                .is_none_or(|least| row.charged_bytes() >= least);
            let is_recent = filter
                .since
                .is_none_or(|since| row.time >= since.unix_nanos());
            let lets_through = is_large
                && is_recent
                && filter
                    .class
                    .is_none_or(|class| vocabulary::class(row.class) == class)
                && meshes
                    .as_ref()
                    .is_none_or(|on| on.get(row.mesh as usize).copied().unwrap_or(false))
                && filter.operation.as_ref().is_none_or(|wanted| {
                    *operations.entry(row.operation).or_insert_with(|| {
                        let name = process.account.definitions.name(row.operation);
                        name.is_some_and(|name| name.to_lowercase().contains(wanted))
                    })
                })
                && filter.python.as_ref().is_none_or(|wanted| {
                    *stacks.entry(row.operation).or_insert_with(|| {
                        let mut frames = process.account.definitions.python_stack(row.operation);
                        frames.any(|frame| frame.to_lowercase().contains(wanted))
                    })
                })
                && (is_found
                    || find.is_in_number(row.address)
                    || find.is_in_number(row.id)
                    || *found.entry(row.operation).or_insert_with(|| {
                        let definitions = &process.account.definitions;
                        let name = definitions.text(row.operation);
                        name.is_some_and(|name| find.is_in(name))
                            || definitions
                                .python_stack(row.operation)
                                .any(|frame| find.is_in(frame))
                    }));
            lets_through.then_some((process, slot, row))
        })
    })
}

/// Whether a search means a process rather than something of it.
fn is_of_process(find: &Search, process: &ProcessView) -> bool {
    let identity = &process.facts.identity;
    let pid = identity.pid.map(|pid| pid.to_string());
    pid.is_some_and(|pid| find.is_in(&pid)) || find.is_in(&vocabulary::text(&identity.name))
}

/// Which meshes of a process lie on the device that was asked for; none if any device will do.
fn meshes_on_device(view: &View, process: &ProcessView, filter: &BufferQuery) -> Option<Vec<bool>> {
    if filter.device.is_none() && filter.unique_id.is_none() {
        return None;
    }
    let is_it = |slot: &u32| {
        let device = process.devices.get(*slot as usize);
        let device = device.and_then(|device| view.devices.get(*device as usize));
        device.is_some_and(|device| {
            let facts = &device.facts;
            filter.device.is_none_or(|id| facts.logical_id == id)
                && filter
                    .unique_id
                    .is_none_or(|id| facts.unique_id == Some(id.0))
        })
    };
    let meshes = process.account.meshes.iter();
    Some(meshes.map(|mesh| mesh.devices.iter().any(is_it)).collect())
}

/// What buffers of one group have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Number(u64),
    /// A process of the view and a text of it.
    Text(u32, TextId),
    Word(Option<&'static str>),
}

/// The buffers that were asked for, put together.
pub(super) fn groups(view: &View, selection: &Selection, time: Timestamp) -> BufferGroups {
    let by = selection.query.by.unwrap_or(GroupBy::Operation);
    let mut found: HashMap<Key, BufferGroup> = HashMap::new();
    for (process, _slot, row) in matching(view, selection) {
        let charged_bytes = row.charged_bytes();
        let key = match by {
            GroupBy::Size => Key::Number(charged_bytes),
            GroupBy::Process => Key::Number(u64::from(process.index)),
            GroupBy::Class => Key::Word(Some(vocabulary::class(row.class).as_str())),
            GroupBy::Layout => Key::Word(vocabulary::layout(row.layout).map(|word| word.as_str())),
            GroupBy::Operation | GroupBy::Line | GroupBy::Stack | GroupBy::Other => {
                Key::Text(process.index, row.operation)
            }
        };
        let allocated = Some(Timestamp::from_unix_nanos(row.time));
        let one = BufferGroup {
            key: None,
            stack: None,
            buffers: 1,
            charged_bytes,
            requested_bytes: row.requested_bytes,
            oldest: allocated,
            newest: allocated,
        };
        add(&mut found, key, one);
    }
    // The same text of two processes is one group.
    let mut named: HashMap<(Option<String>, Option<Vec<String>>), BufferGroup> = HashMap::new();
    found.into_iter().for_each(|(key, group)| {
        let (key, stack) = (name_of(view, &key, by), stack_of(view, &key, by));
        let group = BufferGroup {
            key: key.clone(),
            stack: stack.clone(),
            ..group
        };
        add(&mut named, (key, stack), group);
    });
    let mut groups: Vec<BufferGroup> = named.into_values().collect();
    groups.sort_unstable_by(|one, other| {
        let bytes = other.charged_bytes.cmp(&one.charged_bytes);
        bytes.then_with(|| (&one.key, &one.stack).cmp(&(&other.key, &other.stack)))
    });
    let buffers = groups.iter().map(|group| group.buffers).sum();
    let bytes = groups.iter().map(|group| group.charged_bytes);
    let charged_bytes = bytes.fold(0, u64::saturating_add);
    let left_out = groups.len().saturating_sub(MAX_GROUPS);
    groups.truncate(MAX_GROUPS);
    BufferGroups {
        schema: SCHEMA,
        time,
        by,
        groups,
        left_out: left_out as u64,
        buffers,
        charged_bytes,
    }
}

/// Adds buffers to those with the same key.
fn add<K: Eq + Hash>(groups: &mut HashMap<K, BufferGroup>, key: K, added: BufferGroup) {
    let Some(group) = groups.get_mut(&key) else {
        groups.insert(key, added);
        return;
    };
    group.buffers += added.buffers;
    group.charged_bytes = group.charged_bytes.saturating_add(added.charged_bytes);
    group.requested_bytes = group.requested_bytes.saturating_add(added.requested_bytes);
    group.oldest = group.oldest.min(added.oldest);
    group.newest = group.newest.max(added.newest);
}

/// The Python stack of a group, the outermost frame first.
fn stack_of(view: &View, key: &Key, by: GroupBy) -> Option<Vec<String>> {
    let Key::Text(process, text) = key else {
        return None;
    };
    if by != GroupBy::Stack {
        return None;
    }
    let mut frames = rows::python(view.process(*process)?, *text)?;
    frames.reverse();
    Some(frames)
}

fn name_of(view: &View, key: &Key, by: GroupBy) -> Option<String> {
    match key {
        Key::Number(index) if by == GroupBy::Process => {
            let process = view.process(u32::try_from(*index).ok()?)?;
            let identity = &process.facts.identity;
            Some(vocabulary::process_label(identity.pid, &identity.name))
        }
        Key::Number(bytes) => Some(bytes.to_string()),
        Key::Text(process, text) => {
            let process = view.process(*process)?;
            if matches!(by, GroupBy::Line | GroupBy::Stack) {
                rows::python_line(process, *text)
            } else {
                rows::defined_text(process, *text)
            }
        }
        Key::Word(word) => word.map(str::to_owned),
    }
}
