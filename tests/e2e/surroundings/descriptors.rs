//! Programs that close every descriptor.

use super::{assert_holds, entries};
use crate::support::c_program::{Ended, Linked, Story, Workshop};
use crate::support::server::TestServer;

#[test]
fn a_program_that_closes_everything_finds_only_its_own_bytes_in_its_files() {
    let Some(workshop) = Workshop::open() else {
        return;
    };
    let program = workshop.program("descriptors.c", Linked::Dynamically);
    let server = TestServer::start(&[]);
    let file = workshop.path("its-own-file");
    let argument = file.to_str().expect("a plain path");
    let mut story = Story::begin(&program, &[argument], &server.socket());
    story.reaches("recovered");
    assert_holds(&server, story.pid(), 1 + 10);
    assert_eq!(entries(&server, story.pid()).len(), 1);
    assert_eq!(story.end(), Ended::unharmed(0));
    let written = std::fs::read_to_string(&file).expect("only its own text");
    assert_eq!(written, "file\n".repeat(10));
}
