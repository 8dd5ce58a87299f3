//! Kernels, their identities and their groups.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use ttmem_event::KernelId;

fn id(spec: KernelSpec) -> KernelId {
    Kernel::new(spec).id
}

#[test]
fn equal_binaries_have_equal_ids_wherever_they_run() {
    let reader = |cores| KernelSpec::reader("kernels/dataflow/reader.cpp", cores);
    let here = id(reader(CoreRanges::grid(8, 8)).with_args(3, 1));
    assert_eq!(here, id(reader(CoreRanges::grid(1, 1)).with_args(9, 0)));
    assert_ne!(here, KernelId(0));
}

#[test]
fn whatever_changes_the_binary_changes_the_id() {
    let cores = || CoreRanges::grid(1, 1);
    let specs = [
        KernelSpec::reader("a.cpp", cores()),
        KernelSpec::reader("b.cpp", cores()),
        KernelSpec::writer("a.cpp", cores()),
        KernelSpec::compute("a.cpp", cores()),
        KernelSpec::ethernet("a.cpp", CoreType::ActiveEth, cores()),
        KernelSpec::ethernet("a.cpp", CoreType::IdleEth, cores()),
        KernelSpec::reader("a.cpp", cores()).with_compile_args(&[1]),
        KernelSpec::reader("a.cpp", cores()).with_compile_args(&[1, 0]),
        KernelSpec::reader("a.cpp", cores()).with_compile_args(&[0, 1]),
        KernelSpec::reader("a.cpp", cores()).with_text_bytes(4096),
    ];
    let count = specs.len();
    let ids: BTreeSet<_> = specs.into_iter().map(id).collect();
    assert_eq!(ids.len(), count);
}

#[test]
fn a_kernel_is_called_like_its_file() {
    for (source, name) in [
        ("ttnn/cpp/kernels/reader_unary.cpp", "reader_unary"),
        ("compute", "compute"),
        (".hidden", ".hidden"),
        ("a.b.cpp", "a.b"),
        ("", ""),
    ] {
        let spec = KernelSpec::reader(source, CoreRanges::grid(1, 1));
        assert_eq!(spec.name(), name);
    }
}

#[test]
fn given_text_is_shared_out_in_words() {
    let binaries = |spec: KernelSpec| Kernel::new(spec).binaries;
    let cores = || CoreRanges::grid(1, 1);
    let reader = KernelSpec::reader("r", cores()).with_text_bytes(2002);
    assert_eq!(binaries(reader), [2004]);
    let compute = KernelSpec::compute("c", cores());
    assert_eq!(binaries(compute.clone().with_text_bytes(3000)), [1000; 3]);
    assert_eq!(
        binaries(compute.clone().with_text_bytes(3005)),
        [1008, 1000, 1000]
    );
    assert_eq!(binaries(compute.clone().with_text_bytes(0)), [0; 3]);
    let huge = Kernel::new(compute.with_text_bytes(u64::MAX));
    assert!(huge.bytes() > u64::MAX / 2);
}

#[test]
fn text_that_is_not_given_is_the_compilers() {
    let kernel = Kernel::new(KernelSpec::compute(
        "path/to/bmm.cpp",
        CoreRanges::grid(1, 1),
    ));
    assert_eq!(
        kernel.binaries,
        crate::jit::text_bytes("bmm", Processor::Compute)
    );
    assert_eq!(kernel.bytes(), kernel.binaries.iter().sum::<u64>());
}

#[test]
fn two_kernels_cannot_share_a_processor() {
    let mut program = program();
    let first = KernelSpec::reader("x/first.cpp", cores(0, 0, 3, 3));
    assert_eq!(program.add_kernel(first), Ok(0));
    let second = KernelSpec::reader("second.cpp", cores(3, 2, 5, 5));
    assert_eq!(
        text(program.add_kernel(second)),
        "Core Overlap Between (\"first\") and new kernel (\"second\") at 3-2"
    );
    let beside = KernelSpec::reader("second.cpp", cores(4, 0, 5, 5));
    assert_eq!(program.add_kernel(beside), Ok(1));
    let writer = KernelSpec::writer("first.cpp", cores(0, 0, 3, 3));
    assert_eq!(program.add_kernel(writer), Ok(2));
    assert_eq!(program.kernels().len(), 3);
}

