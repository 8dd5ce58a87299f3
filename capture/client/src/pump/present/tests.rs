//! The account as of now equals one that was given every event, however the history was folded.

use super::timeline::MAX_POINTS;
use super::*;
use crate::own_account::peak_lines;
use crate::pump::history::History;
use proptest::prelude::*;
use std::collections::BTreeSet;
use ttmem_event::catalogue::Arch;
use ttmem_event::{
    BufferId, CoresId, DeviceDefinition, DeviceId, Direction, EventKind, Layout, MeshDefinition,
    MeshId, MeshKind, TextId,
};

const MESH: MeshId = MeshId(1);
const DEVICES: u32 = 2;
const BANKS: u16 = 4;

fn definitions() -> Vec<Definition> {
    let device = |number: u32| {
        Definition::Device(DeviceDefinition {
            id: DeviceId(number + 1),
            logical_id: number,
            unique_id: None,
            arch: Arch::Wormhole,
            board: TextId::NONE,
            remote: None,
            grid_columns: 8,
            grid_rows: 8,
            l1_bytes_per_core: 1 << 20,
            l1_reserved_bytes: 0,
        })
    };
    let mesh = Definition::Mesh(MeshDefinition {
        id: MESH,
        kind: MeshKind::Mesh,
        handle: 0,
        rows: 1,
        columns: 2,
        devices: (1..=DEVICES).map(DeviceId).collect(),
    });
    (0..DEVICES).map(device).chain([mesh]).collect()
}

fn opened() -> Vec<EventKind> {
    let devices = (1..=DEVICES).map(|id| EventKind::DeviceOpened {
        device: DeviceId(id),
    });
    devices
        .chain([EventKind::MeshOpened { mesh: MESH }])
        .collect()
}

/// A few operations place all buffers.
fn operation(buffer: u64) -> TextId {
    TextId(1 + u32::try_from(buffer % 3).expect("it is small"))
}

fn allocated(buffer: u64, class: Class, per_bank_bytes: u64) -> EventKind {
    EventKind::BufferAllocated {
        mesh: MESH,
        buffer: BufferId(buffer),
        class,
        layout: Layout::Interleaved,
        direction: Direction::BottomUp,
        address: 0,
        requested_bytes: per_bank_bytes,
        per_bank_bytes,
        banks: BANKS,
        page_bytes: 32,
        cores: CoresId::NONE,
        operation: operation(buffer),
    }
}

fn freed(buffer: u64) -> EventKind {
    EventKind::BufferFreed {
        mesh: MESH,
        buffer: BufferId(buffer),
    }
}

/// What happens to a history; numbers choose among what is there.
#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(bool, u64),
    Free(usize),
    /// Closes the mesh, and opens it again.
    Close,
    Mark,
    Send,
    Confirm(u64),
    Fold,
    Follow(usize),
    Ask,
    Reset,
    Begin,
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<bool>(), 1..100_u64).prop_map(|(is_l1, bytes)| Step::Allocate(is_l1, bytes)),
        4 => any::<usize>().prop_map(Step::Free),
        1 => Just(Step::Close),
        1 => Just(Step::Mark),
        2 => Just(Step::Send),
        2 => (0..10_u64).prop_map(Step::Confirm),
        2 => Just(Step::Fold),
        1 => (0..5_usize).prop_map(Step::Follow),
        3 => Just(Step::Ask),
        1 => Just(Step::Reset),
        1 => Just(Step::Begin),
        1 => any::<usize>().prop_map(Step::End),
    ]
}

/// A stretch, worked out here.
#[derive(Clone, Debug, Default)]
struct ModelStretch {
    number: u64,
    /// The last buffer before it.
    begun_after: u64,
    peaks: [u64; 2],
    /// What was live at each peak.
    at_peaks: [Vec<Live>; 2],
    /// Buffers that were placed in it and held when the mesh was closed.
    left: BTreeSet<u64>,
}

/// A buffer, its class, and its bytes on each device.
type Live = (u64, usize, u64);

/// What a device holds of DRAM and L1.
#[derive(Debug, Default)]
struct Model {
    live: Vec<Live>,
    held: [u64; 2],
    stretches: Vec<ModelStretch>,
    buffers: u64,
}

impl Model {
    fn held(&self, class: usize) -> u64 {
        let of_class = self
            .live
            .iter()
            .filter(|(_buffer, of, _bytes)| *of == class);
        of_class.map(|(.., bytes)| bytes).sum()
    }

    /// Works out anew what is held after a step.
    fn settle(&mut self) {
        self.held = [self.held(0), self.held(1)];
        for stretch in &mut self.stretches {
            for (class, held) in self.held.into_iter().enumerate() {
                if held > stretch.peaks[class] {
                    stretch.peaks[class] = held;
                    stretch.at_peaks[class].clone_from(&self.live);
                }
            }
        }
    }

