//! Dividing a bounded resource among processes and users.
//!
//! One rule for every table and every pool of memory that processes share: whoever takes something
//! must leave something, and the more holders there are, the more. The first user may have seven times
//! what is left for others, so seven eighths; the n-th, 7/n times. Of what a user may take, the first
//! process may have as much as it leaves, so half; the n-th, 1/n times. After n processes that took all
//! they could, 1/(n + 1) is left, and the next one gets 1/(n + 2) of it. Where that is very little a
//! minimum counts: a process below it is refused only when less than a sixteenth is free, and that
//! sixteenth is for users who are below it themselves.

use std::collections::HashMap;

/// What a lone user may have, as a multiple of what is left for others.
const USER_FACTOR: u64 = 7;

/// The part that only users below the minimum can take, as a divisor.
const RESERVE_DIVISOR: u64 = 16;

/// Stands for users of whom none is known, who all have one share: the number that no user has.
pub const UNKNOWN_USER: u32 = u32::MAX;

/// Whether two processes or readers are known to be of the same user.
#[must_use]
pub const fn is_same_user(one: u32, other: u32) -> bool {
    one == other && one != UNKNOWN_USER
}

/// Who takes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    pub uid: u32,
    /// Distinguishes the processes of a user.
    pub process: u64,
}

/// A resource and who has how much of it.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    limit: u64,
    minimum: u64,
    used: u64,
    users: HashMap<u32, User>,
}

#[derive(Clone, Debug, Default)]
struct User {
    used: u64,
    processes: HashMap<u64, u64>,
}

impl Shares {
    /// A resource of so much, of which a process with less than `minimum` is refused last.
    #[must_use]
    pub fn new(limit: u64, minimum: u64) -> Self {
        Self {
            limit,
            minimum,
            ..Self::default()
        }
    }

    /// Sets a part aside that nobody can take.
    pub fn reserve(&mut self, amount: u64) {
        self.limit = self.limit.saturating_sub(amount);
    }

    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// How much all processes of a user have.
    #[must_use]
    pub fn of_user(&self, uid: u32) -> u64 {
        self.users.get(&uid).map_or(0, |user| user.used)
    }

    /// Takes some for a process; false if that is more than its share, and then nothing changes.
    #[must_use]
    pub fn take(&mut self, holder: Holder, amount: u64) -> bool {
        let is_granted = amount <= self.room(holder);
        if is_granted {
            self.charge(holder, amount);
        }
        is_granted
    }

    /// Takes some up to the bound, whatever the shares: for where it is not known who is who.
    #[must_use]
    pub fn take_ignoring_shares(&mut self, holder: Holder, amount: u64) -> bool {
        let is_granted = amount <= self.limit.saturating_sub(self.used);
        if is_granted {
            self.charge(holder, amount);
        }
        is_granted
    }

    pub(crate) fn charge(&mut self, holder: Holder, amount: u64) {
        self.used += amount;
        let user = self.users.entry(holder.uid).or_default();
        user.used += amount;
        *user.processes.entry(holder.process).or_default() += amount;
    }

    /// Changes how much a process has for one purpose; false if the increase is more than its share,
    /// and then nothing changes.
    #[must_use]
    pub fn resize(&mut self, holder: Holder, held: &mut u64, wanted: u64) -> bool {
        if wanted > *held && !self.take(holder, wanted - *held) {
            return false;
        }
        self.give_back(holder, held.saturating_sub(wanted));
        *held = wanted;
        true
    }

    /// Returns what a process took, or as much of it as it has.
    pub fn give_back(&mut self, holder: Holder, amount: u64) {
        let Some(user) = self.users.get_mut(&holder.uid) else {
            return;
        };
        let Some(held) = user.processes.get_mut(&holder.process) else {
            return;
        };
        let amount = amount.min(*held);
        *held -= amount;
        user.used -= amount;
        self.used -= amount;
        // Whoever has nothing costs nothing.
        if *held == 0 {
            user.processes.remove(&holder.process);
        }
        if user.used == 0 {
            self.users.remove(&holder.uid);
        }
    }

