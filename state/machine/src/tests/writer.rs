//! Writers of shared memory as processes of their own, which tear, crash and lie while it is read.

use crate::fuzz;
use crate::shm::{self, Doubt, Region};
use crate::tree::Tree;
use rustix::fs::{FileType, Mode, mknodat};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ASKED: &str = "TTMEM_HOST_WRITER";
const NAME: &str = "tests::writer::writer_process";

/// Figures are multiples of a number from here on, so that those of two writes differ.
const FIRST_UNIT: u64 = 1_000_003;

/// Not a test of its own: the body of the processes that the tests start and kill.
#[test]
fn writer_process() {
    let Ok(asked) = std::env::var(ASKED) else {
        return;
    };
    let (part, path) = asked.split_once(' ').unwrap();
    match part {
        "honest" => write_in_parts(Path::new(path)),
        "liar" => lie(Path::new(path)),
        other => unreachable!("{other}"),
    }
}

/// Writes figures that agree, a few words at a time as several threads do, until it is killed.
fn write_in_parts(path: &Path) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for unit in FIRST_UNIT.. {
        for version in [3, 4] {
            let bytes = fuzz::region(version, unit);
            let file = match version {
                3 => &file,
                _ => &OpenOptions::new()
                    .write(true)
                    .open(path.with_file_name("tt_device_4_memory"))
                    .unwrap(),
            };
            for at in (48..8536).step_by(40) {
                file.write_all_at(&bytes[at..(at + 40).min(8536)], at as u64)
                    .unwrap();
            }
        }
    }
}

/// Makes of a file whatever a file can be, until it is killed.
fn lie(path: &Path) {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    loop {
        let _gone = fs::remove_file(path);
        match next() % 8 {
            0 => symlink("/dev/zero", path).unwrap(),
            1 => mknodat(
                rustix::fs::CWD,
                path,
                FileType::Fifo,
                Mode::RUSR | Mode::WUSR,
                0,
            )
            .unwrap(),
            2 => {}
            3 => fs::write(path, vec![0xFF; usize::try_from(next() % 20_000).unwrap()]).unwrap(),
            _ => {
                fs::write(
                    path,
                    fuzz::region(u32::try_from(next() % 6).unwrap(), next() % (1 << 40)),
                )
                .unwrap();
                let file = OpenOptions::new().write(true).open(path).unwrap();
                for _change in 0..20 {
                    match next() % 4 {
                        0 => file.set_len(next() % 20_000).unwrap(),
                        _ => file
                            .write_all_at(&next().to_le_bytes(), next() % 9000)
                            .unwrap(),
                    }
                }
            }
        }
    }
}

/// A writer; killed when the test is done with it.
struct Writer(Child);

impl Writer {
    fn start(part: &str, path: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", NAME, "--nocapture"])
            .env(ASKED, format!("{part} {}", path.display()))
            .stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Whether all figures are those of one write: the same number behind every class of totals and processes.
fn is_of_one_write(region: &Region) -> bool {
    let unit = region.totals.dram / 3;
    let is_multiple = |bytes: &shm::Bytes, share: u64| {
        // Before version 4 circular buffers are in no sum, and so may be of another write.
        let classes = if region.version >= 4 { 5 } else { 4 };
        let expected = (1..).map(|class| class * share * unit);
        let found = bytes.classes().into_iter().map(|(_name, bytes)| bytes);
        found
            .zip(expected)
            .take(classes)
            .all(|(found, expected)| found == expected)
    };
    let shares = region.processes.iter().zip([1, 2]);
    unit > 0
        && is_multiple(&region.totals, 3)
        && region.processes.len() == 2
        && shares
            .into_iter()
            .all(|(process, share)| is_multiple(&process.bytes, share))
}

#[test]
fn what_a_process_writes_and_dies_over_is_of_one_write_or_said_not_to_be() {
    let tree = Tree::new();
    let mut counts = [0_u32; 3];
    let files: [(u64, PathBuf); 2] = [3, 4].map(|version| {
        let path = format!("dev/shm/tt_device_{version}_memory");
        (version, tree.at(&path))
    });
    for (version, path) in &files {
        tree.put(
            &format!("dev/shm/tt_device_{version}_memory"),
            fuzz::region(u32::try_from(*version).unwrap(), FIRST_UNIT),
        );
        assert!(path.exists());
    }
    for _round in 0..20 {
        let mut writer = Writer::start("honest", &files[0].1);
        let check = |counts: &mut [u32; 3]| {
            for (_version, path) in &files {
                // The number in the region is the unit, which changes; the name is of no interest here.
                let (region, is_changing) = shm::read_file(path, FIRST_UNIT).content.unwrap();
                let is_doubted = region
                    .doubts
                    .iter()
                    .any(|doubt| !matches!(doubt, Doubt::Name { .. }));
                assert!(
                    is_changing || is_doubted || is_of_one_write(&region),
                    "{region:?}"
                );
                counts[if is_changing {
                    0
                } else {
                    1 + usize::from(is_doubted)
                }] += 1;
            }
        };
        // Until it writes, and some more.
        let first = shm::read_file(&files[0].1, 1).content.unwrap().0;
        while shm::read_file(&files[0].1, 1)
            .content
            .unwrap()
            .0
            .has_figures_of(&first)
        {
            std::thread::yield_now();
        }
        for _reading in 0..100 {
            check(&mut counts);
        }
        assert!(
            writer.0.try_wait().unwrap().is_none(),
            "it writes until it is killed"
        );
        drop(writer);
        // It was killed anywhere in a write: what it left is still right or doubted.
        check(&mut counts);
        let (_region, is_changing) = shm::read_file(&files[0].1, 1).content.unwrap();
        assert!(!is_changing, "nobody writes any more");
    }
    let [changing, settled, doubted] = counts;
    println!("readings: {settled} of one write, {doubted} doubted, {changing} changing");
    assert!(settled > 0 && changing + doubted > 0, "both were seen");
}

#[test]
fn whatever_a_process_makes_of_a_file_is_read_or_refused() {
    let tree = Tree::new();
    tree.put("dev/shm/tt_device_7_memory", fuzz::region(3, 7));
    tree.put("dev/shm/tt_device_9_memory", fuzz::region(3, 9));
    let mut writer = Writer::start("liar", &tree.at("dev/shm/tt_device_7_memory"));
    let mut reader = super::patient();
    let (mut read, mut refused) = (0, 0);
    while read < 20 || refused < 20 || read + refused < 2000 {
        assert!(
            writer.0.try_wait().unwrap().is_none(),
            "it writes until it is killed"
        );
        for file in shm::look(&tree.roots(), &mut reader, BTreeSet::new())
            .unwrap()
            .files
        {
            if file.id == 9 {
                let totals = file.content.unwrap().region.totals;
                assert_eq!(totals.dram, 27, "its neighbour is as it was");
                continue;
            }
            match file.content {
                Ok(content) => {
                    read += 1;
                    assert!(
                        content.region.processes.len() <= 64 && content.region.chips.len() <= 16
                    );
                    assert_eq!(content.liveness.len(), content.region.processes.len());
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
        }
    }
    assert!(reader.stuck().is_empty());
}
