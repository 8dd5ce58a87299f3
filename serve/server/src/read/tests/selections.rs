//! Buffers by what a reader asks for, compared with a plain list that is filtered and sorted here.

use super::hostility::{exchange, refusal};
use super::*;
use std::collections::BTreeMap;
use ttmem_report::{BufferGroup, BufferQuery, BufferRow, GroupBy, HexId, MemoryClass, SortBy};

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Some hundred buffers of three processes, of which many have equal sizes, addresses and times.
fn crowd() -> Ledger {
    let mut ledger = empty_ledger();
    let mut dice = Dice(1);
    for pid in [4001, 4002, 4003] {
        let process = joined(&mut ledger, pid);
        // The same operation from two lines, of which one is reached in two ways.
        for (id, stack) in [
            (4, "/m.py:7 f"),
            (5, "/m.py:9 g"),
            (6, "/m.py:9 g\n/m.py:1 h"),
        ] {
            let (id, text) = (TextId(id), format!("ttnn::add\n{stack}"));
            ledger
                .define(process, &Definition::Text { id, text })
                .unwrap();
        }
        for buffer in 1..=130 {
            let (class, base, banks) = match dice.below(3) {
                0 => (Class::L1, n150().l1.base, 64),
                1 => (Class::L1Small, n150().l1_small.base, 64),
                _ => (Class::Dram, n150().dram.base, 12),
            };
            let kind = EventKind::BufferAllocated {
                mesh: if dice.below(2) == 0 { BOTH } else { FIRST },
                buffer: BufferId(buffer),
                class,
                layout: if dice.below(2) == 0 {
                    Layout::Interleaved
                } else {
                    Layout::HeightSharded
                },
                direction: Direction::BottomUp,
                address: base + 64 * dice.below(9),
                requested_bytes: 1 + dice.below(64),
                per_bank_bytes: 64 * (1 + dice.below(5)),
                page_bytes: 64,
                cores: CoresId::NONE,
                operation: TextId([2, 3, 4, 5, 6, 99][usize::try_from(dice.below(6)).unwrap()]),
                banks,
            };
            apply(&mut ledger, process, 10 + dice.below(7), kind);
        }
        for buffer in 1..=130 {
            if dice.below(10) == 0 {
                let freed = EventKind::BufferFreed {
                    mesh: BOTH,
                    buffer: BufferId(buffer),
                };
                // Half of them are of the other mesh, and stay.
                let event = Event {
                    time: 20,
                    kind: freed,
                };
                let _unknown = ledger.tell(process, &event);
            }
        }
    }
    ledger
}

fn everything(client: &ApiClient) -> Vec<BufferRow> {
    let page = client
        .page::<ttmem_report::BufferRow>(None, Some(10_000))
        .unwrap();
    assert_eq!((page.next, page.matched), (None, None), "nobody counted");
    assert!(page.rows.len() > 300, "{}", page.rows.len());
    page.rows
}

/// Follows the cursors of a query to the end.
fn walk(client: &ApiClient, query: &BufferQuery) -> Vec<BufferRow> {
    let mut rows = Vec::new();
    let mut query = query.clone();
    loop {
        let page = client.buffers_where(&query).unwrap();
        rows.extend(page.rows);
        let Some(next) = page.next else {
            return rows;
        };
        query.cursor = Some(next);
        query.offset = None;
    }
}

#[test]
fn pages_by_cursor_and_by_offset_are_a_plain_sort() {
    let served = Served::new(crowd());
    let client = served.client();
    let all = everything(&client);
    let key = |row: &BufferRow, sort| match sort {
        SortBy::Size => row.charged_bytes,
        SortBy::Address => row.address.unwrap(),
        SortBy::Time => row.time.unwrap().unix_nanos(),
        SortBy::Place | SortBy::Other => 0,
    };
    for sort in [SortBy::Place, SortBy::Size, SortBy::Address, SortBy::Time] {
        for descending in [false, true] {
            let mut expected = all.clone();
            // Equal keys stay as the server has them.
            expected.sort_by_key(|row| key(row, sort));
            if descending {
                expected.reverse();
            }
            for limit in [1, 7, 100, 10_000] {
                let query = BufferQuery {
                    sort: Some(sort),
                    descending,
                    limit: Some(limit),
                    ..BufferQuery::default()
                };
                assert_eq!(walk(&client, &query), expected, "{query:?}");
                for offset in [0, 1, all.len() / 2, all.len() - 1, all.len(), usize::MAX] {
                    let query = BufferQuery {
                        offset: Some(offset as u64),
                        ..query.clone()
                    };
                    let page = client.buffers_where(&query).unwrap();
                    let rest = expected.get(offset..).unwrap_or(&[]);
                    let count = rest.len().min(limit as usize);
                    assert_eq!(page.rows, rest[..count], "{query:?}");
                    assert_eq!(page.next.is_some(), count < rest.len(), "{query:?}");
                    assert_eq!(page.matched, Some(all.len() as u64));
                }
            }
        }
    }
    // Who began at an offset goes on with a cursor.
    let query = BufferQuery {
        offset: Some(5),
        limit: Some(50),
        ..BufferQuery::default()
    };
    assert_eq!(walk(&client, &query), all[5..]);
}

