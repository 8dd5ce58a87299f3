//! Builds what packages have: against an old C library, stripped, with debug information apart.
//!
//! Zig links, as it knows the symbols of every C library and brings the objects that go with it.

use super::{GLIBC, symbols};
use crate::command::{cargo, program, read, root, run as run_command, target_dir};
use crate::environment::Environment;
use crate::tool;
use anyhow::{Context, bail};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

const TARGET: &str = "x86_64-unknown-linux-gnu";

const PACKAGES: [&str; 3] = ["ttmem", "ttmem-attach", "ttmem-capi"];

/// The unwinder that C++ programs use.
const UNWINDER: &str = "libgcc_s.so.1";

/// How packages are compiled; both are linked in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As users get them.
    Release,
    /// Not optimised, for checks of everything but speed.
    Dev,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "dev",
        }
    }

    /// Where packages go, below the build directory.
    pub(super) const fn packages(self) -> &'static str {
        match self {
            Self::Release => "dist",
            Self::Dev => "dist-dev",
        }
    }

    /// What the profile of that name has otherwise.
    const fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Release => &[],
            // Nothing else is built for this target, and most of the time goes into optimising dependencies.
            Self::Dev => &[("CARGO_PROFILE_DEV_OPT_LEVEL", "0")],
        }
    }

    const fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "debug",
        }
    }
}

/// What was built, stripped.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) program: Binary,
    /// The library that is preloaded.
    pub(super) attach: Binary,
    /// The library that C programs link with.
    pub(super) library: Binary,
    /// The same as an archive.
    pub(super) archive: PathBuf,
}

/// A program or library, and the file with its debug information.
#[derive(Debug)]
pub(super) struct Binary {
    pub(super) stripped: PathBuf,
    pub(super) debug: PathBuf,
    pub(super) build_id: String,
}

impl Built {
    pub(super) fn all(&self) -> [&Binary; 3] {
        [&self.program, &self.attach, &self.library]
    }
}

pub(super) fn run(environment: &Environment, profile: Profile) -> anyhow::Result<Built> {
    tool::OBJCOPY.ensure()?;
    tool::CC.ensure()?;
    let (major, minor) = GLIBC;
    let target = format!("{TARGET}.{major}.{minor}");
    let mut build = cargo([
        "zigbuild",
        "--profile",
        profile.name(),
        "--lib",
        "--bins",
        "--target",
        &target,
    ]);
    build.args(PACKAGES.iter().flat_map(|name| ["--package", name]));
    // Flags of the machine that builds must not reach what others run.
    run_command(
        build
            .env("PATH", path_with(&environment.bin())?)
            .envs(profile.variables().iter().copied())
            .env("CC_SHELL_ESCAPED_FLAGS", "1")
            .env("CFLAGS", c_flags()?)
            .env_remove("RUSTFLAGS")
            .env("CARGO_ENCODED_RUSTFLAGS", flags()?),
    )?;
    let folder = target_dir().join(TARGET).join(profile.folder());
    let built = Built {
        program: split(&folder, "ttmem")?,
        attach: split(&folder, "libttmem_attach.so")?,
        library: split(&folder, "libttmem.so")?,
        archive: objcopy(&folder, "libttmem.a", "--strip-debug", "libttmem.a")?,
    };
    for binary in built.all() {
        symbols::check(&binary.stripped)?;
    }
    Ok(built)
}

/// Paths that nobody else has, and what is written instead of each; of several the last one counts.
fn remapped() -> anyhow::Result<[(PathBuf, &'static str); 3]> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let home = home.context("no folder of cargo: set CARGO_HOME or HOME")?;
    Ok([
        (root(), "/ttmem"),
        (home, "/cargo"),
        (target_dir(), "/ttmem/target"),
    ])
}

/// The flags for crates with parts in C, escaped for a shell: paths may have spaces.
fn c_flags() -> anyhow::Result<String> {
    let remapped = remapped()?;
    let flags = remapped.map(|(from, to)| {
        let from = from.display().to_string().replace('\'', r"'\''");
        format!("'-ffile-prefix-map={from}={to}'")
    });
    Ok(flags.join(" "))
}

/// The flags of the compiler and the linker, with the separator that cargo wants where paths may have spaces.
fn flags() -> anyhow::Result<String> {
    let unwinder = read(program("cc").arg(format!("-print-file-name={UNWINDER}")))?;
    let unwinder = unwinder.trim();
    if !Path::new(unwinder).is_absolute() {
        bail!("the C compiler has no {UNWINDER}");
    }
    let remapped = remapped()?;
    let mut flags = remapped
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .to_vec();
    flags.extend([
        // Exceptions of the program pass through hooks of the attach library. Zig would give it an
        // unwinder of its own, which cannot continue what the program's has begun.
        format!("-Clink-arg={unwinder}"),
        // That file is of this machine's C library.
        "-Clink-arg=-Wl,--allow-shlib-undefined".to_owned(),
        "-Clink-arg=-Wl,--build-id=sha1".to_owned(),
    ]);
    Ok(flags.join("\x1f"))
}

fn path_with(first: &Path) -> anyhow::Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(first.to_owned()).chain(env::split_paths(&path));
    Ok(env::join_paths(folders)?)
}

/// Takes debug information out of a file, into one beside it.
fn split(folder: &Path, name: &str) -> anyhow::Result<Binary> {
    let stripped = objcopy(folder, name, "--strip-unneeded", name)?;
    let debug = objcopy(folder, name, "--only-keep-debug", &format!("{name}.debug"))?;
    Ok(Binary {
        build_id: symbols::build_id(&stripped)?,
        stripped,
        debug,
    })
}

/// Copies a part of a file that was built to a folder beside it.
fn objcopy(folder: &Path, name: &str, part: &str, made: &str) -> anyhow::Result<PathBuf> {
    let apart = folder.join("dist");
    fs::create_dir_all(&apart).with_context(|| format!("cannot make {}", apart.display()))?;
    let made = apart.join(made);
    let mut objcopy = program("objcopy");
    objcopy.args([part, "--enable-deterministic-archives"]);
    run_command(objcopy.arg(folder.join(name)).arg(&made))?;
    Ok(made)
}
