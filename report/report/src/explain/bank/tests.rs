//! The release set against brute force, and tables that make no sense.

use super::*;
use crate::explain::{Failure, Moment, Refused, Witness, explain};
use crate::{BlockOwner, FailedRequest, MemoryClass, Timestamp};
use proptest::prelude::*;

fn table(base: u64, bank_bytes: u64, blocks: &[(u64, u64)]) -> BlockTable {
    let blocks = blocks.iter().map(|&(address, size_bytes)| HeldBlock {
        address,
        size_bytes,
        owner: BlockOwner::default(),
    });
    BlockTable {
        base,
        bank_bytes,
        blocks: blocks.collect(),
    }
}

/// Bytes, blocks, what their owners hold, how young they are, and where.
type Cost = (u64, usize, Reverse<u64>, Reverse<u64>, usize);

/// Every run of neighbours is tried that has no block of the call: whether the request then fits is asked of
/// the bank's bytes.
fn brute_force(table: &BlockTable, need: u64, alignment: u64) -> Option<(Cost, Range<usize>)> {
    let mut blocks: Vec<&HeldBlock> = table.blocks.iter().collect();
    blocks.sort_by_key(|block| block.address);
    let held_by = |block: &HeldBlock| -> u64 {
        let of_owner = blocks
            .iter()
            .filter(|other| other.owner.operation == block.owner.operation);
        of_owner.map(|other| other.size_bytes).sum()
    };
    let mut best: Option<(Cost, Range<usize>)> = None;
    for first in 0..=blocks.len() {
        for last in first..=blocks.len() {
            if blocks[first..last].iter().any(|block| block.owner.of_call) {
                continue;
            }
            let kept = blocks.iter().enumerate();
            let kept: Vec<(u64, u64)> = kept
                .filter(|(at, _block)| !(first..last).contains(at))
                .map(|(_at, block)| (block.address, block.address + block.size_bytes))
                .collect();
            // Wherever the request could begin: aligned, at the base or behind what is kept.
            let starts = kept.iter().map(|&(_start, end)| end).chain([table.base]);
            let fits = starts
                .map(|start| start.next_multiple_of(alignment))
                .any(|start| {
                    start + need <= table.base + table.bank_bytes
                        && kept
                            .iter()
                            .all(|&(from, to)| start + need <= from || start >= to)
                });
            if fits {
                let run = &blocks[first..last];
                let since = run.iter().filter_map(|block| block.owner.since);
                let cost = (
                    run.iter().map(|block| block.size_bytes).sum(),
                    run.len(),
                    Reverse(run.iter().map(|block| held_by(block)).sum()),
                    Reverse(since.map(Timestamp::unix_nanos).sum()),
                    first,
                );
                if best.as_ref().is_none_or(|(least, _run)| cost < *least) {
                    best = Some((cost, first..last));
                }
            }
        }
    }
    best
}

/// Blocks with holes between them, in units of the alignment, in any order.
fn tables() -> impl Strategy<Value = (BlockTable, u64, u64)> {
    let alignment = prop::sample::select(vec![1_u64, 32, 64]);
    let gaps = prop::collection::vec((0_u64..6, 1_u64..8), 0..14);
    let owners = prop::collection::vec((0_u8..3, 0_u64..4, prop::bool::weighted(0.2)), 14);
    let rest = (0_u64..6, 0_u64..3, 1_u64..40, any::<u64>());
    (alignment, gaps, owners, rest).prop_map(
        |(alignment, gaps, owners, (tail, base, need, seed))| {
            let base = base * 1024;
            let mut at = base;
            let mut blocks = Vec::new();
            for (gap, size) in gaps {
                at += gap * alignment;
                blocks.push((at, size * alignment));
                at += size * alignment;
            }
            let bank_bytes = at + tail * alignment - base;
            let turn = usize::try_from(seed % 16).unwrap();
            let turn = turn.min(blocks.len());
            blocks.rotate_left(turn);
            // Not a multiple of the alignment: the last piece of a hole may be too short.
            let need = (need * alignment).saturating_sub(seed % alignment).max(1);
            let mut table = table(base, bank_bytes, &blocks);
            for (block, (name, since, of_call)) in table.blocks.iter_mut().zip(owners) {
                block.owner.of_call = of_call;
                block.owner.operation = Some(format!("operation {name}"));
                block.owner.since = Some(Timestamp::from_unix_nanos(since));
            }
            (table, need, alignment)
        },
    )
}

