//! Programs that record nothing: the pump sleeps, and the first event wakes it.

use super::{assert_holds, begin, held};
use crate::support::c_program::{Ended, Linked, Story, Workshop};
use crate::support::is_left_to_the_whole_run;
use crate::support::wait_until;

#[test]
fn an_idle_pump_hardly_wakes_up_and_a_lone_event_reaches_the_server() {
    if is_left_to_the_whole_run("it is idle for seconds") {
        return;
    }
    let Some((server, _workshop, mut story)) = begin("idle_pump.c", &[]) else {
        return;
    };
    story.reaches("lone");
    wait_until("the lone event is known", || {
        held(&server.process(story.pid())).0 == 2
    });
    assert_holds(&server, story.pid(), 2);
    assert_eq!(story.end(), Ended::unharmed(9));
}

#[test]
fn an_idle_pump_hardly_wakes_up_without_a_server() {
    if is_left_to_the_whole_run("it is idle for seconds") {
        return;
    }
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("idle_pump.c", Linked::Dynamically);
    let nowhere = workshop.path("ttmem.sock");
    let mut story = Story::begin(&program, &["alone"], &nowhere);
    story.reaches("lone");
    assert_eq!(story.end(), Ended::unharmed(9));
}
