//! Frames fit their terminal, whatever is in them.

use super::*;
use crate::render::tests::{device, snapshot};
use ttmem_event::{ClashKind, Class, CoresId, MeshId, ProgramId, TextId};

fn page() -> LivePage {
    LivePage {
        title: "transformer-8b on t3000, seed 1, speed 1".to_owned(),
        about: "an 8B transformer, tensor parallel over all chips".to_owned(),
        doing: "decode: replayed, replay decode".to_owned(),
        steps: 12_345,
        elapsed_seconds: 12,
        failure: None,
        hint: "Ctrl-C ends it. Meanwhile: ttmem status --socket /tmp/x/ttmem.sock".to_owned(),
    }
}

fn size(width: usize, height: usize) -> LiveSize {
    LiveSize {
        width,
        height,
        color: false,
    }
}

fn machine(chips: u32) -> Snapshot {
    let ring = |wraps| RingUsage {
        pid: Some(1),
        mesh: Some(0),
        core_type: CoreType::Tensix,
        sub_device: Some(0),
        capacity_bytes: Some(70_656),
        used_bytes: 35_328,
        entry_count: 2,
        entries: Vec::new(),
        wraps,
        evictions: 3,
        stalls: 4,
        reserves: 5,
    };
    let chips = (0..chips).map(|id| Device {
        ring: vec![ring(7), ring(5)],
        ..device(id, 2)
    });
    snapshot(chips.collect(), Vec::new())
}

#[test]
fn a_t3000_fits_an_ordinary_terminal_with_all_its_figures() {
    let frame = live(&page(), &machine(8), size(80, 24));
    assert_eq!(frame.len(), 24, "{frame:#?}");
    for line in &frame {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let text = frame.join("\n");
    for said in [
        "transformer-8b on t3000, seed 1, speed 1",
        "step 12345  decode: replayed, replay decode",
        "no anomaly",
        "25.0%    3.0 GiB",
        "21.7 MiB    8.8 MiB",
        "ttmem status --socket",
    ] {
        assert!(text.contains(said), "{said} is missing in\n{text}");
    }
    // Both rings are half full, and began anew twelve times together.
    assert_eq!(text.matches("50.0%    12").count(), 8, "{text}");
}

#[test]
fn no_frame_is_higher_or_wider_than_its_terminal() {
    let mut hostile = page();
    hostile.title = "x\u{1b}[2J\n".repeat(50);
    hostile.doing = "é".repeat(500);
    hostile.hint = "/tmp/".repeat(99);
    hostile.failure = Some(LiveFailure {
        kind: "out_of_memory",
        meaning: "no block is large enough",
        figures: "word ".repeat(200),
    });
    for chips in [0, 1, 8, 32] {
        let snapshot = machine(chips);
        for height in [1, 2, 5, 24, 60, 200] {
            for width in [20, 80, 120, 400] {
                let frame = live(&hostile, &snapshot, size(width, height));
                assert!(frame.len() <= height, "{chips} chips, {height} rows");
                for line in &frame {
                    assert!(line.chars().count() <= layout_width(width), "{line}");
                    assert!(!line.contains(['\n', '\u{1b}']), "{line}");
                }
            }
        }
    }
}

#[test]
fn many_chips_have_a_line_each_and_what_failed_is_seen_nevertheless() {
    let mut page = page();
    page.failure = Some(LiveFailure {
        kind: "clash",
        meaning: "circular buffers met a tensor",
        figures: "12 KiB too far".to_owned(),
    });
    let frame = live(&page, &machine(32), size(80, 40)).join("\n");
    assert!(frame.contains("\n  31 n300"), "{frame}");
    assert!(
        frame.contains("! clash: 12 KiB too far; circular"),
        "{frame}"
    );
}

#[test]
fn refusals_tell_how_far_they_were_from_going_well() {
    let failed = What::AllocationFailed {
        mesh: MeshId(1),
        class: Class::Dram,
        banks: 12,
        requested_bytes: 12 << 20,
        per_bank_bytes: 1 << 20,
        free_bytes: 3 << 20,
        largest_free_bytes: 1 << 19,
        bank_bytes: 1 << 30,
        operation: TextId(0),
    };
    assert_eq!(
        refused(&failed),
        "1.0 MiB in each of 12 banks of DRAM where 3.0 MiB are free and 512.0 KiB in one piece"
    );
    let clashed = What::Clashed {
        mesh: MeshId(1),
        program: ProgramId(1),
        kind: ClashKind::L1Buffer,
        cores: CoresId::NONE,
        region_end: 500_000,
        limit: 498_976,
    };
    let told = refused(&clashed);
    assert!(told.ends_with("1.0 KiB too far"), "{told}");
}
