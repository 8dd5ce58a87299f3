//! Asks for documents in turn, each as often as the user likes and the server can bear.

use super::RETRY;
use super::orders::{Order, Orders};
use super::questions::{Question, wanted};
use crate::data::{Link, Source, Update};
use crate::wants::Request;
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};
use ttmem_api::{ApiClient, ApiRequestError};

/// Small curves have steps of a second in a few columns: they need no more than this.
const RECENT_INTERVAL: Duration = Duration::from_secs(5);

/// Of a question that takes long: so many times as long it is not asked again.
const REST: u32 = 10;

#[derive(Debug)]
pub(super) struct Poller {
    client: ApiClient,
    orders: Arc<Orders>,
    updates: SyncSender<Update>,
    /// What was asked, one of each kind.
    turns: Vec<Turn>,
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
            turns: Vec::new(),
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
                self.turns.clear();
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
        let totals = [Question::Snapshot, Question::Recent];
        let questions: Vec<Question> = totals.into_iter().chain(wanted(&order.wants)).collect();
        self.turns
            .retain(|turn| questions.iter().any(|known| turn.is_of(known)));
        let mut next = Instant::now() + order.interval;
        for question in questions {
            let asked = self.turns.iter().find(|turn| turn.question == question);
            let is_total = matches!(question, Question::Snapshot | Question::Recent);
            // While the user holds it, only what a view does not have yet is asked for.
            if order.paused && (is_total || asked.is_some()) {
                continue;
            }
            let began = Instant::now();
            if let Some(asked) = asked.filter(|turn| began < turn.due) {
                next = next.min(asked.due);
                continue;
            }
            let trouble = match question.ask(&self.client) {
                Ok(update) => {
                    self.answered()?;
                    self.send(update)?;
                    None
                }
                // Without totals nothing on the screen is live.
                Err(error) if question == Question::Snapshot || is_unreachable(&error) => {
                    self.failed(&error)?;
                    return Ok(Instant::now() + RETRY);
                }
                // The server is there and cannot answer this one: the others go on.
                Err(error) => Some(error.to_string()),
            };
            let turn = Turn::taken(question, trouble, began, order.interval);
            next = next.min(turn.due);
            self.forget(&turn.question);
            self.turns.push(turn);
        }
        self.tell_trouble()?;
        Ok(next)
    }

    /// Has a question asked at once.
    fn forget(&mut self, question: &Question) {
        self.turns.retain(|turn| !turn.is_of(question));
    }

    /// Tells why something does not come, when that changed.
    fn tell_trouble(&mut self) -> Result<(), Unheard> {
        let trouble = self.turns.iter().find_map(|turn| turn.trouble.clone());
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
                    self.forget(&Question::Snapshot);
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
        self.forget(&Question::Snapshot);
        let reason = error.to_string();
        self.send(Update::Link(Link::Down { since, reason }))
    }

    fn send(&self, update: Update) -> Result<(), Unheard> {
        self.updates.send(update).map_err(|_gone| Unheard)
    }
}

/// A question, and when it is to be asked again.
#[derive(Debug)]
struct Turn {
    question: Question,
    due: Instant,
    /// Why it was not answered.
    trouble: Option<String>,
}

impl Turn {
    fn taken(
        question: Question,
        trouble: Option<String>,
        began: Instant,
        interval: Duration,
    ) -> Self {
        let interval = match &question {
            Question::Recent => interval.max(RECENT_INTERVAL),
            _other => interval,
        };
        let rest = began.elapsed().saturating_mul(REST);
        Self {
            question,
            due: began + interval.max(rest),
            trouble,
        }
    }

    /// Whether it is of the same kind as a question, if perhaps with other words.
    fn is_of(&self, question: &Question) -> bool {
        discriminant(&self.question) == discriminant(question)
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
    fn a_slow_question_rests() {
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let due = |question, began| Turn::taken(question, None, began, second).due;
        assert_eq!(due(Question::Snapshot, began), began + second);
        assert_eq!(due(Question::Recent, began), began + RECENT_INTERVAL);
        let long_ago = began - Duration::from_secs(5);
        assert!(due(Question::Snapshot, long_ago) >= began + Duration::from_secs(45));
    }

    #[test]
    fn a_question_with_other_words_takes_the_place_of_the_last() {
        let turn = Turn::taken(Question::History(60), None, Instant::now(), RETRY);
        assert!(turn.is_of(&Question::History(600)));
        assert!(!turn.is_of(&Question::Recent));
    }
}
