//! The latest documents, each with the moment it came, and how the connection is.
//!
//! The feed hands over what the server said, [`Data::apply`] puts it here, the views read it. What
//! no view wanted lately is simply old, and has its age.

use crate::wants::DeviceKey;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ttmem_api::{
    BlockMap, BufferGroups, BufferPage, BufferQuery, Device, History, KernelRow, L1Map, ProgramRow,
    Snapshot, StreamChanges, StreamDevice, StreamEvent, Timestamp,
};

/// The most events of the tail that are kept.
pub(crate) const TAIL_EVENTS: usize = 10_000;

/// Figures older than so many intervals are called stale.
const STALE_INTERVALS: u32 = 3;

/// So long after a whole snapshot, what changed since is shown beside it.
const CHANGES_FIT: Duration = Duration::from_secs(2);

/// A document and when it came.
#[derive(Debug, Clone)]
pub(crate) struct Fresh<T> {
    /// What came.
    pub(crate) document: T,
    /// When.
    pub(crate) received: Instant,
}

/// How the connection is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Link {
    /// Nothing was heard yet.
    #[default]
    Connecting,
    /// The last question was answered.
    Up,
    /// The server does not answer.
    Down {
        /// Since when.
        since: Instant,
        /// What was said.
        reason: String,
    },
}

/// Rows of a list of which the server was asked for the first thousands.
#[derive(Debug, Clone)]
pub(crate) struct Listed<R> {
    /// The rows that were asked for.
    pub(crate) rows: Vec<R>,
    /// Whether there are more.
    pub(crate) has_more: bool,
}

/// Rows of a list that may be far longer than what is here.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// What was asked; the first row here is at its offset.
    pub(crate) query: BufferQuery,
    /// What was answered.
    pub(crate) page: BufferPage,
}

impl Window {
    /// The place of the first row that is here.
    pub(crate) fn first(&self) -> u64 {
        self.query.offset.unwrap_or(0)
    }
}

/// The newest events of the server's stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tail {
    /// Newest last; at most [`TAIL_EVENTS`]. Shared, because who stops to read keeps them.
    pub(crate) events: VecDeque<Arc<StreamEvent>>,
    /// Events that had to go for newer ones: the place of the first among all that ever came.
    pub(crate) gone: u64,
    /// Events that this reader was too slow for.
    pub(crate) missed: u64,
}

/// Something that the feed brings.
#[derive(Debug, Clone)]
pub(crate) enum Update {
    /// All totals.
    Snapshot(Box<Snapshot>),
    /// Totals that changed since.
    Changes(StreamChanges),
    /// The last ten minutes.
    Recent(History),
    /// So many seconds of history.
    History(u32, History),
    /// L1 of a device.
    L1Map(DeviceKey, Box<L1Map>),
    /// The banks of a device.
    Blocks(DeviceKey, Box<BlockMap>),
    /// Programs.
    Programs(Listed<ProgramRow>),
    /// Kernels.
    Kernels(Listed<KernelRow>),
    /// Some buffers.
    Buffers(Window),
    /// Buffers summed up.
    Groups(BufferQuery, BufferGroups),
    /// Events of the raw stream.
    Events(Vec<StreamEvent>),
    /// Events that will not come.
    Missed(u64),
    /// How the connection is.
    Link(Link),
    /// What the server answered to a request.
    Notice(String),
    /// Why something that is wanted does not come, or that it does again.
    Trouble(Source, Option<String>),
}

/// What does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A document that a view wants.
    Document,
    /// The stream of changes or events.
    Stream,
}

