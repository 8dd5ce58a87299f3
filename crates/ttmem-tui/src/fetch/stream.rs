//! Listens to every event while a view shows them.

use super::RETRY;
use super::settings::SharedSettings;
use crate::data::{Source, TAIL_EVENTS, Update};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use ttmem_api::{
    ApiClient, ApiRequestError, EventReader, StreamEvent, StreamMessage, Streamed, Timestamp,
};

/// Events are handed over so often, however many they are.
const BATCH: Duration = Duration::from_millis(100);

/// As many events of a batch are taken in where some are enough: a screen of rows, ten times a
/// second.
const SAMPLE: usize = 60;

/// How long those who look once wait for an event that the server has applied.
const BRIEFLY: Duration = Duration::from_secs(5);

/// While no view shows events there is nothing to do: a new want ends the wait.
const IDLE: Duration = Duration::from_secs(3600);

/// Events from before that a view of events begins with.
const LOOK_BACK: u64 = 500;

#[derive(Debug)]
pub(super) struct Listener {
    client: ApiClient,
    settings: Arc<SharedSettings>,
    updates: SyncSender<Update>,
    /// The event behind which the stream goes on.
    after: Option<u64>,
    /// The start of the server whose ids these are.
    started: Option<Timestamp>,
    /// Whether events were left unread, and the stream is to go on with the newest.
    skips: bool,
    /// Events from before that may come at once.
    look_back: usize,
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
            after: None,
            started: None,
            skips: false,
            look_back: 0,
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
                continue;
            }
            let ended = match self.client.events(self.after) {
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
            let most = SAMPLE + std::mem::take(&mut self.look_back);
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
            if let Some(last) = events.last() {
                self.after = Some(last.id);
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
                self.skips = true;
                return Ended::Otherwise;
            }
            handed_over = Instant::now();
        }
    }

    fn take(&mut self, message: StreamMessage, events: &mut Vec<StreamEvent>) -> Result<(), Ended> {
        match message {
            StreamMessage::Hello(hello) if self.started != Some(hello.started) => {
                // The first server, or another one, whose ids count anew: shortly before now.
                self.started = Some(hello.started);
                self.after = Some(hello.newest.saturating_sub(LOOK_BACK));
                self.look_back = usize::try_from(LOOK_BACK).unwrap_or(0);
                Err(Ended::Otherwise)
            }
            StreamMessage::Hello(hello) if std::mem::take(&mut self.skips) => {
                let newest = Some(hello.newest.saturating_sub(SAMPLE as u64));
                if newest <= self.after {
                    return Ok(());
                }
                self.after = newest;
                Err(Ended::Otherwise)
            }
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
            // Totals are the snapshot's.
            StreamMessage::Hello(_) => Ok(()),
        }
    }
}

pub(crate) fn fetch_last_events(
    client: &ApiClient,
    mut take: impl FnMut(Update),
) -> Result<(), ApiRequestError> {
    let newest = client.snapshot()?.server.events_applied;
    let mut events = Vec::new();
    if newest > 0 {
        let mut reader = client.events(Some(newest.saturating_sub(LOOK_BACK)))?;
        while let Streamed::Message(message) = reader.wait(BRIEFLY)? {
            if let StreamMessage::Event(event) = *message {
                let is_last = event.id >= newest;
                events.push(event);
                if is_last {
                    break;
                }
            }
        }
    }
    take(Update::Events(events));
    Ok(())
}
