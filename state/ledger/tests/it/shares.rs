//! The table of devices is divided among processes and users.

use crate::world::{Board, Process, World, identity, mesh};
use ttmem_event::{Definition, DeviceId, EventKind, Source};
use ttmem_ledger::testing::TestLedger;
use ttmem_ledger::{Anomaly, Departure, IncompleteReason, Limits};

const DEVICES: u32 = 512;

fn world() -> World {
    World::with_limits(Limits {
        devices: DEVICES as usize,
        ..Limits::default()
    })
}

fn device(id: u32, unique_id: u64) -> Definition {
    crate::world::device(id, Some(unique_id), &Board::N150)
}

fn process_of(world: &mut World, uid: u32) -> Process {
    let mut identity = identity("model", Source::Attached, "");
    identity.uid = uid;
    Process(world.ledger.get_mut().join(identity))
}

/// Defines devices with ids of their own until one is refused; how many there are then.
fn take_devices(world: &mut World, process: Process, most: u32) -> u32 {
    take_devices_from(world, process, u64::from(process.0) << 32, most)
}

fn take_devices_from(world: &mut World, process: Process, first: u64, most: u32) -> u32 {
    let ledger = world.ledger.get_mut();
    let refused = (0..most).find(|id| {
        let definition = device(*id, first + u64::from(*id));
        match ledger.define(process.0, &definition) {
            Ok(()) => false,
            Err(refused) => {
                assert_eq!(refused, Anomaly::NoRoom);
                true
            }
        }
    });
    refused.unwrap_or(most)
}

fn refused(world: &World, process: Process) -> u64 {
    let ledger = world.ledger.borrow();
    let process = ledger.process(process.0).expect("it lives");
    process.facts.refused.of(IncompleteReason::DevicesRefused)
}

#[test]
fn whoever_comes_after_those_who_took_all_they_could_gets_its_devices() {
    let mut world = world();
    let greedy: Vec<(Process, u32)> = (0..8)
        .map(|_number| {
            let process = process_of(&mut world, 1000);
            (process, take_devices(&mut world, process, 1024))
        })
        .collect();
    assert_eq!(greedy[0].1, DEVICES * 7 / 16);
    for (process, _taken) in &greedy {
        assert_eq!(refused(&world, *process), 1);
    }
    let taken: u32 = greedy.iter().map(|(_process, taken)| taken).sum();
    assert!(taken <= DEVICES / 16 * 15, "{taken}");
    for uid in [1000, 1001] {
        let honest = process_of(&mut world, uid);
        assert_eq!(take_devices(&mut world, honest, 8), 8, "user {uid}");
        assert_eq!(refused(&world, honest), 0);
    }
    // Who is gone leaves its devices to others.
    for (process, _taken) in greedy {
        world.depart(process, Departure::Ended);
    }
    let next = process_of(&mut world, 1000);
    assert!(take_devices(&mut world, next, 1024) >= DEVICES / 5);
    world.view();
}

#[test]
fn devices_of_a_flood_replace_only_that_users() {
    let mut world = world();
    let honest = process_of(&mut world, 1000);
    assert_eq!(take_devices(&mut world, honest, 8), 8);
    world.depart(honest, Departure::Exited);
    for number in 1..=8 {
        let flood = process_of(&mut world, 1001);
        let first = number << 40;
        assert!(take_devices_from(&mut world, flood, first, 1024) > DEVICES / 4);
        world.depart(flood, Departure::Ended);
    }
    let view = world.view();
    assert_eq!(view.devices.len(), DEVICES as usize, "the table is full");
    let first = u64::from(honest.0) << 32;
    let are_of_honest = |device: &&ttmem_ledger::Device| {
        let unique = device.facts.unique_id;
        unique.is_some_and(|unique| (first..first + 8).contains(&unique))
    };
    assert_eq!(view.devices.iter().filter(are_of_honest).count(), 8);
}

#[test]
fn a_device_that_several_use_is_charged_once_and_to_one_who_uses_it() {
    let mut world = world();
    let define = |world: &mut World, process: Process, id: u32, unique: u64| {
        let ledger = world.ledger.get_mut();
        ledger.define(process.0, &device(id, unique))
    };
    let first = process_of(&mut world, 1000);
    let second = process_of(&mut world, 1001);
    for process in [first, second] {
        for id in 0..100 {
            define(&mut world, process, id, id.into()).expect("shared devices cost once");
        }
    }
    // The other has them now, and as many less of its own.
    world.depart(first, Departure::Exited);
    let most = DEVICES * 7 / 16;
    let own = (100..1024).take_while(|id| {
        let unique = u64::from(*id) << 32;
        define(&mut world, second, *id, unique).is_ok()
    });
    assert_eq!(u32::try_from(own.count()), Ok(most - 100));
    world.depart(second, Departure::Exited);
    let third = process_of(&mut world, 1000);
    assert_eq!(take_devices(&mut world, third, 1024), most, "all are free");
}

#[test]
fn a_state_that_is_taken_over_whole_makes_a_process_complete_again() {
    let mut world = world();
    let greedy = process_of(&mut world, 1000);
    let taken = take_devices(&mut world, greedy, 1024);
    let opened = |id| EventKind::DeviceOpened {
        device: DeviceId(id),
    };
    let state = |count: u32| -> (Vec<_>, Vec<_>) {
        let unique = |id: u32| (u64::from(greedy.0) << 32) + u64::from(id);
        let definitions = (0..count).flat_map(|id| [device(id, unique(id)), mesh(id, &[id])]);
        (definitions.collect(), (0..count).map(opened).collect())
    };
    let (definitions, events) = state(taken + 5);
    world.resync(greedy, &definitions, &events, (0, 0));
    assert!(refused(&world, greedy) >= 5);
    let news = world.ledger.get_mut().take_newly_incomplete();
    let reason = IncompleteReason::DevicesRefused;
    assert_eq!(news, [(greedy.0, reason), (greedy.0, reason)]);
    let (definitions, events) = state(taken);
    world.resync(greedy, &definitions, &events, (0, 0));
    assert_eq!(refused(&world, greedy), 0);
    world.view();
}

#[test]
fn a_chip_is_what_its_first_user_says_and_root() {
    let mut world = world();
    let [honest, other, root] = [1000, 65_534, 0].map(|uid| process_of(&mut world, uid));
    let define = |world: &mut World, process: Process, columns| {
        let Definition::Device(mut chip) = device(0, 7) else {
            unreachable!("it makes devices");
        };
        chip.grid_columns = columns;
        let defined = world
            .ledger
            .get_mut()
            .define(process.0, &Definition::Device(chip));
        defined.expect("there is room");
    };
    let columns = |world: &World| {
        let view = world.view();
        let facts = &view.devices[0].facts;
        facts.compute.expect("it is described").cores.len() / 8
    };
    define(&mut world, honest, 8);
    define(&mut world, other, 1);
    assert_eq!(columns(&world), 8, "another user changes nothing");
    define(&mut world, root, 7);
    assert_eq!(columns(&world), 7, "root does");
    world.depart(root, Departure::Ended);
    assert_eq!(columns(&world), 8, "who is left says what it knows");
    world.depart(honest, Departure::Ended);
    assert_eq!(columns(&world), 1);
    world.depart(other, Departure::Ended);
    let next = process_of(&mut world, 1001);
    define(&mut world, next, 6);
    assert_eq!(columns(&world), 6, "nobody describes it any more");
}
