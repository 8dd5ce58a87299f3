//! A line that grows, and is held at close, and one that is only held.

use ttmem_report::{GrowingGroup, HeldAtClose, LeakGroup, Leaks, SCHEMA, Timestamp};

fn group(line: &str, bytes: u64) -> LeakGroup {
    LeakGroup {
        pid: Some(4242),
        instance: None,
        process: None,
        departed: false,
        line: Some(format!("/m/{line} forward")),
        callers: Vec::new(),
        operation: Some("ttnn::empty".to_owned()),
        class: None,
        buffers: 2,
        bytes,
        each_bytes: Some(bytes / 2),
    }
}

pub(crate) fn leaks() -> Leaks {
    let held = |line, growing| HeldAtClose {
        group: group(line, 4096),
        growing,
    };
    Leaks {
        schema: SCHEMA,
        time: Timestamp::from_unix_nanos(0),
        growing: vec![
            GrowingGroup {
                group: group("model.py:57", 8 << 20),
                mark: Some("step".to_owned()),
                since: 3,
                steps: 4,
                bytes_per_step: 2 << 20,
                sentence: String::new(),
            }
            .in_words(),
        ],
        held_at_close: vec![held("model.py:57", true), held("cache.py:9", false)],
        left_out: 0,
    }
}
