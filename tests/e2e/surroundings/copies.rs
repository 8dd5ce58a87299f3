//! Two copies of the library in one process, and libraries that nobody calls.

use super::{assert_holds, begin, entries, process_count, released};
use crate::support::c_program::{Ended, Linked, Story, Workshop};
use crate::support::server::TestServer;
use std::process::Command;
use ttmem_event::event::LAYOUT_HASH;

/// Both copies in one process, whichever is called first; then the other one first in a child.
fn two_clients(linked: Linked, first: &str) {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("two_clients.c", linked);
    let copy = workshop.copy_of_library();
    let server = TestServer::start(&[]);
    let copy = copy.to_str().expect("a plain path");
    let mut story = Story::begin(&program, &[copy, first], &server.socket());
    story.reaches("both");
    assert_holds(&server, story.pid(), 3 + 2);
    assert_eq!(process_count(&server), 1);
    story.go_on();
    let child = story.reaches("child")[0];
    assert_holds(&server, child, 3 + 2);
    assert_holds(&server, story.pid(), 3 + 2);
    story.go_on();
    story.reaches("parent");
    assert_holds(&server, story.pid(), 3 + 2 + 1);
    assert_eq!(entries(&server, story.pid()).len(), 1);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn a_loaded_copy_forwards_to_the_linked_one() {
    two_clients(Linked::Dynamically, "linked");
}

#[test]
fn the_linked_copy_forwards_to_a_loaded_one() {
    two_clients(Linked::Dynamically, "loaded");
}

#[test]
fn a_loaded_copy_forwards_to_the_one_inside_of_the_program() {
    two_clients(Linked::Statically, "linked");
}

#[test]
fn the_copy_inside_of_the_program_forwards_to_a_loaded_one() {
    two_clients(Linked::Statically, "loaded");
}

#[test]
fn copies_that_start_at_the_same_time_become_one_client() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("two_clients.c", Linked::Dynamically);
    let copy = workshop.copy_of_library();
    let server = TestServer::start(&[]);
    let copy = copy.to_str().expect("a plain path");
    let mut story = Story::begin(&program, &[copy, "at-once"], &server.socket());
    for _round in 0..50 {
        let child = story.reaches("child")[0];
        let process = released(&server, child);
        assert_eq!(process["released"]["buffers"], 3 + 2, "{process}");
    }
    story.reaches("both");
    story.go_on();
    story.reaches("child");
    story.go_on();
    story.reaches("parent");
    assert_eq!(story.end(), Ended::unharmed(0));
}

/// A program with memory of its own that looks like ours is tracked as any other.
fn foreign_memory(kind: &str) {
    let hash = LAYOUT_HASH.to_string();
    let Some((server, _workshop, mut story)) = begin("foreign_memory.c", &[kind, &hash]) else {
        return;
    };
    story.reaches("settled");
    assert_holds(&server, story.pid(), 3);
    assert_eq!(story.end(), Ended::unharmed(9));
}

#[test]
fn an_address_in_foreign_memory_is_not_followed() {
    foreign_memory("wild");
}

#[test]
fn functions_in_foreign_memory_are_not_called() {
    foreign_memory("table");
}

#[test]
fn foreign_memory_without_bytes_is_not_read() {
    foreign_memory("empty");
}

#[test]
fn foreign_memory_that_cannot_be_read_is_not_read() {
    foreign_memory("closed");
}

#[test]
fn notes_that_lead_out_of_their_library_are_not_followed() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let plugin = workshop.plugin("foreign_note.c", Linked::Not);
    let program = workshop.program("foreign_memory.c", Linked::Dynamically);
    let server = TestServer::start(&[]);
    let plugin = plugin.to_str().expect("a plain path");
    let mut story = Story::begin(&program, &["note", plugin], &server.socket());
    story.reaches("settled");
    assert_holds(&server, story.pid(), 3);
    assert_eq!(story.end(), Ended::unharmed(9));
}

#[test]
fn two_hundred_programs_that_merely_have_the_library_are_unknown_to_the_server() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("idle.c", Linked::Dynamically);
    let server = TestServer::start(&[]);
    for number in 0..200 {
        let mut command = if number % 2 == 0 {
            Command::new(&program)
        } else {
            let mut command = Command::new("true");
            command.env("LD_PRELOAD", workshop.path("libttmem.so.0"));
            command
        };
        command.env("TT_ALLOC_TRACKING_ENABLED", "1");
        let story = Story::begin_as(command, &server.socket());
        assert_eq!(story.end(), Ended::unharmed(0));
    }
    assert_eq!(process_count(&server), 0);
}

#[test]
fn tracking_that_is_disabled_leaves_no_trace() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let server = TestServer::start(&[]);
    let mut command = Command::new(workshop.program("off.c", Linked::Dynamically));
    command.env("TTMEM_DISABLE", "1");
    let mut story = Story::begin_as(command, &server.socket());
    story.reaches("off");
    assert_eq!(process_count(&server), 0);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn the_old_class_is_off_until_its_variable_turns_it_on() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let server = TestServer::start(&[]);
    let program = workshop.program("old_class.cpp", Linked::Not);
    let begin = |enabled: Option<&str>| {
        let mut command = Command::new(&program);
        command.env("TTMEM_LIBRARY", workshop.path("libttmem.so.0"));
        match enabled {
            Some(value) => command.env("TT_ALLOC_TRACKING_ENABLED", value),
            None => command.env_remove("TT_ALLOC_TRACKING_ENABLED"),
        };
        Story::begin_as(command, &server.socket())
    };
    for off in [None, Some("0"), Some("")] {
        let mut story = begin(off);
        story.reaches("off");
        assert_eq!(process_count(&server), 0);
        assert_eq!(story.end(), Ended::unharmed(0));
    }
    let mut story = begin(Some("1"));
    story.reaches("on");
    crate::support::wait_until("its two buffers are known", || {
        super::held(&server.process(story.pid())).0 == 2
    });
    assert_holds(&server, story.pid(), 2);
    assert_eq!(story.end(), Ended::unharmed(0));
}