/// Everything that views draw from.
#[derive(Debug, Clone)]
pub(crate) struct Data {
    /// The moment for which a frame is drawn.
    pub(crate) now: Instant,
    /// How often the server is asked.
    pub(crate) interval: Duration,
    /// Where the data comes from, as the user named it.
    pub(crate) address: String,
    /// How the connection is.
    pub(crate) link: Link,
    /// Nothing is taken in for the time being.
    pub(crate) paused: bool,
    /// All totals.
    pub(crate) snapshot: Option<Fresh<Snapshot>>,
    /// The last ten minutes of every device, for small curves; always wanted.
    pub(crate) recent: Option<Fresh<History>>,
    /// The history that the device view asked for: its reach, and itself.
    pub(crate) history: Option<Fresh<(u32, History)>>,
    /// L1 of a device.
    pub(crate) l1map: Option<Fresh<(DeviceKey, L1Map)>>,
    /// The banks of a device.
    pub(crate) blocks: Option<Fresh<(DeviceKey, BlockMap)>>,
    /// Programs.
    pub(crate) programs: Option<Fresh<Listed<ProgramRow>>>,
    /// Kernels.
    pub(crate) kernels: Option<Fresh<Listed<KernelRow>>>,
    /// Some buffers.
    pub(crate) buffers: Option<Fresh<Window>>,
    /// Buffers summed up.
    pub(crate) groups: Option<Fresh<(BufferQuery, BufferGroups)>>,
    /// The newest events.
    pub(crate) tail: Tail,
    /// Events applied per second, of late.
    pub(crate) events_per_second: Option<u64>,
    /// What the server answered to the last thing that the user asked it to do.
    pub(crate) notice: Option<Fresh<String>>,
    /// Why a document that a view wants does not come, and why the stream does not.
    pub(crate) troubles: [Option<String>; 2],
    /// When the last whole snapshot came, and the events that it counted.
    counted: Option<(Instant, u64)>,
}

impl Data {
    /// Nothing yet, of a server that the user knows by this address.
    pub(crate) fn new(address: impl Into<String>, interval: Duration, now: Instant) -> Self {
        Self {
            now,
            interval,
            address: address.into(),
            link: Link::default(),
            paused: false,
            snapshot: None,
            recent: None,
            history: None,
            l1map: None,
            blocks: None,
            programs: None,
            kernels: None,
            buffers: None,
            groups: None,
            tail: Tail::default(),
            events_per_second: None,
            notice: None,
            troubles: [None, None],
            counted: None,
        }
    }

    /// Takes in what the feed brought at a moment.
    pub(crate) fn apply(&mut self, update: Update, received: Instant) {
        match update {
            Update::Snapshot(mut snapshot) => {
                // The server has them in the order of their meshes; people look for numbers.
                let devices = &mut snapshot.devices;
                devices.sort_by(|one, other| (&one.scope, one.id).cmp(&(&other.scope, other.id)));
                self.count(received, snapshot.server.events_applied);
                self.snapshot = fresh(*snapshot, received);
            }
            Update::Changes(changes) => self.change(&changes, received),
            Update::Recent(history) => self.recent = fresh(history, received),
            Update::History(seconds, history) => self.history = fresh((seconds, history), received),
            Update::L1Map(device, map) => self.l1map = fresh((device, *map), received),
            Update::Blocks(device, map) => self.blocks = fresh((device, *map), received),
            Update::Programs(programs) => self.programs = fresh(programs, received),
            Update::Kernels(kernels) => self.kernels = fresh(kernels, received),
            Update::Buffers(window) => self.buffers = fresh(window, received),
            Update::Groups(query, groups) => self.groups = fresh((query, groups), received),
            Update::Events(events) => self.tail.take(events),
            Update::Missed(missed) => self.tail.missed = self.tail.missed.saturating_add(missed),
            Update::Link(link) => self.link = link,
            Update::Notice(notice) => self.notice = fresh(notice, received),
            Update::Trouble(source, reason) => self.troubles[source as usize] = reason,
        }
    }

    /// The totals, if there are any.
    pub(crate) fn totals(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref().map(|fresh| &fresh.document)
    }

    /// The devices; none while nothing is known.
    pub(crate) fn devices(&self) -> &[Device] {
        self.totals().map_or(&[], |snapshot| &snapshot.devices)
    }

