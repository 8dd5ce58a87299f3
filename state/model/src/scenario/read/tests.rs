use proptest::prelude::*;
use ttmem_event::Class;
use ttmem_event::catalogue::Grid;

use super::*;
use crate::runtime::FailureKind;
use crate::scenario::script::{Action, TensorStep};
use crate::scenario::value::{Givens, Values};
use crate::tensor::{DataType, Shard, Sharding, TileLayout};

mod refused;

/// Everything a file can say.
const EVERYTHING: &str = r#"
about = "Llama-3.1-8B decode, one token per step"
boards = ["t3k", "n300"]

[device]
mesh = [1, 2]
submesh = [1, 1]
dispatch = "slow"
fabric = true
l1_small_size = 32768
trace_region_size = "24M"

[values]
layers = 32
batch = { from = 8, to = 32, step = 8 }
prompt = { from = 64, to = "context", step = 32 }
context = "2 * half"
half = 1024

[blocks]
weights = [
  { tensor = "wqkv.{i}", shape = [1, 1, 4096, "6144 / devices"], type = "bfloat8_b" },
  { tensor = "ids", shape = [1, "batch"], type = "uint32", layout = "row_major", by = "ttnn::zeros" },
]
layer = [
  { op = "rms_norm", inputs = ["x"], out = "n", memory = "l1" },
  { op = "matmul", inputs = ["n", "wqkv.{i}"], out = "qkv", shape = [1, 1, "batch", "6144 / devices"], memory = { class = "l1", shard = "width", grid = [8, "rows"] }, with = { heads = 32 } },
  { op = "update_cache", inputs = ["qkv"] },
  { free = ["n", "qkv"] },
]
step = [{ run = "layer", for = "i", times = "layers" }]
big = [{ tensor = "big", shape = ["1G", "1G"], memory = { class = "l1", shard = "block" } }]

[expect]
leaked_buffers = "layers * 2"

[[steps]]
run = "weights"
for = "i"
times = "layers"

[[steps]]
pick = "prompt"

[[steps]]
mark = "prefill {replica}"
number = "prompt"

[[steps]]
trace = "decode"
run = "step"

[[steps]]
replay = "decode"
times = 100

[[steps]]
release = "decode"

[[steps]]
attempt = "big"
fails = "out_of_memory"

[[steps]]
clear_program_cache = true

[[steps]]
pause_ms = 200
"#;

const GIVENS: Givens = Givens {
    devices: 2,
    cores: 64,
    columns: 8,
    rows: 8,
    replica: 3,
    dram_bytes: 12_000,
    l1_bytes: 1_000,
};

fn everything() -> Scenario {
    Scenario::from_text("everything.toml", EVERYTHING).expect("a good file")
}

#[test]
fn the_head_of_a_file_is_read() {
    let scenario = everything();
    assert_eq!(scenario.name, "everything.toml");
    assert_eq!(scenario.boards, [BoardKind::T3000, BoardKind::N300]);
    let device = &scenario.device;
    assert_eq!(device.mesh_on(BoardKind::T3000), (1, 2));
    assert_eq!(device.submesh_on(BoardKind::T3000), (1, 1));
    assert_eq!(device.dispatch_on(BoardKind::N300), DispatchCores::Slow);
    assert_eq!(device.l1_small_size, 32_768);
    assert_eq!(device.trace_region_size, 24 << 20);
    assert!(device.fabric_on(BoardKind::T3000), "as said");
}

#[test]
fn values_stand_behind_those_they_need() {
    let scenario = everything();
    let names: Vec<&str> = scenario.values.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["batch", "half", "layers", "context", "prompt"]);
    let values = Values::new(&scenario.values, GIVENS, 1).expect("all have a value");
    assert_eq!(scenario.expect.leaked_buffers.evaluate(&values), Ok(64));
}

