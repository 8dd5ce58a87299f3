use proptest::prelude::*;

use super::*;

const BASE: u64 = 4096;

fn node(program: u64, config: u64, text: u64) -> TraceNode {
    TraceNode {
        program,
        config,
        text,
    }
}

#[test]
fn text_that_comes_again_is_sent_once_and_lies_at_the_bottom() {
    let nodes = [node(1, 100, 200), node(2, 100, 300), node(1, 100, 200)];
    let places = lay_out(BASE, 10_000, &nodes).expect("fits");
    assert_eq!(places[0].text_at, BASE);
    assert_eq!(places[2].text_at, BASE);
    assert_eq!(
        places
            .iter()
            .map(|place| place.sends_text)
            .collect::<Vec<_>>(),
        [true, true, false]
    );
    // Configuration and the text used once come down from the top.
    assert_eq!(places[0].config_at, BASE + 9_900);
    assert_eq!(places[1].config_at, BASE + 9_800);
    assert_eq!(places[1].text_at, BASE + 9_500);
    assert_eq!(places[2].config_at, BASE + 9_400);
}

#[test]
fn only_the_first_launch_waits_while_there_is_room() {
    let nodes: Vec<TraceNode> = (0..7).map(|program| node(program, 10, 10)).collect();
    let places = lay_out(BASE, 1_000, &nodes).expect("fits");
    assert!(places[0].stall_before && places[0].waits_for.is_none());
    assert!(places[1..].iter().all(|place| !place.stall_before));
}

#[test]
fn the_eighth_launch_waits_for_the_first() {
    let nodes: Vec<TraceNode> = (0..10).map(|_| node(1, 10, 10)).collect();
    let places = lay_out(BASE, 10_000, &nodes).expect("fits");
    let waits: Vec<Option<usize>> = places.iter().map(|place| place.waits_for).collect();
    assert_eq!(waits[..7], [None; 7]);
    assert_eq!(waits[7..], [Some(0), Some(1), Some(2)]);
    assert!(places[7..].iter().all(|place| place.stall_before));
}

#[test]
fn room_is_made_where_the_text_is_needed_latest() {
    // 1 comes back next, 2 after it: 3 has to go over one of them.
    let mut nodes = vec![node(1, 0, 400), node(2, 0, 400)];
    nodes.extend((0..8).map(|_| node(9, 0, 0)));
    nodes.extend([node(3, 0, 500), node(1, 0, 400), node(2, 0, 400)]);
    let places = lay_out(BASE, 1_000, &nodes).expect("fits");
    assert_eq!((places[0].text_at, places[1].text_at), (BASE, BASE + 400));
    assert_eq!(places[10].text_at, BASE + 500, "over 2, not over 1");
    assert!(!places[11].sends_text);
    assert!(places[12].sends_text);
}

#[test]
fn a_program_that_fills_the_ring_waits_for_the_one_before() {
    let nodes = [node(1, 400, 600), node(2, 300, 700), node(1, 400, 600)];
    let places = lay_out(BASE, 1_000, &nodes).expect("each fits alone");
    for (index, place) in places.iter().enumerate().skip(1) {
        assert_eq!(place.waits_for, Some(index - 1));
        assert!(place.stall_before && place.sends_text);
    }
}

#[test]
fn a_program_larger_than_the_ring_has_no_layout() {
    assert_eq!(lay_out(BASE, 1_000, &[node(1, 1, 1_000)]), None);
    assert_eq!(lay_out(BASE, 1_000, &[node(1, u64::MAX, 1)]), None);
    assert_eq!(lay_out(u64::MAX, 1_000, &[node(1, 1, 1)]), None);
    assert_eq!(lay_out(BASE, 1_000, &[]), Some(Vec::new()));
}

#[test]
fn a_program_without_text_sends_none() {
    let places = lay_out(BASE, 100, &[node(1, 60, 0)]).expect("fits");
    assert_eq!(places[0].config_at, BASE + 40);
    assert_eq!((places[0].text_at, places[0].sends_text), (BASE, false));
}

/// What one launch reads: first byte, one past the last.
type Span = (u64, u64);

fn overlap(a: Span, b: Span) -> bool {
    a.0 < b.1 && b.0 < a.1 && a.0 < a.1 && b.0 < b.1
}

proptest! {
    /// A launch writes over nothing that an unfinished one reads, and text that is not
    /// sent is still there.
    #[test]
    fn nothing_in_use_is_overwritten(
        programs in prop::collection::vec((0_u64..300, 0_u64..700), 1..12),
        launches in prop::collection::vec(any::<prop::sample::Index>(), 1..150),
    ) {
        const SIZE: u64 = 1_000;
        let programs: Vec<(u64, (u64, u64))> = (0..).zip(programs).collect();
        let nodes: Vec<TraceNode> = launches
            .iter()
            .map(|launch| {
                let (program, (config, text)) = launch.get(&programs);
                node(*program, *config, *text)
            })
            .collect();
        let places = lay_out(BASE, SIZE, &nodes).expect("at most 998 bytes each");
        let spans: Vec<[Span; 2]> = places
            .iter()
            .zip(&nodes)
            .map(|(place, node)| [
                (place.config_at, place.config_at + node.config),
                (place.text_at, place.text_at + node.text),
            ])
            .collect();
        let mut finished = 0;
        let mut texts: HashMap<u64, Span> = HashMap::new();
        for (index, place) in places.iter().enumerate() {
            let [config, text] = spans[index];
            prop_assert!(config.1 <= BASE + SIZE && text.1 <= BASE + SIZE);
            prop_assert!(!overlap(config, text));
            if let Some(last) = place.waits_for {
                prop_assert!(last >= finished && last < index, "a wait that is no wait");
                finished = last + 1;
            }
            prop_assert!(index - finished < LAUNCH_WINDOW, "too far ahead");
            let written = if place.sends_text { vec![config, text] } else { vec![config] };
            for running in &spans[finished..index] {
                for write in &written {
                    prop_assert!(running.iter().all(|read| !overlap(*read, *write)));
                }
            }
            texts.retain(|_, kept| written.iter().all(|write| !overlap(*kept, *write)));
            if place.sends_text {
                texts.insert(nodes[index].program, text);
            } else if nodes[index].text > 0 {
                prop_assert_eq!(texts.get(&nodes[index].program), Some(&text), "it is gone");
            }
        }
    }

    /// Sizes that no program has must not break it.
    #[test]
    fn any_nodes_are_taken(
        nodes in prop::collection::vec((0_u64..4, 0_u64..60, 0_u64..60), 0..100),
    ) {
        let nodes: Vec<TraceNode> =
            nodes.into_iter().map(|(program, config, text)| node(program, config, text)).collect();
        let fits = nodes.iter().all(|node| node.config + node.text <= 100);
        prop_assert_eq!(lay_out(0, 100, &nodes).is_some(), fits);
    }
}
