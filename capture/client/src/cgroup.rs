//! How much memory the system lets this process still have.
//!
//! A container's limit is not an error that an allocation could return: whoever
//! goes beyond it is killed, and that would be the program that is tracked. So
//! before the client takes memory it reads what the process's own control group
//! and those above it have left. Files that are missing, or say what makes no
//! sense, limit nothing. All by bare system calls: a thread may be cancelled in
//! those of the C library.

use rustix::fs::{Mode, OFlags};
use std::path::{Path, PathBuf};

/// Bytes that are read of a file: more than any of these has.
const LONGEST_FILE: usize = 16 << 10;
/// Groups above a process's own that are looked at.
const DEEPEST: usize = 32;

/// Where the two versions of control groups keep their figures.
#[derive(Debug)]
struct Files {
    limit: &'static str,
    used: &'static str,
    /// In `memory.stat`: file contents that the system gives up before it kills anybody.
    inactive: &'static str,
    active: &'static str,
}

const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
    active: "total_active_file",
};

const VERSION_2: Files = Files {
    limit: "memory.max",
    used: "memory.current",
    inactive: "inactive_file",
    active: "active_file",
};

/// Bytes that this process may still take before a limit kills it; `None` where there is none.
pub(crate) fn available_bytes() -> Option<u64> {
    available_below(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"))
}

/// The same, by the groups that a file lists and the file system that has them.
fn available_below(list: &Path, mount: &Path) -> Option<u64> {
    let list = read(list)?;
    let available = list.lines().filter_map(|line| of_group(line, mount));
    available.min()
}

/// What is left to the group of a line, `number:controllers:path`, and to those above it.
fn of_group(line: &str, mount: &Path) -> Option<u64> {
    let (_number, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (files, mount) = match controllers {
        "" => (VERSION_2, mount.to_owned()),
        _some if controllers.split(',').any(|name| name == "memory") => {
            (VERSION_1, mount.join("memory"))
        }
        _others => return None,
    };
    let own = path.strip_prefix('/')?;
    if own.split('/').any(|part| part == "..") {
        // Outside of what this process is shown.
        return None;
    }
    // Inside a container the path may be one of the host's: then only the top is there, and it is
    // the container's own.
    let ancestors = Path::new(own).ancestors().take(DEEPEST);
    let mut folders: Vec<PathBuf> = ancestors.map(|part| mount.join(part)).collect();
    folders.push(mount);
    let available = folders.iter().filter_map(|folder| left_in(folder, &files));
    available.min()
}

fn left_in(folder: &Path, files: &Files) -> Option<u64> {
    let number = |name: &str| read(&folder.join(name))?.trim().parse::<u64>().ok();
    // "max" is no number, and no limit.
    let limit = number(files.limit)?;
    let used = number(files.used)?;
    let statistics = read(&folder.join("memory.stat")).unwrap_or_default();
    let figure = |name: &str| {
        let mut lines = statistics.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value
            .and_then(|value| value.parse::<u64>().ok())
            .unwrap_or(0)
    };
    // What was read once goes first; of what is in use, giving up all would stall the program.
    let spare = figure(files.inactive).saturating_add(figure(files.active) / 2);
    let needed = used.saturating_sub(spare);
    Some(limit.saturating_sub(needed))
}

/// The beginning of a file, if it is text.
pub(crate) fn read(path: &Path) -> Option<String> {
    String::from_utf8(read_bytes(path, LONGEST_FILE)?).ok()
}

/// So many bytes of the beginning of a file.
pub(crate) fn read_bytes(path: &Path, most: usize) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(most).ok()?;
    bytes.resize(most, 0);
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(&file, rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(_unreadable) => return None,
        }
    }
    bytes.truncate(filled);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MIB: u64 = 1 << 20;

    /// A tree of groups, and the list that a process in one of them reads.
    struct Tree {
        folder: tempfile::TempDir,
    }

    impl Tree {
        fn new(list: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("list"), list).unwrap();
            Self { folder }
        }

        fn with(self, file: &str, text: impl AsRef<[u8]>) -> Self {
            let path = self.folder.path().join("mount").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn available(&self) -> Option<u64> {
            let folder = self.folder.path();
            available_below(&folder.join("list"), &folder.join("mount"))
        }
    }

    #[test]
    fn the_tightest_group_above_a_process_counts() {
        let tree = Tree::new("0::/a/b\n")
            .with("a/b/memory.max", "max\n")
            .with("a/b/memory.current", "1000\n")
            .with("a/memory.max", (100 * MIB).to_string())
            .with("a/memory.current", (60 * MIB).to_string());
        assert_eq!(tree.available(), Some(40 * MIB));
        let tree = tree
            .with("memory.max", (80 * MIB).to_string())
            .with("memory.current", (70 * MIB).to_string());
        assert_eq!(tree.available(), Some(10 * MIB));
    }

    #[test]
    fn contents_of_files_are_given_up_before_anybody_is_killed() {
        let tree = Tree::new("0::/a\n")
            .with("a/memory.max", (100 * MIB).to_string())
            .with("a/memory.current", (100 * MIB).to_string());
        assert_eq!(tree.available(), Some(0));
        let statistics = format!(
            "anon 5\ninactive_file_x 7\ninactive_file {}\nactive_file {}\n",
            20 * MIB,
            10 * MIB
        );
        let tree = tree.with("a/memory.stat", statistics);
        assert_eq!(tree.available(), Some(25 * MIB));
    }

    #[test]
    fn the_older_version_is_read_as_well_also_where_the_path_is_the_hosts() {
        let list = "9:name=systemd:/\n4:cpu,memory:/docker/abc\n1:cpuset:/x\n0::/\n";
        let tree = Tree::new(list)
            .with("memory/memory.limit_in_bytes", (64 * MIB).to_string())
            .with("memory/memory.usage_in_bytes", (50 * MIB).to_string())
            .with("memory/memory.stat", format!("total_inactive_file {MIB}\n"));
        assert_eq!(tree.available(), Some(15 * MIB));
        let tree = tree
            .with("memory/docker/abc/memory.limit_in_bytes", "2000")
            .with("memory/docker/abc/memory.usage_in_bytes", "2001");
        assert_eq!(tree.available(), Some(0));
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_limits_nothing() {
        assert_eq!(
            available_below(Path::new("/nonexistent"), Path::new("/")),
            None
        );
        let lists: [&[u8]; 6] = [
            b"",
            b"0:/a",
            b"0::a",
            b"0::/../a",
            b"\xff\xfe",
            b"::::\n\n:",
        ];
        for list in lists {
            let tree = Tree::new("")
                .with("a/memory.max", "1")
                .with("a/memory.current", "1");
            fs::write(tree.folder.path().join("list"), list).unwrap();
            assert_eq!(tree.available(), None, "{list:?}");
        }
        for (limit, used) in [
            ("", "1"),
            ("1", ""),
            ("-5", "1"),
            ("1e9", "1"),
            ("1", "many"),
        ] {
            let tree = Tree::new("0::/a\n")
                .with("a/memory.max", limit)
                .with("a/memory.current", used);
            assert_eq!(tree.available(), None, "{limit} {used}");
        }
        // Longer than any such file, and a folder where a file should be.
        let tree = Tree::new("0::/a\n")
            .with("a/memory.max", vec![b'9'; 1 << 20])
            .with("a/memory.current/x", "1");
        assert_eq!(tree.available(), None);
    }
}