    fn begin(&self, number: u64) -> ModelStretch {
        ModelStretch {
            number,
            begun_after: self.buffers,
            peaks: self.held,
            at_peaks: [self.live.clone(), self.live.clone()],
            left: BTreeSet::new(),
        }
    }
}

impl ModelStretch {
    /// Bytes of an operation at a peak, and those of them that were there before.
    fn of_operation(&self, class: usize, text: TextId) -> (u64, u64) {
        let live = self.at_peaks[class].iter();
        let live = live.filter(|(buffer, of, _)| *of == class && operation(*buffer) == text);
        live.fold((0, 0), |(all, before), (buffer, _class, bytes)| {
            let is_before = *buffer <= self.begun_after;
            (all + bytes, before + if is_before { *bytes } else { 0 })
        })
    }
}

struct Run {
    history: History,
    model: Model,
    time: u64,
}

impl Run {
    fn new() -> Self {
        let mut history = History::new(8, false);
        for definition in definitions() {
            history.define(&definition);
        }
        let mut run = Self {
            history,
            model: Model {
                stretches: vec![ModelStretch::default()],
                ..Model::default()
            },
            time: 0,
        };
        for kind in opened() {
            run.push(kind);
        }
        run
    }

    fn push(&mut self, kind: EventKind) {
        self.time += 1;
        let time = self.time;
        self.history.push(&Event { time, kind }.encode(), Some(0));
    }

    fn ask(&mut self, question: Question) -> Answer {
        if self.history.present().is_none() {
            self.history.begin_present([]);
        }
        while !self.history.follow(3) {}
        let present = self.history.present().expect("it has begun");
        present.answer(question, self.time).expect("it is open")
    }

    fn compare(&mut self) {
        for model in self.model.stretches.clone() {
            let stretch = model.number;
            let max_rows = 10;
            let answer = self.ask(Question::Peaks { stretch, max_rows });
            self.compare_figures(&answer, &model);
            compare_lines(&answer, &model);
        }
    }

    fn compare_figures(&self, answer: &Answer, model: &ModelStretch) {
        for (held, peak) in answer.facts.devices.iter().zip(&answer.peaks) {
            for (index, class) in [Class::Dram, Class::L1].into_iter().enumerate() {
                let charged = held.totals.class(class).charged.bytes();
                assert_eq!(charged, self.model.held[index]);
                assert_eq!(peak[class.index()].bytes, model.peaks[index], "{model:?}");
            }
        }
    }

    /// What was placed in a stretch and is held, or was when the mesh was closed.
    fn compare_left(&self, answer: &Answer, model: &ModelStretch) {
        let rows = answer.rows.as_ref().expect("they were asked for");
        let held = rows.held.buffers.iter().map(|(_slot, row)| row);
        let held = held.filter(|row| row.order > rows.since_order);
        let held: BTreeSet<u64> = held.map(|row| row.id).collect();
        let live = self.model.live.iter().map(|(buffer, ..)| *buffer);
        let live: BTreeSet<u64> = live.filter(|buffer| *buffer > model.begun_after).collect();
        assert_eq!(held, live);
        let left: BTreeSet<u64> = rows.left.iter().map(|row| row.id).collect();
        assert_eq!(left, model.left);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Allocate(is_l1, per_bank_bytes) => {
                let class = usize::from(is_l1);
                self.model.buffers += 1;
                let buffer = self.model.buffers;
                let bytes = per_bank_bytes * u64::from(BANKS);
                self.push(allocated(
                    buffer,
                    [Class::Dram, Class::L1][class],
                    per_bank_bytes,
                ));
                self.model.live.push((buffer, class, bytes));
            }
            Step::Free(which) if !self.model.live.is_empty() => {
                let which = which % self.model.live.len();
                let (buffer, ..) = self.model.live.swap_remove(which);
                self.push(freed(buffer));
            }
            Step::Close => {
                self.push(EventKind::MeshClosed { mesh: MESH });
                self.push(EventKind::MeshOpened { mesh: MESH });
                let live = std::mem::take(&mut self.model.live);
                for stretch in self.model.stretches.iter_mut().skip(1) {
                    let left = live.iter().map(|(buffer, ..)| *buffer);
                    stretch
                        .left
                        .extend(left.filter(|buffer| *buffer > stretch.begun_after));
                }
            }
            Step::Mark => self.push(EventKind::Marked {
                name: TextId::NONE,
                number: 0,
            }),
            Step::Send => {
                let _sent = self.history.take_batch(5);
            }
            Step::Confirm(more) => {
                let sequence = self.history.front() + more;
                let _beyond = self.history.confirm(sequence);
            }
            Step::Fold => self.history.keep_to_bound(usize::MAX),
            Step::Follow(most) => {
                let _lacking = self.history.follow(most);
            }
            Step::Ask => self.compare(),
            Step::Reset => {
                self.ask(Question::Reset { device: None });
                self.model.stretches[0] = ModelStretch {
                    begun_after: 0,
                    ..self.model.begin(SINCE_RESET)
                };
            }
            Step::Begin => {
                let stretch = self.ask(Question::Begin).stretch;
                let begun = self.model.begin(stretch);
                self.model.stretches.push(begun);
            }
            Step::End(which) if self.model.stretches.len() > 1 => {
                let which = 1 + which % (self.model.stretches.len() - 1);
                let model = self.model.stretches.remove(which);
                let stretch = model.number;
                let max_rows = 1000;
                let answer = self.ask(Question::End { stretch, max_rows });
                self.compare_figures(&answer, &model);
                compare_lines(&answer, &model);
                self.compare_left(&answer, &model);
                let present = self.history.present().expect("it was asked");
                let again = present.answer(Question::End { stretch, max_rows }, 0);
                assert_eq!(again.err(), Some(AskError::Value));
            }
            Step::Free(_) | Step::End(_) => {}
        }
        self.model.settle();
    }
}

