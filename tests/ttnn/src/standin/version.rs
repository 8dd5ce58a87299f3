//! The version line of the compiler a wheel was built with.
//!
//! The line is part of the runtime's build key: only with the right one does it find
//! the firmware that the wheel brings ready-made. It is not a constant here but read
//! from the wheel the stand-in is installed in, so one program serves every release.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use object::read::elf::ElfFile32;
use object::{Endianness, Object as _, ObjectSection as _};

/// The compiler behind wheels whose `sfpi-version` has no ready-made firmware beside it.
const GCC_VERSION: &str = "15.1.0";

/// From `runtime/sfpi/compiler/bin/riscv-tt-elf-g++` up to the root of the package.
const LEVELS_BELOW_ROOT: usize = 5;

/// The first line of `--version` of the compiler that `program` stands for.
///
/// The `.comment` of a ready-made firmware is the compiler's own word; the
/// `sfpi-version` of the wheel is the second choice, it lacks the version of GCC.
pub(crate) fn version_line(program: &Path) -> anyhow::Result<String> {
    let root = std::path::absolute(program)
        .ok()
        .and_then(|path| path.ancestors().nth(LEVELS_BELOW_ROOT).map(PathBuf::from))
        .with_context(|| format!("{} is not inside a wheel", program.display()))?;
    let metal = root.join("tt_metal");
    if let Some(line) = from_firmware(&metal.join("pre-compiled")) {
        return Ok(line);
    }
    let path = metal.join("sfpi-version");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("no ready-made firmware, and cannot read {}", path.display()))?;
    from_sfpi_version(&text).with_context(|| format!("no version in {}", path.display()))
}

/// From any ready-made firmware: all of a wheel come from one compiler.
fn from_firmware(folder: &Path) -> Option<String> {
    let keys = fs::read_dir(folder).ok()?;
    keys.flatten()
        .find_map(|key| from_comment(&fs::read(key.path().join("brisc/brisc.elf")).ok()?))
}

fn from_comment(image: &[u8]) -> Option<String> {
    let file = ElfFile32::<Endianness>::parse(image).ok()?;
    let comment = file.section_by_name(".comment")?.data().ok()?;
    let text = comment
        .split(|&byte| byte == 0)
        .find_map(|text| text.strip_prefix(b"GCC: "))?;
    Some(format!("riscv-tt-elf-g++ {}", str::from_utf8(text).ok()?))
}

fn from_sfpi_version(text: &str) -> Option<String> {
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(|value| value.trim_matches('\''))
    };
    let version = value("sfpi_version")?;
    let build = match value("sfpi_build") {
        None | Some("") => String::new(),
        Some(build) => format!("[{build}]"),
    };
    Some(format!(
        "riscv-tt-elf-g++ (tenstorrent/sfpi:{version}{build}) {GCC_VERSION}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wheels_own_file_gives_the_line() {
        let text =
            "# sfpi release 7.89.0\n\nsfpi_version='7.89.0'\nsfpi_base=''\nsfpi_build='1050'\n";
        assert_eq!(
            from_sfpi_version(text).as_deref(),
            Some("riscv-tt-elf-g++ (tenstorrent/sfpi:7.89.0[1050]) 15.1.0")
        );
        assert_eq!(from_sfpi_version("sfpi_build='1'"), None);
    }

    #[test]
    fn what_is_no_firmware_gives_none() {
        assert_eq!(from_comment(b"no ELF file"), None);
    }
}
