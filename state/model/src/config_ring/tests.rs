use proptest::prelude::*;

use super::*;

const BASE: u64 = 1000;

/// One ring of 100 bytes; the launch messages are left at 0 unless a test asks.
fn one_ring() -> ConfigRings {
    ConfigRings::new(&[ConfigRingSpace {
        base: BASE,
        size: 100,
        always_base: false,
    }])
}

/// Reserves and takes without waiting, which must have been right.
fn take(rings: &mut ConfigRings, size: u64, sync: u64) -> u64 {
    let reservation = rings.reserve(&[size, 0, 0]);
    assert_eq!(reservation.sync, None, "size {size}, sync {sync}");
    rings.alloc(&reservation, &[size, 0, 0], sync);
    reservation.addresses[0]
}

fn live(rings: &ConfigRings, ring: usize) -> Vec<(u64, u64)> {
    let entries = rings.rings[ring].live.iter();
    entries.map(|entry| (entry.address, entry.size)).collect()
}

#[test]
fn an_empty_ring_starts_at_its_base_again() {
    let mut rings = one_ring();
    assert_eq!(take(&mut rings, 30, 1), BASE);
    assert_eq!(take(&mut rings, 30, 2), BASE + 30);
    rings.free(2);
    assert_eq!(rings.reserve(&[0, 0, 0]).addresses[0], BASE + 60);
    let reservation = rings.reserve(&[100, 0, 0]);
    assert_eq!(
        (reservation.addresses[0], reservation.sync),
        (BASE, None),
        "nothing is in the ring"
    );
}

#[test]
fn a_full_ring_wraps_to_its_base_and_waits_for_the_oldest() {
    let mut rings = one_ring();
    assert_eq!(take(&mut rings, 40, 1), BASE);
    assert_eq!(take(&mut rings, 40, 2), BASE + 40);
    assert_eq!(take(&mut rings, 20, 3), BASE + 80);
    let reservation = rings.reserve(&[30, 0, 0]);
    assert_eq!(reservation.addresses[0], BASE);
    assert_eq!(reservation.sync, Some(1));

    rings.free(1);
    rings.alloc(&reservation, &[30, 0, 0], 4);
    assert_eq!(
        live(&rings, 0),
        [(BASE + 40, 40), (BASE + 80, 20), (BASE, 30)]
    );
    // Behind the wrap the oldest entry is the end.
    assert_eq!(take(&mut rings, 10, 5), BASE + 30);
    assert_eq!(rings.reserve(&[1, 0, 0]).sync, Some(2));
}

#[test]
fn a_ring_wraps_without_waiting_when_its_beginning_is_free() {
    let mut rings = one_ring();
    take(&mut rings, 50, 1);
    take(&mut rings, 40, 2);
    rings.free(1);
    let reservation = rings.reserve(&[50, 0, 0]);
    assert_eq!((reservation.addresses[0], reservation.sync), (BASE, None));
}

#[test]
fn several_entries_have_to_finish_when_the_oldest_is_too_small() {
    let mut rings = one_ring();
    for sync in 1..=5 {
        take(&mut rings, 20, sync);
    }
    for (size, sync) in [(20, 1), (21, 2), (60, 3), (80, 4), (81, 5), (100, 5)] {
        let reservation = rings.reserve(&[size, 0, 0]);
        assert_eq!(reservation.addresses[0], BASE, "size {size}");
        assert_eq!(reservation.sync, Some(sync), "size {size}");
    }
}

#[test]
fn a_size_beyond_the_ring_waits_for_everything() {
    let mut rings = one_ring();
    take(&mut rings, 20, 1);
    take(&mut rings, 20, 2);
    let reservation = rings.reserve(&[u64::MAX, 0, 0]);
    assert_eq!(
        (reservation.addresses[0], reservation.sync),
        (BASE, Some(2))
    );
}

#[test]
fn the_table_of_eight_rows_holds_seven_programs() {
    let mut rings = one_ring();
    for sync in 1..=7 {
        assert_eq!(take(&mut rings, 1, sync), BASE + sync - 1);
    }
    let reservation = rings.reserve(&[1, 0, 0]);
    assert_eq!(
        (reservation.addresses[0], reservation.sync),
        (BASE + 7, Some(1)),
        "room in the ring, but no row in the table"
    );
    rings.free(1);
    assert_eq!(take(&mut rings, 1, 8), BASE + 7);
    assert_eq!(rings.reserve(&[1, 0, 0]).sync, Some(2));
}

#[test]
fn a_size_of_zero_reserves_nothing() {
    let mut rings = one_ring();
    take(&mut rings, 100, 1);
    let nothing = rings.reserve(&[0, 0, 0]);
    assert_eq!(nothing.addresses, [BASE + 100, 0, 0]);
    assert_eq!(nothing.sync, None);
    rings.alloc(&nothing, &[0, 0, 0], 2);
    assert_eq!(live(&rings, 0), [(BASE, 100)]);
    assert_eq!(rings.reserve(&[]), nothing, "left out is 0");
}

