//! Which of many makes room, so that nobody pushes out what is another's.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// The place of the oldest: of the user with most, of the process with most of that user.
pub fn oldest_of_largest<T, P>(kept: &VecDeque<T>, owner: impl Fn(&T) -> (u32, P)) -> usize
where
    P: Copy + Eq + Hash,
{
    let owners = || kept.iter().map(&owner);
    let largest = most_frequent(owners().map(|(user, _process)| user));
    let of_user = owners().filter(|(user, _process)| Some(*user) == largest);
    let busiest = most_frequent(of_user);
    let place = owners().position(|owner| Some(owner) == busiest);
    place.unwrap_or(0)
}

fn most_frequent<K: Copy + Eq + Hash>(keys: impl Iterator<Item = K>) -> Option<K> {
    let mut counts: HashMap<K, usize> = HashMap::new();
    let counted = keys.map(|key| {
        let count = counts.entry(key).or_default();
        *count += 1;
        (*count, key)
    });
    // The first to reach a count, so that it does not depend on the order of a table.
    let most = counted.reduce(|most, next| if next.0 > most.0 { next } else { most });
    most.map(|(_count, key)| key)
}
