//! Senders of the old protocol: no identities, no classes in frees, no cores.

use super::{L1_BASE, configured};
use crate::world::{Board, World};
use ttmem_event::{BufferId, Class, EventKind, KernelKind, Source};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Anomaly, Change, Departure};

#[test]
fn an_old_free_with_two_classes_at_the_address_takes_the_newest_and_is_counted() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_alloc(0, Class::L1, 4096, 10)
        .old_alloc(0, Class::Dram, 4096, 100)
        .old_free(0, 4096);
    assert_eq!(world.charged(0, Class::L1), 10);
    assert_eq!(world.charged(0, Class::Dram), 0);
    assert_eq!(world.anomalies(old, Anomaly::AmbiguousFree), 1);
    world.by(old).old_free(0, 4096);
    assert_eq!(world.charged(0, Class::L1), 0);
    assert_eq!(world.anomalies(old, Anomaly::AmbiguousFree), 1);
}

#[test]
fn old_reports_received_at_one_time_keep_their_order() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .at(50)
        .old_alloc(0, Class::Dram, 4096, 100)
        .at(50)
        .old_alloc(0, Class::L1, 4096, 10)
        .at(50)
        .old_free(0, 4096);
    assert_eq!(world.charged(0, Class::Dram), 100);
    assert_eq!(world.charged(0, Class::L1), 0);
}

#[test]
fn old_cbs_are_a_multiset_and_a_free_prefers_the_equal_size() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_cb(0, L1_BASE, 1)
        .old_cb(0, L1_BASE, 20)
        .old_cb(0, L1_BASE, 20)
        .old_cb(0, L1_BASE, 300)
        .old_cb_free(0, L1_BASE, 20);
    assert_eq!(world.cb_bytes(0), 321);
    // No such size: the newest goes.
    world.by(old).old_cb_free(0, L1_BASE, 0);
    assert_eq!(world.cb_bytes(0), 21);
    world
        .by(old)
        .old_cb_free(0, L1_BASE, 1)
        .old_cb_free(0, L1_BASE, 20)
        .expecting(Anomaly::UnknownFree)
        .old_cb_free(0, L1_BASE, 20);
    assert_eq!((world.cb_bytes(0), world.totals(0).cb.count), (0, 0));
}

#[test]
fn an_old_kernel_with_another_size_replaces_and_is_counted() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_kernel(0, KernelKind::Application, 1, 100)
        .old_kernel(0, KernelKind::Application, 1, 70);
    assert_eq!(world.kernel_bytes(0), 70);
    assert_eq!(world.anomalies(old, Anomaly::KernelChanged), 1);
    world
        .by(old)
        .old_unload(0, 1)
        .expecting(Anomaly::UnknownUnload)
        .old_unload(0, 1);
    assert_eq!(world.kernel_bytes(0), 0);
}

#[test]
fn what_old_senders_do_not_tell_is_unknown_and_not_guessed() {
    let mut world = World::new();
    let (model, old) = (world.process("model"), world.old_sender("old"));
    world.by(model).chip(0, &Board::N150);
    assert!(world.geometry(0).occupied_bytes.is_some());
    world
        .by(old)
        .old_alloc(0, Class::L1, 4096, 100)
        .old_cb(0, L1_BASE, 10)
        .old_kernel(0, KernelKind::Application, 1, 10);
    let view = world.view();
    assert_eq!(view.devices.len(), 1);
    let l1 = view.devices[0].totals.class(Class::L1);
    assert_eq!((l1.charged.bytes(), l1.requested_bytes), (100, 100));
    let geometry = world.geometry(0);
    assert_eq!(geometry.occupied_bytes, None);
    assert_eq!(geometry.cb_resident_bytes, None);
    assert_eq!(geometry.kernel_resident_bytes, None);
    let l1 = geometry.classes[Class::L1.index()];
    assert_eq!((l1.union_bytes, l1.largest_free_bytes), (100, None));
    // Of two sources the better one is named; alone, the old one is.
    assert_eq!(view.devices[0].source, Some(Source::Attached));
    world.depart(old, Departure::Ended);
    assert_eq!(world.geometry(0).occupied_bytes, Some(L1_BASE * 64));
}

#[test]
fn old_device_numbers_and_sizes_have_bounds() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_alloc(1023, Class::Dram, 1, 100 << 30)
        .expecting(Anomaly::AbsurdSize)
        .old_alloc(1023, Class::Dram, 2, (100 << 30) + 1)
        .expecting(Anomaly::InvalidDevice)
        .old_alloc(1024, Class::Dram, 1, 1)
        .expecting(Anomaly::InvalidDevice)
        .old_alloc(-1, Class::Dram, 1, 1)
        .expecting(Anomaly::ZeroSize)
        .old_alloc(0, Class::Dram, 1, 0);
    assert_eq!(world.view().devices[0].source, Some(Source::Legacy));
    assert_eq!(world.totals(0).class(Class::Dram).buffers, 1);
}

