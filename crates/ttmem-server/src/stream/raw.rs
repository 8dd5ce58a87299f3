//! Every event for one reader.

use super::{Reader, Waited, foreign_gap, gap, put_message};
use crate::journal::{Batch, JournalReader, Names};
use crate::ledger_thread::LedgerHandle;
use axum::body::Bytes;
use std::sync::Arc;
use std::time::Duration;
use ttmem_api::StreamMessage;
use ttmem_ledger::View;

/// Events of one message to the socket: what waits for a reader that does not take it is bounded.
pub(super) const AT_ONCE: usize = 2000;

/// Between two looks: what comes meanwhile is sent together.
const GATHER: Duration = Duration::from_millis(10);

/// Why a reader is behind what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
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
    pub(super) fn resumes(self, oldest: u64, newest: u64) -> u64 {
        match self {
            Self::Away => oldest,
            Self::Slow => oldest + newest.saturating_sub(oldest) / 2,
        }
    }
}

/// Serves a reader until it is gone or the server stops.
pub(super) async fn serve(
    ledger: LedgerHandle,
    journal: JournalReader,
    reader: Reader,
    after: Option<u64>,
) {
    let mut newest = journal.watch();
    // An id that is not reached yet is one of another server.
    let begin = *newest.borrow_and_update();
    let mut last = after.filter(|after| *after <= begin).unwrap_or(begin);
    if let Some(after) = after.filter(|after| *after > begin)
        && !reader.send(foreign_gap(after, begin)).await
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
                Waited::News => tokio::time::sleep(GATHER).await,
                Waited::Nothing => {}
                Waited::Over => return,
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
        let written = tokio::task::spawn_blocking(move || write(&view, &since.batches, last));
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

/// The events behind an id as messages, at most [`AT_ONCE`] of them, and the id of the last.
pub(super) fn write(view: &View, batches: &[Arc<Batch>], after: u64) -> (Bytes, u64) {
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
            Names::of(process.without_rows(), logical_id, events)
        });
        for place in places {
            let event = batch.event(place, &names);
            last = event.id;
            put_message(&mut text, &StreamMessage::Event(event));
        }
    }
    (Bytes::from(text), last)
}
