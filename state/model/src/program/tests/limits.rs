//! What a program cannot have, and the texts of it.

use super::*;

fn grid() -> CoreRanges {
    CoreRanges::grid(8, 8)
}

#[test]
fn an_index_can_be_used_once_on_each_core() {
    let mut program = program();
    program.add_cb(cb(3, cores(0, 0, 3, 7), 64)).unwrap();
    program.add_cb(cb(3, cores(4, 0, 7, 7), 64)).unwrap();
    let taken = "Invalid circular buffer index: Cannot add circular buffer at index 3, another \
                 circular buffer already exists";
    assert_eq!(text(program.add_cb(cb(3, cores(3, 7, 3, 7), 64))), taken);
    let place = CbPlace::Remote {
        address: 0,
        bank_bytes: 64,
    };
    let remote = global(3, cores(7, 7, 7, 7), 64, place);
    assert_eq!(text(program.add_cb(remote)), taken);
}

#[test]
fn indices_end_where_the_chip_says() {
    for (map, last) in [(wormhole(), 31), (blackhole(), 63)] {
        let mut program = Program::new(ProgramId(1), "", map);
        program.add_cb(cb(last, grid(), 64)).unwrap();
        let limit = last + 1;
        assert_eq!(
            text(program.add_cb(cb(limit, grid(), 64))),
            format!(
                "Buffer index ({limit}) exceeds max number of circular buffers per core ({limit})"
            )
        );
    }
}

#[test]
fn a_circular_buffer_is_a_whole_number_of_pages_that_can_be_counted() {
    let mut program = program();
    assert_eq!(
        text(program.add_cb(CbSpec::local(0, grid(), 4097, 2048))),
        "Failed allocation attempt on buffer index 0. Total circular buffer size 4097 B must be \
         divisible by page size 2048 B"
    );
    program
        .add_cb(CbSpec::local(0, grid(), 65_535 * 16, 16))
        .unwrap();
    assert_eq!(
        text(program.add_cb(CbSpec::local(1, grid(), 65_536 * 16, 16))),
        "For buffer index 1, number of CB pages 65536 is greater than 65535. Would cause \
         wraparound in the CB calculations."
    );
    assert_eq!(
        text(program.add_cb(CbSpec::local(1, grid(), 64, 0))),
        "model: circular buffer index 1 has pages of 0 B"
    );
    assert_eq!(
        text(program.update_cb_size(0, 100)),
        "Total circular buffer size 100 B must be divisible by page size 16 B"
    );
}

#[test]
fn a_global_circular_buffer_fits_its_buffer() {
    let place = CbPlace::Global {
        address: 1_400_000,
        bank_bytes: 4096,
    };
    let mut program = program();
    let larger = "Cannot set circular buffer size to 8192. This is larger than the associated \
                  dynamically allocated L1 buffer bank size of 4096 B";
    assert_eq!(text(program.add_cb(global(0, grid(), 8192, place))), larger);
    assert_eq!(program.add_cb(global(0, grid(), 4096, place)), Ok(0));
    assert_eq!(text(program.update_cb_size(0, 8192)), larger);
    assert_eq!(
        text(program.update_cb_address(0, 1_300_000, 2048)),
        "Cannot set circular buffer size to 4096. This is larger than the associated dynamically \
         allocated L1 buffer bank size of 2048 B"
    );
    assert_eq!(program.storage()[0].address, 1_400_000, "nothing changed");
}

#[test]
fn only_a_global_circular_buffer_can_be_moved() {
    let place = CbPlace::Remote {
        address: 1_400_000,
        bank_bytes: 64,
    };
    let mut program = program();
    program.add_cb(cb(0, grid(), 64)).unwrap();
    program.add_cb(global(31, grid(), 64, place)).unwrap();
    assert_eq!(
        text(program.update_cb_address(0, 0, 64)),
        "model: circular buffer 0 of program 7 is not globally allocated"
    );
    assert_eq!(
        text(program.update_cb_address(1, 0, 64)),
        "CircularBuffer must not be a GlobalCircularBuffer!"
    );
    for result in [
        program.update_cb_address(2, 0, 64),
        program.update_cb_size(2, 64),
    ] {
        assert_eq!(
            text(result),
            "No circular buffer with id 2 exists in Program 7"
        );
    }
}

#[test]
fn circular_and_dataflow_buffers_exclude_each_other() {
    let mut with_cb = program();
    with_cb.add_cb(cb(0, grid(), 64)).unwrap();
    assert_eq!(
        text(with_cb.add_storage(storage(StorageKind::Dataflow, grid(), 64))),
        "Cannot add dataflow buffer to a program with circular buffers"
    );
    assert_eq!(
        text(with_cb.add_storage(storage(StorageKind::Scratchpad, grid(), 64))),
        "model: Cannot add scratchpad to a program with circular buffers"
    );
    let mut with_scratchpad = program();
    with_scratchpad
        .add_storage(storage(StorageKind::Scratchpad, grid(), 64))
        .unwrap();
    assert_eq!(
        text(with_scratchpad.add_cb(cb(0, grid(), 64))),
        "Cannot add a legacy circular buffer to a Metal 2.0 Program; Metal 2.0 Programs use \
         DataflowBuffers, and cannot be modified after construction."
    );
    with_scratchpad
        .add_storage(storage(StorageKind::Dataflow, grid(), 64))
        .unwrap();
    assert_eq!(
        text(with_scratchpad.add_cb(cb(0, grid(), 64))),
        "Cannot add circular buffer to a program that already has dataflow buffers"
    );
    assert_eq!(
        text(with_scratchpad.update_cb_size(0, 64)),
        "No circular buffer with id 0 exists in Program 7"
    );
}

