//! `cargo xtask check`, `test`, `ci` and `soak`: which steps each has.
//!
//! How steps are run beside each other, and what is printed, is [`crate::steps`].

use crate::command::{build_for_tests, cargo, program, root, run as run_command, target_dir};
use crate::steps::Share::{Clock, Part, Whole};
use crate::steps::{Judging, Skipping, Step, run_steps};
use crate::{
    arrows, bench, dist, examples, fleet, fuzz, gate, guide, house, loom, schemathesis,
    surroundings, tool, ttnn, types, web, worst,
};
use anyhow::{Context, bail};
use std::fs;

/// Where the output of `soak` is kept.
const SOAK_FOLDER: &str = "docs/soak";

/// Seconds for each fuzz target in `soak`.
const SOAK_FUZZ_SECONDS: &str = "600";

/// Cases of each property test in `check`, and in `soak`.
const FEW_CASES: &str = "32";
const MANY_CASES: &str = "20000";

const FORMAT: Step = Step::new(
    "format",
    Whole,
    "cargo fmt --all --check (and in fuzz/)",
    || {
        run_command(&mut cargo(["fmt", "--all", "--check"]))?;
        run_cargo(["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"])
    },
);

const LINTS: Step = Step::new(
    "lints",
    Whole,
    "cargo clippy --workspace --all-targets -- -D warnings",
    || {
        run_cargo([
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ])
    },
);

const ARROWS: Step = Step::new("arrows", Whole, "cargo xtask arrows", arrows::run);

const HOUSE: Step = Step::new("house", Whole, "cargo xtask house", house::run);

/// Every interpreter in all surroundings, and what waits for long: what `cargo nextest run` leaves out, and with CI=true may not.
const WHOLE: (&str, &str) = ("TTMEM_TESTS_WHOLE", "1");

const UNIT_TESTS: Step = Step::new(
    "unit tests",
    Whole,
    "cargo nextest run --workspace --lib --bins",
    || run_tests(&["--lib", "--bins"], &[("PROPTEST_CASES", FEW_CASES)]),
);

const TESTS: Step = Step::new(
    "tests",
    Whole,
    "TTMEM_TESTS_WHOLE=1 cargo nextest run --workspace (or cargo test --workspace)",
    || {
        // Without the page, the step `web` is skipped.
        provide([tool::TMUX.ensure(), web::build()]);
        run_tests(&[], &[WHOLE])
    },
);

/// Says what could not be provided: tests that need it are skipped, or fail with CI=true.
fn provide<const N: usize>(wanted: [anyhow::Result<()>; N]) {
    for error in wanted.into_iter().filter_map(Result::err) {
        println!("{error:#}");
    }
}

const DOC_TESTS: Step = Step::new("doc tests", Part, "cargo test --doc --workspace", || {
    run_cargo(["test", "--doc", "--workspace"])
});

const DOCUMENTATION: Step = Step::new(
    "documentation",
    Part,
    "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps",
    || {
        let mut doc = cargo(["doc", "--workspace", "--no-deps"]);
        run_command(doc.env("RUSTDOCFLAGS", "-D warnings"))
    },
);

const TTNN: Step = Step::new("ttnn", Part, "cargo xtask ttnn", || ttnn::run(&[]));

const SCHEMATHESIS: Step = Step::new("schemathesis", Part, "cargo xtask schemathesis", || {
    schemathesis::run(&[])
});

const FLEET: Step = Step::new("fleet", Clock, "cargo xtask fleet", fleet::run);

const GUIDE: Step = Step::new("guide", Part, "cargo xtask guide", || guide::run(&[]));

const WEB: Step = Step::new("web", Part, "cargo xtask web-test", web::test);

const LOOM: Step = Step::new("loom", Part, "cargo xtask loom", loom::run);

const EXAMPLES: Step = Step::new("examples", Part, "cargo xtask examples", examples::run);

const FUZZ: Step = Step::new("fuzz", Part, "cargo xtask fuzz", || {
    fuzz::run(&fuzz::Request::default())
});

const GATE: Step = Step::new("gate", Part, "cargo xtask gate", || {
    gate::run(gate::Mode::Compare)
});