#[test]
fn each_filter_lets_through_what_it_says() {
    let served = Served::new(crowd());
    let client = served.client();
    let all = everything(&client);
    let nothing = BufferQuery::default;
    let time = Timestamp::from_unix_nanos;
    let address = all[0].address.unwrap();
    let (in_hex, in_decimal) = (format!("{address:#X}"), address.to_string());
    type Lets = Box<dyn Fn(&BufferRow) -> bool>;
    let cases: Vec<(BufferQuery, Lets)> = vec![
        (
            BufferQuery {
                pid: Some(4002),
                ..nothing()
            },
            Box::new(|row| row.pid == Some(4002)),
        ),
        (
            BufferQuery {
                device: Some(1),
                ..nothing()
            },
            Box::new(|row| row.device_ids.contains(&1)),
        ),
        (
            BufferQuery {
                unique_id: Some(HexId(0xfeed_0001)),
                ..nothing()
            },
            Box::new(|row| row.device_ids.contains(&1)),
        ),
        (
            BufferQuery {
                class: Some(MemoryClass::L1Small),
                ..nothing()
            },
            Box::new(|row| row.class == MemoryClass::L1Small),
        ),
        (
            BufferQuery {
                operation: Some("N::aD".into()),
                ..nothing()
            },
            Box::new(|row| row.operation.as_deref() == Some("ttnn::add")),
        ),
        (
            BufferQuery {
                python: Some("m.PY:9".into()),
                ..nothing()
            },
            Box::new(|row| {
                let frames = row.python.iter().flatten();
                frames.map(String::as_str).any(|frame| frame == "/m.py:9 g")
            }),
        ),
        (
            BufferQuery {
                find: Some("N::aD".into()),
                ..nothing()
            },
            Box::new(|row| row.operation.as_deref() == Some("ttnn::add")),
        ),
        (
            BufferQuery {
                find: Some("4002".into()),
                ..nothing()
            },
            Box::new(|row| row.pid == Some(4002)),
        ),
        (
            BufferQuery {
                find: Some(in_hex.clone()),
                ..nothing()
            },
            Box::new(move |row| row.address == Some(address)),
        ),
        (
            BufferQuery {
                find: Some(in_decimal.clone()),
                ..nothing()
            },
            Box::new(move |row| row.address == Some(address)),
        ),
        (
            BufferQuery {
                min_bytes: Some(12 * 192),
                ..nothing()
            },
            Box::new(|row| row.charged_bytes >= 12 * 192),
        ),
        (
            BufferQuery {
                since: Some(time(13)),
                ..nothing()
            },
            Box::new(move |row| row.time >= Some(time(13))),
        ),
        (
            BufferQuery {
                pid: Some(4003),
                device: Some(0),
                class: Some(MemoryClass::Dram),
                min_bytes: Some(12 * 128),
                since: Some(time(12)),
                ..nothing()
            },
            Box::new(move |row| {
                row.pid == Some(4003)
                    && row.class == MemoryClass::Dram
                    && row.charged_bytes >= 12 * 128
                    && row.time >= Some(time(12))
            }),
        ),
    ];
    for (query, lets_through) in cases {
        let expected: Vec<BufferRow> = all
            .iter()
            .filter(|row| lets_through(row))
            .cloned()
            .collect();
        assert!(
            !expected.is_empty() && expected.len() < all.len(),
            "{query:?}"
        );
        let short = BufferQuery {
            limit: Some(10),
            ..query.clone()
        };
        assert_eq!(walk(&client, &short), expected, "{query:?}");
        let page = client.buffers_where(&query).unwrap();
        let bytes: u64 = expected.iter().map(|row| row.charged_bytes).sum();
        assert_eq!(page.matched, Some(expected.len() as u64), "{query:?}");
        assert_eq!(page.matched_bytes, Some(bytes), "{query:?}");
    }
    for none in [
        BufferQuery {
            pid: Some(1),
            ..nothing()
        },
        BufferQuery {
            device: Some(7),
            ..nothing()
        },
        BufferQuery {
            device: Some(0),
            unique_id: Some(HexId(0xfeed_0001)),
            ..nothing()
        },
        BufferQuery {
            operation: Some("add\u{7}".into()),
            ..nothing()
        },
    ] {
        let page = client.buffers_where(&none).unwrap();
        assert_eq!(
            (page.rows.len(), page.matched, page.matched_bytes),
            (0, Some(0), Some(0))
        );
    }
}

