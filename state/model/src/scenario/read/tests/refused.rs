//! Files that are no scenario: each is refused with its line and what was expected.

use std::fmt::Write as _;

use crate::scenario::error::Problem;
use crate::scenario::script::Scenario;

fn error(text: &str) -> String {
    let error = Scenario::from_text("bad.toml", text).expect_err("a bad file");
    error.to_string()
}

/// The error of a file with this step on line 4.
fn step_error(step: &str) -> String {
    error(&format!(
        "about = 'x'\nboards = ['n150']\nsteps = [\n{step},\n]\n[values]\nfixed = 1\n[blocks]\nempty = []"
    ))
}

#[test]
fn a_bad_step_is_named_with_its_line_and_what_was_expected() {
    for (step, message) in [
        (
            "{ fre = ['x'] }",
            "unknown field `fre`, expected one of `tensor`, `op`, `free`",
        ),
        (
            "{}",
            "this step does nothing, expected one of: tensor, op, free",
        ),
        ("7", "invalid type: integer `7`, expected a step"),
        (
            "{ free = ['x'], shape = [1] }",
            "`shape` does not belong to step `free`, which takes no other field",
        ),
        (
            "{ replay = 'x', op = 'add' }",
            "`replay` does not belong to step `op`, which takes: inputs, out",
        ),
        ("{ tensor = 'x' }", "step `tensor` needs `shape`"),
        ("{ tensor = 'x', shape = [] }", "`shape` must not be empty"),
        (
            "{ tensor = 'x', shape = [1, 0] }",
            "`shape`: a dimension of 0 leaves no elements",
        ),
        (
            "{ tensor = 'x', shape = [1,1,1,1,1,1,1,1,1] }",
            "9 dimensions are too many, 8 are allowed",
        ),
        (
            "{ tensor = 'x', shape = [-1] }",
            "invalid value: integer `-1`, expected a number that is not negative",
        ),
        (
            "{ tensor = 'x', shape = [1.5] }",
            "expected a number that is not negative, or an expression in quotes",
        ),
        (
            "{ tensor = 'x', shape = ['1 +'] }",
            "expected a number or a value, found the end",
        ),
        (
            "{ tensor = 'x', shape = [1], type = 'half' }",
            "expected one of bfloat16, bfloat8_b",
        ),
        (
            "{ tensor = 'x', shape = [1], layout = 'rows' }",
            "expected one of tile, row_major",
        ),
        (
            "{ tensor = 'x', shape = [1], memory = 'l2' }",
            "expected one of dram, l1, l1_small",
        ),
        (
            "{ tensor = 'x', shape = [1], memory = 'trace' }",
            "expected one of dram, l1, l1_small",
        ),
        (
            "{ tensor = 'x', shape = [1], memory = { class = 'l1', shard = 'diagonal' } }",
            "expected one of height, width, block",
        ),
        (
            "{ tensor = 'x', shape = [1], memory = { class = 'l1', grid = [1, 1] } }",
            "`grid` needs `shard`",
        ),
        (
            "{ tensor = 'x', shape = [1], memory = { class = 'l1', shard = 'width', grid = [1] } }",
            "invalid length 1",
        ),
        (
            "{ tensor = 'x', shape = [1], memory = { kind = 'l1' } }",
            "unknown field `kind`",
        ),
        ("{ op = 'rm -rf' }", "operation \"rm -rf\": a name has"),
        (
            "{ tensor = 'x', shape = [1], by = 'ü' }",
            "`by`: 1 to 64 printable ASCII characters",
        ),
        (
            "{ tensor = 'x{', shape = [1] }",
            "only printable ASCII, and {} in pairs",
        ),
        ("{ tensor = '', shape = [1] }", "must not be empty"),
        (
            "{ tensor = 'x.{i}', shape = [1] }",
            "nothing gives `i` a value here",
        ),
        (
            "{ op = 'add', shape = [1] }",
            "`shape`: describes the output, but `out` is missing",
        ),
        (
            "{ op = 'full', out = 'x' }",
            "`out`: without inputs, `shape` and `type` are needed",
        ),
        ("{ run = 'nobody' }", "there is no block `nobody`"),
        ("{ run = 'empty', for = 'i' }", "step `run` needs `times`"),
        (
            "{ run = 'empty', for = 'fixed', times = 2 }",
            "`fixed` is a value of this scenario, choose another name for this loop",
        ),
        (
            "{ run = 'empty', for = 'cores', times = 2 }",
            "`cores` is a value that every scenario has",
        ),
        (
            "{ run = 'empty', for = '2', times = 2 }",
            "loop \"2\": a name has",
        ),
        (
            "{ run = 'empty', times = 'n' }",
            "nothing gives `n` a value here",
        ),
        ("{ trace = 't' }", "step `trace` needs `run`"),
        (
            "{ trace = 'a b', run = 'empty' }",
            "trace \"a b\": a name has",
        ),
        ("{ replay = 't' }", "no step captures a trace `t`"),
        ("{ release = 't' }", "no step captures a trace `t`"),
        ("{ attempt = 'empty' }", "step `attempt` needs `fails`"),
        (
            "{ attempt = 'empty', fails = 'oom' }",
            "unknown failure \"oom\", expected one of: out_of_memory, clash",
        ),
        (
            "{ attempt = 'nobody', fails = 'clash' }",
            "there is no block `nobody`",
        ),
        ("{ pick = 'fixed' }", "`fixed` is no choice"),
        ("{ pick = 'nobody' }", "nothing gives `nobody` a value"),
        ("{ clear_program_cache = false }", "true is the only value"),
        (
            "{ mark = 'x', number = 'y' }",
            "nothing gives `y` a value here",
        ),
    ] {
        let error = step_error(step);
        assert!(error.starts_with("bad.toml, line 4: "), "{step}: {error}");
        assert!(error.contains(message), "{step}: {error}");
    }
}

