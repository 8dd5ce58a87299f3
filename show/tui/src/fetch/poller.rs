//! Asks for documents in turn, each as often as the user likes and the server can bear.
//!
//! Of an instant of a recording everything is asked for once, and handed over together: what follows is
//! of the same instant until another one is handed over.

use super::RETRY;
use super::document::Document;
use super::settings::{Settings, SharedSettings};
use crate::data::{Link, Source, Update};
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use ttmem_reader::{ApiClient, ApiRequestError};
use ttmem_report::{RecordingSource, Timestamp};

/// Small curves have steps of a second in a few columns: they need no more than this.
const RECENT_INTERVAL: Duration = Duration::from_secs(5);

/// What is recorded grows at one end: nobody waits for it.
const RECORDING_INTERVAL: Duration = Duration::from_secs(5);

/// A history has steps of a second at least: asked for more often it would say the same.
const HISTORY_INTERVAL: Duration = Duration::from_secs(1);

/// A document that takes long is not fetched again for so many times as long.
const REST: u32 = 10;

/// Marks that may wait for a server that does not answer.
const MARKS: u32 = 8;

#[derive(Debug)]
pub(super) struct Poller {
    client: ApiClient,
    settings: Arc<SharedSettings>,
    updates: SyncSender<Update>,
    /// The instant that was handed over last.
    at: Option<Timestamp>,
    /// Whether the server shows a file, in which nothing changes.
    is_file: bool,
    fetched: Vec<Fetched>,
    was_up: bool,
    /// What was sent last of documents that do not come.
    trouble: Option<String>,
    /// Marks that the server was asked for.
    marks: u32,
}

struct AppGone;

impl Poller {
    pub(super) fn new(
        client: ApiClient,
        settings: Arc<SharedSettings>,
        updates: SyncSender<Update>,
    ) -> Self {
        Self {
            client,
            settings,
            updates,
            at: None,
            is_file: false,
            fetched: Vec::new(),
            was_up: false,
            trouble: None,
            marks: 0,
        }
    }

    pub(super) fn run(mut self) {
        let mut refreshes = 0;
        while let Some(settings) = self.settings.get() {
            if settings.refreshes != refreshes {
                refreshes = settings.refreshes;
                self.fetched.clear();
            }
            let Ok(next) = self.round(&settings) else {
                return;
            };
            self.settings.wait_until(next, &settings);
        }
    }

    /// Fetches what is due; when the next document is.
    fn round(&mut self, settings: &Settings) -> Result<Instant, AppGone> {
        self.set_marks(settings.marks)?;
        let wanted = Document::TOTALS.iter().chain(&settings.documents);
        let documents: Vec<Document> = wanted.cloned().collect();
        self.fetched
            .retain(|fetched| documents.iter().any(|known| fetched.is_of(known)));
        let mut next = Instant::now() + settings.interval;
        let client = self.client.clone().at_instant(settings.at);
        // All of another instant, before any of it is shown.
        let mut together = (settings.at != self.at).then(Vec::new);
        if together.is_some() {
            self.fetched
                .retain(|fetched| fetched.document == Document::Recording);
        }
        for document in documents {
            let before = self.fetched.iter().find(|known| known.document == document);
            let is_total = Document::TOTALS.contains(&document);
            // While the user holds it, only what a view does not have yet is asked for.
            if settings.paused && (is_total || before.is_some()) {
                continue;
            }
            let began = Instant::now();
            if let Some(before) = before.filter(|before| before.is_fresh(began)) {
                next = before.due.map_or(next, |due| next.min(due));
                continue;
            }
            let trouble = match document.fetch(&client) {
                Ok(update) => {
                    self.answered()?;
                    if let Update::Recording(found) = &update {
                        let source = found.as_ref().map(|found| found.source);
                        self.is_file = source == Some(RecordingSource::File);
                        self.send(update)?;
                    } else if let Some(together) = &mut together {
                        together.push(update);
                    } else {
                        self.send(update)?;
                    }
                    None
                }
                // Without totals nothing on the screen is live.
                Err(error) if document == Document::Snapshot || is_unreachable(&error) => {
                    self.failed(&error)?;
                    return Ok(Instant::now() + RETRY);
                }
                // The server is there and cannot answer this one: the others go on.
                Err(error) => Some(error.to_string()),
            };
            let mut fetched = Fetched::new(document, trouble, began, settings.interval);
            let stands = settings.at.is_some() && fetched.document != Document::Recording;
            if (self.is_file || stands) && fetched.trouble.is_none() {
                fetched.due = None;
            }
            next = fetched.due.map_or(next, |due| next.min(due));
            self.forget(&fetched.document);
            self.fetched.push(fetched);
        }
        if let Some(together) = together {
            self.at = settings.at;
            self.send(Update::Instant(settings.at, together))?;
        }
        self.send_trouble()?;
        Ok(next)
    }