#[test]
fn a_kernel_needs_cores_that_have_its_processor() {
    let cores = || CoreRanges::grid(1, 1);
    let compute = KernelSpec::new("c", Processor::Compute, CoreType::ActiveEth, cores());
    assert_eq!(
        text(program().add_kernel(compute)),
        "model: kernel \"c\" cannot run on active_eth cores"
    );
    let drisc = KernelSpec::new("d", Processor::DataMovement0, CoreType::Dram, cores());
    assert_eq!(
        text(program().add_kernel(drisc.clone())),
        "model: kernel \"d\" cannot run on dram cores"
    );
    let mut on_blackhole = Program::new(ProgramId(1), "", blackhole());
    assert_eq!(on_blackhole.add_kernel(drisc), Ok(0));
}

#[test]
fn groups_are_cores_with_the_same_kernels() {
    let mut program = program();
    let whole = cores(0, 0, 7, 7);
    program
        .add_kernel(KernelSpec::compute("one", cores(0, 0, 3, 7)))
        .unwrap();
    program
        .add_kernel(KernelSpec::compute("other", cores(4, 0, 7, 6)))
        .unwrap();
    program
        .add_kernel(KernelSpec::reader("reader", whole.clone()))
        .unwrap();
    program
        .add_kernel(KernelSpec::writer("writer", whole))
        .unwrap();
    let link = KernelSpec::ethernet("link", CoreType::ActiveEth, cores(0, 0, 0, 1));
    program.add_kernel(link).unwrap();
    // Ordered by their kernels; inside of each: BRISC, NCRISC, TRISC.
    let groups = program.groups(CoreType::Tensix);
    let seen = groups.iter().map(|g| (g.cores.len(), g.kernels.clone()));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [(32, vec![3, 2, 0]), (28, vec![3, 2, 1]), (4, vec![3, 2])]
    );
    assert_eq!(program.groups(CoreType::ActiveEth)[0].kernels, [4]);
    assert_eq!(program.groups(CoreType::IdleEth), []);
    assert_eq!(program.cores(CoreType::Tensix), CoreSet::grid(8, 8));
    assert_eq!(program.cores(CoreType::ActiveEth).len(), 2);
    let used = CoreType::ALL.map(|core_type| program.uses(core_type));
    assert_eq!(used, [true, true, false, false]);
}

proptest! {
    #[test]
    fn every_core_is_in_the_one_group_of_its_kernels(
        rectangles in proptest::collection::vec((0_u16..6, 0_u16..6, 0_u16..4, 0_u16..4), 0..9)
    ) {
        let processors = [Processor::DataMovement0, Processor::DataMovement1, Processor::Compute];
        let kernels: Vec<Kernel> = rectangles
            .iter()
            .zip(processors.into_iter().cycle())
            .map(|(&(x, y, w, h), processor)| {
                let cores = cores(x, y, x + w, y + h);
                Kernel::new(KernelSpec::new("k", processor, CoreType::Tensix, cores))
            })
            .collect();
        let groups = groups::groups(&kernels, CoreType::Tensix);
        for (x, y) in (0..10).flat_map(|x| (0..10).map(move |y| (x, y))) {
            let on_core: BTreeSet<usize> = (0..kernels.len())
                .filter(|place| kernels[*place].spec.cores.set().contains(x, y))
                .collect();
            let found: Vec<_> = groups.iter().filter(|g| g.cores.contains(x, y)).collect();
            prop_assert_eq!(found.len(), usize::from(!on_core.is_empty()));
            if let Some(group) = found.first() {
                let kernels: BTreeSet<usize> = group.kernels.iter().copied().collect();
                prop_assert_eq!(kernels, on_core);
            }
        }
    }
}
