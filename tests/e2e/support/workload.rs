//! Workload processes: this test program again, in another part.
//!
//! A test that kills workloads needs real processes. Each connects as an old
//! client, allocates, says that it is ready, and then does what its part says
//! until it is killed.

use super::WATCHDOG;
use super::old_client::{OldClient, request};
use super::place::ForOthers;
use super::{hogs, hostile_traffic};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use ttmem_event::legacy::{Generation, RequestKind};

const ASKED: &str = "E2E_WORKLOAD";
const READY: &str = "workload ready";
const SETTLED: &str = "workload settled";

/// The first buffer of every workload lies here, so that their addresses collide.
pub(crate) const FIRST_ADDRESS: u64 = 0x1000;

/// What a workload process does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) socket: PathBuf,
    pub(crate) generation: Generation,
    pub(crate) device: i32,
    pub(crate) buffers: u64,
    pub(crate) size: u64,
}

/// What a workload process does once it is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Allocates its buffers on its device and holds them.
    Hold,
    /// Allocates them on every device up to its own and goes on allocating and freeing others
    /// until it is told to settle.
    Churn,
    /// Kills itself right after the last byte, before the server can have read it.
    DieAtOnce,
    /// The same on three connections.
    DieOnThree,
    /// Loads kernels and circular buffers beside its buffers, frees the buffers alone, and
    /// kills itself: what a runtime leaves behind whose destructors ran too late.
    DieInTeardown,
    /// Starts a child that keeps the connection open.
    Inherit,
    /// Sends so many (`buffers`) hostile messages; `size` is the seed.
    Attack,
    /// Connects so often (`buffers`) and sends nothing.
    Silent,
    /// Defines so many (`buffers`) devices.
    Devices,
    /// Sends so many MiB (`buffers`) of a state that does not end.
    State,
    /// Begins a frame of 1 MiB on so many (`buffers`) connections; says how many were refused.
    Frames,
    /// Connects, says hello and ends the connection, for so many (`buffers`) seconds.
    Storm,
}

impl Part {
    const ALL: [Self; 12] = [
        Self::Hold,
        Self::Churn,
        Self::DieAtOnce,
        Self::DieOnThree,
        Self::DieInTeardown,
        Self::Inherit,
        Self::Attack,
        Self::Silent,
        Self::Devices,
        Self::State,
        Self::Frames,
        Self::Storm,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Churn => "churn",
            Self::DieAtOnce => "die-at-once",
            Self::DieOnThree => "die-on-three",
            Self::DieInTeardown => "die-in-teardown",
            Self::Inherit => "inherit",
            Self::Attack => "attack",
            Self::Silent => "silent",
            Self::Devices => "devices",
            Self::State => "state",
            Self::Frames => "frames",
            Self::Storm => "storm",
        }
    }
}

/// A workload process; killed when the test is done with it.
#[derive(Debug)]
pub(crate) struct Workload {
    child: Child,
    output: BufReader<ChildStdout>,
    /// What it said when it was ready.
    ready: String,
}

impl Workload {
    /// Starts one and waits until the server has applied all it reported.
    pub(crate) fn start(plan: &Plan) -> Self {
        Self::start_as(Part::Hold, plan)
    }

    /// Starts one with another part and waits until it is ready.
    pub(crate) fn start_as(part: Part, plan: &Plan) -> Self {
        let mut workload = Self::spawn(part, plan);
        workload.wait_until_ready();
        workload
    }

    /// Starts one that takes so much of something, and waits until it has.
    pub(crate) fn hog(part: Part, socket: &Path, count: u64) -> Self {
        let plan = Plan {
            socket: socket.to_owned(),
            generation: Generation::G4,
            device: 0,
            buffers: count,
            size: 0,
        };
        Self::start_as(part, &plan)
    }

    /// Starts one and does not wait for it.
    pub(crate) fn spawn(part: Part, plan: &Plan) -> Self {
        Self::spawn_as(part, plan, None)
    }

