//! Users whose server may be given this process's memory: its own, root, one that was named, and those
//! that root names in `/etc/ttmem/trust`.
//!
//! That file is read when a server of another user answers, in somebody else's process and maybe in a thread of
//! theirs: no lookup of names that could load a library, wait for a network or take a lock, and
//! bounded whatever the files are. Users of a directory service are named by number.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open, openat};
use rustix::io::Errno;
use std::path::Path;
use ttmem_ring::uid;

const FOLDER: &str = "/etc/ttmem";
const FILE: &str = "trust";
const USERS: &str = "/etc/passwd";

/// A longer file is not read: nobody trusts that many.
const LONGEST_TRUST: usize = 16 << 10;

/// Names beyond this are not found.
const LONGEST_USERS: usize = 4 << 20;

/// Whether a server of this user may have the memory of a process of the user `own`.
///
/// Never that of a user without a mapping into our namespace: it may be anybody, even if we have none
/// ourselves.
#[must_use]
pub fn is_trusted(server: u32, own: u32, named: Option<u32>) -> bool {
    !uid::is_overflow(server)
        && (server == own || server == 0 || Some(server) == named || names(server))
}

/// Whether root has named this user.
fn names(uid: u32) -> bool {
    let Some(text) = trusted_text(Path::new(FOLDER)) else {
        return false;
    };
    let users = || read(&open_file(rustix::fs::CWD, USERS)?, LONGEST_USERS);
    is_named(&text, uid, || users().unwrap_or_default())
}

/// The file, if nobody but root can have written it.
fn trusted_text(folder: &Path) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty()).ok()?;
    is_roots(&fstat(&folder).ok()?).then_some(())?;
    let file = open_file(&folder, FILE)?;
    is_roots(&fstat(&file).ok()?).then_some(())?;
    read(&file, LONGEST_TRUST)
}

/// Whether a file or folder belongs to root, and nobody else may write to it.
fn is_roots(found: &Stat) -> bool {
    found.st_uid == 0 && found.st_mode & 0o022 == 0
}

/// Opens a regular file without following a link at its end and without waiting.
fn open_file(folder: impl AsFd, name: &str) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty()).ok()?;
    let kind = FileType::from_raw_mode(fstat(&file).ok()?.st_mode);
    (kind == FileType::RegularFile).then_some(file)
}

/// All of a file that is not longer than that.
fn read(file: &OwnedFd, longest: usize) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    loop {
        match rustix::io::read(file, &mut part) {
            Ok(0) => return Some(text),
            Ok(count) => text.extend_from_slice(part.get(..count)?),
            Err(Errno::INTR) => {}
            Err(_unreadable) => return None,
        }
        if text.len() > longest {
            return None;
        }
    }
}

/// Whether a text has this user, by number or by the name that the file of users has for it.
fn is_named(text: &[u8], uid: u32, users: impl FnOnce() -> Vec<u8>) -> bool {
    let entries = || {
        text.split(|byte| *byte == b'\n').filter_map(|line| {
            let entry = line.split(|byte| *byte == b'#').next()?.trim_ascii();
            (!entry.is_empty()).then_some(entry)
        })
    };
    if entries().any(|entry| number(entry) == Some(uid)) {
        return true;
    }
    if entries().all(|entry| number(entry).is_some()) {
        return false;
    }
    let users = users();
    users.split(|byte| *byte == b'\n').any(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        let (name, _password, id) = (fields.next(), fields.next(), fields.next());
        let is_user = id.and_then(number) == Some(uid);
        is_user && name.is_some_and(|name| entries().any(|entry| entry == name))
    })
}

/// A number that is written in digits only.
fn number(text: &[u8]) -> Option<u32> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| str::from_utf8(text).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    const PASSWD: &[u8] = b"root:x:0:0::/root:/bin/sh\nttmem:x:987:987:::\n+nis\n12:x:55:55:::\n";

    fn named(text: &str, uid: u32) -> bool {
        is_named(text.as_bytes(), uid, || PASSWD.to_vec())
    }

    #[test]
    fn users_are_named_by_name_or_number() {
        let text = "# the service\nttmem\n  1001  # directory service\n\n#1002\n";
        assert!(named(text, 987) && named(text, 1001));
        for other in [0, 1002, 55, 988] {
            assert!(!named(text, other), "{other}");
        }
        assert!(!named("", 987) && !named("ttmem:x\nttmem2\nTTMEM\n", 987));
        // Digits are a number, whoever has them as a name.
        assert!(named("12", 12) && !named("12", 55));
        for nonsense in ["-1", "4294967296", "+987", "0x3db", "987 988", "\u{0}"] {
            assert!(
                !named(nonsense, 987) && !named(nonsense, u32::MAX),
                "{nonsense}"
            );
        }
        assert!(!is_named(b"\xff\xfe\n", 987, || b"\xff\xfe:x".to_vec()));
    }

    #[test]
    fn a_user_without_a_mapping_is_never_trusted() {
        assert!(is_trusted(0, 7, None) && is_trusted(7, 7, None) && is_trusted(8, 7, Some(8)));
        assert!(!is_trusted(8, 7, None));
        let unmapped = (0..=u32::from(u16::MAX)).find(|uid| uid::is_overflow(*uid));
        let unmapped = unmapped.expect("the kernel has a number for them");
        assert!(!is_trusted(unmapped, unmapped, Some(unmapped)));
    }

    #[test]
    fn the_users_are_not_read_for_numbers() {
        let unread = || -> Vec<u8> { panic!("nothing to look up") };
        assert!(is_named(b"7\nttmem", 7, unread));
        assert!(!is_named(b"7\n8", 9, unread));
    }

    #[test]
    fn only_what_root_alone_can_write_is_believed() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can make a file that is trusted");
            return;
        }
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("ttmem");
        let file = folder.join(FILE);
        fs::create_dir(&folder).unwrap();
        assert_eq!(trusted_text(&folder), None, "no file");
        fs::write(&file, "987\n").unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        let believed = || trusted_text(&folder).is_some();
        set(&folder, 0o755);
        set(&file, 0o644);
        assert!(believed());
        for (path, mode, right) in [(&file, 0o664, 0o644), (&file, 0o646, 0o644)]
            .into_iter()
            .chain([(&folder, 0o775, 0o755), (&folder, 0o1777, 0o755)])
        {
            set(path, mode);
            assert!(!believed(), "{} {mode:o}", path.display());
            set(path, right);
        }
        for path in [&file, &folder] {
            chown(path, Some(12_345), None).unwrap();
            assert!(!believed(), "{} of another user", path.display());
            chown(path, Some(0), None).unwrap();
        }
        assert!(believed());
        fs::write(&file, vec![b'#'; LONGEST_TRUST + 1]).unwrap();
        assert!(!believed(), "too long");
        fs::rename(&file, folder.join("other")).unwrap();
        symlink("other", &file).unwrap();
        assert!(!believed(), "a link");
        fs::remove_file(&file).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, Mode::from_raw_mode(0o644)).unwrap();
        assert!(!believed(), "a pipe, which must not be waited for");
        let link = above.path().join("link");
        symlink(&folder, &link).unwrap();
        assert_eq!(trusted_text(&link), None);
    }
}
