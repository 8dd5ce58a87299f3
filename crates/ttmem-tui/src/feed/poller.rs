//! Asks for documents in turn, each as often as the user likes and the server can bear.

use super::RETRY;
use super::orders::{Order, Orders};
use super::questions::{KINDS, Question, wanted};
use crate::data::{Link, Source, Update};
use crate::wants::Request;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use ttmem_api::{ApiClient, ApiRequestError};

/// Small curves have steps of a second in a few columns: they need no more than this.
const RECENT_INTERVAL: Duration = Duration::from_secs(5);

/// Of a question that takes long: so many times as long it is not asked again.
const REST: u32 = 10;

/// The thread that asks.
#[derive(Debug)]
pub(super) struct Poller {
    client: ApiClient,
    orders: Arc<Orders>,
    updates: SyncSender<Update>,
    snapshot: Turn,
    recent: Turn,
    wanted: [Turn; KINDS],
    /// Since when the server does not answer.
    down: Option<Instant>,
    /// What was sent of the connection last.
    was_up: bool,
    /// What was told last of documents that do not come.
    told: Option<String>,
}

/// Nobody takes updates any more.
struct Unheard;

impl Poller {
    pub(super) fn new(client: ApiClient, orders: Arc<Orders>, updates: SyncSender<Update>) -> Self {
        Self {
            client,
            orders,
            updates,
            snapshot: Turn::default(),
            recent: Turn::default(),
            wanted: Default::default(),
            down: None,
            was_up: false,
            told: None,
        }
    }

    /// Asks until nobody wants to know.
    pub(super) fn run(mut self) {
        let mut refreshed = 0;
        loop {
            let order = self.orders.now();
            if order.ended {
                return;
            }
            if order.refreshed != refreshed {
                refreshed = order.refreshed;
                self.snapshot.forget();
                self.recent.forget();
                self.wanted.iter_mut().for_each(Turn::forget);
            }
            let Ok(next) = self.round(&order) else {
                return;
            };
            self.orders.wait_until(next, &order);
        }
    }

    /// Asks what is due; when the next question is.
    fn round(&mut self, order: &Order) -> Result<Instant, Unheard> {
        for request in self.orders.take_requests() {
            self.perform(&request)?;
        }
        let slow = order.interval.max(RECENT_INTERVAL);
        let mut turns = Vec::new();
        // While the user holds it, only what a view does not have yet is asked for.
        if !order.paused {
            turns.push((Question::Snapshot, order.interval, Slot::Snapshot));
            turns.push((Question::Recent, slow, Slot::Recent));
        }
        for (place, question) in wanted(&order.wants).into_iter().enumerate() {
            let turn = &self.wanted[place];
            match question {
                Some(question) if !order.paused || turn.asked.as_ref() != Some(&question) => {
                    turns.push((question, order.interval, Slot::Wanted(place)));
                }
                Some(_held) => {}
                None => self.wanted[place].forget(),
            }
        }
        let mut next = Instant::now() + order.interval;
        for (question, interval, slot) in turns {
            let began = Instant::now();
            if self.turn(slot).is_due(&question, began) {
                match question.ask(&self.client) {
                    Ok(update) => {
                        self.answered()?;
                        self.turn(slot).trouble = None;
                        if let Some(update) = update {
                            self.send(update)?;
                        }
                    }
                    // Without totals nothing on the screen is live.
                    Err(error) if slot == Slot::Snapshot || is_unreachable(&error) => {
                        self.failed(&error)?;
                        return Ok(Instant::now() + RETRY);
                    }
                    // The server is there and cannot answer this one: the others go on.
                    Err(error) => self.turn(slot).trouble = Some(error.to_string()),
                }
                self.turn(slot).taken(question, began, interval);
            }
            next = next.min(self.turn(slot).due.unwrap_or(next));
        }
        self.tell_trouble()?;
        Ok(next)
    }

    /// Tells why something does not come, when that changed.
    fn tell_trouble(&mut self) -> Result<(), Unheard> {
        let turns = self.wanted.iter().chain([&self.recent]);
        let trouble = turns.filter_map(|turn| turn.trouble.clone()).next();
        if trouble == self.told {
            return Ok(());
        }
        self.told.clone_from(&trouble);
        self.send(Update::Trouble(Source::Document, trouble))
    }

    fn perform(&mut self, request: &Request) -> Result<(), Unheard> {
        let notice = match request {
            Request::Mark(name) => match self.client.mark(name) {
                Ok(marked) => {
                    // The mark is in the next snapshot, which should not be long in coming.
                    self.snapshot.forget();
                    format!("mark {} set", marked.mark.name)
                }
                Err(error) => format!("no mark was set: {error}"),
            },
        };
        self.send(Update::Notice(notice))
    }

    fn answered(&mut self) -> Result<(), Unheard> {
        if self.was_up {
            return Ok(());
        }
        self.was_up = true;
        self.down = None;
        self.send(Update::Link(Link::Up))
    }

    fn failed(&mut self, error: &ApiRequestError) -> Result<(), Unheard> {
        let since = *self.down.get_or_insert_with(Instant::now);
        self.was_up = false;
        self.snapshot.forget();
        let reason = error.to_string();
        self.send(Update::Link(Link::Down { since, reason }))
    }

    fn send(&self, update: Update) -> Result<(), Unheard> {
        self.updates.send(update).map_err(|_gone| Unheard)
    }

    fn turn(&mut self, slot: Slot) -> &mut Turn {
        match slot {
            Slot::Snapshot => &mut self.snapshot,
            Slot::Recent => &mut self.recent,
            Slot::Wanted(place) => &mut self.wanted[place],
        }
    }
}

/// Where the turn of a question is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Snapshot,
    Recent,
    Wanted(usize),
}

/// When a question is to be asked again.
#[derive(Debug, Default)]
struct Turn {
    asked: Option<Question>,
    due: Option<Instant>,
    /// Why it was not answered the last time.
    trouble: Option<String>,
}

impl Turn {
    fn is_due(&self, question: &Question, now: Instant) -> bool {
        self.asked.as_ref() != Some(question) || self.due.is_none_or(|due| now >= due)
    }

    fn taken(&mut self, question: Question, began: Instant, interval: Duration) {
        let rest = began.elapsed().saturating_mul(REST);
        self.asked = Some(question);
        self.due = Some(began + interval.max(rest));
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Whether nobody is there who could answer anything.
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
    fn a_slow_question_rests_and_a_new_one_does_not_wait() {
        let mut turn = Turn::default();
        let began = Instant::now();
        assert!(turn.is_due(&Question::Snapshot, began));
        turn.taken(Question::Snapshot, began, Duration::from_secs(1));
        assert!(!turn.is_due(&Question::Snapshot, began));
        assert!(turn.is_due(&Question::Recent, began));
        assert!(turn.is_due(&Question::Snapshot, began + Duration::from_secs(2)));
        let long_ago = began - Duration::from_secs(5);
        turn.taken(Question::Snapshot, long_ago, Duration::from_secs(1));
        assert!(!turn.is_due(&Question::Snapshot, began + Duration::from_secs(40)));
        turn.forget();
        assert!(turn.is_due(&Question::Snapshot, began));
    }
}