#[test]
fn the_steps_are_read_in_order_with_its_lines() {
    let scenario = everything();
    let verbs: Vec<&str> = scenario.steps.iter().map(|s| s.action.verb()).collect();
    assert_eq!(
        verbs,
        [
            "run",
            "pick",
            "mark",
            "trace",
            "replay",
            "release",
            "attempt",
            "clear_program_cache",
            "pause_ms"
        ]
    );
    let text: Vec<&str> = EVERYTHING.lines().collect();
    for step in &scenario.steps {
        assert_eq!(text[step.line - 1], "[[steps]]");
    }
    let layer = scenario.block("layer");
    assert!(text[layer[2].line - 1].contains("update_cache"));
    let Action::Attempt { block, failure } = &scenario.steps[6].action else {
        panic!("an attempt");
    };
    assert_eq!(
        (block.as_str(), *failure),
        ("big", FailureKind::OutOfMemory)
    );
    assert!(scenario.block("nobody").is_empty());
}

#[test]
fn tensors_have_defaults_and_computed_numbers() {
    let scenario = everything();
    let mut values = Values::new(&scenario.values, GIVENS, 1).expect("all have a value");
    values.enter_loop("i");
    values.set_loop(5);
    let [first, second] = [0, 1].map(|place| match &scenario.block("weights")[place].action {
        Action::Tensor(tensor) => tensor.clone(),
        other => panic!("a tensor, not {other:?}"),
    });
    assert_eq!(first.name.render(&values).as_deref(), Ok("wqkv.5"));
    let spec = first.spec(&values).expect("it has a value");
    assert_eq!(spec.shape, [1, 1, 4096, 3072]);
    assert_eq!((spec.class, spec.layout), (Class::Dram, TileLayout::Tile));
    assert_eq!(spec.data_type, DataType::Bfloat8B);
    let TensorStep { layout, by, .. } = second;
    assert_eq!(
        (layout, by.as_deref()),
        (TileLayout::RowMajor, Some("ttnn::zeros"))
    );

    let Action::Op(norm) = &scenario.block("layer")[0].action else {
        panic!("an operation");
    };
    let output = norm.output.as_ref().expect("it has one");
    let like_the_input = output.spec(&spec, &values).expect("it has a value");
    assert_eq!(like_the_input.shape, spec.shape);
    assert_eq!(like_the_input.data_type, DataType::Bfloat8B);
    assert_eq!(like_the_input.class, Class::L1);

    let Action::Op(matmul) = &scenario.block("layer")[1].action else {
        panic!("an operation");
    };
    let output = matmul.output.as_ref().expect("it has one");
    let spec = output.spec(&spec, &values).expect("it has a value");
    assert_eq!(
        spec.sharding,
        Some(Sharding {
            shard: Shard::Width,
            grid: Grid::new(8, 8)
        })
    );
    assert_eq!(matmul.attributes, [("heads".to_owned(), Number::from(32))]);

    let Action::Tensor(big) = &scenario.block("big")[0].action else {
        panic!("a tensor");
    };
    let whole_grid = big.spec(&values).expect("it has a value").sharding;
    assert_eq!(whole_grid.map(|s| s.grid), Some(Grid::new(8, 8)));
}

#[test]
fn little_is_needed() {
    let text = "about = 'x'\nboards = ['n150']\nsteps = [{ pause_ms = 1 }]";
    let scenario = Scenario::from_text("little", text).expect("enough");
    assert_eq!(scenario.device, DeviceSetup::default());
    assert!(!scenario.device.fabric_on(BoardKind::N150));
    assert!(
        scenario.device.fabric_on(BoardKind::N300),
        "one chip is behind the other"
    );
    assert_eq!(
        scenario.device.mesh_on(BoardKind::N300),
        (1, 2),
        "all of it"
    );
    assert_eq!(scenario.device.submesh_on(BoardKind::N300), (1, 2));
    assert_eq!(scenario.expect.leaked_buffers, Number::from(0));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(\\[|\\]|\\{|\\}|=|'|\"|,|\n| |steps|blocks|values|about|1|run|x){0,60}") {
        prop_assert!(Scenario::from_text("any", &text).is_err(), "too little for a scenario");
    }

    /// A good file with a piece cut out is read, or refused: never more.
    #[test]
    fn a_damaged_file_does_no_harm(from in 0..EVERYTHING.len(), length in 0_usize..40) {
        let to = (from + length).min(EVERYTHING.len());
        let text = format!("{}{}", &EVERYTHING[..from], &EVERYTHING[to..]);
        if let Err(error) = Scenario::from_text("damaged", &text) {
            prop_assert!(error.to_string().starts_with("damaged"), "{error}");
        }
    }
}
