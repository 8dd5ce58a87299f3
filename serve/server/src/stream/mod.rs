//! Streams of events, for readers that stay.
//!
//! The ledger thread adds every batch it applied to the [journal](crate::journal). A reader is a
//! task that turns what is new there into messages. No reader is waited for: one that is slow finds a
//! gap where it should go on, and one that takes nothing at all for half a minute is dropped.

mod body;

pub(crate) use body::StreamBody;

use crate::journal::{Batch, Journal, Names};
use crate::ledger_thread::LedgerHandle;
use crate::read::Permit;
use axum::body::Bytes;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use ttmem_ledger::{Audience, View};
use ttmem_report::{SCHEMA, StreamGap, StreamHello, StreamMessage, Timestamp, escape_json};

/// Pieces of a stream that may wait for a reader; what it does not take stays in the journal.
const QUEUE: usize = 2;

/// Something is sent at least so often, so that both ends notice when the other is gone.
const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Clone, Debug)]
pub(crate) struct Streams {
    ledger: LedgerHandle,
    journal: Journal,
    audience: Audience,
}

impl Streams {
    pub(crate) fn new(ledger: LedgerHandle, journal: Journal, audience: Audience) -> Self {
        Self {
            ledger,
            journal,
            audience,
        }
    }

    /// A stream that goes on behind the id `after`; its permit is given back when it ends, also
    /// because its reader took nothing for as long as `timeout`.
    pub(crate) fn open(
        &self,
        after: Option<u64>,
        started: Timestamp,
        permit: Permit,
        timeout: Duration,
    ) -> (StreamBody, StreamEnd) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (ends, ended) = oneshot::channel();
        let reader = Reader {
            sender,
            timeout,
            _permit: permit,
            _ends: ends,
        };
        let hello = message(&StreamMessage::Hello(StreamHello {
            schema: SCHEMA,
            started,
            newest: self.journal.newest(),
        }));
        let streams = self.clone();
        tokio::spawn(async move {
            if reader.send(hello).await {
                streams.serve(reader, after).await;
            }
        });
        (StreamBody::new(receiver), ended)
    }

    /// Sends events to a reader until it is gone or the server stops.
    async fn serve(self, reader: Reader, after: Option<u64>) {
        let Self {
            ledger,
            journal,
            audience,
        } = self;
        let mut newest = journal.watch();
        // An id that is not reached yet is one of another server.
        let begin = *newest.borrow_and_update();
        let mut last = after.filter(|after| *after <= begin).unwrap_or(begin);
        if let Some(after) = after.filter(|after| *after > begin)
            && !reader
                .send(gap(after, begin + 1, "the id is not one of this server's"))
                .await
        {
            return;
        }
        // Who comes back with an old id was away; later only slowness leaves one behind.
        let mut why_behind = Behind::Away;
        loop {
            let seen = *newest.borrow_and_update();
            // What is kept may already be newer than what was seen of it.
            if seen <= last {
                why_behind = Behind::Slow;
                match reader.wait(&mut newest).await {
                    Wake::NewEvents => tokio::time::sleep(GATHER).await,
                    Wake::Heartbeat => {}
                    Wake::Closed => return,
                }
                continue;
            }
            let since = journal.since(last, AT_ONCE);
            if since.oldest > last + 1 {
                let resumes = why_behind.resumes(since.oldest, seen);
                let notice = gap(last, resumes, why_behind.reason());
                last = resumes - 1;
                if !reader.send(notice).await {
                    return;
                }
                continue;
            }
            // Behind the events: it knows all that they refer to.
            let Some(view) = ledger.view().await else {
                return;
            };
            let written =
                tokio::task::spawn_blocking(move || write(&view, audience, &since.batches, last));
            let Ok((text, reached)) = written.await else {
                return;
            };
            last = reached;
            why_behind = Behind::Slow;
            if !reader.send(text).await {
                return;
            }
        }
    }
}

/// Events of one piece: what waits for a reader that does not take it is bounded.
const AT_ONCE: usize = 2000;

/// Between two looks: what comes meanwhile is sent together.
const GATHER: Duration = Duration::from_millis(10);

/// Why a reader is behind what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    /// It was away, and comes back with an old id.
    Away,
    /// It takes less than happens.
    Slow,
}

