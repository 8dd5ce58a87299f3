//! Notes in the old server's words, and those it had none for.

use super::*;
use crate::log::FailedNote;
use ttmem_event::{Class, CoreSet};
use ttmem_ledger::{Capacity, ComputeL1, DeviceFacts};

fn text(note: &Note) -> String {
    let mut out = String::new();
    write_note(&mut out, note);
    out
}

fn departed(departure: Departure, released: Released) -> String {
    text(&Note::ProcessDeparted {
        pid: Some(1_714_322),
        exit: Exit {
            time: 0,
            departure,
            released,
        },
    })
}

#[test]
fn a_departure_takes_one_line() {
    let released = Released {
        buffers: 150,
        buffer_bytes: 26_738_688,
        cbs: 800,
        cb_bytes: 23_488_102,
        kernels: 30,
        kernel_bytes: 208_896,
    };
    for (departure, why) in [
        (Departure::Ended, "Ended"),
        (Departure::Exited, "Exited"),
        (Departure::Replaced, "Replaced by another program"),
        (Departure::Forgotten, "Forgotten on request"),
    ] {
        assert_eq!(
            departed(departure, released),
            format!(
                "✗ [PID 1714322] {why}, released 150 buffers (25.5 MB), 800 CBs (22.4 MB), \
                 30 kernels (0.199219 MB)\n"
            )
        );
    }
}

#[test]
fn the_start_lists_sockets_and_devices() {
    let sockets = vec!["/tmp/tt_allocation_server.sock".to_owned()];
    let started = text(&Note::ServerStarted {
        sockets: sockets.clone(),
        devices: Vec::new(),
    });
    assert_eq!(
        started,
        "   No devices detected\n   Server will track allocations anyway\n\
         🚀 Allocation Server started\n   Listening on: /tmp/tt_allocation_server.sock\n   \
         Press Ctrl+C to stop\n"
    );
    let mut wormhole = DeviceFacts {
        logical_id: 3,
        arch: Some(Arch::Wormhole),
        remote: Some(true),
        compute: Some(ComputeL1 {
            cores: CoreSet::grid(8, 8),
            bytes_per_core: 1_499_136,
            reserved_bytes: 0,
        }),
        ..DeviceFacts::default()
    };
    wormhole.capacities[Class::Dram.index()] = Some(Capacity {
        banks: 12,
        base: 0,
        per_bank_bytes: 1 << 30,
    });
    let devices = [wormhole, DeviceFacts::default()];
    let devices = devices.iter().map(NotedDevice::from).collect();
    let started = text(&Note::ServerStarted { sockets, devices });
    let lines: Vec<&str> = started.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "   Device 3: Wormhole_B0 (12GB DRAM, 91MB L1) [Remote]",
            "   Device 0: Unknown (?GB DRAM, ?MB L1)",
            "   Total: 2 device(s) detected",
        ]
    );
}

#[test]
fn single_lines() {
    let pid = Some(7);
    for (note, expected, is_error) in [
        (Note::ServerStopped, "🛑 Allocation Server stopped\n", false),
        (
            Note::ProcessJoined {
                pid,
                name: "py\nthon".to_owned(),
            },
            "✓ [PID 7] Connected (py\\u{a}thon)\n",
            false,
        ),
        (
            Note::ProcessDetached { pid },
            "⚠ [PID 7] Disconnected while alive: what it holds is kept\n",
            false,
        ),
        (
            Note::ProcessReturned { pid: None },
            "✓ [PID ?] Connected again\n",
            false,
        ),
        (
            Note::ConnectionRefused {
                pid,
                reason: "64 clients are connected".to_owned(),
            },
            "⚠️  [PID 7] Connection refused: 64 clients are connected\n",
            true,
        ),
        (
            Note::ConnectionClosed {
                pid,
                reason: "message type 99 is not one of 1 to 12".to_owned(),
            },
            "⚠️  [PID 7] Connection closed: message type 99 is not one of 1 to 12\n",
            true,
        ),
        (
            Note::InvalidBufferType {
                pid,
                buffer_type: 96,
                id: ttmem_report::HexId(2_560_032),
                device: 3,
            },
            "⚠️  Invalid buffer_type 96 for buffer 2560032 on device 3\n",
            true,
        ),
        (
            Note::UnknownMessage {
                pid,
                message_type: 7,
            },
            "Unknown message type: 7\n",
            true,
        ),
    ] {
        assert_eq!(text(&note), expected);
        assert_eq!(note.is_error(), is_error, "{note:?}");
    }
}

#[test]
fn a_failure_is_one_sentence() {
    let sentence = "⚠ [PID 7] Failed on device 3: L1 is fragmented: `ttnn.linear` at model.py:57 needs \
                    4.0 KiB in one piece in each of 64 banks; 8.0 KiB are free, but the largest free \
                    block is 2.0 KiB.";
    let once = Note::Failed(FailedNote::fragmented(1));
    assert_eq!(text(&once), format!("{sentence}\n"));
    let often = Note::Failed(FailedNote::fragmented(100));
    assert_eq!(text(&often), format!("{sentence} (100 times)\n"));
}
