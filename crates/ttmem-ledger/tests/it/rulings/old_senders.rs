//! Senders of the old protocol: no identities, no classes in frees, no cores.

use super::{L1_BASE, configured};
use crate::world::{Board, World};
use ttmem_event::{Class, KernelKind, Source};
use ttmem_ledger::{Anomaly, Departure};

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
    world.depart(old, Departure::Died);
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
    world.ledger.configure_device(configured(100));
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
