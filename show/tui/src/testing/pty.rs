//! A terminal of its own for a process that a test starts.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

pub(crate) struct Pty {
    /// The end that a person would sit at.
    pub(crate) controller: File,
    /// The other end. Kept, because the settings of a terminal that nobody has open are lost.
    pub(crate) terminal: File,
    path: String,
}

impl Pty {
    pub(crate) fn open() -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&controller).expect("the terminal is ours");
        unlockpt(&controller).expect("the terminal is ours");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let path = name.to_str().expect("text").to_owned();
        let terminal = end(&path);
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).expect("a size");
        Self {
            controller: File::from(controller),
            terminal,
            path,
        }
    }

    /// Starts one test of this program on the terminal, with a variable that says what to do.
    pub(crate) fn run_test(&self, test: &str, variable: &str, value: &str) -> Child {
        Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", test, "--nocapture"])
            .env(variable, value)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::from(end(&self.path)))
            .stdout(Stdio::from(end(&self.path)))
            .stderr(Stdio::from(end(&self.path)))
            .spawn()
            .expect("it starts")
    }

    /// Reads what is shown until nobody has the terminal open any more.
    pub(crate) fn shown(&self) -> JoinHandle<String> {
        let mut controller = self.controller.try_clone().expect("a second handle");
        std::thread::spawn(move || {
            let mut shown = Vec::new();
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = controller.read(&mut bytes) {
                shown.extend_from_slice(&bytes[..count]);
            }
            String::from_utf8_lossy(&shown).into_owned()
        })
    }
}

fn end(path: &str) -> File {
    let mut options = File::options();
    options.read(true).write(true).open(path).expect("it opens")
}