#[test]
fn a_bad_head_is_named_with_its_line() {
    let rest = "steps = [{ pause_ms = 1 }]\n";
    for (head, message) in [
        (
            "boards = ['n150']\n",
            "bad.toml, line 1: missing field `about`",
        ),
        ("about = 'x'\n", "bad.toml, line 1: missing field `boards`"),
        (
            "about = ' '\nboards = ['n150']\n",
            "line 1: `about`: say what",
        ),
        (
            "about = \"a\\nb\"\nboards = ['n150']\n",
            "line 1: `about`: one line",
        ),
        (
            "about = 'x'\nboards = []\n",
            "line 2: boards must not be empty",
        ),
        (
            "about = 'x'\nboards = [\n'n150',\n'n151']\n",
            "line 4: unknown board \"n151\", expected one of: n150, n300",
        ),
        (
            "about = 'x'\nboards = ['n150']\ncolour = 1\n",
            "line 3: unknown field `colour`",
        ),
        ("about = 'x'\nboards = ['n150'\n", "line 3: "),
    ] {
        let error = error(&format!("{head}{rest}"));
        assert!(error.contains(message), "{head:?}: {error}");
    }
    assert_eq!(
        error("about = 'x'\nboards = ['n150']\nsteps = []"),
        "bad.toml: `steps` must not be empty"
    );
}

#[test]
fn a_bad_device_is_named_with_its_line() {
    for (device, message) in [
        (
            "dispatch = 'fast'",
            "unknown dispatch \"fast\", expected one of: tensix-row, tensix-column, ethernet, slow",
        ),
        ("dispatch = 'tensix-row'", "p150 cannot dispatch tensix-row"),
        (
            "mesh = [2, 2]",
            "n300 has a mesh of 1x2 chips: 2x2 cannot be taken from it",
        ),
        ("mesh = [0, 1]", "0x1 cannot be taken"),
        ("mesh = 'all'", "expected an array of length 2"),
        ("mesh = [1]", "invalid length 1"),
        (
            "submesh = [1, 2]",
            "p150 has a mesh of 1x1 chips: 1x2 cannot be taken from it",
        ),
        ("submesh = [1, 0]", "1x0 cannot be taken"),
        ("l1_small_size = 'layers'", "`layers` has no value here"),
        (
            "l1_small_size = -1",
            "expected a number that is not negative",
        ),
        ("colour = true", "unknown field `colour`"),
        (
            "fabric = 1",
            "invalid type: integer `1`, expected a boolean",
        ),
    ] {
        let error = error(&format!(
            "about = 'x'\nboards = ['n300', 'p150']\nsteps = [{{ pause_ms = 1 }}]\n[device]\n{device}\n"
        ));
        assert!(error.starts_with("bad.toml, line 5: "), "{device}: {error}");
        assert!(error.contains(message), "{device}: {error}");
    }
}