#[test]
fn an_old_size_above_a_configured_capacity_is_absurd_whatever_a_runtime_reports() {
    let mut world = World::new();
    world
        .ledger
        .get_mut()
        .make(Change::ConfigureDevice(Box::new(configured(100))));
    let (old, model) = (world.old_sender("old"), world.process("model"));
    world
        .by(old)
        .old_alloc(0, Class::Dram, 1, 1200)
        .expecting(Anomaly::AbsurdSize)
        .old_alloc(0, Class::Dram, 2, 1201);
    // Otherwise the order of two processes' events would decide what is live.
    world.by(model).chip(0, &Board::N150);
    world
        .by(old)
        .expecting(Anomaly::AbsurdSize)
        .old_alloc(0, Class::Dram, 2, 1201);
}

#[test]
fn giving_back_what_was_never_held_makes_no_device() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .expecting(Anomaly::UnknownFree)
        .old_free(5, 77)
        .expecting(Anomaly::UnknownFree)
        .old_cb_free(5, 77, 10)
        .expecting(Anomaly::UnknownUnload)
        .old_unload(5, 77);
    assert!(world.view().devices.is_empty());
}

/// A client may speak the old vocabulary over the new wire.
#[test]
fn of_the_new_words_an_old_sender_may_use_those_about_its_own_events() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_alloc(0, Class::Dram, 4096, 100)
        .tell(EventKind::EventsLost { count: 3 })
        .tell(EventKind::EventsElided { count: 4 })
        .expecting(Anomaly::Malformed)
        .mark(1, 1)
        .expecting(Anomaly::Malformed)
        .create(1);
    let facts = world.process_view(old).account;
    assert_eq!((facts.lost_events, facts.elided_events), (3, 4));
    assert_eq!(world.charged(0, Class::Dram), 100);
}

#[test]
fn an_old_senders_fork_may_free_what_its_parent_holds() {
    let mut world = World::new();
    let child = world.old_sender("child");
    world
        .by(child)
        .expecting(Anomaly::UnknownFree)
        .old_free(0, 4096)
        .tell(EventKind::Forked {
            first_buffer: BufferId(u64::MAX - 1),
        })
        // Both on a device it never spoke of and on one where it holds something else.
        .old_free(0, 4096)
        .old_alloc(0, Class::L1, 8192, 10)
        .old_free(0, 4096)
        .old_free(0, 8192)
        .expecting(Anomaly::UnknownFree)
        .old_cb_free(0, 4096, 1);
    assert_eq!(world.process_view(child).account.inherited_frees, 2);
    assert_eq!(world.charged(0, Class::L1), 0);
}

#[test]
fn an_old_senders_resync_replaces_all_and_carries_peaks_and_dispatches() {
    let mut world = World::new();
    let old = world.old_sender("old");
    world
        .by(old)
        .old_alloc(0, Class::Dram, 4096, 100)
        .old_alloc(1, Class::Dram, 1, 7)
        .old_cb(0, L1_BASE, 20);
    let on = |device, class, id, size_bytes| EventKind::LegacyAllocated {
        device,
        class,
        size_bytes,
        id,
    };
    let freed = |device, id| EventKind::LegacyFreed { device, id };
    let allocated = |class, id, size_bytes| on(0, class, id, size_bytes);
    let mut whats = vec![
        allocated(Class::Dram, 1, 900),
        freed(0, 1),
        // It holds nothing there any more.
        on(2, Class::L1, 5, 70),
        freed(2, 5),
        allocated(Class::Dram, 4096, 300),
        allocated(Class::Dram, 4096, 300),
        allocated(Class::L1, 4096, 10),
    ];
    let loaded = EventKind::LegacyKernelLoaded {
        device: 0,
        kind: KernelKind::Application,
        size_bytes: 50,
        id: 9,
    };
    whats.extend([loaded; 12]);
    world.resync(old, &[], &whats, (1, 2));
    assert_eq!(world.charged(0, Class::Dram), 300);
    assert_eq!((world.cb_bytes(0), world.kernel_bytes(0)), (0, 50));
    let view = world.process_view(old);
    let lost = (view.account.lost_events, view.account.elided_events);
    assert_eq!(lost, (1, 2));
    let mut programs = view.rows.programs.iter();
    let (_slot, kernel) = programs.next().expect("the kernel's program");
    assert_eq!(kernel.on[0].dispatches, 12);
    let peak_of = |held: usize, class| {
        let class = view.account.devices[held].totals.class(class);
        class.charged.peak().bytes
    };
    assert_eq!(peak_of(0, Class::Dram), 900);
    assert_eq!(peak_of(1, Class::L1), 70);
    assert_eq!(view.account.devices.len(), 2);
    // Addresses still are what it is known by: twice booked, the L1 buffer newer than both.
    world
        .by(old)
        .old_free(0, 4096)
        .old_free(0, 4096)
        .old_free(0, 4096)
        .expecting(Anomaly::UnknownFree)
        .old_free(0, 4096);
    assert_eq!(world.anomalies(old, Anomaly::AmbiguousFree), 1);
    assert_eq!(
        world.charged(0, Class::Dram) + world.charged(0, Class::L1),
        0
    );
}
