//! The steps of real runs of ttnn 0.81.1, replayed on the model.
//!
//! The runs are those of one small program on mock boards of four kinds, with
//! an L1_SMALL and a trace region. Every address, every size per bank, what the
//! allocator reported after each step and how a refusal was worded must come
//! out of the model as they came out of the runtime.

mod script;

use std::collections::BTreeMap;

use ttmem_event::Class;
use ttmem_event::catalogue::{BoardKind, Capacities, DeviceOptions, Grid};
use ttmem_sim::allocator::Allocator;
use ttmem_sim::tensor::TensorSpec;

use self::script::{Action, Cb, Placed, Script, Step, View};

/// The model of one machine, as a run uses it.
struct Machine {
    board: BoardKind,
    capacities: Capacities,
    allocator: Allocator,
    /// Live tensors by their name in the script: class and address.
    live: BTreeMap<String, (Class, u64)>,
    /// Programs that hold circular buffers.
    programs_with_cbs: usize,
}

impl Machine {
    fn open(board: BoardKind, script: &Script) -> Self {
        let options = DeviceOptions {
            l1_small_size: script.l1_small_size,
            trace_region_size: script.trace_region_size,
            ..DeviceOptions::default_of(board)
        };
        let capacities = board
            .capacities(&options)
            .expect("the regions of the run fit");
        Self {
            board,
            allocator: Allocator::new(&capacities, board.memory_map().dram_alignment),
            capacities,
            live: BTreeMap::new(),
            programs_with_cbs: 0,
        }
    }

    /// Allocates a tensor; `Err` is the text of the refusal.
    fn create(&mut self, name: &str, tensor: &TensorSpec) -> Result<Placed, String> {
        let spec = tensor.buffer().map_err(|error| error.to_string())?;
        let placement = self
            .allocator
            .allocate(&spec)
            .map_err(|error| error.to_string())?;
        let place = (spec.class, placement.address);
        self.live.insert(name.to_owned(), place);
        Ok(Placed {
            class: spec.class,
            layout: spec.layout,
            address: placement.address,
            size: spec.size,
            page: spec.page,
            per_bank: placement.per_bank,
        })
    }

    fn free(&mut self, name: &str) -> Option<u64> {
        let (class, address) = self.live.remove(name)?;
        self.allocator.free(class, address)
    }

    fn view(&self, class: Class) -> View {
        let statistics = self.allocator.statistics(class);
        View {
            class,
            allocated: statistics.allocated,
            largest_free: statistics.largest_free,
        }
    }

    /// Does a step and compares what followed.
    fn play(&mut self, script: &Script, step: &Step) {
        let at = format!("{} line {}", self.board.name(), step.line);
        match &step.action {
            Action::Create {
                name,
                operation,
                tensor,
            } => {
                let outcome = self.create(name, tensor);
                compare(step, outcome, &format!("{at}: {operation}"));
            }
            Action::Run {
                name,
                operation,
                inputs,
                output,
            } => {
                for input in inputs {
                    assert!(self.live.contains_key(input), "{at}: {input} is gone");
                }
                let outcome = self.create(name, output);
                compare(step, outcome, &format!("{at}: {operation}"));
                assert!(step.program, "{at}: {operation} ran no program");
                self.check_cbs(&step.cbs, &at);
            }
            Action::Free(names) => {
                for name in names {
                    assert!(self.free(name).is_some(), "{at}: {name} is not allocated");
                }
            }
            Action::ClearProgramCache => {
                assert_eq!(step.cbs_freed, self.programs_with_cbs, "{at}");
                self.programs_with_cbs = 0;
            }
        }
        assert_eq!(
            step.views.len(),
            script.banks.len(),
            "{at}: a view is missing"
        );
        for view in &step.views {
            assert_eq!(*view, self.view(view.class), "{at}");
        }
        for banks in &script.banks {
            let total = self.allocator.statistics(banks.class).total;
            assert_eq!(total, banks.bytes_per_bank, "{at}: {:?}", banks.class);
        }
    }

