//! Workload processes: this test program again, in another part.
//!
//! A test that kills workloads needs real processes. Each connects as an old
//! client, allocates, says that it is ready, and then waits to be killed.

use super::WATCHDOG;
use super::old_client::{OldClient, request};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use ttmem_event::legacy::{Generation, RequestKind};

const ASKED: &str = "E2E_WORKLOAD";
const READY: &str = "workload ready";

/// What a workload process does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) socket: PathBuf,
    pub(crate) generation: Generation,
    pub(crate) device: i32,
    pub(crate) buffers: u64,
    pub(crate) size: u64,
}

/// A workload process; killed when the test is done with it.
#[derive(Debug)]
pub(crate) struct Workload {
    child: Child,
}

impl Workload {
    /// Starts one and waits until the server has applied all it reported.
    pub(crate) fn start(plan: &Plan) -> Self {
        let text = format!(
            "{} {} {} {} {}",
            plan.generation.record_bytes(),
            plan.device,
            plan.buffers,
            plan.size,
            plan.socket.display()
        );
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "workload_process", "--nocapture"])
            .env(ASKED, text)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("a workload starts");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let ready = output
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains(READY));
        assert!(ready, "the workload ended before it was ready");
        Self { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
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
    let Ok(plan) = std::env::var(ASKED) else {
        return;
    };
    let mut words = plan.splitn(5, ' ');
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
    let socket = words.next().expect("a socket");
    let device = i32::try_from(device).expect("a device");
    let mut client = OldClient::connect(Path::new(socket), generation.expect("a generation"));
    let requests: Vec<_> = (0..buffers)
        .map(|id| request(RequestKind::Alloc, device, size, 0, 0x1000 + id * size))
        .collect();
    client.send_all(&requests);
    client.totals(device);
    println!("{READY}");
    std::io::stdout().flush().expect("the test listens");
    // Until it is killed; by itself only if the test forgot it.
    std::thread::sleep(WATCHDOG * 4);
}
