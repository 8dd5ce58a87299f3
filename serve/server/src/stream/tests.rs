//! What readers of streams get.

use super::*;
use crate::journal::Journal;
use ttmem_event::{BufferId, Event, EventKind, MeshId};
use ttmem_ledger::{Ledger, Limits};

fn freed(id: u64) -> Event {
    Event {
        time: id,
        kind: EventKind::BufferFreed {
            mesh: MeshId(1),
            buffer: BufferId(id),
        },
    }
}

#[test]
fn a_message_has_no_more_than_its_events_however_large_a_batch_is() {
    let journal = Journal::default();
    let count = 2 * AT_ONCE as u64 + 5;
    journal.push(Batch {
        events: (0..count).map(freed).collect::<Vec<_>>().into(),
        ..Batch::default()
    });
    let view = Ledger::new(Limits::default()).view();
    let mut last = 0;
    let mut messages = Vec::new();
    while last < count {
        let since = journal.since(last, AT_ONCE);
        let (text, reached) = write(&view, Audience::Everything, &since.batches, last);
        let text = std::str::from_utf8(&text).expect("JSON is UTF-8");
        assert!(text.starts_with(&format!("id: {}\n", last + 1)));
        assert_eq!(
            text.matches("\nevent: event\n").count() as u64,
            reached - last
        );
        messages.push(reached - last);
        last = reached;
    }
    assert_eq!(messages, [AT_ONCE as u64, AT_ONCE as u64, 5]);
}

#[test]
fn behind_a_gap_the_slow_get_room_and_who_was_away_gets_all_that_is_kept() {
    assert_eq!(Behind::Away.resumes(1000, 3000), 1000);
    assert_eq!(Behind::Slow.resumes(1000, 3000), 2000);
    // What is kept may be newer than what was seen of it.
    assert_eq!(Behind::Slow.resumes(1000, 900), 1000);
    assert_eq!(Behind::Slow.resumes(1000, 1000), 1000);
}

#[test]
fn a_gap_has_no_id_as_nobody_goes_on_behind_it() {
    let gap = gap(3, 9, "slow");
    let text = std::str::from_utf8(&gap).expect("JSON is UTF-8");
    let expected =
        "event: gap\ndata: {\"type\":\"gap\",\"after\":3,\"resumes\":9,\"reason\":\"slow\"}\n\n";
    assert_eq!(text, expected);
}
