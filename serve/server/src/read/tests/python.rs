//! Lines of Python where they are shown: one name and one line, whatever the stack.

use super::*;
use ttmem_report::{BufferQuery, BufferRow, GroupBy, PeakOf};

const CALLED: &str = "ttnn::add
/venv/lib/python3.12/site-packages/ttnn/decorators.py:7 __call__
/home/ada/model.py:57 forward
/home/ada/main.py:3 <module>";

const CALLED_AGAIN: &str = "ttnn::add
/home/ada/model.py:57 forward
/home/ada/main.py:4 <module>";

/// A process with a buffer of each of two stacks, and an allocation that was refused.
pub(super) fn failing() -> Ledger {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    for (id, text) in [(4, CALLED), (5, CALLED_AGAIN)] {
        let (id, text) = (TextId(id), text.to_owned());
        let defined = Definition::Text { id, text };
        ledger.define(process, &defined).unwrap();
    }
    for (number, operation) in [(1, TextId(4)), (2, TextId(5))] {
        let address = n150().dram.base + 64 * number;
        let mut kind = allocated(number, Class::Dram, address, 64);
        if let EventKind::BufferAllocated { operation: of, .. } = &mut kind {
            *of = operation;
        }
        apply(&mut ledger, process, 10 + number, kind);
    }
    let refused = EventKind::AllocationFailed {
        mesh: BOTH,
        class: Class::Dram,
        banks: 12,
        requested_bytes: 1 << 40,
        per_bank_bytes: 1 << 37,
        free_bytes: 1 << 20,
        largest_free_bytes: 1 << 20,
        bank_bytes: 1 << 30,
        operation: TextId(5),
        call_first: 0,
    };
    apply(&mut ledger, process, 20, refused);
    ledger
}

#[test]
fn a_line_is_the_users_and_names_have_no_stack() {
    let served = Served::new(failing());
    let client = served.client();
    let page = client.page::<BufferRow>(None, None).unwrap();
    for (row, text) in page.rows.iter().zip([CALLED, CALLED_AGAIN]) {
        assert_eq!(row.operation.as_deref(), Some("ttnn::add"));
        let lines: Vec<&str> = row.python.iter().flatten().map(String::as_str).collect();
        assert_eq!(lines, text.lines().skip(1).collect::<Vec<_>>());
    }
    let peak = client.peak("0", PeakOf::Dram, None, None).unwrap();
    let groups = peak.groups.iter();
    let groups: Vec<_> = groups
        .map(|group| (group.name.as_deref(), group.line.as_deref(), group.count))
        .collect();
    let line = Some("/home/ada/model.py:57 forward");
    assert_eq!(groups, [(Some("ttnn::add"), line, 2)]);
    let called = [CALLED, CALLED_AGAIN].map(|text| text.lines().last().unwrap());
    assert_eq!(peak.groups[0].callers, called);
}

#[test]
fn a_failure_names_the_line_that_asked_and_the_lines_that_hold() {
    let served = Served::new(failing());
    let failures = served.client().failures(1).unwrap().failures;
    let [failure] = failures.as_slice() else {
        panic!("{failures:?}");
    };
    let line = Some("/home/ada/model.py:57 forward");
    assert_eq!(failure.operation.as_deref(), Some("ttnn::add"));
    assert_eq!(failure.python.as_deref(), line);
    assert!(
        failure.sentence.contains("`ttnn::add` at model.py:57"),
        "{}",
        failure.sentence
    );
    let holders = failure.holders.as_ref().unwrap();
    let [holder] = holders.as_slice() else {
        panic!("{holders:?}");
    };
    assert_eq!(holder.owner.python.as_deref(), line);
    assert_eq!(holder.owner.operation.as_deref(), Some("ttnn::add"));
    assert_eq!(holder.buffers, 2);
}

#[test]
fn groups_by_stack_have_all_frames_the_outermost_first() {
    let served = Served::new(failing());
    let query = BufferQuery {
        by: Some(GroupBy::Stack),
        ..BufferQuery::default()
    };
    let groups = served.client().buffer_groups(&query).unwrap().groups;
    let told: Vec<Vec<String>> = groups
        .iter()
        .filter_map(|group| group.stack.clone())
        .collect();
    let expected = [CALLED, CALLED_AGAIN].map(|text| {
        let mut frames: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
        frames.reverse();
        frames
    });
    assert_eq!(told.len(), 2);
    assert!(
        expected.iter().all(|stack| told.contains(stack)),
        "{told:?}"
    );
    let line = Some("/home/ada/model.py:57 forward");
    assert!(
        groups
            .iter()
            .all(|group| group.key.as_deref() == line && group.buffers == 1)
    );
}
