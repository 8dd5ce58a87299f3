//! Programs that a check needs and a machine with Rust may not have.

use crate::CannotRun;
use crate::command::{program, read, run};
use anyhow::bail;

/// A program and the Debian package it comes in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    program: &'static str,
    package: &'static str,
}

impl Tool {
    const fn new(program: &'static str, package: &'static str) -> Self {
        Self { program, package }
    }

    /// Installs the program unless it is there; the error says why it cannot be.
    pub(crate) fn ensure(self) -> anyhow::Result<()> {
        let Self { program, package } = self;
        if is_there(program) {
            return Ok(());
        }
        println!("{program} is not installed: installing it");
        if let Err(error) = install(package) {
            bail!(CannotRun(format!(
                "{program} is not installed and cannot be: {error:#}"
            )));
        }
        if !is_there(program) {
            bail!("{program} is not there, even with the package {package} installed");
        }
        Ok(())
    }
}

pub(crate) const VALGRIND: Tool = Tool::new("valgrind", "valgrind");
/// libFuzzer is C++ and compiled with the fuzz targets.
pub(crate) const CXX: Tool = Tool::new("c++", "g++");
pub(crate) const CC: Tool = Tool::new("cc", "gcc");
pub(crate) const PKG_CONFIG: Tool = Tool::new("pkg-config", "pkg-config");
pub(crate) const CMAKE: Tool = Tool::new("cmake", "cmake");
pub(crate) const OBJCOPY: Tool = Tool::new("objcopy", "binutils");
pub(crate) const DPKG_DEB: Tool = Tool::new("dpkg-deb", "dpkg");
pub(crate) const DEBOOTSTRAP: Tool = Tool::new("debootstrap", "debootstrap");
pub(crate) const LINTIAN: Tool = Tool::new("lintian", "lintian");
pub(crate) const SYSTEMD_NSPAWN: Tool = Tool::new("systemd-nspawn", "systemd-container");
pub(crate) const SYSTEMD_ANALYZE: Tool = Tool::new("systemd-analyze", "systemd");
/// A terminal that tests drive by keys and read.
pub(crate) const TMUX: Tool = Tool::new("tmux", "tmux");

/// The launcher of programs with several ranks.
pub(crate) const MPIRUN: Tool = Tool::new("mpirun", "openmpi-bin");
/// Reads metrics as Prometheus does.
pub(crate) const PROMTOOL: Tool = Tool::new("promtool", "prometheus");

/// The browser that the page is tried in.
pub(crate) const CHROMIUM: Tool = Tool::new("chromium", "chromium");

/// Whether a program is on the path.
fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn install(package: &str) -> anyhow::Result<()> {
    if !is_there("apt-get") {
        bail!("there is no apt-get; install the package {package} by hand");
    }
    let sudo: &[&str] = if read(program("id").arg("-u"))?.trim() == "0" {
        &[]
    } else if read(program("sudo").args(["-n", "true"])).is_ok() {
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
