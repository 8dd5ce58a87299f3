//! `ttmem` on a terminal of its own, driven by keys and watched.

use super::harness::{Programs, cpu_seconds, memory_bytes};
use anyhow::{Context, Result, ensure};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What ends a frame that terminals show as one.
const FRAME_END: &[u8] = b"\x1b[?2026l";

/// The longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// `ttmem` on a terminal; ends with this value.
#[derive(Debug)]
pub(super) struct OnScreen {
    child: Child,
    keys: File,
    seen: Arc<Seen>,
}

/// What was drawn so far.
#[derive(Debug, Default)]
struct Seen {
    drawn: Mutex<Drawn>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Drawn {
    /// Frames that were finished, and when the last one was.
    frames: u64,
    finished: Option<Instant>,
    /// Bytes of all of them.
    bytes: u64,
    /// What the last ones wrote.
    recent: Vec<u8>,
}

impl OnScreen {
    /// Starts it on a terminal of 200 columns and 50 rows.
    pub(super) fn start(programs: &Programs, arguments: &[&str]) -> Result<Self> {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let name = ptsname(&controller, Vec::new())?;
        let name = name.to_str().context("the terminal has an odd name")?;
        let terminal = File::options().read(true).write(true).open(name)?;
        let size = Winsize {
            ws_row: 50,
            ws_col: 200,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size)?;
        let child = Command::new(&programs.ttmem)
            .args(arguments)
            .env_remove("TTMEM_SOCKET")
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::from(terminal.try_clone()?))
            .stdout(Stdio::from(terminal.try_clone()?))
            .stderr(Stdio::from(terminal))
            .spawn()
            .context("cannot start the terminal view")?;
        let controller = File::from(controller);
        let keys = controller.try_clone()?;
        let seen = Arc::new(Seen::default());
        let writer = Arc::clone(&seen);
        // Ends by itself: reading fails when the last user of the terminal is gone.
        std::thread::Builder::new()
            .name("ttmem-screen".to_owned())
            .spawn(move || writer.watch(controller))?;
        Ok(Self { child, keys, seen })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Frames that were drawn, and their bytes.
    pub(super) fn frames(&self) -> (u64, u64) {
        let drawn = self.seen.lock();
        (drawn.frames, drawn.bytes)
    }

    /// Processor time it has used so far.
    pub(super) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.pid())
    }

    /// Bytes of memory that are its own.
    pub(super) fn memory_bytes(&self) -> Result<u64> {
        memory_bytes(self.pid())
    }

    /// Presses keys; how long until the frame after that was on the screen.
    pub(super) fn press(&mut self, keys: &str) -> Result<Duration> {
        let before = self.seen.lock().frames;
        let pressed = Instant::now();
        self.keys.write_all(keys.as_bytes())?;
        let finished = self.wait(|drawn| (drawn.frames > before).then_some(drawn.finished))?;
        Ok(finished
            .unwrap_or(pressed)
            .saturating_duration_since(pressed))
    }

    /// Waits until a text was drawn in one piece.
    pub(super) fn wait_for(&self, text: &str) -> Result<()> {
        let text = text.as_bytes();
        let found = |drawn: &Drawn| drawn.recent.windows(text.len()).any(|at| at == text);
        self.wait(|drawn| found(drawn).then_some(()))
    }

    fn wait<T>(&self, ready: impl Fn(&Drawn) -> Option<T>) -> Result<T> {
        let begun = Instant::now();
        let mut drawn = self.seen.lock();
        loop {
            if let Some(found) = ready(&drawn) {
                return Ok(found);
            }
            let left = PATIENCE.saturating_sub(begun.elapsed());
            ensure!(
                !left.is_zero(),
                "waited in vain; last drawn: {}",
                String::from_utf8_lossy(&drawn.recent)
            );
            let waited = self.seen.more.wait_timeout(drawn, left);
            drawn = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for OnScreen {
    fn drop(&mut self) {
        // Already gone is as good as killed.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Seen {
    fn watch(&self, mut controller: File) {
        /// What is kept of what was drawn: some frames.
        const RECENT: usize = 1 << 20;
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = controller.read(&mut bytes) {
            let now = Instant::now();
            let mut drawn = self.lock();
            let Drawn { recent, .. } = &mut *drawn;
            // A mark may be cut by the end of what was read.
            let from = recent.len().saturating_sub(FRAME_END.len() - 1);
            recent.extend_from_slice(&bytes[..count]);
            let ends = recent[from..].windows(FRAME_END.len());
            let ends = ends.filter(|at| *at == FRAME_END).count() as u64;
            if recent.len() > RECENT {
                recent.drain(..RECENT / 2);
            }
            drawn.bytes += count as u64;
            if ends > 0 {
                drawn.frames += ends;
                drawn.finished = Some(now);
            }
            drop(drawn);
            self.more.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
