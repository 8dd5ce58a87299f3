//! What programs do, held against figures worked out by hand or seen in the real runtime.

mod checks;
mod config;
mod kernels;
mod limits;
mod placement;

use super::*;
use ttmem_event::CoreRange;
use ttmem_event::catalogue::Arch;

fn wormhole() -> &'static MemoryMap {
    Arch::Wormhole.memory_map().unwrap()
}

fn blackhole() -> &'static MemoryMap {
    Arch::Blackhole.memory_map().unwrap()
}

fn program() -> Program {
    Program::new(ProgramId(7), "test", wormhole())
}

fn range(x_first: u16, y_first: u16, x_last: u16, y_last: u16) -> CoreRange {
    CoreRange {
        x_first,
        y_first,
        x_last,
        y_last,
    }
}

fn cores(x_first: u16, y_first: u16, x_last: u16, y_last: u16) -> CoreRanges {
    CoreRanges::of(range(x_first, y_first, x_last, y_last))
}

/// A circular buffer of one page.
fn cb(index: u8, cores: CoreRanges, size: u64) -> CbSpec {
    CbSpec::local(index, cores, size, size)
}

fn global(index: u8, cores: CoreRanges, size: u64, place: CbPlace) -> CbSpec {
    CbSpec {
        index,
        cores,
        size,
        page: size,
        place,
    }
}

fn storage(kind: StorageKind, cores: CoreRanges, size: u64) -> StorageSpec {
    StorageSpec { kind, cores, size }
}

/// Places everything at the allocator's base and returns the addresses.
fn addresses(program: &mut Program) -> Vec<u64> {
    let base = program.map.l1_unreserved_base;
    assert_eq!(program.place_storage(base), Ok(true));
    program.storage().iter().map(|s| s.address).collect()
}

fn text<T: std::fmt::Debug>(result: Result<T, ProgramError>) -> String {
    result.unwrap_err().to_string()
}
