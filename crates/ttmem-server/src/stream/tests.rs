//! The tail, and what its readers are told.

use super::raw::{AT_ONCE, Behind, write};
use super::tail::Tail;
use super::*;
use ttmem_event::{BufferId, Event, MeshId, What};
use ttmem_ledger::{Ledger, Limits};

fn freed(id: u64) -> Event {
    Event {
        time: id,
        what: What::BufferFreed {
            mesh: MeshId(1),
            buffer: BufferId(id),
        },
    }
}

fn push(tail: &Tail, ids: std::ops::Range<u64>) {
    tail.push(0, Some(1), 5, false, ids.map(freed).collect());
}

fn ids(tail: &Tail, after: u64, count: usize) -> Vec<u64> {
    let since = tail.since(after, count);
    let batches = since.batches.iter();
    let ids = batches.flat_map(|batch| (batch.first_id..).take(batch.events.len()));
    ids.filter(|id| *id > after).collect()
}

#[test]
fn events_are_counted_from_one_and_given_behind_an_id() {
    let tail = Tail::default();
    assert_eq!((tail.newest(), tail.since(0, 10).oldest), (0, 1));
    push(&tail, 0..3);
    push(&tail, 0..0);
    push(&tail, 3..5);
    assert_eq!(tail.newest(), 5);
    assert_eq!(ids(&tail, 0, 10), [1, 2, 3, 4, 5]);
    assert_eq!(ids(&tail, 2, 10), [3, 4, 5]);
    assert_eq!(ids(&tail, 3, 10), [4, 5]);
    assert_eq!(ids(&tail, 5, 10), [0_u64; 0]);
    assert_eq!(ids(&tail, 0, 1), [1, 2, 3], "whole batches");
    assert_eq!(ids(&tail, u64::MAX, 10), [0_u64; 0]);
}

#[test]
fn only_the_newest_events_are_kept() {
    let tail = Tail::default();
    for batch in 0..100 {
        push(&tail, batch * 1000..(batch + 1) * 1000);
    }
    let since = tail.since(0, usize::MAX);
    assert_eq!(tail.newest(), 100_000);
    assert_eq!(since.oldest, 35_001, "65 batches of a thousand fit");
    let kept: usize = since.batches.iter().map(|batch| batch.events.len()).sum();
    assert_eq!(kept, 65_000);
}

#[test]
fn a_message_has_no_more_than_its_events_however_large_a_batch_is() {
    let tail = Tail::default();
    let count = 2 * AT_ONCE as u64 + 5;
    push(&tail, 0..count);
    let view = Ledger::new(Limits::default()).view();
    let mut last = 0;
    let mut messages = Vec::new();
    while last < count {
        let since = tail.since(last, AT_ONCE);
        let (text, reached) = write(&view, &since.batches, last);
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
    // What is kept may be newer than what was told of it.
    assert_eq!(Behind::Slow.resumes(1000, 900), 1000);
    assert_eq!(Behind::Slow.resumes(1000, 1000), 1000);
}

#[test]
fn a_message_has_an_id_only_if_one_can_go_on_behind_it() {
    let gap = gap(3, 9, "slow");
    let text = std::str::from_utf8(&gap).expect("JSON is UTF-8");
    let expected =
        "event: gap\ndata: {\"type\":\"gap\",\"after\":3,\"resumes\":9,\"reason\":\"slow\"}\n\n";
    assert_eq!(text, expected);
    let changes = message(&StreamMessage::Changes(ttmem_api::StreamChanges {
        id: 7,
        time: Timestamp::from_unix_nanos(0),
        events_applied: 7,
        devices: Vec::new(),
    }));
    assert!(changes.starts_with(b"id: 7\nevent: changes\ndata: {"));
}
