//! Clients of the new wire that speak for programs which know only the old messages.

use crate::support::client::Client;
use crate::support::server::TestServer;
use crate::support::wait_until;
use ttmem_account::{Account, Limits};
use ttmem_event::wire::{Frame, FrameKind, ResyncEnd};
use ttmem_event::{Class, Event, EventKind, Source};

fn allocated(time: u64, id: u64, size_bytes: u64) -> Event {
    let kind = EventKind::LegacyAllocated {
        device: 0,
        class: Class::Dram,
        size_bytes,
        id,
    };
    Event { time, kind }
}

fn freed(time: u64, id: u64) -> Event {
    let kind = EventKind::LegacyFreed { device: 0, id };
    Event { time, kind }
}

#[test]
fn the_old_words_are_taken_from_who_says_to_speak_them_and_from_nobody_else() {
    let server = TestServer::start(&[]);
    let me = std::process::id();
    let mut client = Client::connect_as(&server.socket(), [1; 16], Source::Legacy);
    client.send(&[
        allocated(1, 0x1000, 500),
        // The same address again: booked once more, as old senders do.
        allocated(2, 0x1000, 500),
        freed(3, 0x1000),
    ]);
    assert_eq!(server.device(0)["dram"]["charged_bytes"], 500);
    assert_eq!(server.process(me)["source"], "legacy");
    let lost = Event {
        time: 4,
        kind: EventKind::EventsLost { count: 5 },
    };
    let marked = Event {
        time: 5,
        kind: EventKind::Marked {
            name: ttmem_event::TextId::NONE,
            number: 1,
        },
    };
    client.send(&[lost, marked]);
    let process = server.process(me);
    assert_eq!(process["lost_events"], 5);
    assert_eq!(process["anomalies"], 1, "a mark is none of its words");
    assert!(
        server.status()["marks"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
    drop(client);

    let mut other = Client::connect(&server.socket(), [2; 16]);
    other.send(&[allocated(6, 0x2000, 7)]);
    assert_eq!(server.status()["anomalies"]["malformed"], 2);
    assert_eq!(
        server.device(0)["dram"]["charged_bytes"],
        0,
        "the first was replaced"
    );
}

#[test]
fn a_resync_in_the_old_words_replaces_what_was_known() {
    let server = TestServer::start(&[]);
    let me = std::process::id();
    let mut client = Client::connect_as(&server.socket(), [1; 16], Source::Legacy);
    client.send(&[allocated(1, 0x1000, 500), allocated(2, 0x2000, 40)]);
    drop(client);
    wait_until("it is detached", || {
        server.process(me)["state"] == "detached"
    });
    assert_eq!(server.device(0)["dram"]["charged_bytes"], 540);

    let mut client = Client::connect_as(&server.socket(), [1; 16], Source::Legacy);
    let mut bytes = Vec::new();
    Frame::put(&mut bytes, FrameKind::ResyncBegin, |_empty| {});
    let mut account = Account::new(true);
    for event in [
        allocated(1, 0x1000, 8960),
        allocated(2, 0x2000, 40),
        freed(3, 0x1000),
        allocated(4, 0x3000, 2),
    ] {
        let applied = account.apply(&event, &Limits::default(), &mut ());
        applied.expect("nothing is wrong with it");
    }
    let mut state = Vec::new();
    account.save(&mut state);
    Frame::put_state(&mut bytes, &state);
    let end = ResyncEnd {
        next_sequence: 10,
        lost_events: 1,
        elided_events: 2,
    };
    Frame::put_resync_end(&mut bytes, &end);
    client.send_bytes(&bytes);
    client.sequence = 10;
    client.send(&[freed(4, 0x2000)]);
    let dram = server.device(0)["dram"].clone();
    assert_eq!(
        (&dram["charged_bytes"], &dram["peak_bytes"]),
        (&2.into(), &9000.into())
    );
    let process = server.process(me);
    assert_eq!(
        (&process["lost_events"], &process["elided_events"]),
        (&1.into(), &2.into())
    );
    assert_eq!(process["anomalies"], 0);
}
