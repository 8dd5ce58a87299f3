//! Recordings: writing one, its size, opening it, and going to any instant of it.
//!
//! What is recorded is the transformer that `ttmem demo` plays, as its model reports it, played again
//! and again by one process after the other. Only the writer is timed, not what makes the events, and by
//! the processor time of its thread: others on the machine do not count. Opening and going to an instant
//! are timed by the clock as well, as somebody waits for them.

use crate::harness::{mesh, n150};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ttmem_event::{
    BufferId, Class, CoreSet, CoresId, Definition, DeviceDefinition, DeviceId, Direction, Event,
    EventKind, Layout, MeshDefinition, MeshId, ProgramId, Source, TextId,
};
use ttmem_ledger::{ApplyLimits, Batch, Change, Departure, Ledger, Limits, ProcessIdentity};
use ttmem_model::hooks::Hooks;
use ttmem_model::scenario::{Pace, Play, Scenario, StepDone, play};
use ttmem_record::{Player, Recording, Writer, WriterOptions};

/// What `ttmem demo` plays unless it is told otherwise.
const SCENARIO: &str = "transformer-8b";

/// Events that come in one batch, as a client sends them at a good rate.
const BATCH: usize = 256;

/// When the recording begins, in nanoseconds since the epoch.
const START: u64 = 1_800_000_000_000_000_000;

/// Buffers that live in a large state.
const LIVE_BUFFERS: u64 = 1_000_000;

/// Places that are gone to.
const SEEKS: u64 = 200;

#[derive(Clone, Debug, Args)]
pub struct RecordingOptions {
    /// Events of the recording that is opened.
    #[arg(long, default_value_t = 10_000_000)]
    pub events: u64,

    /// Measure the report of such a recording alone.
    #[arg(long)]
    pub only_report: bool,
}

pub(crate) fn measure(options: &RecordingOptions) -> Result<Value> {
    let session = Session::play(1)?;
    let alone = session.apply(options.events.min(10_000_000));
    let (unwritten, ..) = session.write(options.events.min(10_000_000), std::io::sink())?;
    let file = tempfile::NamedTempFile::new().context("cannot make a file")?;
    let out = BufWriter::with_capacity(1 << 20, file.as_file());
    let (written, bytes, states) = session.write(options.events, out)?;
    let events = options.events;
    Ok(json!({
        "scenario": SCENARIO,
        "events_of_one_play": session.events,
        "events": events,
        "ledger_alone_events_per_second": alone,
        "writer_events_per_second": unwritten,
        "writer_to_a_file_events_per_second": written,
        "target_writer_events_per_second": 2_000_000,
        "bytes": bytes,
        "bytes_per_event": rounded(bytes, events),
        "states_bytes_per_event": rounded(states, events),
        "target_bytes_per_event": 12,
        "reading": read(&file, events)?,
        "large_state": large_state(events.min(LIVE_BUFFERS))?,
    }))
}

/// Writes a recording of so many events, as [`measure`] reads one.
pub(crate) fn record_file(path: &Path, events: u64) -> Result<()> {
    let out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    Session::play(1)?.write(events, out).map(drop)
}

/// One play of the scenario: what its process sends, with times from its beginning.
struct Session {
    steps: Vec<Step>,
    events: u64,
    nanos: u64,
}

enum Step {
    Define(Arc<Vec<Definition>>),
    Events(Vec<Event>),
}

impl Session {
    fn play(seed: u64) -> Result<Self> {
        let scenario = Scenario::find(SCENARIO).context("there is no such scenario")?;
        let scenario = scenario.scenario()?;
        let calls = Calls::default();
        let request = Play {
            scenario: &scenario,
            board: None,
            seed,
        };
        play(&request, Box::new(calls.clone()), &mut calls.clone())?;
        let log = calls.0.take();
        let mut session = Self {
            steps: log.steps,
            events: 0,
            nanos: log.now,
        };
        let events = session.steps.iter().map(|step| match step {
            Step::Events(events) => events.len() as u64,
            Step::Define(_) => 0,
        });
        session.events = events.sum();
        ensure!(session.events > 0, "the scenario reports nothing");
        Ok(session)
    }

    /// Hands so many events to `take`, with what belongs to them, one process after the other.
    fn inputs(&self, events: u64, mut take: impl FnMut(u64, Change) -> Result<()>) -> Result<()> {
        let (mut left, mut begin) = (events, START);
        for number in 1_u32.. {
            take(begin, join(number))?;
            for step in &self.steps {
                let input = match step {
                    Step::Define(definitions) => Change::Define {
                        process: 0,
                        definitions: Arc::clone(definitions),
                    },
                    Step::Events(events) => {
                        let most = usize::try_from(left).unwrap_or(usize::MAX);
                        let events = events.iter().take(most).map(|event| Event {
                            time: begin + event.time,
                            ..*event
                        });
                        let events: Vec<Event> = events.collect();
                        left -= events.len() as u64;
                        Change::Apply(Batch::whole(0, Arc::new(events)))
                    }
                };
                let last = match &input {
                    Change::Apply(batch) => batch.events().last().map(|event| event.time),
                    _other => None,
                };
                take(last.unwrap_or(begin), input)?;
                if left == 0 {
                    return Ok(());
                }
            }
            begin += self.nanos + 1_000_000;
            let depart = Change::Depart {
                process: 0,
                departure: Departure::Exited,
                time: begin,
            };
            take(begin, depart)?;
        }
        Ok(())
    }