    /// Circular buffers follow each other from where L1 begins, below all buffers.
    fn check_cbs(&mut self, cbs: &[Cb], at: &str) {
        let Grid { x, y } = self.capacities.compute_grid;
        let mut next = self.allocator.base(Class::L1);
        for cb in cbs {
            assert_eq!(cb.address, next, "{at}");
            assert_eq!((cb.cores.x_last + 1, cb.cores.y_last + 1), (x, y), "{at}");
            next += cb.size;
        }
        let lowest = self.allocator.lowest_l1();
        assert!(lowest.is_none_or(|lowest| next <= lowest), "{at}");
        self.programs_with_cbs += usize::from(!cbs.is_empty());
    }
}

/// What the model did with a buffer against what the runtime did.
fn compare(step: &Step, outcome: Result<Placed, String>, at: &str) {
    match outcome {
        Ok(placed) => {
            assert_eq!(step.refused, None, "{at}");
            assert_eq!(step.placed, Some(placed), "{at}");
        }
        Err(text) => {
            assert_eq!(step.placed, None, "{at}: {text}");
            let expected = step.refused.as_deref().unwrap_or_default();
            assert!(!expected.is_empty(), "{at}: {text}");
            assert!(
                text.starts_with(expected),
                "{at}:\n  {text}\n  does not begin with\n  {expected}"
            );
        }
    }
}

/// Replays a run; returns how many buffers were placed and how many refused.
fn replay(board: BoardKind, text: &str) -> (usize, usize) {
    let script = Script::parse(text).expect("every line is understood");
    let mut machine = Machine::open(board, &script);

    let chips = usize::try_from(board.chip_count()).expect("a few chips");
    let (rows, columns) = script.mesh;
    assert_eq!(script.chips.len(), chips);
    assert_eq!(usize::from(rows) * usize::from(columns), chips);
    for banks in &script.banks {
        assert_eq!(machine.allocator.banks(banks.class), banks.banks);
    }
    for step in &script.steps {
        machine.play(&script, step);
    }
    let live: Vec<_> = machine.live.into_keys().collect();
    assert_eq!(live, script.live_at_close);

    let count = |of: fn(&Step) -> bool| script.steps.iter().filter(|step| of(step)).count();
    (
        count(|step| step.placed.is_some()),
        count(|step| step.refused.is_some()),
    )
}

#[test]
fn on_n150() {
    let seen = replay(BoardKind::N150, include_str!("../data/real_runs/n150.txt"));
    assert_eq!(seen, (19, 2));
}

#[test]
fn on_n300() {
    let seen = replay(BoardKind::N300, include_str!("../data/real_runs/n300.txt"));
    assert_eq!(seen, (14, 2));
}

#[test]
fn on_t3000() {
    let seen = replay(
        BoardKind::T3000,
        include_str!("../data/real_runs/t3000.txt"),
    );
    assert_eq!(seen, (14, 2));
}

#[test]
fn on_p150() {
    let seen = replay(BoardKind::P150, include_str!("../data/real_runs/p150.txt"));
    assert_eq!(seen, (19, 2));
}

#[test]
fn a_line_that_is_not_understood_is_named() {
    for (text, line) in [
        ("# a\n\nopen 1x1\n", "line 3: open 1x1"),
        ("  placed nowhere", "line 1:   placed nowhere"),
        ("free a\n  view DRAM 1", "line 2:   view DRAM 1"),
        (
            "create a = zeros 1x1 bfloat17 tile DRAM",
            "line 1: create a",
        ),
        ("run a = add a a 1x1 bfloat16 tile DRAM", "line 1: run a"),
    ] {
        let error = Script::parse(text).unwrap_err();
        assert!(error.starts_with(line), "{error}");
    }
}
