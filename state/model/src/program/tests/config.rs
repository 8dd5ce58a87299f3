//! Where the parts of the config lie, in examples worked out by hand.

use super::*;

fn grid() -> CoreRanges {
    CoreRanges::grid(8, 8)
}

fn with_kernels(kernels: impl IntoIterator<Item = KernelSpec>) -> Program {
    let mut program = program();
    for kernel in kernels {
        program.add_kernel(kernel).unwrap();
    }
    program
}

fn finalized(mut program: Program) -> Program {
    finalize(&mut [&mut program], TextPlace::Silicon).unwrap();
    program
}

fn tensix(program: &Program) -> CoreConfig {
    *program.config().unwrap().of(CoreType::Tensix)
}

fn refused(mut program: Program) -> String {
    let refusal = text(finalize(&mut [&mut program], TextPlace::Silicon));
    assert!(!program.is_finalized());
    refusal
}

/// A program in which every part of the config has another size.
fn example() -> Program {
    let mut program = with_kernels([
        KernelSpec::reader("reader", grid())
            .with_args(15, 3)
            .with_text_bytes(2002),
        KernelSpec::writer("writer", grid())
            .with_args(5, 0)
            .with_text_bytes(1000),
        KernelSpec::compute("compute", grid())
            .with_args(2, 5)
            .with_text_bytes(3000),
    ]);
    program.add_semaphore(CoreType::Tensix, grid()).unwrap();
    program.add_semaphore(CoreType::Tensix, grid()).unwrap();
    for index in [0, 1, 16] {
        program.add_cb(cb(index, grid(), 4096)).unwrap();
    }
    program
}

/// What [`example`] needs: 22 words of own arguments, 3 and 5 shared ones, 17 CB configs, and
/// five binaries, each part rounded to 16 bytes.
const EXAMPLE: CoreConfig = CoreConfig {
    runtime_args_at: 0,
    common_args_at: 96,
    semaphores_at: 96 + 16 + 32,
    cbs_at: 144 + 2 * 16,
    dataflow_at: 176 + 17 * 16,
    text_at: 448,
    text_bytes: 1008 + 2016 + 3 * 1008,
    total: 448 + 6048,
};

#[test]
fn parts_follow_one_another() {
    let program = finalized(example());
    assert_eq!(tensix(&program), EXAMPLE);
    let others = [CoreType::ActiveEth, CoreType::IdleEth, CoreType::Dram];
    for core_type in others {
        assert_eq!(program.config().unwrap().of(core_type).total, 0);
    }
}

#[test]
fn nothing_is_known_before_it_is_finalized() {
    let program = example();
    assert!(!program.is_finalized());
    assert_eq!(program.config(), None);
    assert_eq!(program.binary_bytes(), 0);
    assert_eq!(finalize(&mut [], TextPlace::Silicon), Ok(()));
}

#[test]
fn the_largest_group_counts_in_each_part() {
    let program = finalized(with_kernels([
        KernelSpec::reader("many arguments", cores(0, 0, 3, 7))
            .with_args(100, 0)
            .with_text_bytes(16),
        KernelSpec::reader("much text", cores(4, 0, 7, 7))
            .with_args(1, 9)
            .with_text_bytes(5000),
    ]));
    let config = tensix(&program);
    assert_eq!(config.common_args_at, 400);
    assert_eq!(config.semaphores_at, 400 + 48);
    assert_eq!(config.text_bytes, 5008);
}

#[test]
fn a_mock_device_has_no_text() {
    let mut program = example();
    finalize(&mut [&mut program], TextPlace::Mock).unwrap();
    let expected = CoreConfig {
        text_bytes: 0,
        total: 448,
        ..EXAMPLE
    };
    assert_eq!(tensix(&program), expected);
    assert_eq!(program.binary_bytes(), 0);
}

#[test]
fn programs_finalized_together_have_equal_layouts() {
    let mut small = with_kernels([KernelSpec::reader("r", grid())
        .with_args(100, 0)
        .with_text_bytes(64)]);
    let mut large = example();
    finalize(&mut [&mut small, &mut large], TextPlace::Silicon).unwrap();
    assert_eq!(small.config(), large.config());
    let config = tensix(&small);
    assert_eq!(config.common_args_at, 400, "the arguments of one");
    assert_eq!(
        config.text_bytes, EXAMPLE.text_bytes,
        "and the text of the other"
    );
    assert_eq!(config.total, EXAMPLE.total + 400 - 96);
    assert_eq!(
        (small.binary_bytes(), large.binary_bytes()),
        (2048, 5 * 2048)
    );
}