    /// Events per second of a ledger alone.
    fn apply(&self, events: u64) -> u64 {
        let mut ledger = Ledger::default();
        let mut spent = Duration::ZERO;
        // It never fails.
        let _applied = self.inputs(events, |_time, input| {
            let begun = processor_time();
            ledger.apply(&input, ApplyLimits::NONE, None);
            spent += processor_time() - begun;
            Ok(())
        });
        per_second(events, spent)
    }

    /// Writes so many events; how many per second, the bytes, and those of states.
    fn write(&self, events: u64, out: impl Write) -> Result<(u64, u64, u64)> {
        let options = WriterOptions::default();
        let mut writer = Writer::new(out, options, START, &Ledger::default())?;
        let mut spent = Duration::ZERO;
        self.inputs(events, |time, input| {
            let begun = processor_time();
            writer.append(time, &input)?;
            spent += processor_time() - begun;
            Ok(())
        })?;
        let states = writer.state_bytes();
        let begun = processor_time();
        let finished = writer.finish()?;
        spent += processor_time() - begun;
        ensure!(finished.summary.events == events, "events are missing");
        Ok((per_second(events, spent), finished.bytes, states))
    }
}

/// Opens a recording and goes to places all over it.
fn read(file: &tempfile::NamedTempFile, events: u64) -> Result<Value> {
    let begun = Instant::now();
    let source = BufReader::new(File::open(file.path())?);
    let mut player = Player::new(Recording::open(source)?)?;
    let opened = begun.elapsed();
    let (from, to) = (
        player.recording().summary().from,
        player.recording().summary().to,
    );
    let (mut waited, mut worked): (Vec<u64>, Vec<u64>) = Default::default();
    for seek in 0..SEEKS {
        // A step that has no common factor with the number of places visits all, out of order.
        let place = seek * 77 % SEEKS;
        let time = from + (to - from) / SEEKS * place;
        let (begun, working) = (Instant::now(), processor_time());
        player.seek(time)?;
        let _view = player.view();
        waited.push(micros(begun.elapsed()));
        worked.push(micros(processor_time() - working));
    }
    waited.sort_unstable();
    worked.sort_unstable();
    player.seek(from)?;
    let begun = processor_time();
    let mut played = 0_u64;
    let most = from + (to - from) / 10;
    player.play(
        ttmem_record::Until::Time(most),
        |_ledger, _time, _played| played += 1,
    )?;
    let replayed = per_second(played, processor_time() - begun);
    Ok(json!({
        "events": events,
        "open_micros": micros(opened),
        "target_open_micros": 2_000_000,
        "seeks": SEEKS,
        "seek_median_micros": waited[waited.len() / 2],
        "seek_longest_micros": waited.last(),
        "seek_median_processor_micros": worked[worked.len() / 2],
        "seek_longest_processor_micros": worked.last(),
        "target_seek_micros": 100_000,
        "replay_events_per_second": replayed,
    }))
}

/// What the state of a ledger with many live buffers takes.
fn large_state(buffers: u64) -> Result<Value> {
    let mut ledger = Ledger::default();
    let devices = [n150(0), n150(1)];
    let ids = devices.each_ref().map(|device| device.id);
    let mut definitions: Vec<Definition> = devices.map(Definition::Device).to_vec();
    definitions.push(Definition::Mesh(mesh(MeshId(1), 1, &ids)));
    let define = Change::Define {
        process: 0,
        definitions: Arc::new(definitions),
    };
    let events = (1..=buffers).map(|number| Event {
        time: START + number * 1000,
        kind: EventKind::BufferAllocated {
            mesh: MeshId(1),
            buffer: BufferId(number),
            class: Class::Dram,
            layout: Layout::Interleaved,
            direction: Direction::BottomUp,
            address: 1_048_640 + number * 64,
            requested_bytes: 700,
            per_bank_bytes: 64,
            page_bytes: 64,
            cores: CoresId::NONE,
            operation: TextId::NONE,
            banks: 12,
        },
    });
    let apply = Change::Apply(Batch::whole(0, Arc::new(events.collect())));
    for input in [join(1), define, apply] {
        ledger.apply(&input, ApplyLimits::NONE, None);
    }
    let begun = processor_time();
    let mut state = Vec::new();
    ledger.save(&mut state);
    let saved = processor_time() - begun;
    let begun = processor_time();
    let mut loaded = Ledger::load(&state, Limits::default())?;
    let took = processor_time() - begun;
    let live = loaded.view().devices[0].totals.buffers();
    ensure!(live == buffers, "{live} buffers were loaded");
    Ok(json!({
        "live_buffers": buffers,
        "bytes": state.len(),
        "save_processor_micros": micros(saved),
        "load_processor_micros": micros(took),
    }))
}

