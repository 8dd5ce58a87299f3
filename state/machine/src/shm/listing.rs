//! Which files are read: anybody may make as many as they like, and hides nobody else's by that.

use super::id_of;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, open, statat};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Files of one owner that are read: there is one per chip.
const MOST_OF_OWNER: usize = 64;

/// Files that are read in all, of root and of this user first.
const MOST_FILES: usize = 1024;

/// Owners that are told apart.
const MOST_OWNERS: usize = 1024;

/// How long entries of the folder are looked at: whoever makes very many takes no more of the processor.
const MOST_TIME: Duration = Duration::from_millis(50);

/// Entries between two looks at the clock.
const UNTIMED: usize = 256;

/// Bytes that the kernel writes entries to at once.
const ROOM: usize = 64 << 10;

/// Files that were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Of one owner.
    Of { owner: u32, files: usize },
    /// Of owners that are too many to name.
    OfOthers { files: usize },
    /// The folder has more entries than are looked at, or does not answer: of others than known chips some may be there.
    Unlisted,
}

/// The files of the folder by their owners.
#[derive(Debug)]
pub(crate) struct Listing {
    own: u32,
    /// Those of root and of this user come first, then by number.
    owners: BTreeMap<(bool, u32), Named>,
    /// Files of owners that were not kept.
    others: usize,
    /// Whether not all entries were looked at.
    is_cut: bool,
}

#[derive(Debug, Default)]
struct Named {
    ids: BTreeSet<u64>,
    left_out: usize,
}

impl Listing {
    pub(super) fn new(own: u32) -> Self {
        Self {
            own,
            owners: BTreeMap::new(),
            others: 0,
            is_cut: false,
        }
    }

    /// Looks for files in a folder, but for those of some chips, which are read by their names.
    pub(crate) fn of(folder: &Path, but: &BTreeSet<u64>) -> io::Result<Self> {
        let end = Instant::now() + MOST_TIME;
        Self::until(folder, but, || Instant::now() >= end)
    }

    fn until(folder: &Path, but: &BTreeSet<u64>, is_over: impl Fn() -> bool) -> io::Result<Self> {
        let mut listing = Self::new(rustix::process::geteuid().as_raw());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = open(folder, flags, Mode::empty())?;
        let mut room = Vec::with_capacity(ROOM);
        let mut entries = RawDir::new(&handle, room.spare_capacity_mut());
        let mut count: usize = 0;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            count += 1;
            if count.is_multiple_of(UNTIMED) && is_over() {
                listing.is_cut = true;
                break;
            }
            let id = entry.file_name().to_str().ok().and_then(id_of);
            let Some(id) = id.filter(|id| !but.contains(id)) else {
                continue;
            };
            // One that is gone meanwhile is none.
            if let Ok(about) = statat(&handle, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                listing.add(about.st_uid, id);
            }
        }
        Ok(listing)
    }

    pub(super) fn add(&mut self, owner: u32, id: u64) {
        let is_other = owner != 0 && owner != self.own;
        let named = self.owners.entry((is_other, owner)).or_default();
        named.ids.insert(id);
        if named.ids.len() > MOST_OF_OWNER {
            named.ids.pop_last();
            named.left_out += 1;
        }
        if self.owners.len() > MOST_OWNERS
            && let Some((_owner, named)) = self.owners.pop_last()
        {
            self.others += named.ids.len() + named.left_out;
        }
    }

    /// The files to read, each with its owner, and what is left out.
    pub(super) fn chosen(self) -> (Vec<(u64, u32)>, Vec<LeftOut>) {
        let mut room = MOST_FILES;
        let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
        for ((_is_other, owner), named) in self.owners {
            let count = named.ids.len().min(room);
            room -= count;
            let files = named.left_out + named.ids.len() - count;
            if files > 0 {
                left_out.push(LeftOut::Of { owner, files });
            }
            let ids = named.ids.into_iter().take(count);
            chosen.extend(ids.map(|id| (id, owner)));
        }
        if self.others > 0 {
            left_out.push(LeftOut::OfOthers { files: self.others });
        }
        if self.is_cut {
            left_out.push(LeftOut::Unlisted);
        }
        (chosen, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 1000;

    #[test]
    fn who_makes_many_files_hides_nobody_elses() {
        let mut listing = Listing::new(OWN);
        // Lower numbers, and listed first.
        for id in 0..100_000 {
            listing.add(500, id);
        }
        for owner in [0, OWN, 2000] {
            listing.add(owner, 1_000_000 + u64::from(owner));
        }
        let (chosen, left_out) = listing.chosen();
        let own = [(1_000_000, 0), (1_001_000, OWN)];
        let first = (0..64).map(|id| (id, 500));
        let expected = own.into_iter().chain(first).chain([(1_002_000, 2000)]);
        assert_eq!(chosen, expected.collect::<Vec<_>>());
        let cut = LeftOut::Of {
            owner: 500,
            files: 100_000 - 64,
        };
        assert_eq!(left_out, [cut]);
    }

    #[test]
    fn who_has_many_users_hides_neither_root_nor_the_servers_user() {
        let mut listing = Listing::new(200_000);
        for owner in 100_000..104_000 {
            for id in 0..2 {
                listing.add(owner, u64::from(owner) * 2 + id);
            }
        }
        listing.add(200_000, 8);
        listing.add(0, 9);
        let (chosen, left_out) = listing.chosen();
        assert_eq!(chosen[..2], [(9, 0), (8, 200_000)]);
        let read = chosen.len();
        let files = |cut: &LeftOut| match *cut {
            LeftOut::Of { files, .. } | LeftOut::OfOthers { files } => files,
            LeftOut::Unlisted => 0,
        };
        let cut: usize = left_out.iter().map(files).sum();
        assert_eq!((read, read + cut), (MOST_FILES, 8002));
    }

    #[test]
    fn looking_ends_when_its_time_is_over_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for count in 0..4 * UNTIMED {
            std::fs::write(folder.path().join(format!("other_{count}")), "").unwrap();
        }
        let known = BTreeSet::new();
        let looks = std::cell::Cell::new(0);
        let second = || looks.replace(looks.get() + 1) == 1;
        let listing = Listing::until(folder.path(), &known, second).unwrap();
        assert_eq!(listing.chosen().1, [LeftOut::Unlisted]);
        assert_eq!(looks.get(), 2);
        let listing = Listing::until(folder.path(), &known, || false).unwrap();
        assert_eq!(listing.chosen().1, []);
    }
}
