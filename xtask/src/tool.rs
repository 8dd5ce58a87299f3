//! Programs that a check needs and a machine with Rust may not have.

use crate::CannotRun;
use crate::command::{program, read, run};
use anyhow::bail;
use std::process::Stdio;

/// A program and the Debian package it comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    program: &'static str,
    /// The word that has it say its version and do nothing else.
    version: &'static str,
    package: &'static str,
}

pub(crate) const VALGRIND: Tool = Tool {
    program: "valgrind",
    version: "--version",
    package: "valgrind",
};

/// libFuzzer is C++ and compiled with the fuzz targets.
pub(crate) const CXX: Tool = Tool {
    program: "c++",
    version: "--version",
    package: "g++",
};

/// Compiles the examples in C.
pub(crate) const CC: Tool = Tool {
    program: "cc",
    version: "--version",
    package: "gcc",
};

/// Tells programs how to use an installed library.
pub(crate) const PKG_CONFIG: Tool = Tool {
    program: "pkg-config",
    version: "--version",
    package: "pkg-config",
};

/// Builds the examples the way most C++ programs are built.
pub(crate) const CMAKE: Tool = Tool {
    program: "cmake",
    version: "--version",
    package: "cmake",
};

/// A terminal that tests drive by keys and read.
pub(crate) const TMUX: Tool = Tool {
    program: "tmux",
    version: "-V",
    package: "tmux",
};

impl Tool {
    /// Installs the program unless it is there; the error says why it cannot be.
    pub(crate) fn ensure(self) -> anyhow::Result<()> {
        let Self {
            program,
            version,
            package,
        } = self;
        let is_there = || succeeds(&[program, version]);
        if is_there() {
            return Ok(());
        }
        println!("{program} is not installed: installing it");
        if let Err(error) = install(package) {
            bail!(CannotRun(format!(
                "{program} is not installed and cannot be: {error:#}"
            )));
        }
        if !is_there() {
            bail!("{program} is not there, even with the package {package} installed");
        }
        Ok(())
    }
}

/// Whether a program can be started.
pub(crate) fn is_there(name: &str) -> bool {
    succeeds(&[name, "--version"])
}

fn succeeds(words: &[&str]) -> bool {
    let [name, rest @ ..] = words else {
        return false;
    };
    let mut command = program(name);
    command.args(rest);
    command.stdin(Stdio::null());
    command.stdout(Stdio::null());
    command.stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn install(package: &str) -> anyhow::Result<()> {
    if !is_there("apt-get") {
        bail!("there is no apt-get; install the package {package} by hand");
    }
    let sudo: &[&str] = if read(program("id").arg("-u"))?.trim() == "0" {
        &[]
    } else if succeeds(&["sudo", "-n", "true"]) {
        &["sudo", "-n"]
    } else {
        bail!("it needs root; run `sudo apt-get install {package}`");
    };
    let apt = |words: &[&str]| {
        let quiet: &[&str] = &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
        let words = [sudo, quiet, words].concat();
        run(program(words[0]).args(&words[1..]))
    };
    let install = [
        "install",
        // Another step may be installing something at the same time.
        "--option=DPkg::Lock::Timeout=300",
        "-y",
        "--no-install-recommends",
        package,
    ];
    if apt(&install).is_err() {
        // The lists of packages are missing or too old.
        apt(&["update"])?;
        apt(&install)?;
    }
    Ok(())
}
