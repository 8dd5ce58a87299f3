//! Streams of what happens, for readers that stay.
//!
//! The ledger thread adds every batch it applied to the [journal](crate::journal). A `raw` reader
//! is a task that turns what is new there into messages; all `changes` readers share what one task
//! works out ten times a second. No reader is waited for: one that is slow finds a gap where it
//! should go on, and one that takes nothing at all for half a minute is dropped.

mod body;
mod changes;
mod raw;

pub(crate) use body::StreamBody;

use crate::journal::JournalReader;
use crate::ledger_thread::LedgerHandle;
use axum::body::Bytes;
use changes::Ticker;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use ttmem_api::{StreamGap, StreamHello, StreamMessage, Timestamp};

/// Messages that may wait for a reader; what it does not take stays where it is kept.
const QUEUE: usize = 2;

/// Something is sent at least so often, so that both ends notice when the other is gone.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What a reader wants of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// What changed, at most ten times a second.
    Changes,
    Raw,
}

#[derive(Clone, Debug)]
pub(crate) struct Streams {
    ledger: LedgerHandle,
    journal: JournalReader,
    ticker: Ticker,
}

impl Streams {
    pub(crate) fn new(ledger: LedgerHandle, journal: JournalReader) -> Self {
        Self {
            ticker: Ticker::new(ledger.clone(), journal.clone()),
            ledger,
            journal,
        }
    }

    /// A stream that goes on behind the id `after`; its permit is given back when it ends, also
    /// because its reader took nothing for as long as `timeout`.
    pub(crate) fn open(
        &self,
        pace: Pace,
        after: Option<u64>,
        started: Timestamp,
        permit: OwnedSemaphorePermit,
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
        let hello = StreamHello {
            schema: ttmem_api::SCHEMA,
            started,
            newest: self.journal.newest(),
        };
        let stream = self.clone();
        tokio::spawn(async move {
            if !reader.send(message(&StreamMessage::Hello(hello))).await {
                return;
            }
            match pace {
                Pace::Changes => stream.ticker.serve(reader, after).await,
                Pace::Raw => raw::serve(stream.ledger, stream.journal, reader, after).await,
            }
        });
        (StreamBody::new(receiver), StreamEnd(ended))
    }
}

/// Comes when a stream has ended, because its reader went or was given up.
#[derive(Debug)]
pub(crate) struct StreamEnd(oneshot::Receiver<Infallible>);

impl Future for StreamEnd {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Nothing is ever sent: the other end is dropped.
        Pin::new(&mut self.0).poll(context).map(drop)
    }
}

/// One reader, and the permit that it holds.
struct Reader {
    sender: mpsc::Sender<Bytes>,
    timeout: Duration,
    _permit: OwnedSemaphorePermit,
    _ends: oneshot::Sender<Infallible>,
}

/// What a reader was waited for with.
enum Waited {
    News,
    /// The reader is still there, and there is nothing to send.
    Nothing,
    /// The reader is gone, or there will be no news.
    Over,
}

impl Reader {
    /// Hands over a message; false when the reader is gone, or takes nothing any more.
    async fn send(&self, message: Bytes) -> bool {
        let sent = self.sender.send_timeout(message, self.timeout).await;
        sent.is_ok()
    }

    /// Waits until a value changes, and says something now and then.
    async fn wait<T>(&self, news: &mut watch::Receiver<T>) -> Waited {
        let changed = tokio::time::timeout(HEARTBEAT, news.changed());
        tokio::select! {
            changed = changed => match changed {
                Ok(Ok(())) => Waited::News,
                Ok(Err(_server_ended)) => Waited::Over,
                Err(_nothing_happened) if self.knock().await => Waited::Nothing,
                Err(_nothing_happened) => Waited::Over,
            },
            // Its permit is for others at once, even if nothing happens for long.
            () = self.sender.closed() => Waited::Over,
        }
    }

    /// Says something without meaning, so that a reader that is gone is noticed.
    async fn knock(&self) -> bool {
        self.send(Bytes::from_static(b": still here\n\n")).await
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
        StreamMessage::Changes(changes) => ("changes", Some(changes.id)),
        StreamMessage::Gap(_) => ("gap", None),
    };
    if let Some(id) = id {
        text.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    text.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
    // Numbers and strings always have a JSON form, which has no line ends.
    let _written = serde_json::to_writer(&mut *text, message);
    text.extend_from_slice(b"\n\n");
}

/// The gap of a reader that comes with the id of another server.
fn foreign_gap(after: u64, newest: u64) -> Bytes {
    gap(after, newest + 1, "the id is not one of this server's")
}

/// The gap of a reader that missed something.
fn gap(after: u64, resumes: u64, reason: &str) -> Bytes {
    message(&StreamMessage::Gap(StreamGap {
        after,
        resumes,
        reason: reason.to_owned(),
    }))
}

#[cfg(test)]
mod tests;
