//! The kernel compiler's cache on disk.
//!
//! A binary that is there is only checked; one that is not is linked. A compute kernel
//! has a binary for each of three processors, of which the first stands for it.

#![expect(unsafe_code, reason = "is called in place of the runtime's functions")]

use super::interpose_needed;
use crate::family::Family;
use crate::report;
use crate::runtime::text::text_at;
use crate::runtime::{Object, TwoWords};
use ttmem_event::{EventKind, KernelId, ProgramId};

pub(crate) static FAMILY: Family = Family::new("compiler cache");

/// The kernel in the path `…/kernels/NAME/HASH/PROCESSOR/…` of a binary that stands for it.
fn kernel_in(path: &str) -> Option<&str> {
    let (_cache, rest) = path.rsplit_once("/kernels/")?;
    let mut parts = rest.split('/');
    let (name, _hash, processor) = (parts.next()?, parts.next()?, parts.next()?);
    let stands_for_it = !matches!(processor, "trisc1" | "trisc2" | "");
    (stands_for_it && !name.is_empty()).then_some(name)
}

fn report(directory: Object, hit: bool) -> Option<()> {
    if !FAMILY.is_tracking() {
        return None;
    }
    FAMILY.need(&*NEEDED)?;
    let Some(directory) = text_at(directory) else {
        FAMILY.turn_off("a text is laid out in another way");
        return None;
    };
    let name = kernel_in(&directory)?;
    FAMILY.contain(|| {
        report::event(EventKind::JitDiskLookup {
            program: ProgramId(0),
            kernel: KernelId(0),
            name: report::tracker().text(name),
            hit,
        });
    });
    Some(())
}

// With one of these alone either all kernels would seem to be on disk or none.
interpose_needed! {
    /// `bool JitBuildState::need_link(string const&) const`: false when the binary is there.
    "_ZNK2tt8tt_metal13JitBuildState9need_linkERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    fn need_link(state: Object, directory: Object) -> u64 |real| {
        let needed = real();
        // A flag leaves the upper bits of its register undefined.
        if needed & 0xff == 0 {
            report(directory, true);
        }
        needed
    }

    /// `JitBuildState::link(string const&, JitBuildSettings const*, string const&) const`.
    "_ZNK2tt8tt_metal13JitBuildState4linkERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPKNS0_16JitBuildSettingsES9_"
    fn link(state: Object, directory: Object, settings: Object, object: Object) -> TwoWords |real| {
        report(directory, false);
        real()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processor_of_a_kernel_stands_for_it() {
        let path = |processor: &str| format!("/cache/kernels/1/kernels/matmul/77/{processor}/");
        for (processor, expected) in [
            ("brisc", Some("matmul")),
            ("trisc0", Some("matmul")),
            ("trisc1", None),
            ("trisc2", None),
        ] {
            assert_eq!(kernel_in(&path(processor)), expected, "{processor}");
        }
        for other in [
            "",
            "/cache/firmware/brisc/",
            "/kernels/",
            "/kernels/x",
            "/kernels/x/1/",
        ] {
            assert_eq!(kernel_in(other), None, "{other}");
        }
    }
}
