//! Numbers of users that stand for nobody in particular.
//!
//! Both ends of a connection decide by the user that the kernel names who is handed memory and who sees
//! whose names. In a user namespace every user without a mapping is shown by one and the same number.

use std::fs;

/// The kernel's default.
const OVERFLOW: u32 = 65_534;

/// Whether the kernel shows users that it cannot name by this number, so that two who have it need not be
/// the same.
///
/// That of a process which really runs as this user, without a namespace, is no exception: the two cannot
/// be told apart.
#[must_use]
pub fn is_overflow(uid: u32) -> bool {
    let set = fs::read_to_string("/proc/sys/kernel/overflowuid");
    let set = set.ok().and_then(|text| text.trim().parse().ok());
    uid == set.unwrap_or(OVERFLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_with_a_number_of_their_own_are_told_apart() {
        assert!(!is_overflow(0) && !is_overflow(1000));
        let set = fs::read_to_string("/proc/sys/kernel/overflowuid");
        let set: u32 = set.map_or(OVERFLOW, |text| text.trim().parse().expect("a number"));
        assert!(is_overflow(set));
    }
}