const TYPES: Step = Step::new("types", Part, "cargo xtask types", types::run);

const SURROUNDINGS: Step = Step::new("surroundings", Whole, "cargo xtask surroundings", || {
    surroundings::run(&[])
});

/// Compiled as the tests are: the wheel as users get it is tried by `ci`.
const WHEEL: Step = Step::new("wheel", Part, "cargo xtask dist-wheel --dev", || {
    dist::check_wheel(dist::Profile::Dev)
});

const RELEASED_WHEEL: Step = Step::new("released wheel", Whole, "cargo xtask dist-wheel", || {
    dist::check_wheel(dist::Profile::Release)
});

const DEBIAN: Step = Step::new("debian", Whole, "cargo xtask dist-deb", dist::check_deb);

const PACKAGED_TTNN: Step = Step::new(
    "packaged ttnn",
    Whole,
    "cargo xtask dist-ttnn",
    dist::check_ttnn,
);

const BENCHES: Step = Step::new(
    "benches",
    Whole,
    "cargo bench --workspace --no-run; cargo xtask bench server --quick, client, top, fair and python alike",
    || {
        run_command(&mut cargo(["bench", "--workspace", "--no-run"]))?;
        // `api` runs with the tests.
        for subject in ["server", "client", "top", "fair", "python"] {
            bench::run(&[subject, "--quick"])?;
        }
        Ok(())
    },
);

/// What a contributor runs before every commit.
const CHECK: &[&Step] = &[&FORMAT, &LINTS, &ARROWS, &HOUSE, &UNIT_TESTS];

/// The test command of README. Those that share the machine come longest first.
const TEST: &[&Step] = &[
    &FORMAT,
    &LINTS,
    &ARROWS,
    &HOUSE,
    &TESTS,
    &WHEEL,
    &TTNN,
    &GATE,
    &FLEET,
    &WEB,
    &GUIDE,
    &EXAMPLES,
    &LOOM,
    &SCHEMATHESIS,
    &FUZZ,
    &DOCUMENTATION,
    &DOC_TESTS,
    &TYPES,
];

/// What `ci` has besides.
const CI_ONLY: &[&Step] = &[
    &SURROUNDINGS,
    &RELEASED_WHEEL,
    &DEBIAN,
    &PACKAGED_TTNN,
    &BENCHES,
];

/// What takes longer than minutes, or has no end of its own.
const SOAK: &[&Step] = &[
    &Step::new(
        "load",
        Whole,
        "ttmem load --clients 8 --duration 1800",
        || {
            build_for_tests()?;
            let ttmem = target_dir().join("debug/ttmem");
            let mut load = program(ttmem);
            run_command(load.args(["load", "--clients", "8", "--duration", "1800"]))
        },
    ),
    &Step::new(
        "properties",
        Whole,
        "PROPTEST_CASES=20000 cargo nextest run --workspace --profile soak",
        || {
            let words = ["--profile", "soak", "-E", "not binary(e2e)"];
            run_tests(&words, &[("PROPTEST_CASES", MANY_CASES), WHOLE])
        },
    ),
    &Step::new("long-fuzz", Part, "cargo xtask fuzz 600", || {
        fuzz::run(&fuzz::Request::parse(&[SOAK_FUZZ_SECONDS])?)
    }),
    &Step::new(
        "regions",
        Part,
        "ten million changed files of TT-Metal's counters",
        || {
            let words = ["test", "-p", "ttmem-machine", "--lib", "--", "--nocapture"];
            let mut test = cargo(words);
            test.arg("changed_files_are_read_or_refused");
            run_command(test.env("TTMEM_TESTS_REGIONS", "10000000"))
        },
    ),
    &Step::new("page", Part, "cargo xtask soak page", web::soak),
    &Step::new("churn", Whole, "cargo xtask bench churn", || {
        bench::run(&["churn"])
    }),
    &Step::new("short", Whole, "cargo xtask bench short", || {
        bench::run(&["short"])
    }),
    &Step::new("fleet-scale", Whole, "cargo xtask fleet-scale", || {
        fleet::scale(&[])
    }),
    &Step::new("worst", Part, "cargo xtask worst", || worst::run(&[])),
    &Step::new("host-unharmed", Part, "cargo xtask ttnn-unharmed", || {
        ttnn::run_unharmed(&[])
    }),
    &Step::new(
        "memory",
        Part,
        "every limit of memory, and every request that may fail",
        || {
            let words = ["--profile", "soak", "-E", "binary(e2e) & test(memory::)"];
            run_tests(&words, &[("TTMEM_TESTS_MEMORY", "many")])?;
            ttnn::run_memory()
        },
    ),
    &Step::new("ttnn-matrix", Whole, "cargo xtask ttnn-matrix", || {
        ttnn::run_matrix(&[])
    }),
];