    /// The time of the server's clock at the moment of the frame.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        let snapshot = self.snapshot.as_ref()?;
        let since = self.now.saturating_duration_since(snapshot.received);
        let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let then = snapshot.document.time.unix_nanos();
        Some(Timestamp::from_unix_nanos(then.saturating_add(since)))
    }

    /// Seconds since a time of the server's clock; 0 of one that lies ahead.
    pub(crate) fn age_seconds(&self, time: Timestamp) -> Option<u64> {
        let now = self.time()?.unix_nanos();
        Some(now.saturating_sub(time.unix_nanos()) / 1_000_000_000)
    }

    /// How old the totals are, if that is too old to be called live.
    pub(crate) fn stale(&self) -> Option<Duration> {
        // By the last whole snapshot: a change brings only some figures up to date.
        let (received, _events) = self.counted?;
        let age = self.now.saturating_duration_since(received);
        let limit = (self.interval * STALE_INTERVALS).max(Duration::from_secs(3));
        (age > limit).then_some(age)
    }

    /// Events per second, from one snapshot to the next.
    fn count(&mut self, received: Instant, applied: u64) {
        if let Some((before, counted)) = self.counted {
            let millis = received.saturating_duration_since(before).as_millis();
            let events = u128::from(applied.saturating_sub(counted)) * 1000;
            self.events_per_second = events
                .checked_div(millis)
                .map(|rate| u64::try_from(rate).unwrap_or(u64::MAX));
        }
        self.counted = Some((received, applied));
    }

    /// Brings the totals that a change tells up to date.
    ///
    /// Only those that stand for themselves, and only shortly after a whole snapshot: figures that
    /// are shown together must be of nearly one moment. What lies in L1 is left to the next
    /// snapshot, because a change does not say what is occupied.
    fn change(&mut self, changes: &StreamChanges, received: Instant) {
        let (Some(snapshot), Some((whole, _events))) = (&mut self.snapshot, self.counted) else {
            return;
        };
        // One that was on its way while a newer snapshot came.
        let is_old = changes.time < snapshot.document.time;
        if is_old || received.saturating_duration_since(whole) > CHANGES_FIT {
            return;
        }
        for changed in &changes.devices {
            let mut devices = snapshot.document.devices.iter_mut();
            let device = devices.find(|device| is_same(device, changed));
            // Where several have this name nobody can say which one it is.
            if let Some(device) = device
                && !devices.any(|other| is_same(other, changed))
            {
                bring_up_to_date(device, changed, changes.time);
            }
        }
        snapshot.document.time = changes.time;
        snapshot.received = received;
    }
}

/// Whether a change is of this device, as far as names tell.
///
/// A unique id does; without one, a logical id and what it counts under. Older servers do not say
/// the latter: then several devices may seem to be it.
fn is_same(device: &Device, changed: &StreamDevice) -> bool {
    match changed.unique_id {
        Some(_) => device.unique_id == changed.unique_id,
        None => {
            let is_of_scope = changed.scope.is_none() || changed.scope == device.scope;
            device.unique_id.is_none() && device.id == changed.id && is_of_scope
        }
    }
}

fn fresh<T>(document: T, received: Instant) -> Option<Fresh<T>> {
    Some(Fresh { document, received })
}

fn bring_up_to_date(device: &mut Device, changed: &StreamDevice, time: Timestamp) {
    for (class, charged) in [
        (&mut device.dram, changed.dram_bytes),
        (&mut device.trace, changed.trace_bytes),
    ] {
        // Where allocators overlap only the server can say how much.
        if class
            .union_bytes
            .is_some_and(|union| union == class.charged_bytes)
        {
            class.union_bytes = Some(charged);
            class.charged_bytes = charged;
            if charged > class.peak_bytes {
                class.peak_bytes = charged;
                class.peak_time = Some(time);
            }
        }
    }
    device.dispatches = changed.dispatches;
}

impl Tail {
    fn take(&mut self, events: Vec<StreamEvent>) {
        self.events.extend(events.into_iter().map(Arc::new));
        let over = self.events.len().saturating_sub(TAIL_EVENTS);
        self.events.drain(..over);
        self.gone += u64::try_from(over).unwrap_or(u64::MAX);
    }

    /// The place behind the newest event, among all that ever came.
    pub(crate) fn end(&self) -> u64 {
        self.gone + u64::try_from(self.events.len()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
