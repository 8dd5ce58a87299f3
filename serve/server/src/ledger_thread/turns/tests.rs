//! Order, fairness and bounds of the turns, by counts.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A command of so many units, numbered in its lane; half of it may be left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    number: u32,
    units: u64,
}

/// What was served, in order: the lane, the number of the command, its units.
type Served = Vec<(u8, u32, u64)>;

/// Serves all there is, each command up to its budget.
fn serve_all(turns: &mut Turns<u8, Work>) -> Served {
    std::iter::from_fn(|| serve_one(turns)).collect()
}

fn serve_one(turns: &mut Turns<u8, Work>) -> Option<(u8, u32, u64)> {
    let (lane, work, budget) = turns.next()?;
    // What cannot be divided takes more than it may.
    let units = work.units.min(budget.max(INDIVISIBLE));
    let rest = (work.units > units).then_some(Work {
        units: work.units - units,
        ..work
    });
    turns.done(units, rest);
    Some((lane, work.number, units))
}

const INDIVISIBLE: u64 = 3 * QUANTUM.unsigned_abs();

fn push(turns: &mut Turns<u8, Work>, lane: u8, number: u32, units: u64) -> bool {
    turns.push(lane, Class::Living, false, Work { number, units }, 100)
}

/// Serves until it is a lane's turn: the units of others that were served before.
fn units_before(turns: &mut Turns<u8, Work>, lane: u8) -> u64 {
    let served = std::iter::from_fn(|| serve_one(turns));
    let others = served.take_while(|(other, ..)| *other != lane);
    others.map(|(.., units)| units).sum()
}

proptest! {
    #[test]
    fn every_lane_is_served_completely_and_in_its_order(
        commands in prop::collection::vec((0_u8..6, 0_u64..200_000), 1..300),
        retired in prop::collection::vec(0_u8..6, 0..3),
    ) {
        let mut turns = Turns::default();
        let mut expected: BTreeMap<u8, Vec<(u32, u64)>> = BTreeMap::new();
        for (number, (lane, units)) in (0..).zip(commands) {
            push(&mut turns, lane, number, units);
            expected.entry(lane).or_default().push((number, units));
        }
        for lane in retired {
            turns.retire(lane);
        }
        let mut found: BTreeMap<u8, Vec<(u32, u64)>> = BTreeMap::new();
        for (lane, number, units) in serve_all(&mut turns) {
            let of_lane = found.entry(lane).or_default();
            match of_lane.last_mut() {
                Some((last, sum)) if *last == number => *sum += units,
                _new => of_lane.push((number, units)),
            }
        }
        prop_assert_eq!(found, expected);
        prop_assert!(turns.is_idle());
    }

    #[test]
    fn lanes_with_enough_to_do_get_the_same_units(
        sizes in prop::collection::vec(1_u64..50_000, 2..8),
    ) {
        let mut turns = Turns::default();
        for (lane, size) in (0..).zip(&sizes) {
            let commands = u32::try_from(2_000_000 / size).unwrap();
            for number in 0..commands {
                push(&mut turns, lane, number, *size);
            }
        }
        let mut had: BTreeMap<u8, u64> = BTreeMap::new();
        for (lane, _number, units) in serve_all(&mut turns) {
            *had.entry(lane).or_default() += units;
            if had.values().any(|units| *units >= 1_900_000) {
                break;
            }
            if had.len() == sizes.len() {
                let (least, most) = (had.values().min(), had.values().max());
                let apart = most.unwrap() - least.unwrap();
                // A turn, and what each may have taken beyond its own.
                prop_assert!(apart <= 2 * (INDIVISIBLE + QUANTUM.unsigned_abs()), "{:?}", had);
            }
        }
    }

    #[test]
    fn an_honest_lane_waits_for_one_turn_of_each_other(
        hostile in 1_u8..20,
        units in 1_u64..1_000_000_000,
        commands in 1_u32..50,
        served_before in 0_usize..100,
    ) {
        let mut turns = Turns::default();
        for lane in 1..=hostile {
            for number in 0..commands {
                push(&mut turns, lane, number, units);
            }
        }
        for _step in 0..served_before {
            serve_one(&mut turns);
        }
        push(&mut turns, 0, 0, 10);
        let most = u64::from(hostile) * (INDIVISIBLE + QUANTUM.unsigned_abs());
        prop_assert!(units_before(&mut turns, 0) <= most);
    }
}