#[test]
fn groups_are_what_the_rows_add_up_to() {
    let served = Served::new(crowd());
    let client = served.client();
    let all = everything(&client);
    for (by, key) in [
        (
            GroupBy::Operation,
            (|row| row.operation.clone()) as fn(&BufferRow) -> Option<String>,
        ),
        (GroupBy::Line, |row| row.python.as_ref()?.first().cloned()),
        (GroupBy::Size, |row| Some(row.charged_bytes.to_string())),
        (GroupBy::Class, |row| Some(row.class.to_string())),
        (GroupBy::Process, |row| Some(format!("{} python", row.pid?))),
        (GroupBy::Layout, |row| Some(row.layout?.to_string())),
    ] {
        for class in [None, Some(MemoryClass::L1)] {
            let mut expected: BTreeMap<Option<String>, BufferGroup> = BTreeMap::new();
            let rows = all
                .iter()
                .filter(|row| class.is_none_or(|class| class == row.class));
            let mut charged = 0;
            for row in rows.clone() {
                charged += row.charged_bytes;
                let group = expected.entry(key(row)).or_insert_with(|| BufferGroup {
                    key: key(row),
                    stack: None,
                    buffers: 0,
                    charged_bytes: 0,
                    requested_bytes: 0,
                    oldest: row.time,
                    newest: row.time,
                });
                group.buffers += 1;
                group.charged_bytes += row.charged_bytes;
                group.requested_bytes += row.requested_bytes;
                group.oldest = group.oldest.min(row.time);
                group.newest = group.newest.max(row.time);
            }
            let mut expected: Vec<BufferGroup> = expected.into_values().collect();
            expected.sort_by_key(|group| std::cmp::Reverse(group.charged_bytes));
            let query = BufferQuery {
                by: Some(by),
                class,
                ..BufferQuery::default()
            };
            let answer = client.buffer_groups(&query).unwrap();
            assert_eq!(answer.groups, expected, "{by:?}");
            assert_eq!((answer.by, answer.left_out), (by, 0));
            let sums = (answer.buffers, answer.charged_bytes);
            assert_eq!(sums, (rows.count() as u64, charged));
        }
    }
    let by_default = client.buffer_groups(&BufferQuery::default()).unwrap();
    assert_eq!(by_default.by, GroupBy::Operation);
}

#[test]
fn of_very_many_groups_the_largest_are_told() {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    for buffer in 1..=1500 {
        let kind = allocated(buffer, Class::Dram, n150().dram.base, 64 * buffer);
        apply(&mut ledger, process, buffer, kind);
    }
    let served = Served::new(ledger);
    let query = BufferQuery {
        by: Some(GroupBy::Size),
        ..BufferQuery::default()
    };
    let answer = served.client().buffer_groups(&query).unwrap();
    assert_eq!(
        (answer.groups.len(), answer.left_out, answer.buffers),
        (1000, 500, 1500)
    );
    let least = answer.groups.last().unwrap();
    assert_eq!(least.charged_bytes, 12 * 64 * 501);
    let whole: u64 = (1..=1500).map(|buffer| 12 * 64 * buffer).sum();
    assert_eq!(answer.charged_bytes, whole);
}

#[test]
fn words_that_are_not_known_are_refused() {
    let served = Served::new(crowd());
    for parameters in [
        "class=ram",
        "class=other",
        "sort=colour",
        "sort=other",
        "descending=maybe",
        "pid=-1",
        "device=0x0",
        "unique_id=12",
        "since=yesterday",
        "min_bytes=1e9",
        "limit=0",
        "limit=10001",
        "offset=-1",
        "offset=1&cursor=k-0-0-0",
        "sort=size&cursor=0-0-0",
        "sort=size&cursor=k-1-2",
        "cursor=k-0-0-0-0",
        "cursor=k--0-0",
        "cursor=k-18446744073709551616-0-0",
        "colour=red",
        "pid=1&pid=2",
        "operation=%ff",
    ] {
        for path in ["buffers", "buffers/groups"] {
            let request = format!("GET /api/v1/{path}?{parameters} HTTP/1.1\r\n\r\n");
            let answer = exchange(&served, request.as_bytes());
            // A text that is not UTF-8 has its bad bytes replaced, which finds nothing.
            let code = if parameters.contains("%ff") { 200 } else { 400 };
            let expected = format!("HTTP/1.1 {code} ");
            assert!(answer.starts_with(&expected), "{request}: {answer}");
        }
    }
    let query = BufferQuery {
        by: Some(GroupBy::Other),
        ..BufferQuery::default()
    };
    let told = refusal(served.client().buffer_groups(&query));
    assert_eq!(told, (400, "bad_request".to_owned()));
}
