//! What a program or library asks of the machine it will run on, as readelf shows it.

use super::GLIBC;
use crate::command::{program, read};
use anyhow::{Context, bail};
use std::path::Path;

/// The build id, by which debuggers find debug information.
pub(super) fn build_id(file: &Path) -> anyhow::Result<String> {
    let notes = readelf(file, "--notes")?;
    let id = notes
        .lines()
        .find_map(|line| Some(line.split_once("Build ID: ")?.1.trim()))
        .with_context(|| format!("{} has no build id", file.display()))?;
    Ok(id.to_owned())
}

/// Holds a file against what every machine with our oldest C library has.
pub(super) fn check(file: &Path) -> anyhow::Result<()> {
    let versions = readelf(file, "--version-info")?;
    let newest = newest_glibc(&versions)
        .with_context(|| format!("{} needs no C library", file.display()))?;
    if newest > GLIBC {
        bail!(
            "{} needs GLIBC_{}.{}, which is newer than {}.{}",
            file.display(),
            newest.0,
            newest.1,
            GLIBC.0,
            GLIBC.1
        );
    }
    let dynamic = readelf(file, "--dynamic")?;
    // With another unwinder than the program's, its exceptions end at our hooks.
    if file.extension().is_some() && !dynamic.contains("[libgcc_s.so.1]") {
        bail!("{} does not use the program's unwinder", file.display());
    }
    if dynamic.contains("(RPATH)") || dynamic.contains("(RUNPATH)") {
        bail!(
            "{} looks for libraries at places of its own",
            file.display()
        );
    }
    let symbols = readelf(file, "--dyn-syms")?;
    if let Some(own) = exported_unwinder(&symbols) {
        bail!("{} takes the place of the program's {own}", file.display());
    }
    println!("{}: needs GLIBC_{}.{}", file.display(), newest.0, newest.1);
    Ok(())
}

fn readelf(file: &Path, option: &str) -> anyhow::Result<String> {
    read(program("readelf").args(["--wide", option]).arg(file))
}

/// The newest version of the C library's symbols that a list names.
fn newest_glibc(versions: &str) -> Option<(u32, u32)> {
    let words = versions.split(|c: char| c.is_whitespace() || "()@".contains(c));
    words
        .filter_map(|word| {
            let (major, rest) = word.strip_prefix("GLIBC_")?.split_once('.')?;
            let minor = rest.split('.').next()?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        })
        .max()
}

/// A function of an unwinder that a table of symbols defines for everybody.
fn exported_unwinder(symbols: &str) -> Option<&str> {
    symbols
        .lines()
        .filter(|line| !line.contains(" UND ") && line.contains(" GLOBAL "))
        .filter_map(|line| line.split_whitespace().nth(7))
        .find(|name| name.starts_with("_Unwind_") || name.starts_with("__register_frame"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let versions = "0x0060: Name: GLIBC_2.3.4 Flags: none\n 000: 2 (GLIBC_2.28) 3 (GLIBC_2.9)";
        assert_eq!(newest_glibc(versions), Some((2, 28)));
        assert_eq!(newest_glibc("Name: GCC_3.0"), None);
        assert_eq!(newest_glibc("f@GLIBC_2.34 (2)"), Some((2, 34)));
    }

    #[test]
    fn an_unwinder_that_is_only_used_is_not_exported() {
        let used = "9: 0000000000000000 0 FUNC GLOBAL DEFAULT UND _Unwind_Resume@GCC_3.0 (2)";
        let defined = "9: 0000000000001000 8 FUNC GLOBAL DEFAULT 12 _Unwind_Resume";
        assert_eq!(exported_unwinder(used), None);
        assert_eq!(exported_unwinder(defined), Some("_Unwind_Resume"));
    }
}