#[test]
fn bad_values_are_named_with_their_line() {
    for (value, message) in [
        ("x = { to = 2 }", "missing field `from`"),
        ("x = { from = 2 }", "missing field `to`"),
        ("x = { from = 2, to = 1 }", "`from`: 2 is more than `to`, 1"),
        (
            "x = { from = 1, to = 2, step = 0 }",
            "`step`: must not be 0",
        ),
        ("x = { of = 1 }", "unknown field `of`"),
        ("x = true", "expected a number, an expression, or { from"),
        ("x = 'y'", "nothing gives `y` a value here"),
        ("x = 'x'", "the values x need each other"),
        (
            "x = 'y'\ny = 'z + 1'\nz = { from = 'x', to = 9 }",
            "the values x, y, z need each other",
        ),
        (
            "cores = 1",
            "`cores` is a value that every scenario has, choose another name for this value",
        ),
        ("'a b' = 1", "value \"a b\": a name has"),
    ] {
        let error = error(&format!(
            "about = 'x'\nboards = ['n150']\nsteps = [{{ pause_ms = 1 }}]\n[values]\n{value}\n"
        ));
        assert!(error.starts_with("bad.toml, line 5: "), "{value}: {error}");
        assert!(error.contains(message), "{value}: {error}");
    }
    assert_eq!(
        error(
            "about = 'x'\nboards = ['n150']\nsteps = [{ pause_ms = 1 }]\nexpect = { leaked_buffers = 'n' }"
        ),
        "bad.toml: nothing gives `n` a value here: neither [values] nor a `for` around it"
    );
}

/// The error of a file with these blocks from line 5 on, and one step.
fn blocks_error(step: &str, blocks: &str) -> String {
    error(&format!(
        "about = 'x'\nboards = ['n150']\nsteps = [{{ {step} }}]\n[blocks]\n{blocks}"
    ))
}

#[test]
fn a_block_must_not_run_itself() {
    assert_eq!(
        blocks_error("run = 'a'", "a = [{ run = 'a' }]"),
        "bad.toml, line 5: block `a` runs itself: a → a"
    );
    assert_eq!(
        blocks_error(
            "run = 'a'",
            "a = [{ run = 'b' }]\nb = [{ trace = 't', run = 'c' }]\nc = [{ attempt = 'b', fails = 'clash' }]"
        ),
        "bad.toml, line 7: block `b` runs itself: b → c → b"
    );
    // Also where no step comes by.
    assert!(blocks_error("pause_ms = 1", "a = [{ run = 'a' }]").contains("runs itself"));
    assert!(
        blocks_error("pause_ms = 1", "'a b' = []").contains("line 5: block \"a b\": a name has")
    );
}

#[test]
fn a_loop_gives_its_value_to_the_blocks_within() {
    let blocks = "outer = [{ run = 'inner' }]\ninner = [{ free = ['x.{i}'] }]";
    let error = blocks_error("run = 'outer'", blocks);
    assert!(
        error.contains("line 6: nothing gives `i` a value here"),
        "{error}"
    );
    let good = |step: &str| {
        let text =
            format!("about = 'x'\nboards = ['n150']\nsteps = [{{ {step} }}]\n[blocks]\n{blocks}");
        Scenario::from_text("good", &text).is_ok()
    };
    assert!(good("run = 'outer', for = 'i', times = 2"));
    assert!(!good("run = 'outer', for = 'j', times = 2"));
    assert!(
        good("pause_ms = 1"),
        "a block on its own may wait for its loop"
    );
}