impl Behind {
    /// As the reader learns it.
    fn reason(self) -> &'static str {
        match self {
            Self::Away => "these events are not kept any more",
            Self::Slow => "the reader was too slow",
        }
    }

    /// Where it goes on, of what is kept.
    ///
    /// At the oldest event, one that is slow would be behind again at once, and get one gap
    /// after the other with nothing but old events between them: half of the room is left to it.
    fn resumes(self, oldest: u64, newest: u64) -> u64 {
        match self {
            Self::Away => oldest,
            Self::Slow => oldest + newest.saturating_sub(oldest) / 2,
        }
    }
}

/// Closed when a stream has ended, because its reader went or was given up; nothing is ever sent.
pub(crate) type StreamEnd = oneshot::Receiver<Infallible>;

/// One reader, and the permit that it holds.
struct Reader {
    sender: mpsc::Sender<Bytes>,
    timeout: Duration,
    _permit: Permit,
    _ends: oneshot::Sender<Infallible>,
}

enum Wake {
    NewEvents,
    /// The reader is still there, and there is nothing to send.
    Heartbeat,
    /// The reader is gone, or no events will follow.
    Closed,
}

impl Reader {
    /// Hands over a message; false when the reader is gone, or takes nothing any more.
    async fn send(&self, message: Bytes) -> bool {
        let sent = self.sender.send_timeout(message, self.timeout).await;
        sent.is_ok()
    }

    /// Waits until there are events behind those seen, and sends a comment now and then.
    async fn wait(&self, newest: &mut watch::Receiver<u64>) -> Wake {
        let changed = tokio::time::timeout(HEARTBEAT, newest.changed());
        tokio::select! {
            changed = changed => match changed {
                Ok(Ok(())) => Wake::NewEvents,
                Ok(Err(_server_ended)) => Wake::Closed,
                // Without meaning, so that a reader that is gone is noticed.
                Err(_nothing_happened) => {
                    let comment = Bytes::from_static(b": still here\n\n");
                    if self.send(comment).await { Wake::Heartbeat } else { Wake::Closed }
                }
            },
            // Its permit is for others at once, even if nothing happens for long.
            () = self.sender.closed() => Wake::Closed,
        }
    }
}

/// A message as it is sent: its id, if readers can go on behind it, its name, and its body.
fn message(message: &StreamMessage) -> Bytes {
    let mut text = Vec::new();
    put_message(&mut text, message);
    Bytes::from(text)
}

fn put_message(text: &mut Vec<u8>, message: &StreamMessage) {
    let (name, id) = match message {
        StreamMessage::Hello(_) => ("hello", None),
        StreamMessage::Event(event) => ("event", Some(event.id)),
        StreamMessage::Gap(_) => ("gap", None),
    };
    if let Some(id) = id {
        text.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    text.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
    // Numbers and strings always have a JSON form, which has no line ends.
    let body = serde_json::to_string(message).unwrap_or_default();
    text.extend_from_slice(escape_json(body).as_bytes());
    text.extend_from_slice(b"\n\n");
}

/// The gap of a reader that missed something.
fn gap(after: u64, resumes: u64, reason: &str) -> Bytes {
    message(&StreamMessage::Gap(StreamGap {
        after,
        resumes,
        reason: reason.to_owned(),
    }))
}

/// The events behind an id as messages, at most [`AT_ONCE`] of them, and the id of the last.
fn write(view: &View, audience: Audience, batches: &[Arc<Batch>], after: u64) -> (Bytes, u64) {
    let mut text = Vec::new();
    let mut last = after;
    for batch in batches {
        let room = AT_ONCE - usize::try_from(last - after).unwrap_or(AT_ONCE);
        let mut places = batch.behind(after);
        places.end = places.end.min(places.start + room);
        let process = view.process(batch.slot);
        let process = process.filter(|process| process.facts.identity.pid == batch.pid);
        // What a process has defined is gone with it.
        let names = process.map_or_else(Names::default, |process| {
            let logical_id = |device| view.logical_id(device);
            let events = &batch.events[places.clone()];
            let names = Names::of(process.without_rows(), logical_id, events);
            names.for_audience(audience)
        });
        for place in places {
            let event = batch.event(place, &names);
            last = event.id;
            put_message(&mut text, &StreamMessage::Event(event));
        }
    }
    (Bytes::from(text), last)
}

#[cfg(test)]
mod tests;