#[test]
fn dataflow_buffers_need_bytes_and_a_slot_on_each_of_their_cores() {
    let mut program = program();
    let dataflow = |cores| storage(StorageKind::Dataflow, cores, 64);
    assert_eq!(
        text(program.add_storage(storage(StorageKind::Dataflow, grid(), 0))),
        "Entry size must be > 0"
    );
    for _ in 0..32 {
        program.add_storage(dataflow(cores(0, 0, 0, 0))).unwrap();
    }
    assert_eq!(
        text(program.add_storage(dataflow(grid()))),
        "Cannot create DFB 32: every one of the 32 slots this arch supports per core is already \
         taken by a dataflow buffer sharing a core with it"
    );
    program.add_storage(dataflow(cores(1, 0, 1, 0))).unwrap();
}

#[test]
fn a_core_has_sixteen_semaphores_numbered_from_the_lowest_free() {
    let (left, right) = (cores(0, 0, 0, 3), cores(1, 0, 1, 3));
    let mut program = program();
    let tensix = CoreType::Tensix;
    for number in 0..8 {
        assert_eq!(program.add_semaphore(tensix, left.clone()), Ok(number));
    }
    assert_eq!(program.add_semaphore(tensix, right.clone()), Ok(0));
    assert_eq!(program.add_semaphore(tensix, grid()), Ok(8));
    assert_eq!(program.add_semaphore(tensix, right), Ok(1));
    for number in 9..16 {
        assert_eq!(program.add_semaphore(tensix, left.clone()), Ok(number));
    }
    assert_eq!(
        text(program.add_semaphore(tensix, cores(0, 2, 3, 3))),
        "Cannot add semaphore on core 0-2. Max number of semaphores (16) reached!"
    );
    let ethernet = program.add_semaphore(CoreType::ActiveEth, left.clone());
    assert_eq!(ethernet, Ok(0), "numbered apart from those of Tensix cores");
    assert_eq!(program.add_semaphore(CoreType::IdleEth, left), Ok(1));
}

#[test]
fn a_semaphore_needs_one_number_for_all_of_its_cores() {
    let mut program = program();
    let tensix = CoreType::Tensix;
    let both = CoreRanges::from_ranges([range(0, 0, 0, 0), range(2, 0, 2, 0)]).unwrap();
    for _ in 0..8 {
        program
            .add_semaphore(tensix, CoreRanges::grid(2, 1))
            .unwrap();
    }
    // Numbers 8 to 15: on core 2 behind those it shares with core 1.
    for _ in 0..8 {
        program.add_semaphore(tensix, cores(1, 0, 2, 0)).unwrap();
    }
    assert_eq!(
        text(program.add_semaphore(tensix, cores(1, 0, 1, 0))),
        "Cannot add semaphore on core 1-0. Max number of semaphores (16) reached!"
    );
    assert_eq!(
        text(program.add_semaphore(tensix, both)),
        "Unable to initialize semaphore on CoreRangeSet {[0-0 - 0-0], \
         [2-0 - 2-0]}: all 16 IDs are in use"
    );
}

#[test]
fn nothing_is_added_to_a_compiled_program() {
    let mut program = program();
    assert!(!program.is_compiled());
    program.compile();
    assert!(program.is_compiled());
    let results = [
        text(program.add_kernel(KernelSpec::reader("reader.cpp", grid()))),
        text(program.add_cb(cb(0, grid(), 64))),
        text(program.add_storage(storage(StorageKind::Dataflow, grid(), 64))),
        text(program.add_semaphore(CoreType::Tensix, grid())),
    ];
    let names = ["kernel", "circular buffer", "dataflow buffer", "semaphore"];
    for (result, what) in results.iter().zip(names) {
        assert_eq!(
            *result,
            format!("Cannot add {what} to an already compiled program 7")
        );
    }
    assert!(!program.has_storage());
}

#[test]
fn nothing_is_added_on_no_cores() {
    let mut program = program();
    let nowhere = CoreRanges::default;
    for (result, what) in [
        (
            text(program.add_kernel(KernelSpec::reader("r", nowhere()))),
            "kernel",
        ),
        (
            text(program.add_cb(cb(0, nowhere(), 64))),
            "circular buffer",
        ),
        (
            text(program.add_storage(storage(StorageKind::Scratchpad, nowhere(), 64))),
            "scratchpad",
        ),
        (
            text(program.add_semaphore(CoreType::Tensix, nowhere())),
            "semaphore",
        ),
    ] {
        assert_eq!(result, format!("model: {what} of program 7 has no cores"));
    }
}
