use super::patient;
use crate::files::{Ask, Found, Kernel, Reader, Source, Unread};
use crate::fuzz;
use crate::processes::Liveness;
use crate::shm::{self, Doubt, LeftOut, ReadRegionError, RefuseRegion, Region, SharedMemory};
use crate::tree::Tree;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn files(tree: &Tree) -> Vec<SharedMemory> {
    shm::look(&tree.roots(), &mut patient(), BTreeSet::new())
        .unwrap()
        .files
}

fn only(tree: &Tree) -> SharedMemory {
    let mut files = files(tree);
    assert_eq!(files.len(), 1);
    files.pop().unwrap()
}

#[test]
fn every_version_has_the_figures_that_were_written() {
    for version in 1..=4 {
        let unit = 1 << 20;
        let region = Region::parse(&fuzz::region(version, unit), Some(unit)).unwrap();
        assert_eq!(region.version, version);
        let of = |share: u64| [1, 2, 3, 4, 5].map(|class| share * class * unit);
        let figures = |bytes: &shm::Bytes| bytes.classes().map(|(_class, bytes)| bytes);
        assert_eq!(figures(&region.totals), of(3), "version {version}");
        let kernels = (version == 1).then_some(18 * unit);
        assert_eq!(region.totals.kernel, kernels);
        assert_eq!(region.chips.len(), 1);
        assert_eq!(
            (region.chips[0].chip_id, region.chips[0].is_remote),
            (3, false)
        );
        assert_eq!(figures(&region.chips[0].bytes), of(3));
        let processes: Vec<(usize, i32, &str)> = region
            .processes
            .iter()
            .map(|process| (process.slot, process.pid, process.name.as_str()))
            .collect();
        assert_eq!(processes, [(5, 4242, "python"), (63, 4243, "trainer")]);
        assert_eq!(figures(&region.processes[1].bytes), of(2));
        assert_eq!(
            region.processes[1].last_update_nanos,
            1_800_000_000_000_000_000
        );
        assert_eq!((region.attached, region.device_id), (2, 3));
        assert_eq!(region.doubts, [], "version {version}");
    }
}

#[test]
fn what_is_no_region_is_refused_with_its_reason() {
    let refused = |bytes: &[u8]| Region::parse(bytes, None).unwrap_err();
    assert_eq!(refused(&[]), RefuseRegion::TooShort { bytes: 0 });
    assert_eq!(refused(&[3, 0, 0]), RefuseRegion::TooShort { bytes: 3 });
    assert_eq!(refused(&[0; 8576]), RefuseRegion::Uninitialised);
    let mut newer = fuzz::region(4, 1);
    newer[0] = 5;
    let said = refused(&newer);
    assert_eq!(said, RefuseRegion::UnknownVersion { version: 5 });
    assert!(said.to_string().contains("not shown"), "{said}");
    for version in 1..=4 {
        let whole = fuzz::region(version, 1);
        for size in [4, 855, 8535, 8537, 8575, 8577, 9247, 9281] {
            let mut other = whole.clone();
            other.resize(size, 0);
            let said = refused(&other);
            assert!(
                matches!(said, RefuseRegion::WrongSize { .. }),
                "{version}, {size}: {said}"
            );
        }
    }
    let mut making = fuzz::region(4, 1);
    making[8536..8540].copy_from_slice(&1_u32.to_le_bytes());
    assert_eq!(refused(&making), RefuseRegion::NotReady { state: 1 });
    making[8536..8540].copy_from_slice(&0xDEAD_u32.to_le_bytes());
    assert_eq!(refused(&making), RefuseRegion::NotReady { state: 0xDEAD });
}

#[test]
fn slots_that_are_being_given_back_are_no_processes() {
    let mut bytes = fuzz::region(4, 1);
    bytes[856..860].copy_from_slice(&(-1_i32).to_le_bytes());
    let region = Region::parse(&bytes, None).unwrap();
    assert_eq!((region.releasing, region.processes.len()), (1, 2));
    // Before version 4 there was no such thing: it is a lie.
    let mut bytes = fuzz::region(3, 1);
    bytes[856..860].copy_from_slice(&(-1_i32).to_le_bytes());
    let region = Region::parse(&bytes, None).unwrap();
    assert!(region.doubts.contains(&Doubt::Pid { slot: 0, pid: -1 }));
}