#[test]
fn active_ethernet_programs_start_at_the_base_one_after_the_other() {
    let mut rings = ConfigRings::new(&[ConfigRingSpace {
        base: 258_336,
        size: 640,
        always_base: true,
    }]);
    assert_eq!(take(&mut rings, 100, 7), 258_336);
    let reservation = rings.reserve(&[100, 0, 0]);
    assert_eq!(
        (reservation.addresses[0], reservation.sync),
        (258_336, Some(7)),
        "although 540 bytes are free behind it"
    );
    assert_eq!(rings.reserve(&[0, 0, 0]).sync, None);
    rings.free(7);
    assert_eq!(take(&mut rings, 640, 8), 258_336);
}

#[test]
fn after_a_replay_every_ring_waits_for_it() {
    let mut rings = one_ring();
    take(&mut rings, 10, 1);
    rings.mark_completely_full(50);
    for sizes in [[1, 0, 0], [0, 1, 0], [0, 0, 1], [100, 1, 1]] {
        assert_eq!(rings.reserve(&sizes).sync, Some(50), "{sizes:?}");
    }
    assert_eq!(rings.reserve(&[1, 0, 0]).addresses[0], BASE);
    rings.free(49);
    assert_eq!(rings.reserve(&[1, 0, 0]).sync, Some(50));
    rings.free(50);
    assert_eq!(rings.reserve(&[1, 1, 1]).sync, None);
}

#[test]
fn seven_multicast_launches_may_be_ahead_but_one_unicast() {
    let mut rings = one_ring();
    for sync in 1..=7 {
        let reservation = rings.reserve(&[0, 1, 0]);
        assert_eq!(reservation.sync, None, "launch {sync}");
        assert_eq!(reservation.addresses[1], sync - 1);
        rings.alloc(&reservation, &[0, 1, 0], sync);
    }
    let eighth = rings.reserve(&[0, 1, 0]);
    assert_eq!((eighth.addresses[1], eighth.sync), (0, Some(1)));
    assert_eq!(
        rings.reserve(&[10, 0, 0]).sync,
        None,
        "only launch messages are short"
    );

    let unicast = rings.reserve(&[0, 0, 1]);
    assert_eq!(unicast.sync, None);
    rings.alloc(&unicast, &[0, 0, 1], 8);
    assert_eq!(rings.reserve(&[0, 0, 1]).sync, Some(8));
}

#[test]
fn the_latest_wait_of_all_rings_counts() {
    let mut rings = ConfigRings::new(&[
        ConfigRingSpace {
            base: 0,
            size: 10,
            always_base: false,
        },
        ConfigRingSpace {
            base: 0,
            size: 10,
            always_base: false,
        },
    ]);
    for (sizes, sync) in [([10, 0, 0, 0], 3), ([0, 10, 0, 0], 9)] {
        let reservation = rings.reserve(&sizes);
        rings.alloc(&reservation, &sizes, sync);
    }
    assert_eq!(rings.reserve(&[1, 0, 0, 0]).sync, Some(3));
    assert_eq!(rings.reserve(&[1, 1, 0, 0]).sync, Some(9));
    rings.free(9);
    assert_eq!(rings.reserve(&[10, 10, 0, 0]).sync, None);
}

proptest! {
    /// What is reserved overlaps nothing that may still run once its wait is over.
    #[test]
    fn live_entries_overlap_only_if_their_sync_was_waited_for(
        always_base: bool,
        steps in prop::collection::vec((0_u64..=110, 0_u64..=110, 0_u64..=1, 0_u64..4), 1..200),
    ) {
        let space = ConfigRingSpace { base: BASE, size: 110, always_base: false };
        let mut rings = ConfigRings::new(&[space, ConfigRingSpace { always_base, ..space }]);
        for (number, (first, second, launches, behind)) in (10_u64..).zip(steps) {
            // Something finishes by itself now and then.
            if behind > 0 {
                rings.free(number.saturating_sub(behind * 2));
            }
            let sizes = [first, second, launches, 1 - launches];
            let reservation = rings.reserve(&sizes);
            for (ring, size) in sizes.into_iter().enumerate() {
                let start = reservation.addresses[ring];
                let space = rings.rings[ring].space;
                prop_assert!(start >= space.base && start + size <= space.end());
                for entry in &rings.rings[ring].live {
                    let overlaps = size > 0 && start < entry.end() && entry.address < start + size;
                    prop_assert!(
                        !overlaps || reservation.sync >= Some(entry.sync),
                        "{entry:?} under {start}+{size}, wait {:?}",
                        reservation.sync
                    );
                }
            }
            if let Some(sync) = reservation.sync {
                prop_assert!(sync < number, "waits for itself");
                rings.free(sync);
            }
            let before: Vec<usize> = rings.rings.iter().map(|ring| ring.live.len()).collect();
            rings.alloc(&reservation, &sizes, number);
            for ((ring, before), size) in rings.rings.iter().zip(before).zip(sizes) {
                prop_assert_eq!(ring.live.len(), before + usize::from(size > 0), "no row was lost");
            }
        }
    }
}
