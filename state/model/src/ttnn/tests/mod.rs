//! Operations on whole boards, seen through what they report.

mod all;
mod cache;
mod refused;
mod storage;

use super::{Call, OperationError, Tensor, Ttnn};
use crate::hooks::{Entry, Journal};
use crate::runtime::{Mesh, Runtime, RuntimeOptions};
use crate::tensor::{DataType, TensorSpec};
use ttmem_event::catalogue::BoardKind;
use ttmem_event::{CbKind, Class, CoreSet, CoresId, Definition, EventKind};

/// A board, opened with the parameters of the recorded runs of ttnn 0.81.1.
struct Bench {
    ttnn: Ttnn,
    journal: Journal,
    mesh: Mesh,
    cores: Vec<(CoresId, CoreSet)>,
}

/// Storage as it was reported.
#[derive(Debug, PartialEq, Eq)]
struct Reported {
    kind: CbKind,
    address: u64,
    size: u64,
    cores: CoreSet,
}

impl Bench {
    fn new(board: BoardKind, rows: u16, columns: u16) -> Self {
        let journal = Journal::new();
        let options = RuntimeOptions {
            l1_small_size: 32_768,
            trace_region_size: 8_388_608,
            ..RuntimeOptions::of(board)
        };
        let runtime = Runtime::new(Box::new(journal.clone()), options).unwrap();
        let mut ttnn = Ttnn::new(runtime);
        let mesh = ttnn.runtime().open_mesh(rows, columns).unwrap();
        let mut bench = Self {
            ttnn,
            journal,
            mesh,
            cores: Vec::new(),
        };
        // What opening reports is not the operations'.
        drop(bench.events());
        bench
    }

    fn n150() -> Self {
        Self::new(BoardKind::N150, 1, 1)
    }

    fn zeros(&mut self, spec: &TensorSpec) -> Tensor {
        self.ttnn.create(self.mesh, spec, "zeros").unwrap()
    }

    fn run(
        &mut self,
        operation: &str,
        inputs: &[&Tensor],
    ) -> Result<Option<Tensor>, OperationError> {
        self.run_with(operation, inputs, &[])
    }

    fn run_with(
        &mut self,
        operation: &str,
        inputs: &[&Tensor],
        attributes: &[(&str, u64)],
    ) -> Result<Option<Tensor>, OperationError> {
        let call = Call {
            operation,
            inputs,
            output: None,
            attributes,
        };
        self.ttnn.run(self.mesh, &call)
    }

    fn allocated(&mut self, class: Class) -> u64 {
        let statistics = self.ttnn.runtime().statistics(self.mesh, class);
        statistics.unwrap().allocated
    }

    /// What happened since the last time this was asked.
    fn events(&mut self) -> Vec<EventKind> {
        let mut events = Vec::new();
        for entry in self.journal.news() {
            match entry {
                Entry::Happened(event) => events.push(event),
                Entry::Defined(Definition::Cores { id, cores }) => self.cores.push((id, cores)),
                Entry::Defined(_) => {}
            }
        }
        events
    }

    fn cores(&self, id: CoresId) -> CoreSet {
        let found = self.cores.iter().find(|(known, _cores)| *known == id);
        found.unwrap().1
    }

    /// Storage reported in these events, in order.
    fn storage(&self, events: &[EventKind]) -> Vec<Reported> {
        let reported = |event: &EventKind| match *event {
            EventKind::CbAllocated {
                kind,
                address,
                size_bytes,
                cores,
                ..
            } => Some(Reported {
                kind,
                address,
                size: size_bytes,
                cores: self.cores(cores),
            }),
            _other => None,
        };
        events.iter().filter_map(reported).collect()
    }
}

/// What the recorded runs work on.
fn square(class: Class) -> TensorSpec {
    TensorSpec::tiled(&[1, 1, 1024, 1024], DataType::Bfloat16, class)
}

fn count(events: &[EventKind], wanted: impl Fn(&EventKind) -> bool) -> usize {
    events.iter().filter(|event| wanted(event)).count()
}

/// Programs that were created and not destroyed in these events.
fn live_programs(events: &[EventKind]) -> usize {
    let created = count(events, |event| {
        matches!(event, EventKind::ProgramCreated { .. })
    });
    let destroyed = count(events, |event| {
        matches!(event, EventKind::ProgramDestroyed { .. })
    });
    created - destroyed
}
