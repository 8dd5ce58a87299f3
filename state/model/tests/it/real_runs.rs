//! The steps of real runs of ttnn 0.81.1, replayed on the model.
//!
//! The runs are those of one small program on mock boards of four kinds, with
//! an L1_SMALL and a trace region. Every address, every size per bank, what the
//! allocator reported after each step and how a refusal was worded must come
//! out of the model as they came out of the runtime.

mod script;

use std::collections::BTreeMap;

use ttmem_event::catalogue::BoardKind;
use ttmem_event::{CbKind, EventKind, MeshId};
use ttmem_model::runtime::{Mesh, RuntimeOptions, Target};
use ttmem_model::tensor::TensorSpec;
use ttmem_model::ttnn::{Call, Tensor, Ttnn};

use self::script::{Action, Cb, Placed, Script, Step, View};
use crate::account::Account;

/// The model of one machine, as a run uses it, and the account that its events come to.
struct Machine {
    board: BoardKind,
    ttnn: Ttnn,
    mesh: Mesh,
    account: Account,
    /// Live tensors by their name in the script.
    live: BTreeMap<String, Tensor>,
}

impl Machine {
    fn open(board: BoardKind, script: &Script) -> Self {
        let options = RuntimeOptions {
            l1_small_size: script.l1_small_size,
            trace_region_size: script.trace_region_size,
            target: Target::Mock,
            ..RuntimeOptions::of(board)
        };
        let account = Account::new();
        let mut runtime = account.runtime(options);
        let (rows, columns) = script.mesh;
        let mesh = runtime.open_mesh(rows, columns).expect("the run had it");
        assert_eq!(runtime.mesh_chips(mesh), script.chips);
        Self {
            board,
            ttnn: Ttnn::new(runtime),
            mesh,
            account,
            live: BTreeMap::new(),
        }
    }

    /// What a step did to the allocator: what was reported of it.
    fn placed(news: &[EventKind]) -> Option<Placed> {
        news.iter().find_map(|event| match *event {
            EventKind::BufferAllocated {
                class,
                layout,
                address,
                requested_bytes,
                per_bank_bytes,
                page_bytes,
                ..
            } => Some(Placed {
                class,
                layout,
                address,
                size: requested_bytes,
                page: u64::from(page_bytes),
                per_bank: per_bank_bytes,
            }),
            _other => None,
        })
    }

    fn create(&mut self, name: &str, operation: &str, tensor: &TensorSpec) -> Result<(), String> {
        let created = self.ttnn.create(self.mesh, tensor, operation);
        let tensor = created.map_err(|error| error.to_string())?;
        self.live.insert(name.to_owned(), tensor);
        Ok(())
    }

    fn run(
        &mut self,
        name: &str,
        operation: &str,
        inputs: &[String],
        output: &TensorSpec,
    ) -> Result<(), String> {
        let inputs: Vec<&Tensor> = inputs.iter().map(|input| &self.live[input]).collect();
        let call = Call {
            operation,
            inputs: &inputs,
            output: Some(output.clone()),
            attributes: &[],
        };
        let made = self.ttnn.run(self.mesh, &call);
        let made = made.map_err(|error| error.to_string())?;
        let tensor = made.expect("the operation has an output");
        self.live.insert(name.to_owned(), tensor);
        Ok(())
    }