proptest! {
    #[test]
    fn the_release_is_the_smallest_of_all((table, need, alignment) in tables()) {
        let bank = Bank::new(&table);
        let stays = |at: usize| bank.blocks()[at].owner.of_call;
        let found = bank.smallest_release(need, alignment, stays);
        let expected = brute_force(&table, need, alignment);
        let (found_run, expected_run) = (
            found.clone(),
            expected.as_ref().map(|(_cost, run)| run.clone()),
        );
        // Where there is room already, it does not matter where.
        if expected_run.as_ref().is_none_or(|run| !run.is_empty()) {
            prop_assert_eq!(found_run, expected_run);
        } else {
            prop_assert!(found_run.is_some_and(|run| run.is_empty()));
        }
        if let Some(run) = found {
            let release = bank.release(&run, &Caller::default());
            prop_assert_eq!(release.bytes_per_bank, expected.unwrap().0.0);
            prop_assert!(release.free_bytes >= need);
            prop_assert_eq!(release.buffers == 0, bank.largest_free_bytes() >= need);
            let rows = bank.map(&run);
            let gapless = rows.windows(2).all(|pair| pair[0].address + pair[0].size_bytes == pair[1].address);
            prop_assert!(gapless);
            prop_assert_eq!(rows.iter().map(|row| row.size_bytes).sum::<u64>(), table.bank_bytes);
            let crossed = rows.iter().filter(|row| row.in_release && row.stands_for == 1).count();
            prop_assert!(crossed == run.len() || rows.iter().any(|row| row.stands_for > 1));
        }
    }

    /// Neither the first proposal nor the second has a buffer of the call that failed, and each makes room.
    #[test]
    fn no_proposal_names_a_buffer_of_the_call((table, need, alignment) in tables()) {
        let bank_bytes = table.bank_bytes;
        let explanation = explain(&Moment {
            caller: Caller { is_call_known: true, ..Caller::default() },
            failure: Failure::Refused(Refused {
                request: FailedRequest {
                    class: Some(MemoryClass::Dram),
                    need_bytes_per_bank: Some(need),
                    ..FailedRequest::default()
                },
                alignment: Some(alignment),
                table: Some(table.clone()),
                ..Refused::default()
            }),
            witness: Witness::Account,
        });
        let (first, other) = (&explanation.release, &explanation.other_release);
        prop_assert!(first.is_some() || other.is_none());
        for release in first.iter().chain(other) {
            let released = |block: &HeldBlock| release.blocks.contains(block);
            prop_assert!(release.blocks.iter().all(|block| !block.owner.of_call));
            prop_assert!(!release.blocks.is_empty());
            let mut rest = table.clone();
            rest.blocks.retain(|block| !released(block));
            let room = Bank::new(&rest).smallest_release(need, alignment, |_all_stay| true);
            prop_assert!(room.is_some_and(|run| run.is_empty()));
            prop_assert!(explanation.advice.iter().any(|advice| advice.contains("unless this call uses")));
        }
        if let (Some(first), Some(other)) = (first, other) {
            prop_assert!(first.blocks.iter().all(|block| !other.blocks.contains(block)));
        }
        for row in explanation.map.iter().flatten() {
            let is_own = row.owner.as_ref().is_some_and(|owner| owner.of_call);
            prop_assert!(!(row.in_release && is_own));
        }
        let can_fit = need <= bank_bytes;
        let is_full = explanation.request.is_some_and(|request| request.largest_free_bytes_per_bank < Some(need));
        prop_assert!(!can_fit || !is_full || !explanation.advice.is_empty());
    }

    /// Figures from outside: no panic, and nothing beyond the bank.
    #[test]
    fn any_table_is_survived(
        base in any::<u64>(),
        bank_bytes in any::<u64>(),
        blocks in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
        need in any::<u64>(),
        alignment in any::<u64>(),
    ) {
        let table = table(base, bank_bytes, &blocks);
        let bank = Bank::new(&table);
        let stays = |at: usize| at.is_multiple_of(5);
        prop_assert!(bank.free_bytes() <= bank_bytes);
        prop_assert!(bank.largest_free_bytes() <= bank.free_bytes());
        prop_assert!(bank.extent_upwards() <= bank_bytes);
        prop_assert!(bank.extent_downwards() <= bank_bytes);
        if let Some(run) = bank.smallest_release(need, alignment, stays) {
            bank.map(&run);
            bank.release(&run, &Caller::default());
        }
    }
}

#[test]
fn fewer_bytes_win_over_fewer_buffers() {
    // One buffer of 50 between two holes of 30, and two of 10 with holes of 30 around them.
    let table = table(0, 300, &[(30, 50), (110, 90), (230, 10), (260, 10)]);
    let bank = Bank::new(&table);
    let run = bank.smallest_release(80, 1, |_none_stays| false).unwrap();
    assert_eq!(run, 2..4);
    let release = bank.release(&run, &Caller::default());
    assert_eq!((release.address, release.free_bytes), (200, 100));
    assert_eq!((release.buffers, release.bytes_per_bank), (2, 20));
    assert_eq!(bank.smallest_release(301, 1, |_none_stays| false), None);
    assert_eq!(
        bank.smallest_release(300, 1, |_none_stays| false),
        Some(0..4)
    );
    assert_eq!(
        bank.smallest_release(30, 1, |_none_stays| false),
        Some(0..0)
    );
}

#[test]
fn a_long_map_is_cut_in_its_middle_and_loses_no_byte() {
    let blocks: Vec<(u64, u64)> = (0..1000).map(|at| (at * 2 + 1, 1)).collect();
    let table = table(0, 2001, &blocks);
    let bank = Bank::new(&table);
    let run = bank.smallest_release(2001, 1, |_none_stays| false).unwrap();
    let rows = bank.map(&run);
    assert_eq!(rows.len(), 2 * MAP_EDGE + 1);
    assert_eq!(rows.iter().map(|row| row.size_bytes).sum::<u64>(), 2001);
    assert_eq!(rows.iter().map(|row| row.stands_for).sum::<u64>(), 2001);
    assert_eq!(
        bank.release(&run, &Caller::default()).blocks.len(),
        MAX_RELEASED
    );
}
