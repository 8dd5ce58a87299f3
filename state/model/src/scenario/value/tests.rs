use proptest::prelude::*;

use super::*;

const GIVENS: Givens = Givens {
    devices: 8,
    cores: 64,
    columns: 8,
    rows: 8,
    replica: 1,
    dram_bytes: 12_000,
    l1_bytes: 1_000,
};

fn number(text: &str) -> Number {
    Number::parse(text).expect("an expression")
}

fn declared(name: &str, source: Source) -> Declared {
    Declared {
        name: name.to_owned(),
        source,
    }
}

fn range(from: u64, to: u64, step: u64) -> Source {
    Source::Range {
        from: from.into(),
        to: to.into(),
        step: step.into(),
    }
}

#[test]
fn the_generator_is_splitmix64() {
    let mut seeded = Seeded::new(1_234_567);
    assert_eq!(
        [seeded.next_u64(), seeded.next_u64(), seeded.next_u64()],
        [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423
        ]
    );
}

#[test]
fn numbers_below_a_bound_reach_all_of_them() {
    let mut seeded = Seeded::new(1);
    let mut seen = [0_u32; 5];
    for _ in 0..5_000 {
        let number = usize::try_from(seeded.below(5)).expect("small");
        seen[number] += 1;
    }
    assert!(
        seen.iter().all(|count| (800..1_200).contains(count)),
        "{seen:?}"
    );
    assert_eq!(seeded.below(0), 0);
    assert_eq!(seeded.below(1), 0);
}

#[test]
fn givens_values_and_loops_are_found_by_name() {
    let values = [
        declared("layers", Source::Fixed(32.into())),
        declared("half", Source::Fixed(number("layers / 2 + replica"))),
    ];
    let mut values = Values::new(&values, GIVENS, 0).expect("fine");
    assert_eq!(values.value("devices"), Some(8));
    assert_eq!(values.value("cores"), Some(64));
    assert_eq!(values.value("half"), Some(17));
    assert_eq!(values.value("i"), None);

    values.enter_loop("i");
    values.set_loop(4);
    values.enter_loop("i");
    assert_eq!(values.value("i"), Some(0), "the inner one hides the outer");
    values.set_loop(9);
    assert_eq!(values.value("i"), Some(9));
    values.leave_loop();
    assert_eq!(values.value("i"), Some(4));
    values.leave_loop();
    assert_eq!(values.value("i"), None);
    values.leave_loop();
    values.set_loop(1);
    assert_eq!(values.value("i"), None, "no loop is open");
}

#[test]
fn a_pick_draws_anew_and_what_is_written_follows() {
    let declared = [
        declared("batch", range(8, 32, 8)),
        declared("prompt", range(64, 2_048, 32)),
        declared("tokens", Source::Fixed(number("batch * prompt"))),
    ];
    let mut values = Values::new(&declared, GIVENS, 7).expect("fine");
    let batch = values.value("batch").expect("declared");
    let mut prompts = Vec::new();
    for _ in 0..20 {
        let prompt = values.pick("prompt").expect("a choice");
        assert!(
            (64..=2_048).contains(&prompt) && prompt.is_multiple_of(32),
            "{prompt}"
        );
        assert_eq!(values.value("prompt"), Some(prompt));
        assert_eq!(values.value("batch"), Some(batch), "not asked for");
        assert_eq!(values.value("tokens"), Some(batch * prompt));
        prompts.push(prompt);
    }
    prompts.dedup();
    assert!(prompts.len() > 10, "{prompts:?}");
    assert!(values.pick("nobody").is_err());
}

#[test]
fn choices_depend_on_the_seed_and_their_name_only() {
    let alone = [declared("prompt", range(0, 1 << 40, 1))];
    let among_others = [
        declared("batch", range(0, 1 << 40, 1)),
        declared("prompt", range(0, 1 << 40, 1)),
    ];
    let of = |declared: &[Declared], seed, name| {
        let values = Values::new(declared, GIVENS, seed).expect("fine");
        values.value(name)
    };
    assert_eq!(of(&alone, 5, "prompt"), of(&among_others, 5, "prompt"));
    assert_ne!(of(&alone, 5, "prompt"), of(&alone, 6, "prompt"));
    assert_ne!(
        of(&among_others, 5, "batch"),
        of(&among_others, 5, "prompt")
    );
}

#[test]
fn an_empty_choice_is_an_error() {
    for source in [range(2, 1, 1), range(1, 2, 0)] {
        let declared = [declared("x", source)];
        let error = Values::new(&declared, GIVENS, 0).expect_err("nothing there");
        assert!(matches!(error, EvaluateError::EmptyRange { .. }), "{error}");
    }
    let declared = [declared("x", range(0, 10, 20))];
    let values = Values::new(&declared, GIVENS, 3).expect("just the first");
    assert_eq!(values.value("x"), Some(0));
}

proptest! {
    #[test]
    fn a_range_is_never_left(seed: u64, a: u64, b: u64, step in 1_u64..) {
        let (from, to) = (a.min(b), a.max(b));
        let declared = [declared("x", range(from, to, step))];
        let mut values = Values::new(&declared, GIVENS, seed).expect("not empty");
        for _ in 0..10 {
            let x = values.pick("x").expect("a choice");
            prop_assert!(from <= x && x <= to && (x - from).is_multiple_of(step));
        }
    }
}