#[test]
fn a_file_that_lies_is_doubted_aloud() {
    let mut bytes = fuzz::region(3, 9);
    bytes[4..8].copy_from_slice(&40_u32.to_le_bytes());
    bytes[48..56].copy_from_slice(&u64::MAX.to_le_bytes());
    // The same process twice, with more than fits in a sum, and a name that would clear the screen.
    let slot = 856 + 5 * 120;
    bytes.copy_within(slot..slot + 120, 856);
    bytes[slot + 8..slot + 16].copy_from_slice(&u64::MAX.to_le_bytes());
    bytes[slot + 56..slot + 60].copy_from_slice(b"\x1b[2J");
    let region = Region::parse(&bytes, Some(10)).unwrap();
    assert!(region.doubts.contains(&Doubt::Name {
        name: 10,
        inside: 9
    }));
    assert!(
        region
            .doubts
            .contains(&Doubt::Processes { said: 40, found: 3 })
    );
    assert!(region.doubts.contains(&Doubt::Twice { pid: 4242 }));
    let l1 = |doubt: &Doubt| matches!(doubt, Doubt::Total { class: "L1", .. });
    assert!(region.doubts.iter().any(l1), "{:?}", region.doubts);
    assert_eq!(region.processes[1].name, "\u{fffd}[2Jon");
}

#[test]
fn a_file_whose_slots_are_all_taken_says_that_nobody_else_is_counted() {
    let tree = Tree::new();
    let mut bytes = fuzz::region(3, 7);
    for slot in 0..64_usize {
        let at = 856 + slot * 120;
        let pid = 4200 + i32::try_from(slot).unwrap();
        bytes[at..at + 4].copy_from_slice(&pid.to_le_bytes());
    }
    let path = "dev/shm/tt_device_7_memory";
    tree.put(path, &bytes);
    let content = only(&tree).content.unwrap();
    assert!(content.region.doubts.contains(&Doubt::Full));
    assert!(content.is_full_of_gone());
    for pid in 4200..4264 {
        tree.process(pid, "python", 100);
    }
    let content = only(&tree).content.unwrap();
    assert!(content.region.doubts.contains(&Doubt::Full));
    assert!(!content.is_full_of_gone());
    bytes[856..860].fill(0);
    tree.put(path, &bytes);
    let content = only(&tree).content.unwrap();
    assert!(!content.region.doubts.contains(&Doubt::Full));
}

#[test]
fn processes_that_are_gone_or_another_are_told_from_those_that_live() {
    let tree = Tree::new();
    tree.put("dev/shm/tt_device_7_memory", fuzz::region(3, 7));
    // Written 10 000 000 s after boot: one began before that, and one after.
    tree.process(4242, "py) thon (", 100);
    let file = only(&tree);
    let content = file.content.unwrap();
    assert_eq!(content.liveness, [Liveness::Alive, Liveness::Dead]);
    assert_eq!(content.left_behind().dram, 14);
    tree.process(4243, "bash", 20_000_000);
    let content = only(&tree).content.unwrap();
    assert_eq!(content.liveness, [Liveness::Alive, Liveness::Reused]);
    assert_eq!(content.left_behind().dram, 14);
    tree.put("proc/4242/stat", "nonsense");
    let ended = |threads: u32| {
        let zeros = "0 ".repeat(16);
        tree.put(
            "proc/4243/stat",
            format!("4243 (x) Z {zeros}{threads} 0 100 0\n"),
        );
        only(&tree).content.unwrap().liveness[1].clone()
    };
    // Its first thread has ended, and another goes on.
    assert_eq!(ended(2), Liveness::Alive);
    assert_eq!(ended(1), Liveness::Dead);
    let content = only(&tree).content.unwrap();
    assert!(matches!(content.liveness[0], Liveness::Unknown(_)));
    assert_eq!(
        content.liveness[1],
        Liveness::Dead,
        "a zombie holds nothing"
    );
}

