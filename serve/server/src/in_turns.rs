//! What waits for its turn: users take turns, and the processes of a user among themselves.
//!
//! However much one of them brings, another waits for one thing of each that came before it.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use ttmem_ledger::Holder;

#[derive(Debug)]
pub(crate) struct InTurns<T> {
    users: Rotation<u32, Rotation<u64, VecDeque<T>>>,
}

impl<T> Default for InTurns<T> {
    fn default() -> Self {
        Self {
            users: Rotation::default(),
        }
    }
}

impl<T> InTurns<T> {
    pub(crate) fn push(&mut self, holder: Holder, waiting: T) {
        let of_user = self.users.of(holder.uid);
        of_user.of(holder.process).push_back(waiting);
    }

    pub(crate) fn next(&mut self) -> Option<T> {
        self.users.turn(|of_user| {
            let next = of_user.turn(|of_process| {
                let next = of_process.pop_front();
                (next, of_process.is_empty())
            });
            (next, of_user.is_empty())
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

/// Queues that take turns.
#[derive(Debug)]
struct Rotation<K, Q> {
    turns: VecDeque<K>,
    queues: HashMap<K, Q>,
}

impl<K, Q> Default for Rotation<K, Q> {
    fn default() -> Self {
        Self {
            turns: VecDeque::new(),
            queues: HashMap::new(),
        }
    }
}

impl<K: Copy + Eq + Hash, Q: Default> Rotation<K, Q> {
    fn of(&mut self, key: K) -> &mut Q {
        let turns = &mut self.turns;
        self.queues.entry(key).or_insert_with(|| {
            turns.push_back(key);
            Q::default()
        })
    }

    /// Takes from the queue whose turn it is; `take` also returns whether nothing is left there.
    fn turn<T>(&mut self, take: impl FnOnce(&mut Q) -> (Option<T>, bool)) -> Option<T> {
        let key = self.turns.pop_front()?;
        let (taken, is_empty) = take(self.queues.get_mut(&key)?);
        if is_empty {
            self.queues.remove(&key);
        } else {
            self.turns.push_back(key);
        }
        taken
    }

    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_take_turns_and_so_do_their_processes() {
        let mut waiting = InTurns::default();
        for number in 0..1000 {
            let process = number % 3;
            waiting.push(Holder { uid: 1, process }, number);
        }
        let honest = [
            (Holder { uid: 2, process: 9 }, 2000),
            (Holder { uid: 1, process: 9 }, 2001),
        ];
        for (holder, number) in honest {
            waiting.push(holder, number);
        }
        let mut order = Vec::new();
        while let Some(number) = waiting.next() {
            order.push(number);
        }
        let place = |number| order.iter().position(|other| *other == number);
        assert_eq!(place(2000), Some(1), "another user waits for one");
        assert_eq!(place(2001), Some(4), "another process for one of each");
        assert_eq!((order.len(), place(0), place(3)), (1002, Some(0), Some(5)));
        assert!(waiting.is_empty() && waiting.users.queues.is_empty());
    }
}
