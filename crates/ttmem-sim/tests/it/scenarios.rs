//! Every built-in scenario, played into a ledger: nothing is left, nothing contradicts itself.

use crate::account::Account;
use ttmem_event::Class;
use ttmem_event::catalogue::BoardKind;
use ttmem_sim::runtime::FailureKind;
use ttmem_sim::scenario::{FullSpeed, Outcome, Play, Scenario, play};

const SEEDS: [u64; 3] = [0, 1, 0x5eed];

fn built_in(name: &str) -> Scenario {
    let found = Scenario::find(name).expect("a built-in scenario");
    found.scenario().expect("a scenario that can be read")
}

fn played(scenario: &Scenario, board: BoardKind, seed: u64) -> (Account, Outcome) {
    let mut account = Account::new();
    let what = Play {
        scenario,
        board: Some(board),
        seed,
    };
    let outcome = play(&what, account.hooks(), &mut FullSpeed);
    let outcome = outcome.unwrap_or_else(|error| panic!("on {}: {error}", board.name()));
    account.news();
    (account, outcome)
}

#[test]
fn every_scenario_leaves_nothing_behind_on_any_of_its_boards() {
    for each in Scenario::built_in() {
        let scenario = built_in(each.name);
        for board in &scenario.boards {
            let (mut account, outcome) = played(&scenario, *board, 0);
            account.assert_nothing_left();
            assert!(
                outcome.operations > 0 || !outcome.failures.is_empty(),
                "{}",
                each.name
            );
            let view = account.view();
            let facts = account.facts();
            assert_eq!(
                facts.leak_candidates.buffers, outcome.leaked_buffers,
                "{}",
                each.name
            );
            let dispatched: u64 = view
                .devices
                .iter()
                .map(|device| device.caches.dispatches)
                .sum();
            assert_eq!(dispatched, outcome.counts.dispatches, "{}", each.name);
            for device in &view.devices {
                for class in Class::ALL {
                    let capacity = device.facts.capacities[class.index()];
                    let peak = device.totals.class(*class).charged.peak().bytes;
                    let capacity = capacity.map_or(0, |capacity| capacity.total_bytes());
                    assert!(peak <= capacity, "{} {class:?} {peak}", each.name);
                }
            }
        }
    }
}

#[test]
fn a_seed_tells_the_same_story_every_time_and_another_seed_another() {
    for name in ["matmul-slow", "diffusion-step", "leak"] {
        let scenario = built_in(name);
        let board = scenario.boards[0];
        let events = |seed| played(&scenario, board, seed).0.events();
        let [first, second, third] = SEEDS.map(events);
        assert_eq!(events(SEEDS[0]), first, "{name}");
        assert!(first != second || first != third, "{name}");
    }
}

fn failures(name: &str) -> Vec<FailureKind> {
    let scenario = built_in(name);
    let board = scenario.boards[0];
    let (_account, outcome) = played(&scenario, board, 0);
    outcome
        .failures
        .iter()
        .map(|failure| failure.kind)
        .collect()
}

#[test]
fn the_planted_failures_come_as_planted() {
    use FailureKind::{Clash, OutOfMemory, TraceTooLarge};
    assert_eq!(failures("fragmentation"), [OutOfMemory]);
    assert_eq!(failures("cb-clash"), [Clash]);
    assert_eq!(failures("trace-too-small"), [TraceTooLarge]);
    assert_eq!(failures("l1-small-full"), [OutOfMemory]);
    assert_eq!(failures("transformer-8b"), []);
}