    /// Does a step and compares what followed.
    fn play(&mut self, script: &Script, step: &Step) {
        let at = format!("{} line {}", self.board.name(), step.line);
        self.account.news();
        match &step.action {
            Action::Create {
                name,
                operation,
                tensor,
            } => {
                let outcome = self.create(name, operation, tensor);
                let placed = Self::placed(&self.account.news());
                compare(step, outcome, placed, &format!("{at}: {operation}"));
            }
            Action::Run {
                name,
                operation,
                inputs,
                output,
            } => {
                let outcome = self.run(name, operation, inputs, output);
                let news = self.account.news();
                compare(
                    step,
                    outcome,
                    Self::placed(&news),
                    &format!("{at}: {operation}"),
                );
                let ran = news
                    .iter()
                    .any(|event| matches!(event, EventKind::Dispatched { .. }));
                assert_eq!(step.program, ran, "{at}: {operation}");
                self.check_cbs(&step.cbs, &news, &at);
            }
            Action::Free(names) => {
                for name in names {
                    let tensor = self.live.remove(name).expect("the run had it");
                    self.ttnn.deallocate(tensor).expect("it is live");
                }
            }
            Action::ClearProgramCache => {
                let before = self.account.cb_bytes_of(0, CbKind::Local);
                self.ttnn
                    .clear_program_cache(self.mesh)
                    .expect("it is open");
                let after = self.account.cb_bytes_of(0, CbKind::Local);
                assert_eq!((before > 0, after), (step.cbs_freed > 0, 0), "{at}");
            }
        }
        assert_eq!(
            step.views.len(),
            script.banks.len(),
            "{at}: a view is missing"
        );
        for view in &step.views {
            let statistics = self.ttnn.runtime().statistics(self.mesh, view.class);
            let statistics = statistics.expect("the mesh is open");
            let seen = View {
                class: view.class,
                allocated: statistics.allocated,
                largest_free: statistics.largest_free,
            };
            assert_eq!(*view, seen, "{at}");
            // The account of the events comes to the same on every chip.
            for chip in &script.chips {
                let banks = script.banks.iter().find(|banks| banks.class == view.class);
                let banks = u64::from(banks.expect("every class has banks").banks);
                let charged = self.account.charged(*chip, view.class);
                assert_eq!(charged, view.allocated * banks, "{at}: chip {chip}");
                let geometry = self.account.geometry(*chip).classes[view.class.index()];
                assert_eq!(geometry.largest_free_bytes, Some(view.largest_free), "{at}");
            }
        }
    }

    /// Circular buffers became known where the runtime put them, each on every chip in turn.
    fn check_cbs(&mut self, cbs: &[Cb], news: &[EventKind], at: &str) {
        let mut seen: Vec<(u64, u64, MeshId)> = Vec::new();
        for event in news {
            if let EventKind::CbAllocated {
                mesh,
                kind: CbKind::Local,
                address,
                size_bytes,
                ..
            } = *event
            {
                seen.push((address, size_bytes, mesh));
            }
        }
        let chips = self.ttnn.runtime().mesh_devices(self.mesh);
        assert_eq!(seen.len(), cbs.len() * chips, "{at}");
        for (cb, on_chips) in cbs.iter().zip(seen.chunks(chips)) {
            for (address, size, _chip) in on_chips {
                assert_eq!((*address, *size), (cb.address, cb.size), "{at}");
            }
            let mut meshes: Vec<MeshId> = on_chips.iter().map(|(_, _, chip)| *chip).collect();
            meshes.sort_unstable();
            meshes.dedup();
            assert_eq!(meshes.len(), chips, "{at}");
            let grid = self.ttnn.runtime().grid();
            let last = (cb.cores.x_last + 1, cb.cores.y_last + 1);
            assert_eq!(last, (grid.x, grid.y), "{at}");
        }
    }
}

/// What the model did with a buffer against what the runtime did.
fn compare(step: &Step, outcome: Result<(), String>, placed: Option<Placed>, at: &str) {
    match outcome {
        Ok(()) => {
            assert_eq!(step.refused, None, "{at}");
            assert_eq!(step.placed, placed, "{at}");
        }
        Err(text) => {
            assert_eq!((step.placed, placed), (None, None), "{at}: {text}");
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
        let capacity = machine.account.device(0).facts.capacities[banks.class.index()];
        let capacity = capacity.expect("reported at the opening");
        let reported = (capacity.banks, capacity.per_bank_bytes);
        assert_eq!(reported, (banks.banks, banks.bytes_per_bank));
    }
    for step in &script.steps {
        machine.play(&script, step);
    }
    let live: Vec<_> = machine.live.into_keys().collect();
    assert_eq!(live, script.live_at_close);
    machine.ttnn.close();
    machine.account.assert_nothing_left();
    let leaked = machine.account.facts().leak_candidates.buffers;
    assert_eq!(usize::try_from(leaked), Ok(live.len()));

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
