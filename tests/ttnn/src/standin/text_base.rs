//! Where the linker would place a kernel's text.
//!
//! The runtime's linker scripts give `.text` either an address or the symbol that
//! ends the firmware's text, which `--just-symbols` brings in. Both are followed, so
//! that kernels lie where real ones do.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use object::read::elf::ElfFile32;
use object::{Endianness, Object as _, ObjectSymbol as _};

use crate::invocation::Link;

/// Where text goes that no script places: any address will do, the loader moves it.
const UNPLACED_BASE: u32 = 0x1_0000;

/// The address of the text that `link` makes.
pub(crate) fn text_base(link: &Link) -> anyhow::Result<u32> {
    let Some(script) = &link.script else {
        return Ok(UNPLACED_BASE);
    };
    let text = fs::read_to_string(script)
        .with_context(|| format!("cannot read the linker script {}", script.display()))?;
    match place_of_text(&text) {
        Some(Place::Address(address)) => Ok(address),
        Some(Place::Symbol(symbol)) => match &link.firmware {
            Some(firmware) => symbol_address(firmware, symbol),
            None => Ok(UNPLACED_BASE),
        },
        None => Ok(UNPLACED_BASE),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    Address(u32),
    Symbol(&'a str),
}

/// The place a script gives to `.text`; `None` for an expression, as firmware has.
fn place_of_text(script: &str) -> Option<Place<'_>> {
    let place = script
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(".text "))?
        .split_whitespace()
        .next()?;
    if let Some(digits) = place.strip_prefix("0x") {
        return u32::from_str_radix(digits, 16).ok().map(Place::Address);
    }
    let is_symbol = place
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_symbol.then_some(Place::Symbol(place))
}

fn symbol_address(firmware: &Path, symbol: &str) -> anyhow::Result<u32> {
    let image =
        fs::read(firmware).with_context(|| format!("cannot read {}", firmware.display()))?;
    let file = ElfFile32::<Endianness>::parse(&*image)
        .with_context(|| format!("{} is no ELF file", firmware.display()))?;
    let address = file
        .symbols()
        .find(|candidate| candidate.name() == Ok(symbol))
        .map(|found| found.address());
    match address {
        Some(address) => u32::try_from(address)
            .with_context(|| format!("{symbol} of {} is {address:#x}", firmware.display())),
        // Firmware made by this program has no symbols.
        None => Ok(UNPLACED_BASE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_give_an_address_a_symbol_or_an_expression() {
        let place = |line: &str| {
            let script = format!("SECTIONS\n{{\n  {line} :\n  {{\n  }} :text\n}}\n");
            place_of_text(&script).map(|place| format!("{place:?}"))
        };
        assert_eq!(
            place(".text 0xFFC00000").as_deref(),
            Some("Address(4290772992)")
        );
        assert_eq!(
            place(".text __fw_export_text_end").as_deref(),
            Some("Symbol(\"__fw_export_text_end\")")
        );
        assert_eq!(place(".text ((16 + 13312) & ~31)"), None);
        assert_eq!(place_of_text(""), None);
    }
}
