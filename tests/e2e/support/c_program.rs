//! Small C and C++ programs that use libttmem, compiled for one test.
//!
//! The library is the one that cargo built for this very test run: as a
//! dev-dependency it lies beside the test itself. Programs tell where they are by
//! words on stdout and wait for a line on stdin before they go on.

use super::WATCHDOG;
pub(crate) use super::place::built;
use super::place::source as source_of;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

const STRICT: &[&str] = &[
    "-D_GNU_SOURCE",
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pthread",
];

/// What the linker needs besides the static library.
const STATIC_NEEDS: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// How a program gets libttmem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linked {
    Dynamically,
    Statically,
    /// Not at all: it loads it, or does without.
    Not,
}

/// A folder with the library under all its names, and what is compiled.
#[derive(Debug)]
pub(crate) struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    /// One for a test that compiles C and C++; `None`, after saying so, where that cannot be.
    pub(crate) fn open() -> Option<Self> {
        if !(is_there("cc") && is_there("c++")) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let workshop = Self { folder };
        for name in ["libttmem.so", "libttmem.so.0"] {
            std::os::unix::fs::symlink(built("libttmem.so"), workshop.path(name))
                .expect("a link to the library");
        }
        Some(workshop)
    }

    /// A file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Another copy of the shared library, which the loader does not take for the first.
    pub(crate) fn copy_of_library(&self) -> PathBuf {
        let copy = self.path("another-copy.so");
        std::fs::copy(built("libttmem.so"), &copy).expect("the library can be copied");
        copy
    }

    pub(crate) fn program(&self, source: &str, linked: Linked) -> PathBuf {
        self.compile(source, linked, &[])
    }

    pub(crate) fn plugin(&self, source: &str, linked: Linked) -> PathBuf {
        self.compile(source, linked, &["-shared", "-fPIC"])
    }

    fn compile(&self, source: &str, linked: Linked, options: &[&str]) -> PathBuf {
        let sources = source_of("tests/surroundings");
        let headers = source_of("capture/capi/include");
        let is_cpp = source.ends_with(".cpp");
        let (compiler, standard) = if is_cpp {
            ("c++", "-std=c++17")
        } else {
            ("cc", "-std=c11")
        };
        let made = self.path(&format!("{source}.made"));
        let mut command = Command::new(compiler);
        command
            .arg(standard)
            .args(STRICT)
            .args(options)
            .arg("-I")
            .arg(headers)
            .arg(sources.join(source))
            .arg("-o")
            .arg(&made);
        match linked {
            Linked::Dynamically => command
                .arg(built("libttmem.so"))
                .arg(format!("-Wl,-rpath,{}", self.folder.path().display())),
            Linked::Statically => command.arg(built("libttmem.a")).args(STATIC_NEEDS),
            Linked::Not => command.arg("-ldl"),
        };
        let output = command.output().expect("the compiler runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{compiler} {source}:\n{said}");
        made
    }
}

/// Whether a program can be started; where every test must run, it has to be.
#[expect(
    clippy::print_stdout,
    reason = "a test that cannot run where it is says so"
)]
pub(crate) fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    assert!(
        there || std::env::var("CI").as_deref() != Ok("true"),
        "{program} is not there, and with CI=true every test must run"
    );
    if !there {
        println!("skipped: there is no {program}");
    }
    there
}

/// A program in the middle of its story; killed when the test is done with it.
#[derive(Debug)]
pub(crate) struct Story {
    child: Child,
    lines: Receiver<String>,
    stderr: tempfile::NamedTempFile,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its exit code, if it exited.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// The lines on stdout that nobody waited for.
    pub(crate) stdout: Vec<String>,
    /// All that it wrote to stderr.
    pub(crate) stderr: String,
}

impl Ended {
    /// The end of a program that nothing happened to.
    pub(crate) fn unharmed(code: i32) -> Self {
        Self {
            code: Some(code),
            signal: None,
            stdout: Vec::new(),
            stderr: String::new(),
        }
    }
}

impl Story {
    /// Begins one that reports to a socket.
    pub(crate) fn begin(program: &Path, arguments: &[&str], socket: &Path) -> Self {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::begin_as(command, socket)
    }

    /// Begins one by a command of the test's own.
    pub(crate) fn begin_as(mut command: Command, socket: &Path) -> Self {
        let stderr = tempfile::NamedTempFile::new().expect("a file");
        for (name, _value) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            let is_set_here = command.get_envs().any(|(set, _value)| set == name);
            if !is_set_here && (name_text.starts_with("TTMEM_") || name_text.starts_with("TT_")) {
                command.env_remove(name);
            }
        }
        command.env("TTMEM_SOCKET", socket);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(stderr.reopen().expect("the file twice"));
        let mut child = command.spawn().expect("the program starts");
        let stdout = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let (sender, lines) = mpsc::sync_channel(1000);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            lines,
            stderr,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it is at a place: what it says after the place's name.
    pub(crate) fn reaches(&mut self, place: &str) -> Vec<u32> {
        let line = self.lines.recv_timeout(WATCHDOG);
        assert!(
            line.is_ok(),
            "{place} not reached, {:?}: {}",
            self.child.try_wait(),
            self.said()
        );
        let line = line.expect("just checked");
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some(place), "{line}");
        let numbers = words.map(|word| word.parse().expect("a number"));
        numbers.collect()
    }

    pub(crate) fn go_on(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("its input is a pipe");
        stdin.write_all(b"\n").expect("it listens");
    }

    /// Lets it go on to its end.
    pub(crate) fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        let mut stdout = Vec::new();
        // Its output closes when it ends, and all that it forked.
        while let Ok(line) = self.lines.recv_timeout(WATCHDOG) {
            stdout.push(line);
        }
        let mut status = None;
        super::wait_until("the program ends", || {
            status = self.child.try_wait().expect("it is ours");
            status.is_some()
        });
        let status = status.expect("it ended");
        Ended {
            code: status.code(),
            signal: status.signal(),
            stdout,
            stderr: self.said(),
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.stderr.path()).expect("stderr is text")
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