#[test]
fn nesting_is_bounded_and_its_check_is_quick() {
    let chain = |length: usize| {
        let mut blocks = String::new();
        for block in 1..length {
            // Twice each: walked naively, this would take 2^31 visits.
            let next = block + 1;
            writeln!(
                blocks,
                "b{block} = [{{ run = 'b{next}' }}, {{ run = 'b{next}' }}]"
            )
            .unwrap();
        }
        writeln!(blocks, "b{length} = []").unwrap();
        let text = format!(
            "about = 'x'\nboards = ['n150']\nsteps = [{{ run = 'b1' }}]\n[blocks]\n{blocks}"
        );
        Scenario::from_text("chain", &text)
    };
    assert!(chain(32).is_ok());
    for length in [33, 40, 4_000] {
        let error = chain(length).expect_err("too deep");
        assert_eq!(
            error.problem,
            Problem::NestedTooDeep { limit: 32 },
            "{length}"
        );
    }
}

#[test]
fn size_is_bounded() {
    let steps = |count: usize| {
        let steps = "{ pause_ms = 1 },\n".repeat(count);
        format!(
            "about = 'x'\nboards = ['n150']\nsteps = [{steps}]\n[blocks]\na = [{{ pause_ms = 1 }}]"
        )
    };
    assert!(Scenario::from_text("long", &steps(9_999)).is_ok());
    assert!(error(&steps(10_000)).contains("10001 steps are too many, 10000 are allowed"));
    assert!(error(&steps(10_001)).contains("more than 10000 steps"));
    let text = " ".repeat((1 << 20) + 1);
    assert_eq!(
        error(&text),
        "bad.toml: 1048577 bytes are too many for a scenario, 1048576 are allowed"
    );
    let mut values = String::new();
    for value in 0..257 {
        writeln!(values, "v{value} = 1").unwrap();
    }
    let text =
        format!("about = 'x'\nboards = ['n150']\nsteps = [{{ pause_ms = 1 }}]\n[values]\n{values}");
    assert!(error(&text).contains("257 values are too many, 256 are allowed"));
    assert!(error(&"[".repeat(100_000)).starts_with("bad.toml, line 1: "));
    let names: Vec<String> = (0..33).map(|name| format!("'{{n{name}}}'")).collect();
    let free = format!("{{ free = [{}] }}", names.join(", "));
    assert!(step_error(&free).contains("33 names without a value in one block are too many"));
}

#[test]
fn messages_hold_nothing_a_terminal_acts_on() {
    let error = error("\"\\u001b[2J\" = 1");
    assert!(!error.contains('\u{1b}'), "{error:?}");
}

#[test]
fn blocks_of_another_file_are_found_and_replaced() {
    const OTHER: &str = "about = 'x'\nboards = ['n150']\nsteps = [{ run = 'a' }]\n[blocks]\n\
                         a = [{ run = 'b', times = 3 }]\nb = [{ pause_ms = 1 }]";
    const FURTHER: &str =
        "about = 'x'\nboards = ['n150']\nblocks_of = 'other'\nsteps = [{ run = 'a' }]";
    const WRONG: &str = "about = 'x'\nboards = ['n150']\nsteps = []\nblocks = { a = [{}] }";
    let parse = |of: &str, blocks: &str| {
        let text = format!(
            "about = 'x'\nboards = ['n150']\nblocks_of = '{of}'\nsteps = [{{ run = 'a' }}]\n{blocks}"
        );
        Scenario::parse_with("own", &text, &|name| match name {
            "other" => Some(OTHER),
            "further" => Some(FURTHER),
            "wrong" => Some(WRONG),
            _ => None,
        })
    };
    let scenario = parse("other", "[blocks]\nb = []").expect("a good file");
    assert_eq!(scenario.block("a").len(), 1);
    assert_eq!(scenario.block("a")[0].line, 3, "where it comes in");
    assert!(scenario.block("b").is_empty(), "our own");
    for (of, blocks, message) in [
        (
            "nobody",
            "",
            "own, line 3: there is no scenario \"nobody\" to take blocks of",
        ),
        (
            "further",
            "",
            "further, line 3: `blocks_of`: this file has blocks of another one itself",
        ),
        ("wrong", "", "wrong, line 4: this step does nothing"),
        (
            "other",
            "[blocks]\nb = [{ run = 'a' }]",
            "block `a` runs itself: a → b → a",
        ),
    ] {
        let error = parse(of, blocks).expect_err("a bad file").to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(error(FURTHER).contains("there is no scenario \"other\""));
}