    /// Charges one process with what another took, whatever their shares.
    pub fn transfer(&mut self, from: Holder, to: Holder, amount: u64) {
        self.give_back(from, amount);
        self.charge(to, amount);
    }

    /// How much more a process may take.
    #[must_use]
    pub fn room(&self, holder: Holder) -> u64 {
        let free = self.limit.saturating_sub(self.used);
        let user = self.users.get(&holder.uid);
        let of_user = user.map_or(0, |user| user.used);
        let of_process = user.and_then(|user| user.processes.get(&holder.process));
        let users = self.users.len() as u64 + u64::from(user.is_none());
        let processes = user.map_or(0, |user| user.processes.len());
        let processes = processes as u64 + u64::from(of_process.is_none());
        let of_process = of_process.copied().unwrap_or(0);
        // Taking x leaves the user with of_user + x <= 7 * (free - x) / users.
        let for_user = (USER_FACTOR * free).saturating_sub(users * of_user);
        let for_user = for_user / (USER_FACTOR + users);
        // Taking x leaves the process with of_process + x <= (for_user - x) / processes.
        let for_process = for_user.saturating_sub(processes * of_process) / (1 + processes);
        let missing = self.minimum.saturating_sub(of_process);
        let missing = missing.min(free.saturating_sub(self.limit / RESERVE_DIVISOR));
        let missing_of_user = self.minimum.saturating_sub(of_user).min(free);
        for_process.max(missing).max(missing_of_user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const LIMIT: u64 = 4096;

    fn holder(uid: u32, process: u64) -> Holder {
        Holder { uid, process }
    }

    /// Takes as much as it gets, one by one.
    fn take_all(shares: &mut Shares, holder: Holder) -> u64 {
        let mut taken = 0;
        while shares.take(holder, 1) {
            taken += 1;
        }
        taken
    }

    #[test]
    fn what_one_process_and_one_user_may_have() {
        let mut shares = Shares::new(LIMIT, 1);
        assert_eq!(take_all(&mut shares, holder(0, 1)), LIMIT * 7 / 16);
        for process in 2..100 {
            take_all(&mut shares, holder(0, process));
        }
        assert!(
            shares.used() <= LIMIT * 7 / 8,
            "an eighth is for other users"
        );
        assert!(take_all(&mut shares, holder(1, 1)) >= LIMIT / 8 / 3);
    }

    #[test]
    fn many_processes_of_one_user_leave_a_sixteenth_for_others() {
        for limit in [1, 4, 16, 100, LIMIT] {
            let mut shares = Shares::new(limit, 1);
            let served = (0..2 * limit).filter(|process| shares.take(holder(0, *process), 1));
            assert_eq!(served.count() as u64, limit - limit / 16, "of {limit}");
            let served = (0..limit).filter(|uid| {
                let uid = u32::try_from(1 + uid).unwrap();
                shares.take(holder(uid, 0), 1)
            });
            assert_eq!(served.count() as u64, limit / 16, "of {limit}");
        }
        assert!(!Shares::new(0, 1).take(holder(0, 1), 1));
    }

    #[test]
    fn what_is_transferred_counts_once() {
        let mut shares = Shares::new(16, 1);
        let (first, second) = (holder(0, 1), holder(1, 1));
        assert!(shares.take(first, 3));
        shares.transfer(first, second, 3);
        assert_eq!((shares.used(), shares.users.len()), (3, 1));
        shares.give_back(second, 5);
        assert_eq!((shares.used(), shares.users.len()), (0, 0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(Holder, u64),
        Resize(Holder, u64),
        GiveBack(Holder, u64),
        Transfer(Holder, Holder, u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let who = || (0..4_u32, 0..4_u64).prop_map(|(uid, process)| holder(uid, process));
        let amount = || prop_oneof![0..8_u64, 0..2 * LIMIT];
        prop_oneof![
            (who(), amount()).prop_map(|(who, amount)| Step::Take(who, amount)),
            (who(), amount()).prop_map(|(who, amount)| Step::Resize(who, amount)),
            (who(), amount()).prop_map(|(who, amount)| Step::GiveBack(who, amount)),
            (who(), who(), amount())
                .prop_map(|(from, to, amount)| Step::Transfer(from, to, amount)),
        ]
    }

    proptest! {
        /// Whatever is taken and given back, it adds up and never exceeds the bound.
        #[test]
        fn the_sum_never_exceeds_the_bound(
            minimum in 0..64_u64,
            steps in proptest::collection::vec(step(), 0..200),
        ) {
            let mut shares = Shares::new(LIMIT, minimum);
            let mut held: BTreeMap<Holder, u64> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Take(who, amount) => {
                        let taken = shares.take(who, amount);
                        *held.entry(who).or_default() += if taken { amount } else { 0 };
                    }
                    Step::Resize(who, amount) => {
                        let held = held.entry(who).or_default();
                        let before = *held;
                        let resized = shares.resize(who, held, amount);
                        prop_assert_eq!(*held, if resized { amount } else { before });
                        prop_assert!(resized || amount > before);
                    }
                    Step::GiveBack(who, amount) => {
                        shares.give_back(who, amount);
                        let held = held.entry(who).or_default();
                        *held = held.saturating_sub(amount);
                    }
                    Step::Transfer(from, to, amount) => {
                        let amount = amount.min(held.get(&from).copied().unwrap_or(0));
                        shares.transfer(from, to, amount);
                        *held.entry(from).or_default() -= amount;
                        *held.entry(to).or_default() += amount;
                    }
                }
                prop_assert_eq!(shares.used(), held.values().sum::<u64>());
                prop_assert!(shares.used() <= LIMIT);
            }
            for (who, amount) in held {
                shares.give_back(who, amount);
            }
            prop_assert_eq!(shares.used(), 0);
            prop_assert!(shares.users.is_empty());
        }

        /// However others took what they could, in whatever pieces and order: who is below its share
        /// is not refused.
        #[test]
        fn a_newcomer_gets_its_share(
            others in proptest::collection::vec((0..3_u32, 0..6_u64, 1..LIMIT), 1..300),
            greedy: bool,
            minimum in 0..64_u64,
        ) {
            let mut shares = Shares::new(LIMIT, minimum);
            for (uid, process, amount) in &others {
                let others = holder(*uid, *process);
                if greedy {
                    take_all(&mut shares, others);
                } else {
                    let _refused = shares.take(others, *amount);
                }
            }
            let free = LIMIT - shares.used();
            // Of another user: half of what it may take, and the minimum in any case.
            let room = shares.room(holder(9, 0));
            let users = shares.users.len() as u64 + 1;
            let share = (free * 7 / (7 + users) / 2).max(minimum.min(free));
            prop_assert!(room + 1 >= share && room > 0, "{room}, not {share} of {free}");
            prop_assert!(shares.clone().take(holder(9, 0), room));
            // Of a known user: the minimum, unless only the last part is left.
            for uid in 0..3 {
                let room = shares.room(holder(uid, 99));
                let share = minimum.min(free.saturating_sub(LIMIT / RESERVE_DIVISOR));
                prop_assert!(room >= share, "{room}, not {share} of {free}");
            }
        }

        /// After n processes of a lone user, in whatever order they took what they could, 1/(n + 1) of
        /// what it may have is left, and the next gets 1/(n + 2) of it.
        #[test]
        fn processes_of_one_user_leave_room_for_the_next(
            amounts in proptest::collection::vec((0..20_u64, 1..LIMIT), 1..300),
        ) {
            let mut shares = Shares::new(LIMIT, 1);
            for (process, amount) in &amounts {
                let others = holder(0, *process);
                if !shares.take(others, *amount) {
                    take_all(&mut shares, others);
                }
            }
            let known = shares.users.values().next().map_or(0, |user| user.processes.len());
            let known = known as u64;
            let share = LIMIT * 7 / 8 / (known + 1) / (known + 2);
            let room = shares.room(holder(0, 99));
            prop_assert!(room + 1 >= share, "{room}, not {share} beside {known}");
        }
    }
}