/// The lines at a peak make it up, and none is said to be from before that is not.
fn compare_lines(answer: &Answer, model: &ModelStretch) {
    let lines = peak_lines::of(answer.lines.as_ref().expect("they were asked for")).unwrap();
    for slot in 0..DEVICES as usize {
        for (index, class) in [Class::Dram, Class::L1].into_iter().enumerate() {
            let lines = &lines[&(slot, GaugeKind::Class(class))];
            let all: u64 = lines.iter().map(|line| line.bytes).sum();
            assert_eq!(all, model.peaks[index], "{lines:?} {model:?}");
            for text in (1..=3).map(TextId) {
                let of_text = lines.iter().filter(|line| line.text == text);
                let of_text: Vec<_> = of_text.collect();
                let bytes = of_text.iter().map(|line| line.bytes).sum::<u64>();
                let before = of_text.iter().filter(|line| line.is_before);
                let before = before.map(|line| line.bytes).sum::<u64>();
                let (expected, expected_before) = model.of_operation(index, text);
                assert_eq!(bytes, expected, "{text:?} {lines:?} {model:?}");
                assert!(before <= expected_before, "{text:?} {lines:?} {model:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn figures_and_peaks_are_exact_whatever_was_folded(
        steps in proptest::collection::vec(step(), 0..200)
    ) {
        let mut run = Run::new();
        for step in steps {
            run.take(step);
        }
        run.compare();
    }
}

#[test]
fn a_device_is_reset_alone() {
    let mut run = Run::new();
    run.take(Step::Allocate(false, 10));
    run.take(Step::Free(0));
    let answer = run.ask(Question::Reset { device: Some(1) });
    let peaks: Vec<u64> = answer.peaks.iter().map(|peak| peak[0].bytes).collect();
    assert_eq!(peaks, [10 * u64::from(BANKS), 0]);
}

#[test]
fn stretches_that_are_not_open_and_too_many_are_refused() {
    let mut run = Run::new();
    run.compare();
    let present = run.history.present().expect("it was asked");
    let mut ask = |question| present.answer(question, 0).err();
    assert_eq!(ask(Question::Figures { stretch: 7 }), Some(AskError::Value));
    let end = |stretch| Question::End {
        stretch,
        max_rows: 1,
    };
    assert_eq!(ask(end(SINCE_RESET)), Some(AskError::Value));
    for _open in 1..MAX_STRETCHES {
        assert_eq!(ask(Question::Begin), None);
    }
    assert_eq!(ask(Question::Begin), Some(AskError::TooMany));
    assert_eq!(ask(end(1)), None);
    assert_eq!(ask(Question::Begin), None);
}

#[test]
fn a_timeline_that_is_long_has_fewer_points_and_every_maximum() {
    let mut line = Timeline::new(Sums::default(), 0);
    for time in 1..10_000 {
        let high = if time == 4321 { 77 } else { time % 2 };
        line.push(Sums([high, 0, 0, 0, 0]), time);
    }
    let points = line.points(Sums::default(), 10_000);
    assert!(points.len() <= MAX_POINTS + 1, "{}", points.len());
    assert_eq!(points.iter().map(|point| point.bytes[0]).max(), Some(77));
    assert!(points.is_sorted_by_key(|point| point.time));
}