    fn forget(&mut self, document: &Document) {
        self.fetched.retain(|fetched| !fetched.is_of(document));
    }

    fn send_trouble(&mut self) -> Result<(), AppGone> {
        let trouble = self
            .fetched
            .iter()
            .find_map(|fetched| fetched.trouble.clone());
        if trouble == self.trouble {
            return Ok(());
        }
        self.trouble.clone_from(&trouble);
        self.send(Update::Trouble(Source::Document, trouble))
    }

    fn set_marks(&mut self, marks: u32) -> Result<(), AppGone> {
        self.marks = self.marks.max(marks.saturating_sub(MARKS));
        while self.marks < marks {
            self.marks += 1;
            let update = match self.client.mark(&format!("top {}", self.marks)) {
                Ok(marked) => {
                    // The mark is in the next snapshot, which should not be long in coming.
                    self.forget(&Document::Snapshot);
                    Update::Marked(marked.mark)
                }
                Err(error) => Update::Notice(format!("no mark was set: {error}")),
            };
            self.send(update)?;
        }
        Ok(())
    }

    fn answered(&mut self) -> Result<(), AppGone> {
        if self.was_up {
            return Ok(());
        }
        self.was_up = true;
        self.send(Update::Link(Link::Up))
    }

    fn failed(&mut self, error: &ApiRequestError) -> Result<(), AppGone> {
        self.was_up = false;
        // Another server may answer next.
        self.forget(&Document::Recording);
        self.forget(&Document::Snapshot);
        let reason = error.to_string();
        self.send(Update::Link(Link::Down { reason }))
    }

    fn send(&self, update: Update) -> Result<(), AppGone> {
        self.updates.send(update).map_err(|_gone| AppGone)
    }
}

#[derive(Debug)]
struct Fetched {
    document: Document,
    /// When it is asked for again; never where nothing changes.
    due: Option<Instant>,
    trouble: Option<String>,
}

impl Fetched {
    fn new(
        document: Document,
        trouble: Option<String>,
        began: Instant,
        interval: Duration,
    ) -> Self {
        let interval = match &document {
            Document::Recording => interval.max(RECORDING_INTERVAL),
            Document::Recent => interval.max(RECENT_INTERVAL),
            Document::History(_) => interval.max(HISTORY_INTERVAL),
            _other => interval,
        };
        let rest = began.elapsed().saturating_mul(REST);
        Self {
            document,
            due: Some(began + interval.max(rest)),
            trouble,
        }
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| now < due)
    }

    /// Whether it is a document of the same kind, if perhaps another part of it.
    fn is_of(&self, document: &Document) -> bool {
        discriminant(&self.document) == discriminant(document)
    }
}

fn is_unreachable(error: &ApiRequestError) -> bool {
    matches!(
        error,
        ApiRequestError::NotRunning { .. }
            | ApiRequestError::Connect { .. }
            | ApiRequestError::Broken { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_document_rests() {
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let due = |document, began| {
            let fetched = Fetched::new(document, None, began, second);
            fetched.due.expect("it is asked for again")
        };
        assert_eq!(due(Document::Snapshot, began), began + second);
        assert_eq!(due(Document::Recent, began), began + RECENT_INTERVAL);
        let often = Fetched::new(Document::History(60), None, began, second / 10).due;
        assert_eq!(often, Some(began + HISTORY_INTERVAL));
        let long_ago = began - Duration::from_secs(5);
        assert!(due(Document::Snapshot, long_ago) >= began + Duration::from_secs(45));
    }

    #[test]
    fn another_part_of_a_document_takes_the_place_of_the_last() {
        let fetched = Fetched::new(Document::History(60), None, Instant::now(), RETRY);
        assert!(fetched.is_of(&Document::History(600)));
        assert!(!fetched.is_of(&Document::Recent));
    }
}
