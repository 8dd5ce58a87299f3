//! What grows from mark to mark, by line, and what was held at the end.

use super::*;
use ttmem_report::{Leaks, MemoryClass};

const LEAKING: TextId = TextId(4);
const TIDY: TextId = TextId(5);

/// A process of which each step leaves a buffer of one line behind, in two ways, and replaces that
/// of another.
fn training(ledger: &mut Ledger, steps: u64, leaks: bool) -> u32 {
    let process = joined(ledger, 4001);
    for (id, text) in [
        (
            LEAKING,
            "ttnn::empty\n/home/ada/model.py:57 forward\n/home/ada/main.py:3 <module>",
        ),
        (
            TextId(6),
            "ttnn::empty\n/home/ada/model.py:57 forward\n/home/ada/main.py:4 <module>",
        ),
        (TIDY, "ttnn::add\n/home/ada/model.py:60 forward"),
        (TextId(7), "step"),
    ] {
        let text = text.to_owned();
        ledger
            .define(process, &Definition::Text { id, text })
            .unwrap();
    }
    let place = |ledger: &mut Ledger, time, id, operation| {
        let address = n150().dram.base + 64 * id;
        let mut kind = allocated(id, Class::Dram, address, 64);
        if let EventKind::BufferAllocated { operation: of, .. } = &mut kind {
            *of = operation;
        }
        apply(ledger, process, time, kind);
    };
    // Weights.
    place(ledger, 1, 1, LEAKING);
    for step in 0..steps {
        let time = 1000 + step * 10;
        let number = step;
        let name = TextId(7);
        apply(ledger, process, time, EventKind::Marked { name, number });
        if leaks && step >= 3 {
            let operation = if step % 2 == 0 { LEAKING } else { TextId(6) };
            place(ledger, time + 1, 100 + step, operation);
        }
        place(ledger, time + 2, 1_000_000 + step, TIDY);
        if step > 0 {
            let freed = EventKind::BufferFreed {
                mesh: BOTH,
                buffer: BufferId(1_000_000 + step - 1),
            };
            apply(ledger, process, time + 3, freed);
        }
    }
    process
}

fn leaks_of(ledger: Ledger) -> Leaks {
    Served::new(ledger).client().leaks().unwrap()
}

#[test]
fn a_line_that_leaves_a_buffer_behind_in_each_step_is_named() {
    let mut ledger = empty_ledger();
    training(&mut ledger, 20, true);
    let leaks = leaks_of(ledger);
    let [growing] = leaks.growing.as_slice() else {
        panic!("{leaks:?}");
    };
    assert_eq!(
        growing.sentence,
        "+768 B per step since step 3, model.py:57, called from main.py:3, main.py:4"
    );
    assert_eq!((growing.since, growing.steps), (3, 16));
    let group = &growing.group;
    assert_eq!(group.line.as_deref(), Some("/home/ada/model.py:57 forward"));
    let callers = [
        "/home/ada/main.py:3 <module>",
        "/home/ada/main.py:4 <module>",
    ];
    assert_eq!(group.callers, callers, "equal bytes by name");
    assert_eq!(group.operation.as_deref(), Some("ttnn::empty"));
    assert_eq!(
        (group.class, group.each_bytes),
        (Some(MemoryClass::Dram), Some(768))
    );
    // With the weights, and what the last step has left.
    assert_eq!((group.buffers, group.departed), (18, false));
    assert_eq!(leaks.held_at_close, []);
}

#[test]
fn without_a_leak_nothing_grows() {
    for steps in [0, 1, 5, 20, 1000] {
        let mut ledger = empty_ledger();
        training(&mut ledger, steps, false);
        let leaks = leaks_of(ledger);
        assert_eq!(leaks.growing, [], "{steps} steps");
    }
}

#[test]
fn what_is_held_at_close_is_told_apart_from_what_grew() {
    for closes in [true, false] {
        let mut ledger = empty_ledger();
        let process = training(&mut ledger, 10_000, true);
        if closes {
            apply(
                &mut ledger,
                process,
                900_000,
                EventKind::MeshClosed { mesh: BOTH },
            );
        }
        ledger.depart(process, Departure::Exited, 900_001);
        let leaks = leaks_of(ledger);
        let held = leaks.held_at_close.iter();
        let held: Vec<_> = held
            .map(|held| (held.group.place(), held.group.buffers, held.growing))
            .collect();
        assert_eq!(
            held,
            [("model.py:57", 9998, true), ("model.py:60", 1, false)]
        );
        let [growing] = leaks.growing.as_slice() else {
            panic!("{leaks:?}");
        };
        assert!(growing.group.departed);
        // Of so many steps not each is kept: the first that is had some without a leak.
        assert!((760..=768).contains(&growing.bytes_per_step), "{growing:?}");
    }
}

