//! Processes that become two, or another: fork, a bare clone, exec, Python's multiprocessing.

use super::{assert_holds, begin, entries, held, live, process_count, released};
use crate::support::c_program::{Ended, Story, built, is_there};
use crate::support::place::source;
use crate::support::server::TestServer;
use std::process::Command;

#[test]
fn a_forked_child_has_an_account_of_its_own_and_the_parent_does_not_notice() {
    let Some((server, _workshop, mut story)) = begin("fork.c", &["family"]) else {
        return;
    };
    let child = story.reaches("child")[0];
    let process = live(&server, child);
    assert_eq!(held(&process).0, 2, "{process}");
    assert_eq!(process["inherited_frees"], 1, "{process}");
    assert_eq!(process["anomalies"], 0, "{process}");
    assert_holds(&server, story.pid(), 3);
    story.go_on();
    story.reaches("parent");
    assert_holds(&server, story.pid(), 4);
    let child = released(&server, child);
    assert_eq!(child["released"]["buffers"], 2, "{child}");
    assert_eq!(child["released"]["reason"], "exited", "{child}");
    story.go_on();
    story.reaches("freed");
    assert_holds(&server, story.pid(), 3);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn a_child_that_never_tracks_is_unknown_to_the_server() {
    let Some((server, _workshop, mut story)) = begin("fork.c", &["silent"]) else {
        return;
    };
    story.reaches("parent");
    assert_holds(&server, story.pid(), 2);
    assert_eq!(process_count(&server), 1);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn forks_in_the_middle_of_full_speed_recording_count_right_on_both_sides() {
    let Some((server, _workshop, mut story)) = begin("fork.c", &["busy"]) else {
        return;
    };
    let children: Vec<u32> = (0..40).map(|_child| story.reaches("child")[0]).collect();
    story.reaches("parent");
    assert_holds(&server, story.pid(), 5);
    for child in children {
        let child = released(&server, child);
        assert_eq!(child["released"]["buffers"], 3, "{child}");
        assert_eq!(child["inherited_frees"], 0, "{child}");
    }
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn a_child_by_a_bare_clone_changes_nothing() {
    let Some((server, _workshop, mut story)) = begin("clone.c", &[]) else {
        return;
    };
    story.reaches("parent");
    assert_holds(&server, story.pid(), 4);
    assert_eq!(process_count(&server), 1);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn a_program_that_becomes_itself_again_holds_only_what_is_new() {
    let Some((server, _workshop, mut story)) = begin("exec.c", &["again"]) else {
        return;
    };
    story.reaches("before");
    assert_holds(&server, story.pid(), 3);
    story.go_on();
    story.reaches("anew");
    assert_holds(&server, story.pid(), 1);
    let old = released(&server, story.pid());
    assert_eq!(old["released"]["reason"], "replaced", "{old}");
    assert_eq!(old["released"]["buffers"], 5, "{old}");
    assert_eq!(story.end(), Ended::unharmed(7));
}

#[test]
fn a_program_that_becomes_one_that_never_tracks_holds_nothing() {
    let Some((server, _workshop, mut story)) = begin("exec.c", &["cat"]) else {
        return;
    };
    story.reaches("before");
    assert_holds(&server, story.pid(), 3);
    story.go_on();
    let old = released(&server, story.pid());
    assert_eq!(old["released"]["reason"], "replaced", "{old}");
    assert_eq!(old["released"]["buffers"], 5, "{old}");
    assert_eq!(entries(&server, story.pid()).len(), 1);
    assert_eq!(story.end(), Ended::unharmed(0));
}

fn multiprocessing(start_method: &str) {
    if !is_there("python3") {
        return;
    }
    let server = TestServer::start(&[]);
    let script = source("tests/surroundings/children.py");
    let mut command = Command::new("python3");
    command
        .arg("-Werror")
        .arg(script)
        .arg(built("libttmem.so"))
        .arg(start_method)
        .env("TT_ALLOC_TRACKING_ENABLED", "1");
    let mut story = Story::begin_as(command, &server.socket());
    let children = story.reaches("children");
    assert_eq!(children.len(), 4);
    for child in &children {
        assert_holds(&server, *child, 2);
    }
    assert_holds(&server, story.pid(), 3);
    story.go_on();
    story.reaches("parent");
    assert_holds(&server, story.pid(), 2);
    for child in children {
        assert_eq!(released(&server, child)["released"]["buffers"], 2);
    }
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn pythons_multiprocessing_counts_right_by_fork() {
    multiprocessing("fork");
}

#[test]
fn pythons_multiprocessing_counts_right_by_spawn() {
    multiprocessing("spawn");
}