#[test]
fn one_program_too_large_finalizes_none() {
    let mut small = example();
    let mut large = with_kernels([KernelSpec::reader("r", grid()).with_text_bytes(70_657)]);
    assert!(finalize(&mut [&mut small, &mut large], TextPlace::Silicon).is_err());
    assert!(!small.is_finalized() && !large.is_finalized());
}

#[test]
fn remote_circular_buffers_count_from_the_top() {
    for (map, total) in [(wormhole(), 16 + 3 * 8 + 8), (blackhole(), 16 + 35 * 8 + 8)] {
        let mut program = Program::new(ProgramId(1), "", map);
        let reader = KernelSpec::reader("r", grid()).with_text_bytes(0);
        program.add_kernel(reader).unwrap();
        program.add_cb(cb(0, grid(), 64)).unwrap();
        let place = CbPlace::Remote {
            address: 1_400_000,
            bank_bytes: 64,
        };
        program.add_cb(global(30, grid(), 64, place)).unwrap();
        program.add_cb(global(29, grid(), 64, place)).unwrap();
        let config = tensix(&finalized(program));
        assert_eq!((config.cbs_at, config.dataflow_at), (0, total));
    }
}

#[test]
fn a_global_circular_buffer_is_configured_like_a_local_one() {
    let mut program = with_kernels([KernelSpec::reader("r", grid()).with_text_bytes(0)]);
    let place = CbPlace::Global {
        address: 1_400_000,
        bank_bytes: 64,
    };
    program.add_cb(global(4, grid(), 64, place)).unwrap();
    assert_eq!(tensix(&finalized(program)).total, 5 * 16);
}

#[test]
fn circular_buffers_on_cores_without_kernels_need_no_config() {
    let mut program = with_kernels([KernelSpec::reader("r", cores(0, 0, 0, 0)).with_text_bytes(0)]);
    program.add_cb(cb(0, cores(0, 0, 0, 0), 64)).unwrap();
    program.add_cb(cb(9, cores(1, 0, 1, 0), 64)).unwrap();
    assert_eq!(tensix(&finalized(program)).total, 16);
}

#[test]
fn local_and_remote_indices_may_not_cross() {
    let mut program = with_kernels([KernelSpec::reader("r", grid())]);
    let place = CbPlace::Remote {
        address: 1_400_000,
        bank_bytes: 64,
    };
    program.add_cb(cb(20, grid(), 64)).unwrap();
    program.add_cb(global(10, grid(), 64, place)).unwrap();
    assert_eq!(
        refused(program),
        "Circular buffer indices overlap for KernelGroup 0 on programmable core type 0. Local end \
         index 21, Remote start index 10"
    );
}

#[test]
fn dataflow_buffers_are_configured_by_slot_and_slots_are_reused_on_other_cores() {
    let mut program = with_kernels([KernelSpec::reader("r", grid()).with_text_bytes(0)]);
    for side in [cores(0, 0, 3, 7), cores(4, 0, 7, 7), cores(0, 0, 3, 7)] {
        program
            .add_storage(storage(StorageKind::Dataflow, side, 64))
            .unwrap();
    }
    program
        .add_storage(storage(StorageKind::Scratchpad, grid(), 64))
        .unwrap();
    let config = tensix(&finalized(program));
    assert_eq!((config.dataflow_at, config.text_at), (0, 2 * 16));
}

#[test]
fn semaphores_count_without_kernels_and_for_both_kinds_of_ethernet_cores() {
    let mut program = program();
    program
        .add_semaphore(CoreType::IdleEth, CoreRanges::core(0, 0))
        .unwrap();
    let program = finalized(program);
    let totals = CoreType::ALL.map(|core_type| program.config().unwrap().of(core_type).total);
    assert_eq!(totals, [0, 16, 16, 0]);
}

