//! `cargo xtask dist`: the packages that users install.
//!
//! Everything is built once, for the C library of 2018 (2.28), and goes into a wheel, a Debian
//! package and a tarball in `target/dist`. The tools come from the package index in exact versions;
//! the same files give the same bytes.

mod build;
mod deb;
mod debian_root;
mod interpreter;
mod notices;
mod standin;
mod symbols;
mod tarball;
mod tree;
mod wheel;
mod wheel_check;

pub(crate) use standin::StandIn;

use crate::command::{program, read, root, target_dir};
use crate::environment::Environment;
use crate::{ttnn, web};
use anyhow::{Context, ensure};
use build::Built;
pub(crate) use build::Profile;
use std::fs;
use std::path::{Path, PathBuf};

/// The version of every package of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The last C library that is too old is the one before this.
const GLIBC: (u32, u32) = (2, 28);

/// What was built, and where it goes.
#[derive(Debug)]
pub(crate) struct Dist {
    environment: Environment,
    built: Built,
    /// Where the packages go.
    folder: PathBuf,
    /// The time that all files in them have.
    epoch: String,
}

impl Dist {
    fn build(profile: Profile) -> anyhow::Result<Self> {
        let environment = Environment::provide("dist", &packaging().join("requirements.txt"))?;
        let folder = target_dir().join(profile.packages());
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_unset) => read(program("git").args(["log", "-1", "--format=%ct"]))?,
        };
        // Packages have the page.
        web::build()?;
        let built = build::run(&environment, profile)?;
        Ok(Self {
            environment,
            built,
            folder,
            epoch: epoch.trim().to_owned(),
        })
    }
}

/// Builds every package.
pub(crate) fn run() -> anyhow::Result<()> {
    let dist = Dist::build(Profile::Release)?;
    for package in [
        wheel::make(&dist)?,
        deb::make(&dist, VERSION)?,
        tarball::make(&dist)?,
        tarball::make_debug(&dist)?,
    ] {
        let bytes = fs::metadata(&package)?.len();
        println!("{:>9} KiB  {}", bytes / 1024, package.display());
    }
    Ok(())
}

/// Builds the wheel and tries it in fresh environments.
pub(crate) fn check_wheel(profile: Profile) -> anyhow::Result<()> {
    let dist = Dist::build(profile)?;
    let wheel = wheel::make(&dist)?;
    same_bytes(&wheel, || wheel::make(&dist))?;
    wheel_check::run(&dist, &wheel)
}

/// Builds the Debian package and installs, upgrades and removes it in a root of its own.
pub(crate) fn check_deb() -> anyhow::Result<()> {
    let dist = Dist::build(Profile::Release)?;
    debian_root::run(&dist)
}

/// Runs the real ttnn with the wheel: its program, its library and its Python package.
pub(crate) fn check_ttnn() -> anyhow::Result<()> {
    let dist = Dist::build(Profile::Release)?;
    let wheel = wheel::make(&dist)?;
    ttnn::run_packaged(&wheel, dist.environment.program("pip"))
}

/// Makes a package once more, and holds it against what it was.
fn same_bytes(
    package: &Path,
    make: impl FnOnce() -> anyhow::Result<PathBuf>,
) -> anyhow::Result<()> {
    let before = fs::read(package)?;
    let after = fs::read(make()?)?;
    ensure!(
        before == after,
        "{} has other bytes each time",
        package.display()
    );
    Ok(())
}

/// The folder with all that packages have besides what is built.
fn packaging() -> PathBuf {
    root().join("packaging")
}
