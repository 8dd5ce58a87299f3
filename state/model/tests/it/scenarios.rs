//! Every built-in scenario, played into a ledger: nothing is left, nothing contradicts itself.

use crate::account::Account;
use std::ops::ControlFlow;
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{Class, Definition, EventKind, TextId};
use ttmem_model::hooks::{Entry, Journal};
use ttmem_model::runtime::FailureKind;
use ttmem_model::scenario::{FullSpeed, Outcome, Pace, Play, Scenario, StepDone, play};

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
    let text = outcome.as_ref().err().map(ToString::to_string);
    assert_eq!(text, None, "on {}", board.name());
    let outcome = outcome.expect("compared above");
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
            let counted = (outcome.counts.ring_wraps, outcome.counts.ring_stalls);
            assert_eq!(account.wraps_and_stalls(), counted, "{}", each.name);
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
fn a_seed_plays_the_same_every_time_and_another_seed_differs() {
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
    assert_eq!(failures("dram-full"), [OutOfMemory]);
    assert_eq!(failures("fragmentation"), [OutOfMemory]);
    assert_eq!(failures("l1-full"), [OutOfMemory]);
    assert_eq!(failures("cb-clash"), [Clash]);
    assert_eq!(failures("trace-too-small"), [TraceTooLarge]);
    assert_eq!(failures("l1-small-full"), [OutOfMemory]);
    assert_eq!(failures("transformer-8b"), []);
}

#[test]
fn what_a_scenario_places_names_its_line_and_the_blocks_that_led_there() {
    let text = "about = \"two lines that place a tensor\"
boards = [\"n150\"]
steps = [
  { tensor = \"a\", shape = [1, 1, 32, 32] },
  { run = \"outer\" },
  { free = [\"a\", \"b\"] },
]
[blocks]
outer = [{ run = \"inner\" }]
inner = [{ tensor = \"b\", shape = [1, 1, 32, 32], by = \"zeros\" }]
";
    let scenario = Scenario::from_text("mine\n.toml", text).unwrap();
    let what = Play {
        scenario: &scenario,
        board: None,
        seed: 0,
    };
    let journal = Journal::new();
    play(&what, Box::new(journal.clone()), &mut FullSpeed).unwrap();
    let entries = journal.news();
    let placed = entries.iter().filter_map(|entry| match entry {
        Entry::Happened(EventKind::BufferAllocated { operation, .. }) => Some(*operation),
        _other => None,
    });
    let text_of = |wanted: TextId| {
        entries.iter().find_map(|entry| match entry {
            Entry::Defined(Definition::Text { id, text }) if *id == wanted => Some(text.as_str()),
            _other => None,
        })
    };
    let texts: Vec<&str> = placed.filter_map(text_of).collect();
    assert_eq!(
        texts,
        [
            "ttnn.from_torch\nmine .toml:4 steps",
            "zeros\nmine .toml:10 inner\nmine .toml:9 outer\nmine .toml:5 steps",
        ]
    );
}

#[test]
fn the_planted_leak_is_reported_as_planted() {
    let scenario = built_in("leak");
    for board in &scenario.boards {
        let (mut account, outcome) = played(&scenario, *board, 7);
        assert_eq!(outcome.leaked_buffers, 24);
        let leaked = account.facts().leak_candidates;
        assert_eq!(leaked.buffers, 24);
        assert!(leaked.buffer_bytes > 0);
    }
}

#[test]
fn an_8b_transformer_has_its_real_size_and_is_split_over_the_chips() {
    let peak = |board: BoardKind, chip: u32| {
        let (mut account, _outcome) = played(&built_in("transformer-8b"), board, 0);
        account.totals(chip).class(Class::Dram).charged.peak().bytes
    };
    let gib = |bytes: u64| bytes >> 30;
    let whole = peak(BoardKind::N150, 0);
    assert!((6..12).contains(&gib(whole)), "{whole}");
    for (board, parts) in [(BoardKind::N300, 2), (BoardKind::T3000, 8)] {
        let part = peak(board, 0);
        // Norms and rotary tables are on every chip; the rest is split.
        assert!(part > whole / parts, "{part}");
        assert!(part < whole / parts * 5 / 4, "{part}");
    }
}

#[test]
fn four_copies_have_four_allocators_and_prompts_of_their_own() {
    let scenario = built_in("transformer-8b-dp4");
    let (mut account, outcome) = played(&scenario, BoardKind::T3000, 3);
    assert_eq!(outcome.replicas, 4);
    let peaks: Vec<u64> = (0..8)
        .map(|chip| account.totals(chip).cb.registered.peak().bytes)
        .collect();
    assert!(peaks.iter().all(|peak| *peak > 0), "{peaks:?}");
    assert!(peaks.iter().any(|peak| *peak != peaks[0]), "{peaks:?}");
}

#[test]
fn a_file_that_goes_round_for_ever_can_be_ended() {
    struct Impatient(u32);
    impl Pace for Impatient {
        fn after(&mut self, _step: &StepDone<'_>) -> ControlFlow<()> {
            self.0 -= 1;
            if self.0 == 0 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    let round = r#"{ run = "b", times = 1000000 }"#;
    let attempt = r#"{ attempt = "c", fails = "out_of_memory" }"#;
    let large = r#"{ tensor = "x", shape = [1048576, 1048576] }"#;
    for (steps, b, c) in [
        (round, r#"{ run = "c", times = 1000000 }"#, ""),
        (round, r#"{ run = "c", times = 0 }"#, ""),
        (round, attempt, large),
    ] {
        let text = format!(
            "about = \"endless\"\nboards = [\"n150\"]\nsteps = [{steps}]\n[blocks]\n\
             b = [{b}]\nc = [{c}]\n"
        );
        let scenario = Scenario::from_text("endless.toml", &text).expect("a scenario");
        let account = Account::new();
        let what = Play {
            scenario: &scenario,
            board: None,
            seed: 0,
        };
        let outcome = play(&what, account.hooks(), &mut Impatient(1000));
        let outcome = outcome.expect("it is ended in order");
        assert!(outcome.interrupted);
        assert!(outcome.steps < 1000, "{}", outcome.steps);
    }
}
