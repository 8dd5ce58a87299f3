//! The library that tracks a program from inside: where it is, and how the loader finds it.
//!
//! It lies beside this program or in the `lib` beside its `bin`, however both were installed.

use anyhow::{Result, bail, ensure};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The variable that the loader reads.
pub(super) const PRELOAD: &str = "LD_PRELOAD";

const FILE: &str = "libttmem_attach.so";

/// What the loader takes for the end of a path in its variable.
const SEPARATORS: &[u8] = b": ";

/// The library that was named, or the one of this program.
pub(super) fn find(named: Option<&Path>) -> Result<PathBuf> {
    let places = match named {
        Some(path) => vec![path.to_owned()],
        None => places(&std::env::current_exe()?),
    };
    let Some(found) = places.iter().find(|path| path.is_file()) else {
        let tried: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
        bail!(
            "the library that tracks programs is not at {}; --library or TTMEM_ATTACH_LIBRARY \
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
    if let Some(above) = folder.parent() {
        places.push(above.join("lib").join(FILE));
    }
    places
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
                Path::new("/opt/tt/lib/libttmem_attach.so")
            ]
        );
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
