//! Listens to every event while a view shows them.

use super::RETRY;
use super::settings::SharedSettings;
use crate::data::{Source, TAIL_EVENTS, Update};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use ttmem_reader::{ApiClient, ApiRequestError, EventReader, Streamed};
use ttmem_report::{StreamEvent, StreamMessage, Timestamp};

/// Events are handed over so often, however many they are.
const BATCH: Duration = Duration::from_millis(100);

/// As many events of a batch are taken in where some are enough: a screen of rows, ten times a
/// second.
const SAMPLE: u32 = 60;

/// How long those who look once wait for an event that the server has applied.
const BRIEFLY: Duration = Duration::from_secs(5);

/// While no view shows events there is nothing to do: a new want ends the wait.
const IDLE: Duration = Duration::from_secs(3600);

/// Events from before that a view of events begins with.
pub(super) const LOOK_BACK: u32 = 500;

#[derive(Debug)]
pub(super) struct Listener {
    client: ApiClient,
    settings: Arc<SharedSettings>,
    updates: SyncSender<Update>,
    /// The last event that was handed over, and the start of the server whose id that is.
    seen: Option<(Timestamp, u64)>,
    /// The start of the server that is listened to.
    started: Option<Timestamp>,
    /// The stream is to go on with the newest events, so many, not where it ended.
    newest: Option<u32>,
    /// Whether the app knows that the server refuses the stream.
    refused: bool,
}

enum Ended {
    /// Something else is wanted, or from elsewhere.
    Otherwise,
    /// The server is gone, or ended it.
    Broken,
    AppGone,
}

impl Listener {
    pub(super) fn new(
        client: ApiClient,
        settings: Arc<SharedSettings>,
        updates: SyncSender<Update>,
    ) -> Self {
        Self {
            client,
            settings,
            updates,
            seen: None,
            started: None,
            newest: Some(LOOK_BACK),
            refused: false,
        }
    }

    pub(super) fn run(mut self) {
        while let Some(settings) = self.settings.get() {
            if !settings.streams_events {
                if self.send_trouble(None).is_err() {
                    return;
                }
                self.settings.wait_until(Instant::now() + IDLE, &settings);
                self.newest = Some(LOOK_BACK);
                continue;
            }
            let stream = match self.newest {
                Some(count) => self.client.newest_events(count),
                None => self.client.events(self.seen.map(|(_started, id)| id)),
            };
            let ended = match stream {
                Ok(mut reader) => match self.send_trouble(None) {
                    Ok(()) => self.listen(&mut reader),
                    Err(ended) => ended,
                },
                Err(error @ ApiRequestError::Status { .. }) => {
                    let sent = self.send_trouble(Some(error.to_string()));
                    sent.err().unwrap_or(Ended::Broken)
                }
                // The other thread reports that the server is gone.
                Err(_unreachable) => Ended::Broken,
            };
            match ended {
                Ended::Otherwise => {}
                Ended::Broken => self.settings.wait_until(Instant::now() + RETRY, &settings),
                Ended::AppGone => return,
            }
        }
    }

    fn send_trouble(&mut self, reason: Option<String>) -> Result<(), Ended> {
        let refused = reason.is_some();
        if !refused && !self.refused {
            return Ok(());
        }
        self.refused = refused;
        let sent = self.updates.send(Update::Trouble(Source::Stream, reason));
        sent.map_err(|_gone| Ended::AppGone)
    }

    fn listen(&mut self, reader: &mut EventReader) -> Ended {
        let mut events: Vec<StreamEvent> = Vec::new();
        let mut handed_over = Instant::now();
        loop {
            let Some(settings) = self
                .settings
                .get()
                .filter(|settings| settings.streams_events)
            else {
                return Ended::Otherwise;
            };
            let most = SAMPLE.max(self.newest.unwrap_or(0)) as usize;
            let enough = |taken: usize| settings.samples_events && taken >= most;
            loop {
                match reader.wait(BATCH.saturating_sub(handed_over.elapsed())) {
                    Ok(Streamed::Message(message)) => {
                        if let Err(ended) = self.take(*message, &mut events) {
                            return ended;
                        }
                    }
                    Ok(Streamed::Quiet) => break,
                    Ok(Streamed::Ended) | Err(_) => return Ended::Broken,
                }
                if handed_over.elapsed() >= BATCH || enough(events.len()) {
                    break;
                }
            }
            let skips = enough(events.len());
            if let (Some(started), Some(last)) = (self.started, events.last()) {
                self.seen = Some((started, last.id));
                self.newest = None;
                let events = std::mem::take(&mut events);
                if self.updates.send(Update::Events(events)).is_err() {
                    return Ended::AppGone;
                }
            }
            if skips {
                // What comes meanwhile is not read: the stream goes on with the newest then. The ids
                // tell the view how many it left out.
                let until = Instant::now() + BATCH.saturating_sub(handed_over.elapsed());
                self.settings.wait_until(until, &settings);
                self.newest = Some(SAMPLE);
                return Ended::Otherwise;
            }
            handed_over = Instant::now();
        }
    }

    fn take(&mut self, message: StreamMessage, events: &mut Vec<StreamEvent>) -> Result<(), Ended> {
        match message {
            StreamMessage::Hello(hello) => {
                self.started = Some(hello.started);
                let is_other = self
                    .seen
                    .is_some_and(|(started, _id)| started != hello.started);
                if is_other && self.newest.is_none() {
                    // Its ids count anew.
                    self.newest = Some(LOOK_BACK);
                    return Err(Ended::Otherwise);
                }
                Ok(())
            }
            StreamMessage::Event(event) if self.is_seen(event.id) => Ok(()),
            StreamMessage::Event(event) => {
                // More than can be kept need not be handed over.
                if events.len() >= TAIL_EVENTS {
                    events.drain(..TAIL_EVENTS / 2);
                }
                events.push(event);
                Ok(())
            }
            StreamMessage::Gap(gap) => {
                let missed = gap.resumes.saturating_sub(gap.after.saturating_add(1));
                let sent = self.updates.send(Update::Missed(missed));
                sent.map_err(|_gone| Ended::AppGone)
            }
        }
    }

    /// Whether an event was handed over: the newest may reach back behind where the stream ended.
    fn is_seen(&self, id: u64) -> bool {
        let seen = self.seen;
        seen.is_some_and(|(started, last)| Some(started) == self.started && id <= last)
    }
}

pub(crate) fn fetch_last_events(
    client: &ApiClient,
    mut take: impl FnMut(Update),
) -> Result<(), ApiRequestError> {
    let mut events = Vec::new();
    let mut reader = client.newest_events(LOOK_BACK)?;
    let mut newest = None;
    while newest.is_none_or(|newest| events.last().map_or(0, |last: &StreamEvent| last.id) < newest)
    {
        let Streamed::Message(message) = reader.wait(BRIEFLY)? else {
            break;
        };
        match *message {
            StreamMessage::Hello(hello) => newest = Some(hello.newest),
            StreamMessage::Event(event) => events.push(event),
            StreamMessage::Gap(_) => {}
        }
    }
    take(Update::Events(events));
    Ok(())
}