#[test]
fn text_of_active_ethernet_cores_is_in_the_ring_on_blackhole_only() {
    for (map, in_ring) in [(wormhole(), 0), (blackhole(), 20_000)] {
        let mut program = Program::new(ProgramId(1), "", map);
        for core_type in [CoreType::ActiveEth, CoreType::IdleEth] {
            let kernel = KernelSpec::ethernet("e", core_type, CoreRanges::core(0, 0))
                .with_args(8, 0)
                .with_text_bytes(20_000);
            program.add_kernel(kernel).unwrap();
        }
        let program = finalized(program);
        let config = program.config().unwrap();
        let active = config.of(CoreType::ActiveEth);
        assert_eq!((active.text_bytes, active.total), (in_ring, 32 + in_ring));
        assert_eq!(config.of(CoreType::IdleEth).total, 20_032);
        // In DRAM it is in either case.
        assert_eq!(program.binary_bytes(), 2 * 20_480);
    }
}

#[test]
fn a_program_may_fill_the_ring_and_no_more() {
    let full = |bytes| with_kernels([KernelSpec::writer("w", grid()).with_text_bytes(bytes)]);
    assert_eq!(tensix(&finalized(full(70_656))).total, 70_656);
    assert_eq!(
        refused(full(70_657)),
        "Program size (70672) too large for kernel config buffer (70656) on TENSIX"
    );
    assert_eq!(
        refused(full(u64::MAX)),
        format!(
            "Program size ({}) too large for kernel config buffer (70656) on TENSIX",
            u64::MAX
        )
    );
}

#[test]
fn the_refusal_names_the_cores() {
    let ethernet = |core_type, arguments| {
        let kernel = KernelSpec::ethernet("e", core_type, CoreRanges::core(0, 0));
        with_kernels([kernel.with_args(arguments, 0).with_text_bytes(0)])
    };
    assert!(finalized(ethernet(CoreType::ActiveEth, 160)).is_finalized());
    assert_eq!(
        refused(ethernet(CoreType::ActiveEth, 161)),
        "Program size (656) too large for kernel config buffer (640) on ACTIVE_ETH"
    );
    assert_eq!(
        refused(ethernet(CoreType::IdleEth, 6401)),
        "Program size (25616) too large for kernel config buffer (25600) on IDLE_ETH"
    );
    let mut dram = Program::new(ProgramId(1), "", blackhole());
    let cores = CoreRanges::core(0, 0);
    let kernel = KernelSpec::new("d", Processor::DataMovement0, CoreType::Dram, cores);
    dram.add_kernel(kernel.with_args(513, 0)).unwrap();
    assert_eq!(
        refused(dram),
        "Program size (2064) too large for kernel config buffer (2048) on DRAM"
    );
}

#[test]
fn arguments_begin_within_sixteen_bits() {
    let writer = |own, shared| KernelSpec::writer("w", grid()).with_args(own, shared);
    let reader = |own, shared| KernelSpec::reader("r", grid()).with_args(own, shared);
    assert_eq!(
        refused(with_kernels([writer(16_384, 0), reader(1, 0)])),
        "RTA offset 65536 overflows uint16_t"
    );
    assert_eq!(
        refused(with_kernels([writer(16_384, 1)])),
        "CRTA offset 65536 overflows uint16_t"
    );
    // A kernel without arguments has no offset.
    let silent = reader(0, 0).with_text_bytes(0);
    finalized(with_kernels([writer(16_384, 0).with_text_bytes(0), silent]));
    assert!(refused(with_kernels([writer(u32::MAX, u32::MAX)])).starts_with("CRTA offset"));
}

#[test]
fn binaries_begin_on_pages_of_their_own() {
    let bytes = |kernels: Vec<KernelSpec>| finalized(with_kernels(kernels)).binary_bytes();
    let reader = |text| KernelSpec::reader("r", grid()).with_text_bytes(text);
    assert_eq!(bytes(vec![]), 0);
    assert_eq!(bytes(vec![reader(1)]), 2048);
    assert_eq!(bytes(vec![reader(2048)]), 2048);
    assert_eq!(bytes(vec![reader(2049)]), 4096);
    let compute = KernelSpec::compute("c", grid()).with_text_bytes(3 * 2052);
    assert_eq!(bytes(vec![reader(2049), compute]), 4096 + 3 * 4096);
}

#[test]
fn groups_are_limited_by_their_numbering() {
    let single = (0..255)
        .map(|n| KernelSpec::reader("r", CoreRanges::core(n % 32, n / 32)).with_text_bytes(0));
    assert_eq!(
        refused(with_kernels(single)),
        "model: program 7 has 255 kernel groups, more than 254"
    );
}
