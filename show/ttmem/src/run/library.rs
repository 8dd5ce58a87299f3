//! The library that tracks a program from inside: where it is, and how the loader finds it.
//!
//! It lies beside this program, in the `lib` beside its `bin`, or in the Python package that the
//! program came with, however both were installed.

use anyhow::{Result, bail, ensure};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The variable that the loader reads.
pub(super) const PRELOAD: &str = "LD_PRELOAD";

const FILE: &str = "libttmem_attach.so";

/// Places that do not depend on Python.
const INSTALLED_PLACES: usize = 3;

/// What the loader takes for the end of a path in its variable.
const SEPARATORS: &[u8] = b": ";

/// The library that was named, or the one of this program.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf> {
    let places = match named {
        Some(path) => vec![path.to_owned()],
        None => places(&std::env::current_exe()?),
    };
    let Some(found) = places.iter().find(|path| path.is_file()) else {
        // There may be as many Python packages as releases of Python: they are not listed.
        let tried = places.iter().take(INSTALLED_PLACES);
        let tried: Vec<String> = tried.map(|path| path.display().to_string()).collect();
        let packages = if places.len() > INSTALLED_PLACES {
            ", nor in a Python package there"
        } else {
            ""
        };
        bail!(
            "the library that tracks programs is not at {}{packages}; --library or TTMEM_ATTACH_LIBRARY \
             says where it is, and --no-attach does without it for programs that are linked with \
             libttmem",
            tried.join(" or ")
        );
    };
    // The program may change its folder before it starts another one.
    let found = std::path::absolute(found)?;
    let readable_by_loader = |byte: &u8| !SEPARATORS.contains(byte);
    ensure!(
        found.as_os_str().as_bytes().iter().all(readable_by_loader),
        "{} cannot be loaded into programs: {PRELOAD} has no way to write a colon or a space",
        found.display()
    );
    Ok(found)
}

/// Where the library is looked for, given the file of this program.
fn places(program: &Path) -> Vec<PathBuf> {
    let Some(folder) = program.parent() else {
        return Vec::new();
    };
    let mut places = vec![folder.join(FILE)];
    if let Some(prefix) = folder.parent() {
        let lib = prefix.join("lib");
        places.push(lib.join(FILE));
        // The Debian package and the tarball.
        places.push(lib.join("ttmem").join(FILE));
        places.extend(in_python_packages(prefix));
    }
    places
}

/// Where a wheel puts the library: in the package, below a folder named after the release of Python.
///
/// A prefix such as `~/.local` may have packages of several releases: the one of our version is first.
fn in_python_packages(prefix: &Path) -> Vec<PathBuf> {
    // `pip install --target` has no folder for the release.
    let mut sites = vec![prefix.to_owned()];
    for lib in ["lib", "lib64"] {
        let entries = fs::read_dir(prefix.join(lib)).into_iter().flatten();
        let is_release = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            name.as_bytes().starts_with(b"python3")
        };
        let mut releases: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(is_release)
            .collect();
        releases.sort();
        for release in releases {
            sites.extend(["site-packages", "dist-packages"].map(|name| release.join(name)));
        }
    }
    let info = concat!("ttmem-", env!("CARGO_PKG_VERSION"), ".dist-info");
    sites.sort_by_key(|site| !site.join(info).is_dir());
    let package = |site: PathBuf| site.join("ttmem/lib").join(FILE);
    sites.into_iter().map(package).collect()
}

/// The loader's variable with the library first, and all that was there.
pub(super) fn preloaded(library: &Path, before: Option<&OsStr>) -> OsString {
    let library = library.as_os_str().as_bytes();
    let before = before.map_or(&[][..], OsStrExt::as_bytes);
    let mut entries = before.split(|byte| SEPARATORS.contains(byte));
    if entries.any(|entry| entry == library) {
        return OsString::from_vec(before.to_vec());
    }
    let mut all = library.to_vec();
    if !before.is_empty() {
        all.push(b':');
        all.extend_from_slice(before);
    }
    OsString::from_vec(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_preloaded_stays() {
        let with = |before: Option<&str>| {
            let before = before.map(OsStr::new);
            let all = preloaded(Path::new("/opt/a.so"), before);
            all.into_string().unwrap()
        };
        assert_eq!(with(None), "/opt/a.so");
        assert_eq!(with(Some("")), "/opt/a.so");
        assert_eq!(with(Some("b.so c.so")), "/opt/a.so:b.so c.so");
        assert_eq!(with(Some("b.so:/opt/a.so")), "b.so:/opt/a.so");
        assert_eq!(with(Some("/opt/a.so.1")), "/opt/a.so:/opt/a.so.1");
    }

    #[test]
    fn it_lies_beside_the_program_or_in_lib() {
        assert_eq!(
            places(Path::new("/opt/tt/bin/ttmem")),
            [
                Path::new("/opt/tt/bin/libttmem_attach.so"),
                Path::new("/opt/tt/lib/libttmem_attach.so"),
                Path::new("/opt/tt/lib/ttmem/libttmem_attach.so"),
                Path::new("/opt/tt/ttmem/lib/libttmem_attach.so"),
            ]
        );
    }

    #[test]
    fn a_wheel_has_it_in_its_package_and_that_of_our_version_wins() {
        let folder = tempfile::tempdir().unwrap();
        let make = |site: &str, version: &str| {
            let site = folder.path().join(site);
            fs::create_dir_all(site.join(format!("ttmem-{version}.dist-info"))).unwrap();
            fs::create_dir_all(site.join("ttmem/lib")).unwrap();
            fs::write(site.join("ttmem/lib").join(FILE), "").unwrap();
            site.join("ttmem/lib").join(FILE)
        };
        let found = || {
            let mut places = places(&folder.path().join("bin/ttmem")).into_iter();
            places.find(|place| place.is_file())
        };
        assert_eq!(found(), None);
        let other = make("lib/python3.10/site-packages", "0.0.1");
        assert_eq!(found(), Some(other));
        let ours = make("lib64/python3.12/dist-packages", env!("CARGO_PKG_VERSION"));
        assert_eq!(found(), Some(ours));
    }

    #[test]
    fn only_a_file_that_the_loader_can_read_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent.so");
        let said = find(Some(&absent)).unwrap_err().to_string();
        assert!(said.contains(absent.to_str().unwrap()), "{said}");
        assert!(find(Some(folder.path())).is_err(), "a folder is no library");
        let spaced = folder.path().join("a b.so");
        std::fs::write(&spaced, "").unwrap();
        let said = find(Some(&spaced)).unwrap_err().to_string();
        assert!(said.contains("a space"), "{said}");
        let plain = folder.path().join("ab.so");
        std::fs::write(&plain, "").unwrap();
        assert_eq!(find(Some(&plain)).unwrap(), plain);
    }
}