#[test]
fn files_that_are_none_are_refused_and_the_others_read() {
    let tree = Tree::new();
    let shm = |name: &str| tree.at(&format!("dev/shm/{name}"));
    tree.put("dev/shm/tt_device_7_memory", fuzz::region(3, 7));
    tree.put("dev/shm/TT_UMD_LOCK.x", "");
    symlink(shm("tt_device_7_memory"), shm("tt_device_1_memory")).unwrap();
    fs::create_dir(shm("tt_device_2_memory")).unwrap();
    tree.put("dev/shm/tt_device_3_memory", "");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        shm("tt_device_4_memory"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let huge = fs::File::create(shm("tt_device_5_memory")).unwrap();
    huge.write_at(&3_u32.to_le_bytes(), 0).unwrap();
    huge.set_len(1 << 40).unwrap();
    let read = files(&tree);
    let ids: Vec<u64> = read.iter().map(|file| file.id).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 7]);
    let error = |at: usize| read[at].content.as_ref().unwrap_err().clone();
    for odd in [0, 1, 3] {
        let said = error(odd);
        assert!(
            matches!(said, ReadRegionError::Unread(Unread::Malformed(_))),
            "{said}"
        );
    }
    assert_eq!(error(2), RefuseRegion::TooShort { bytes: 0 }.into());
    let said = error(4);
    assert!(
        matches!(
            said,
            ReadRegionError::Refused(RefuseRegion::WrongSize { version: 3, .. })
        ),
        "{said}"
    );
    assert!(read[5].content.is_ok());
}

#[test]
fn a_file_of_another_user_is_explained() {
    let tree = Tree::new();
    tree.put("dev/shm/tt_device_7_memory", fuzz::region(3, 7));
    let path = tree.at("dev/shm/tt_device_7_memory");
    fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        // Root may read everything: what the user would be told is all there is to look at.
        assert!(
            ReadRegionError::from(Unread::Denied)
                .to_string()
                .contains("0600")
        );
        return;
    }
    assert_eq!(only(&tree).content.unwrap_err(), ReadRegionError::Denied);
}

/// A writer whose figures agree with each other, but which never writes all of them at once. It may be paused in
/// between for longer than a reader looks: then only the figures themselves can tell.
#[test]
fn a_torn_reading_is_said_to_change_or_not_to_add_up() {
    let tree = Tree::new();
    tree.put("dev/shm/tt_device_1_memory", fuzz::region(3, 1));
    let path = tree.at("dev/shm/tt_device_1_memory");
    let done = Arc::new(AtomicBool::new(false));
    let writing = {
        let (path, done) = (path.clone(), Arc::clone(&done));
        std::thread::spawn(move || {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            let mut unit = 1_u64;
            while !done.load(Ordering::Relaxed) {
                unit = unit % 1000 + 1;
                let bytes = fuzz::region(3, unit);
                // The identity stays; the rest is written in parts, as many words by several threads are.
                for at in (48..8536).step_by(424) {
                    file.write_at(&bytes[at..(at + 424).min(8536)], at as u64)
                        .unwrap();
                }
            }
        })
    };
    let (mut doubted, mut changing) = (0, 0);
    for _round in 0..300 {
        let (region, is_changing) = shm::read_file(&path, 1).content.unwrap();
        changing += u32::from(is_changing);
        let sum = shm::Bytes::sum(region.processes.iter().map(|process| &process.bytes));
        let is_doubted = |doubt: &Doubt| matches!(doubt, Doubt::Total { class: "DRAM", .. });
        let torn = sum.dram != region.totals.dram;
        assert_eq!(torn, region.doubts.iter().any(is_doubted));
        doubted += u32::from(torn);
    }
    done.store(true, Ordering::Relaxed);
    writing.join().unwrap();
    println!("of 300 readings {changing} kept changing, {doubted} did not add up");
    let (region, is_changing) = shm::read_file(&path, 1).content.unwrap();
    assert!(!is_changing, "nobody writes any more");
    assert_eq!(region.chips.len(), 1);
}

/// A writer that dies at any point of making a file: the reader refuses it or has its figures.
#[test]
fn a_writer_that_crashed_at_any_byte_leaves_a_refusal_or_its_figures() {
    for version in 1..=4 {
        let whole = fuzz::region(version, 3);
        // Cut short, as by a disk that is full, and not written to the end, as by a crash after ftruncate.
        for at in 0..whole.len() {
            fuzz::check(&whole[..at]);
        }
        for at in (0..whole.len()).step_by(4) {
            let mut begun = vec![0; whole.len()];
            begun[..at].copy_from_slice(&whole[..at]);
            fuzz::check(&begun);
            if version == 4 && at <= 8536 {
                let read = Region::parse(&begun, None);
                assert!(read.is_err(), "not ready at {at}");
            }
        }
    }
}

