//! Systems that refuse what the library asks for.

use super::{assert_holds, begin, process_count};
use crate::support::c_program::{Ended, Linked, Story, Workshop};
use std::path::Path;

/// Runs a program under a limit that changes nothing for its totals.
fn works_under(limit: &str) {
    let Some((server, _workshop, mut story)) = begin("limits.c", &[limit]) else {
        return;
    };
    story.reaches("settled");
    assert_holds(&server, story.pid(), 3);
    assert_eq!(story.end(), Ended::unharmed(9));
}

#[test]
fn memfds_may_be_forbidden() {
    works_under("EPERM");
}

#[test]
fn memfds_may_be_unknown() {
    works_under("ENOSYS");
}

#[test]
fn connecting_may_be_forbidden() {
    let Some((server, _workshop, mut story)) = begin("limits.c", &["connect"]) else {
        return;
    };
    story.reaches("alone");
    assert_eq!(process_count(&server), 0);
    assert_eq!(story.end(), Ended::unharmed(9));
}

#[test]
fn files_may_have_to_be_small() {
    works_under("fsize");
}

#[test]
fn descriptors_may_be_few() {
    works_under("nofile");
}

#[test]
fn without_room_for_the_rings_tracking_is_off_and_says_so_once() {
    let Some((server, _workshop, mut story)) = begin("limits.c", &["as", "2000000"]) else {
        return;
    };
    story.reaches("off");
    assert_eq!(process_count(&server), 0);
    let ended = story.end();
    assert_eq!((ended.code, ended.signal), (Some(9), None), "{ended:?}");
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{ended:?}");
    assert!(
        lines[0].starts_with("ttmem: tracking is off: "),
        "{ended:?}"
    );
}

/// There is room for the rings, but not for the history that the pump would like to keep.
#[test]
fn a_history_that_cannot_grow_is_cut_short_and_totals_are_exact() {
    let Some((server, _workshop, mut story)) = begin("limits.c", &["as", "8000000"]) else {
        return;
    };
    story.reaches("settled");
    assert_holds(&server, story.pid(), 3);
    assert_eq!(story.end(), Ended::unharmed(9));
}

#[test]
fn a_socket_that_cannot_be_is_no_trouble() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("limits.c", Linked::Dynamically);
    let folder = workshop.path("");
    let too_long = folder.join("x".repeat(200));
    for path in [Path::new("/nonexistent/ttmem.sock"), &folder, &too_long] {
        let mut story = Story::begin(&program, &["alone"], path);
        story.reaches("alone");
        assert_eq!(story.end(), Ended::unharmed(9));
    }
}

#[test]
fn a_complaint_that_nobody_reads_ends_no_program() {
    let Some((_server, _workshop, mut story)) = begin("limits.c", &["unread", "2000000"]) else {
        return;
    };
    story.reaches("off");
    assert_eq!(story.end(), Ended::unharmed(9));
}
