//! `cargo xtask install`: libttmem with its headers, for C and C++ programs.
//!
//! What is installed can be moved: pkg-config and CMake files find their tree by
//! where they lie.

use crate::command::{build_for_tests, cargo, root, run as run_command, target_dir};
use anyhow::{Context, bail};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The version of every package of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where everything that is installed comes from.
const SOURCE: &str = "capture/capi";

const HEADERS: &[&str] = &["ttmem.h", "ttmem_allocation_client.hpp"];

/// Templates, and the folders that their files go to.
const TEMPLATES: &[(&str, &str)] = &[
    ("pkgconfig/ttmem.pc", "lib/pkgconfig"),
    ("cmake/ttmemConfig.cmake", "lib/cmake/ttmem"),
    ("cmake/ttmemConfigVersion.cmake", "lib/cmake/ttmem"),
];

/// How the library is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// For users.
    Release,
    /// For tests.
    Dev,
}

/// What is to be installed where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) prefix: PathBuf,
    pub(crate) profile: Profile,
}

impl Request {
    /// Reads the words after `install`.
    pub(crate) fn parse(words: &[&str]) -> anyhow::Result<Self> {
        let prefix = match words {
            ["--prefix", prefix] => prefix,
            [word] => word.strip_prefix("--prefix=").unwrap_or_default(),
            _other => "",
        };
        if prefix.is_empty() {
            bail!("say where to: cargo xtask install --prefix DIR");
        }
        // Relative to where the user is, not to the root.
        let prefix = std::path::absolute(prefix)?;
        let profile = Profile::Release;
        Ok(Self { prefix, profile })
    }
}

/// Builds libttmem and installs it.
pub(crate) fn run(request: &Request) -> anyhow::Result<()> {
    let Request { prefix, profile } = request;
    let built = match profile {
        Profile::Release => {
            let library = ["--package", "ttmem-capi", "--lib"];
            run_command(&mut cargo(
                ["build", "--release"].into_iter().chain(library),
            ))?;
            target_dir().join("release")
        }
        Profile::Dev => {
            build_for_tests()?;
            target_dir().join("debug")
        }
    };

    lay_out(
        prefix,
        &built.join("libttmem.so"),
        &built.join("libttmem.a"),
    )?;
    println!("libttmem {VERSION} is in {}", prefix.display());
    Ok(())
}

/// Puts the library, its headers and what build systems read below a prefix.
pub(crate) fn lay_out(prefix: &Path, library: &Path, archive: &Path) -> anyhow::Result<()> {
    let source = root().join(SOURCE);
    let lib = prefix.join("lib");
    let shared = format!("libttmem.so.{VERSION}");
    place(library, &lib.join(&shared))?;
    place(archive, &lib.join("libttmem.a"))?;
    // The loader asks for the first of these, the linker for the second.
    link(&shared, &lib.join("libttmem.so.0"))?;
    link("libttmem.so.0", &lib.join("libttmem.so"))?;
    for header in HEADERS {
        let from = source.join("include").join(header);
        place(&from, &prefix.join("include").join(header))?;
    }
    for (template, folder) in TEMPLATES {
        let from = source.join(format!("{template}.in"));
        let text =
            fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
        let name = Path::new(template).file_name().unwrap_or_default();
        let to = prefix.join(folder).join(name);
        make_folder_of(&to)?;
        fs::write(&to, fill_in(&text)?)
            .with_context(|| format!("cannot write {}", to.display()))?;
    }
    Ok(())
}

/// Puts in what a template leaves open.
fn fill_in(template: &str) -> anyhow::Result<String> {
    let (major_minor, _patch) = VERSION
        .rsplit_once('.')
        .context("a version has three numbers")?;
    let text = template.replace("@VERSION@", VERSION);
    let text = text.replace("@MAJOR_MINOR@", major_minor);
    if text.contains('@') {
        bail!("a template asks for what nobody knows:\n{text}");
    }
    Ok(text)
}

/// Copies a file, beside its place first: a program that uses the old one keeps it.
fn place(from: &Path, to: &Path) -> anyhow::Result<()> {
    make_folder_of(to)?;
    let beside = to.with_added_extension("new");
    fs::copy(from, &beside)
        .and_then(|_bytes| fs::rename(&beside, to))
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn link(target: &str, at: &Path) -> anyhow::Result<()> {
    let beside = at.with_added_extension("new");
    // One may be left from a run that was interrupted.
    let _absent = fs::remove_file(&beside);
    symlink(target, &beside)
        .and_then(|()| fs::rename(&beside, at))
        .with_context(|| format!("cannot link {}", at.display()))
}

fn make_folder_of(file: &Path) -> anyhow::Result<()> {
    let folder = file.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_needed_and_becomes_absolute() {
        let request = Request::parse(&["--prefix", "/opt/x"]).unwrap();
        assert_eq!(request.prefix, Path::new("/opt/x"));
        assert_eq!(Request::parse(&["--prefix=/opt/x"]).unwrap(), request);
        assert!(
            Request::parse(&["--prefix=here"])
                .unwrap()
                .prefix
                .is_absolute()
        );
        assert!(Request::parse(&[]).is_err());
        assert!(Request::parse(&["--prefix"]).is_err());
        assert!(Request::parse(&["/opt/x"]).is_err());
    }

    #[test]
    fn templates_are_filled_in() {
        assert_eq!(fill_in("v=@VERSION@").unwrap(), format!("v={VERSION}"));
        assert!(VERSION.starts_with(&fill_in("@MAJOR_MINOR@").unwrap()));
        assert!(fill_in("@PREFIX@").is_err());
    }
}