fn join(number: u32) -> Change {
    Change::Join {
        identity: ProcessIdentity {
            pid: Some(1000 + number % 30_000),
            start_time: Some(START),
            instance: None,
            uid: 1000,
            name: SCENARIO.into(),
            command: "python model.py".into(),
            source: Source::Attached,
            visible_devices: "".into(),
        },
        claimed_pid: i64::from(1000 + number % 30_000),
    }
}

/// Hooks that keep what is reported, in batches, with the times that a real machine would take.
#[derive(Clone, Default)]
struct Calls(Rc<RefCell<Log>>);

#[derive(Default)]
struct Log {
    steps: Vec<Step>,
    texts: HashMap<String, TextId>,
    cores: HashMap<Vec<(u8, u32)>, CoresId>,
    devices: u32,
    meshes: u32,
    buffers: u64,
    programs: u64,
    now: u64,
    jitter: u64,
}

impl Log {
    fn define(&mut self, definition: Definition) {
        if let Some(Step::Define(last)) = self.steps.last_mut()
            && let Some(last) = Arc::get_mut(last)
        {
            return last.push(definition);
        }
        self.steps.push(Step::Define(Arc::new(vec![definition])));
    }
}

impl Hooks for Calls {
    fn track(&mut self, kind: EventKind) {
        let mut log = self.0.borrow_mut();
        // A few microseconds from one call to the next, never the same.
        log.jitter = log
            .jitter
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        log.now += 500 + (log.jitter >> 52);
        let event = Event {
            time: log.now,
            kind,
        };
        match log.steps.last_mut() {
            Some(Step::Events(events)) if events.len() < BATCH => events.push(event),
            _full => log.steps.push(Step::Events(vec![event])),
        }
    }

    fn text(&mut self, text: &str) -> TextId {
        let mut log = self.0.borrow_mut();
        if let Some(id) = log.texts.get(text) {
            return *id;
        }
        let id = TextId(u32::try_from(log.texts.len() + 1).unwrap_or(u32::MAX));
        log.texts.insert(text.to_owned(), id);
        let text = text.to_owned();
        log.define(Definition::Text { id, text });
        id
    }

    fn cores(&mut self, cores: &CoreSet) -> CoresId {
        let mut log = self.0.borrow_mut();
        let key: Vec<(u8, u32)> = cores.rows().collect();
        if let Some(id) = log.cores.get(&key) {
            return *id;
        }
        let id = CoresId(u32::try_from(log.cores.len() + 1).unwrap_or(u32::MAX));
        log.cores.insert(key, id);
        let cores = *cores;
        log.define(Definition::Cores { id, cores });
        id
    }

    fn device(&mut self, device: &DeviceDefinition) -> DeviceId {
        let mut log = self.0.borrow_mut();
        log.devices += 1;
        let id = DeviceId(log.devices);
        let device = device.clone();
        log.define(Definition::Device(DeviceDefinition { id, ..device }));
        id
    }

    fn mesh(&mut self, mesh: &MeshDefinition) -> MeshId {
        let mut log = self.0.borrow_mut();
        log.meshes += 1;
        let id = MeshId(log.meshes);
        let mesh = mesh.clone();
        log.define(Definition::Mesh(MeshDefinition { id, ..mesh }));
        id
    }

    fn next_buffer(&mut self) -> BufferId {
        let mut log = self.0.borrow_mut();
        log.buffers += 1;
        BufferId(log.buffers)
    }

    fn next_program(&mut self) -> ProgramId {
        let mut log = self.0.borrow_mut();
        log.programs += 1;
        ProgramId(log.programs)
    }
}

impl Pace for Calls {
    fn after(&mut self, step: &StepDone<'_>) -> ControlFlow<()> {
        let nanos = u64::try_from(step.nominal.as_nanos()).unwrap_or(0);
        self.0.borrow_mut().now += nanos;
        ControlFlow::Continue(())
    }
}

/// What this thread has used of a processor so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

fn per_second(events: u64, spent: Duration) -> u64 {
    let nanos = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX).max(1);
    let rate = u128::from(events) * 1_000_000_000 / u128::from(nanos);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

fn micros(spent: Duration) -> u64 {
    u64::try_from(spent.as_micros()).unwrap_or(u64::MAX)
}

/// With two digits behind the point.
fn rounded(bytes: u64, events: u64) -> Value {
    let hundredths = bytes * 100 / events.max(1);
    let number = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    serde_json::from_str(&number).unwrap_or_default()
}