#[test]
fn the_dead_do_not_wait_behind_the_living_nor_the_living_behind_the_dead() {
    let mut turns = Turns::default();
    for lane in 1..=100 {
        push(&mut turns, lane, 0, 1_000_000);
    }
    push(&mut turns, 0, 0, 10);
    turns.retire(0);
    assert!(units_before(&mut turns, 0) <= 2 * INDIVISIBLE);

    let mut turns = Turns::default();
    for lane in 1..=100 {
        push(&mut turns, lane, 0, 1_000_000);
        turns.retire(lane);
    }
    push(&mut turns, 0, 0, 10);
    assert!(units_before(&mut turns, 0) <= 2 * INDIVISIBLE);
    serve_all(&mut turns);
    assert!(turns.lanes.keys().eq([&0]), "the dead are forgotten");
}

#[test]
fn a_debt_is_kept_while_a_lane_is_idle_and_made_up_for_while_others_work() {
    let mut turns = Turns::default();
    // One command at a time, each a hundred turns' worth.
    let costly = 100 * QUANTUM.unsigned_abs();
    let do_costly = |turns: &mut Turns<u8, Work>, number| {
        push(turns, 1, number, costly);
        let (lane, ..) = turns.next().unwrap();
        assert_eq!(lane, 1);
        turns.done(costly, None);
    };
    do_costly(&mut turns, 0);
    assert!(turns.next().is_none());
    // It comes again at once: the other has its hundred turns first.
    push(&mut turns, 1, 1, costly);
    for number in 0..200 {
        push(&mut turns, 2, number, QUANTUM.unsigned_abs());
    }
    let before = units_before(&mut turns, 1);
    serve_all(&mut turns);
    assert!(
        (90..=110).contains(&(before / QUANTUM.unsigned_abs())),
        "{before}"
    );
    // What it owes now is made up for while it is idle.
    for number in 0..300 {
        push(&mut turns, 2, number, QUANTUM.unsigned_abs());
    }
    serve_all(&mut turns);
    push(&mut turns, 1, 2, 10);
    for number in 0..50 {
        push(&mut turns, 2, number, QUANTUM.unsigned_abs());
    }
    let before = units_before(&mut turns, 1);
    serve_all(&mut turns);
    assert!(before <= 2 * QUANTUM.unsigned_abs(), "{before}");
}

#[test]
fn a_lane_is_full_by_itself_and_resumes_when_half_is_done() {
    let mut turns = Turns::default();
    let work = Work {
        number: 0,
        units: 1,
    };
    let quarter = LANE_BYTES / 4;
    let fill = |turns: &mut Turns<u8, Work>| {
        let full = turns.push(1, Class::Living, false, work, quarter);
        (full, turns.room(1))
    };
    assert_eq!(fill(&mut turns), (false, 3 * quarter));
    assert_eq!(fill(&mut turns), (false, 2 * quarter));
    assert_eq!(fill(&mut turns), (false, quarter));
    assert_eq!(fill(&mut turns), (false, 0));
    assert_eq!(fill(&mut turns), (true, 0));
    assert!(!push(&mut turns, 2, 0, 1), "others have room");
    let mut resumed = Vec::new();
    let mut done = 0;
    while turns.next().is_some() {
        done += 1;
        resumed.extend(turns.done(1, None).map(|lane| (lane, done)));
    }
    assert_eq!(resumed, [(1, 3)]);
    assert_eq!(turns.room(1), LANE_BYTES);
}

#[test]
fn many_lanes_have_less_room_each() {
    let mut turns: Turns<u32, ()> = Turns::default();
    for lane in 0..4096 {
        turns.push(lane, Class::Living, false, (), 0);
    }
    assert_eq!(turns.room(0), LEAST_LANE_BYTES);
    assert!(turns.push(7, Class::Living, false, (), LEAST_LANE_BYTES + 1));
}
