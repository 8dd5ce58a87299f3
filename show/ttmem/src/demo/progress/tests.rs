//! What is told of a refusal.

use super::*;
use ttmem_event::{ClashKind, Class, CoresId, MeshId, ProgramId, TextId};

#[test]
fn refusals_tell_how_far_they_were_from_going_well() {
    let failed = EventKind::AllocationFailed {
        mesh: MeshId(1),
        class: Class::Dram,
        banks: 12,
        requested_bytes: 12 << 20,
        per_bank_bytes: 1 << 20,
        free_bytes: 3 << 20,
        largest_free_bytes: 1 << 19,
        bank_bytes: 1 << 30,
        operation: TextId(0),
        call_first: 0,
    };
    assert_eq!(
        refused(&failed),
        "1.0 MiB in each of 12 banks of DRAM where 3.0 MiB are free and 512.0 KiB in one piece"
    );
    let clashed = EventKind::Clashed {
        mesh: MeshId(1),
        program: ProgramId(1),
        kind: ClashKind::L1Buffer,
        cores: CoresId::NONE,
        region_end: 500_000,
        limit: 498_976,
        call_first: 0,
    };
    let told = refused(&clashed);
    assert!(told.ends_with("1.0 KiB too far"), "{told}");
}
