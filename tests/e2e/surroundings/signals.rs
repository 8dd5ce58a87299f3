//! Signals of the program, and those that a careless library would send it.

use super::{assert_holds, begin, held, live};
use crate::support::c_program::Ended;
use crate::support::server::TestServer;
use std::time::Duration;

#[test]
fn a_handler_that_reports_in_the_middle_of_a_report_is_heard_or_counted() {
    let Some((server, _workshop, mut story)) = begin("signals.c", &["handler"]) else {
        return;
    };
    let own_count = story.reaches("held")[0];
    let process = live(&server, story.pid());
    let lost = process["lost_events"].as_u64().expect("a count");
    // The first few of the handler's are no buffers, and the program's own are never lost.
    let held = held(&process).0;
    assert!(held <= u64::from(own_count), "{process}");
    assert!(held + lost >= u64::from(own_count), "{process}");
    assert!(
        held > 1,
        "the handler never came between two reports: {process}"
    );
    assert_eq!(process["anomalies"], 0, "{process}");
    assert_eq!(process["incomplete"], lost > 0, "{process}");
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn a_server_that_vanishes_in_the_middle_of_traffic_breaks_no_pipe() {
    let Some((mut server, _workshop, mut story)) = begin("signals.c", &["pipe"]) else {
        return;
    };
    story.reaches("traffic");
    for _death in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        server = TestServer::start_in(server.kill(), &[]);
    }
    let folder = server.kill();
    story.reaches("survived");
    let server = TestServer::start_in(folder, &[]);
    story.go_on();
    story.reaches("settled");
    assert_holds(&server, story.pid(), 1);
    assert_eq!(story.end(), Ended::unharmed(0));
}

#[test]
fn the_pump_takes_no_signal() {
    let Some((server, _workshop, mut story)) = begin("signals.c", &["mask"]) else {
        return;
    };
    story.reaches("masked");
    assert_holds(&server, story.pid(), 2);
    assert_eq!(story.end(), Ended::unharmed(0));
}