pub(crate) fn check() -> anyhow::Result<()> {
    run_steps(CHECK, Skipping::from_environment(), Judging::Unlimited)
}

pub(crate) fn test() -> anyhow::Result<()> {
    run_steps(TEST, Skipping::from_environment(), Judging::Budgeted)
}

/// Every step of `test` and those that take longer; none may be skipped.
pub(crate) fn ci() -> anyhow::Result<()> {
    let steps: Vec<&Step> = TEST
        .iter()
        .copied()
        .chain(CI_ONLY.iter().copied())
        .collect();
    run_steps(&steps, Skipping::Fails, Judging::Budgeted)
}

/// Runs every step that takes long, or those named, and keeps what they printed.
pub(crate) fn soak(names: &[&str]) -> anyhow::Result<()> {
    if let Some(name) = names.iter().find(|name| find(SOAK, name).is_none()) {
        let known: Vec<&str> = SOAK.iter().map(|step| step.name).collect();
        bail!("soak has no step {name}; it has {}", known.join(", "));
    }
    let is_wanted = |step: &&Step| names.is_empty() || names.contains(&step.name);
    let steps: Vec<&Step> = SOAK.iter().copied().filter(is_wanted).collect();
    let result = run_steps(&steps, Skipping::from_environment(), Judging::Unlimited);
    let folder = root().join(SOAK_FOLDER);
    fs::create_dir_all(&folder).context("no folder for the output")?;
    for step in steps {
        let log = fs::read_to_string(step.log()).context("a step left no output")?;
        // Nobody else's machine has these paths.
        let shown = log.replace(&root().display().to_string(), ".");
        let page = folder.join(format!("{}.txt", step.name));
        fs::write(&page, shown).with_context(|| format!("cannot write {}", page.display()))?;
    }
    result
}

/// Runs one step in this process: how the others start it.
pub(crate) fn step(name: &str) -> anyhow::Result<()> {
    let step = [CHECK, TEST, CI_ONLY, SOAK]
        .iter()
        .find_map(|steps| find(steps, name));
    let step = step.with_context(|| format!("there is no step {name}"))?;
    step.run_here()
}

fn find<'s>(steps: &[&'s Step], name: &str) -> Option<&'s Step> {
    steps.iter().copied().find(|step| step.name == name)
}

fn run_cargo<'w>(words: impl IntoIterator<Item = &'w str>) -> anyhow::Result<()> {
    run_command(&mut cargo(words))
}

/// Runs tests of the workspace, with nextest where it is installed.
fn run_tests(words: &[&str], variables: &[(&str, &str)]) -> anyhow::Result<()> {
    let has_nextest = cargo(["nextest", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    let mut command = if has_nextest {
        let mut nextest = cargo(["nextest", "run", "--workspace", "--no-fail-fast"]);
        nextest.args(words);
        nextest
    } else {
        println!("cargo-nextest is not installed: running the tests with cargo test");
        let mut test = cargo(["test", "--workspace", "--no-fail-fast"]);
        let targets = words
            .iter()
            .filter(|word| ["--lib", "--bins"].contains(word));
        test.args(targets);
        if words.is_empty() {
            // Doc tests are a step of their own.
            test.args(["--lib", "--bins", "--tests"]);
        }
        test
    };
    // The text of `/metrics` is read by it; where it is not to be had, that test says so.
    match tool::unpacked("promtool", "prometheus") {
        Ok(promtool) => command.env("PATH", tool::path_with(&promtool)),
        Err(error) => {
            println!("{error:#}");
            &mut command
        }
    };
    run_command(command.envs(variables.iter().copied()))
}