/// A mark that everybody sees.
fn mark(time: u64, number: u64) -> Change {
    Change::SetMark {
        user: 0,
        time,
        name: "".into(),
        number,
    }
}

#[test]
fn marks_of_readers_count_where_a_process_sets_none() {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    for before in 0..20 {
        ledger.make(mark(before, 100 + before));
    }
    for step in 0..6 {
        ledger.make(mark(NOW + 100 * step, step));
        let address = n150().dram.base + 64 * step;
        let kind = allocated(1 + step, Class::Dram, address, 64);
        apply(&mut ledger, process, NOW + 100 * step + 50, kind);
    }
    let leaks = leaks_of(ledger);
    let [growing] = leaks.growing.as_slice() else {
        panic!("{leaks:?}");
    };
    assert_eq!(growing.sentence, "+768 B per mark since mark 0, ttnn::add");
}

/// The growth that a scraper is told of each process.
fn scraped_growth(served: &Served) -> Vec<u64> {
    let request = b"GET /metrics?min_age=0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let answer = super::hostility::exchange(served, request);
    let lines = answer.lines();
    let growth = lines.filter(|line| line.starts_with("ttmem_process_growth_per_mark_bytes{"));
    let growth = growth.filter_map(|line| line.rsplit(' ').next()?.parse().ok());
    growth.collect()
}

#[test]
fn metrics_and_the_line_at_the_top_have_the_figure_of_the_list() {
    let mut ledger = empty_ledger();
    training(&mut ledger, 20, true);
    let served = Served::new(ledger);
    let leaks = served.client().leaks().unwrap();
    let [process] = leaks.growing_processes()[..] else {
        panic!("{leaks:?}");
    };
    assert_eq!((process.bytes_per_step, process.lines), (768, 1));
    assert_eq!(process.sentence(), leaks.growing[0].sentence);
    assert_eq!(scraped_growth(&served), [768]);
}

/// Each time it opens its devices again, what it left behind there is given back.
#[test]
fn what_is_left_behind_at_every_close_does_not_pile_up() {
    for opens_again in [true, false] {
        let mut ledger = empty_ledger();
        let process = joined(&mut ledger, 4001);
        let define = |ledger: &mut Ledger, id, text: &str| {
            let text = text.to_owned();
            let definition = Definition::Text { id, text };
            ledger.define(process, &definition).unwrap();
        };
        define(
            &mut ledger,
            LEAKING,
            "ttnn::empty\n/home/ada/model.py:57 forward",
        );
        define(&mut ledger, TextId(7), "play");
        for play in 0..30 {
            let time = 1000 + play * 10;
            if opens_again {
                let opened = EventKind::MeshOpened { mesh: BOTH };
                apply(&mut ledger, process, time, opened);
            }
            let (name, number) = (TextId(7), play);
            apply(
                &mut ledger,
                process,
                time + 1,
                EventKind::Marked { name, number },
            );
            let address = n150().dram.base + 64 * play;
            let mut kind = allocated(play, Class::Dram, address, 64);
            if let EventKind::BufferAllocated { operation, .. } = &mut kind {
                *operation = LEAKING;
            }
            apply(&mut ledger, process, time + 2, kind);
            if opens_again || play == 29 {
                let closed = EventKind::MeshClosed { mesh: BOTH };
                apply(&mut ledger, process, time + 3, closed);
            }
        }
        ledger.depart(process, Departure::Exited, 900_001);
        let leaks = leaks_of(ledger);
        let grew: Vec<_> = leaks
            .held_at_close
            .iter()
            .map(|held| held.growing)
            .collect();
        assert_eq!(grew, [!opens_again], "{leaks:?}");
        assert_eq!(leaks.growing.is_empty(), opens_again, "{leaks:?}");
        // All of it was left behind, once or again and again.
        assert_eq!(leaks.held_at_close[0].group.buffers, 30);
    }
}

#[test]
fn what_lay_on_closed_devices_grows_no_more() {
    let mut ledger = empty_ledger();
    let process = training(&mut ledger, 20, true);
    let closed = EventKind::MeshClosed { mesh: BOTH };
    apply(&mut ledger, process, 900_000, closed);
    let served = Served::new(ledger);
    let leaks = served.client().leaks().unwrap();
    assert_eq!(leaks.growing, [], "it lives, and holds nothing");
    assert!(
        leaks.held_at_close.iter().any(|held| held.growing),
        "{leaks:?}"
    );
    assert_eq!(scraped_growth(&served), [0; 0]);
}