/// A hundred thousand; `cargo xtask soak regions` sets more.
const CHANGED_FILES: &str = "TTMEM_TESTS_REGIONS";

#[test]
fn changed_files_are_read_or_refused() {
    let rounds = std::env::var(CHANGED_FILES).map_or(100_000, |text| text.parse().unwrap());
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random >> 1).unwrap()
    };
    let whole: Vec<Vec<u8>> = (0..=5).map(|version| fuzz::region(version, 7)).collect();
    let (mut read, mut doubted) = (0_u64, 0_u64);
    for round in 1..=rounds {
        let mut bytes = whole[next() % 6].clone();
        for _change in 0..next() % 8 {
            let at = next() % bytes.len();
            let what = match next() % 4 {
                0 => u64::MAX,
                1 => 0,
                _ => next() as u64,
            };
            let room = &mut bytes[at..];
            let many = room.len().min(8);
            room[..many].copy_from_slice(&what.to_le_bytes()[..many]);
        }
        if next() % 8 == 0 {
            bytes.truncate(next() % 9281);
        }
        fuzz::check(&bytes);
        if let Ok(region) = Region::parse(&bytes, Some(7)) {
            read += 1;
            doubted += u64::from(!region.doubts.is_empty());
        }
        if round % 1_000_000 == 0 || round == rounds {
            let refused = round - read;
            println!(
                "{round} changed files: {read} read, {doubted} of them with doubts, {refused} refused"
            );
        }
    }
    assert!(read > rounds / 10 && doubted > rounds / 100 && read < rounds);
}

#[test]
fn the_kept_inputs_of_the_fuzz_target_hold() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/corpus/upstream_shm"
    );
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        fuzz::check_region(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 8, "{count} inputs");
}

/// A folder that does not answer: the files in it do.
struct NoListing;

impl Source for NoListing {
    fn ask(&self, ask: &Ask) -> io::Result<Found> {
        if matches!(ask, Ask::Counters(..)) {
            loop {
                std::thread::park();
            }
        }
        Kernel.ask(ask)
    }
}

#[test]
fn files_of_known_chips_are_read_whoever_else_has_files_there() {
    let tree = Tree::new();
    for id in 1..=64 {
        tree.put(&format!("dev/shm/tt_device_{id}_memory"), "");
    }
    tree.put("dev/shm/tt_device_700_memory", fuzz::region(3, 700));
    let known = BTreeSet::from([700, 701]);
    let found = shm::look(&tree.roots(), &mut patient(), known.clone()).unwrap();
    assert_eq!((found.files.len(), found.left_out.len()), (65, 0));
    let mut reader = Reader::of(Arc::new(NoListing), std::time::Duration::from_secs(2));
    let found = shm::look(&tree.roots(), &mut reader, known).unwrap();
    assert_eq!(found.files.len(), 1);
    let file = &found.files[0];
    assert_eq!(
        (file.id, file.owner),
        (700, Some(rustix::process::geteuid().as_raw()))
    );
    assert_eq!(file.content.as_ref().unwrap().region.totals.dram, 2100);
    assert_eq!(found.left_out, [LeftOut::Unlisted]);
    let nothing_known = shm::look(&tree.roots(), &mut reader, BTreeSet::new());
    assert_eq!(nothing_known.unwrap_err(), Unread::Hung);
}

#[test]
fn other_names_and_other_files_leave_room_for_those_that_count() {
    let tree = Tree::new();
    for count in 0..2000 {
        tree.put(&format!("dev/shm/other_{count}"), "");
    }
    for id in 1..=100 {
        tree.put(&format!("dev/shm/tt_device_{id}_memory"), "");
    }
    let found = shm::look(&tree.roots(), &mut patient(), BTreeSet::new()).unwrap();
    let ids: Vec<u64> = found.files.iter().map(|file| file.id).collect();
    assert_eq!(ids, (1..=64).collect::<Vec<_>>());
    let owner = rustix::process::geteuid().as_raw();
    assert!(found.files.iter().all(|file| file.owner == Some(owner)));
    assert_eq!(found.left_out, [LeftOut::Of { owner, files: 36 }]);
}