    /// Starts one as a user, which only the superuser may.
    pub(crate) fn spawn_as(part: Part, plan: &Plan, uid: Option<u32>) -> Self {
        let others;
        let text = format!(
            "{} {} {} {} {} {}",
            part.name(),
            plan.generation.record_bytes(),
            plan.device,
            plan.buffers,
            plan.size,
            plan.socket.display()
        );
        let program = std::env::current_exe().expect("this program");
        let mut command = match uid {
            // Its copy may go once it runs.
            Some(uid) => {
                others = ForOthers::new();
                let mut command = Command::new(others.add(&program));
                command.uid(uid).current_dir("/");
                command
            }
            None => Command::new(program),
        };
        let mut child = command
            .args(["--exact", "workload_process", "--nocapture"])
            .env(ASKED, text)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("a workload starts");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        Self {
            child,
            output,
            ready: String::new(),
        }
    }

    /// Waits until it has done what comes before waiting.
    pub(crate) fn wait_until_ready(&mut self) {
        self.ready = self.wait_for_line(READY);
    }

    /// Tells it to stop what it does on the side and waits until the server knows.
    pub(crate) fn settle(&mut self) {
        let commands = self.child.stdin.as_mut().expect("its input is piped");
        commands
            .write_all(b"settle\n")
            .expect("the workload listens");
        self.wait_for_line(SETTLED);
    }

