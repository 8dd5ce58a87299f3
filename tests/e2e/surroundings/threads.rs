//! Threads that come, go, are cancelled, or stop for ever.

use super::{assert_holds, begin, released};
use crate::support::c_program::Ended;

/// Runs a story of threads; in the end the program holds so many buffers.
fn threads(mode: &str, buffers: u64) {
    let Some((server, _workshop, mut story)) = begin("threads.c", &[mode]) else {
        return;
    };
    story.reaches("counted");
    assert_holds(&server, story.pid(), buffers);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn two_hundred_short_threads_share_a_few_rings() {
    threads("many", 1 + 200);
}

#[test]
fn cancelled_threads_leave_right_totals() {
    threads("cancel", 1 + 100);
}

#[test]
fn threads_cancelled_in_the_middle_of_anything_leave_right_totals() {
    threads("async", 1 + 100);
}

#[test]
fn threads_that_stop_inside_of_a_call_hold_up_nobody() {
    threads("stopped", 1 + 4);
}

#[test]
fn a_program_may_end_while_its_threads_record() {
    let Some((server, _workshop, story)) = begin("threads.c", &["exit"]) else {
        return;
    };
    let pid = story.pid();
    assert_eq!(story.end(), Ended::unharmed(3));
    let process = released(&server, pid);
    assert_eq!(process["released"]["reason"], "exited", "{process}");
    // Its own, and of each thread the one that it may have been about to free.
    let buffers = process["released"]["buffers"].as_u64();
    assert!(matches!(buffers, Some(1..=4)), "{process}");
}