    fn wait_for_line(&mut self, wanted: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let count = self
                .output
                .read_line(&mut line)
                .expect("the workload prints text");
            assert!(count > 0, "the workload ended before it said {wanted:?}");
            if line.contains(wanted) {
                return line;
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child that a [`Part::Inherit`] started.
    pub(crate) fn heir(&self) -> u32 {
        self.number()
    }

    /// The number that it said when it was ready.
    pub(crate) fn number(&self) -> u32 {
        let word = self.ready.split_whitespace().last();
        word.and_then(|word| word.parse().ok()).expect("a number")
    }

    /// Waits for it to end by itself.
    pub(crate) fn wait(mut self) {
        self.child.wait().expect("the workload is ours");
    }

    /// Kills it as SIGKILL does: without a word.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the workload is ours");
        self.child.wait().expect("the workload is ours");
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The body of a workload process; returns at once in a process that is none.
pub(crate) fn run_if_asked() {
    let Ok(text) = std::env::var(ASKED) else {
        return;
    };
    let (part, plan) = parse(&text);
    if part == Part::Attack {
        hostile_traffic::attack(&plan.socket, plan.size, plan.buffers);
        say(READY);
        return;
    }
    if part == Part::Storm {
        say(READY);
        hogs::storm(
            &plan.socket,
            plan.size > 0,
            Duration::from_secs(plan.buffers),
        );
        return;
    }
    if let Some(_held) = take_all(part, &plan) {
        std::thread::sleep(WATCHDOG * 4);
        return;
    }
    let mut client = OldClient::connect(&plan.socket, plan.generation);
    let devices = if part == Part::Churn {
        0..=plan.device
    } else {
        plan.device..=plan.device
    };
    let mut requests = Vec::new();
    for device in devices.clone() {
        requests.extend((0..plan.buffers).map(|id| {
            let address = FIRST_ADDRESS + id * plan.size;
            request(RequestKind::Alloc, device, plan.size, 0, address)
        }));
    }
    client.send_all(&requests);
    match part {
        Part::DieAtOnce => die(),
        Part::DieOnThree => {
            let mut others = Vec::new();
            for device in 1..3 {
                let mut other = OldClient::connect(&plan.socket, plan.generation);
                let requests = (0..plan.buffers).map(|id| {
                    let address = FIRST_ADDRESS + id * plan.size;
                    request(RequestKind::Alloc, device, plan.size, 0, address)
                });
                other.send_all(&requests.collect::<Vec<_>>());
                others.push(other);
            }
            die();
        }
        Part::DieInTeardown => {
            for id in 0..plan.buffers {
                let address = FIRST_ADDRESS + id * plan.size;
                client.send_all(&[
                    request(RequestKind::KernelLoad, plan.device, plan.size, 0, id),
                    request(RequestKind::CbAlloc, plan.device, plan.size, 0, 0x100),
                    request(RequestKind::Free, plan.device, 0, 0, address),
                ]);
            }
            die();
        }
        Part::Inherit => {
            client.totals(plan.device);
            let connection: OwnedFd = client.stream.try_clone().expect("a descriptor").into();
            let child = Command::new("sleep").arg("300").stdin(connection).spawn();
            say(&format!("{READY} {}", child.expect("sleep runs").id()));
        }
        Part::Churn => {
            client.totals(plan.device);
            say(READY);
            churn_until_told(&mut client, &plan);
            say(SETTLED);
        }
        _hold => {
            client.totals(plan.device);
            say(READY);
        }
    }
    // Until it is killed; by itself only if the test forgot it.
    std::thread::sleep(WATCHDOG * 4);
}

/// Takes what a part wants to have; returns what holds it.
fn take_all(part: Part, plan: &Plan) -> Option<Box<dyn std::any::Any>> {
    let (socket, count) = (&plan.socket, plan.buffers);
    let held: Box<dyn std::any::Any> = match part {
        Part::Silent => Box::new(hogs::silent(socket, count)),
        Part::Devices => {
            let count = u32::try_from(count).expect("a small number");
            Box::new(hogs::define_devices(socket, count))
        }
        Part::State => Box::new(hogs::endless_state(socket, count << 20)),
        Part::Frames => {
            let (streams, refused) = hogs::unfinished_frames(socket, count);
            say(&format!("{READY} {refused}"));
            return Some(Box::new(streams));
        }
        _other => return None,
    };
    say(READY);
    Some(held)
}

fn parse(text: &str) -> (Part, Plan) {
    let mut words = text.splitn(6, ' ');
    let name = words.next().expect("a part");
    let part = Part::ALL
        .into_iter()
        .find(|part| part.name() == name)
        .expect("a part");
    let mut number = || {
        words
            .next()
            .and_then(|word| word.parse::<u64>().ok())
            .expect("a number")
    };
    let generation = usize::try_from(number())
        .ok()
        .and_then(Generation::from_record_bytes);
    let (device, buffers, size) = (number(), number(), number());
    let plan = Plan {
        socket: Path::new(words.next().expect("a socket")).to_owned(),
        generation: generation.expect("a generation"),
        device: i32::try_from(device).expect("a device"),
        buffers,
        size,
    };
    (part, plan)
}

/// Allocates and frees on the side; ends with everything but the plan's buffers given back.
fn churn_until_told(client: &mut OldClient, plan: &Plan) {
    let told = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut line = String::new();
            std::io::stdin()
                .read_line(&mut line)
                .expect("the test speaks");
            told.store(true, Ordering::Release);
        });
        let mut address = 1 << 40;
        while !told.load(Ordering::Acquire) {
            for device in 0..=plan.device {
                let size = 64 + address % 4096;
                client.send_all(&[
                    request(RequestKind::Alloc, device, size, 1, address),
                    request(RequestKind::CbAlloc, device, size, 0, 0x2_0000),
                    request(RequestKind::CbFree, device, 0, 0, 0x2_0000),
                    request(RequestKind::Free, device, 0, 0, address),
                ]);
                address += 32;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    client.totals(plan.device);
}

fn die() {
    let this = nix::unistd::Pid::this();
    nix::sys::signal::kill(this, nix::sys::signal::Signal::SIGKILL).expect("a signal");
}

fn say(line: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "{line}").expect("the test listens");
    output.flush().expect("the test listens");
}
