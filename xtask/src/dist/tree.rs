//! A tree of files as a package will have it: made anew, with modes and times that depend on nobody.

use super::{VERSION, packaging};
use anyhow::{Context, bail};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(super) const PLAIN: u32 = 0o644;
pub(super) const EXECUTABLE: u32 = 0o755;

#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// An empty tree in the place of what is there.
    pub(super) fn new(root: PathBuf) -> anyhow::Result<Self> {
        if root.exists() {
            fs::remove_dir_all(&root)
                .with_context(|| format!("cannot remove {}", root.display()))?;
        }
        let tree = Self { root };
        make_folder(&tree.root)?;
        Ok(tree)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn put(&self, from: &Path, to: &str, mode: u32) -> anyhow::Result<()> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.write(&bytes, to, mode)
    }

    pub(super) fn write(&self, bytes: &[u8], to: &str, mode: u32) -> anyhow::Result<()> {
        let to = self.place(to)?;
        fs::write(&to, bytes)
            .and_then(|()| fs::set_permissions(&to, Permissions::from_mode(mode)))
            .with_context(|| format!("cannot write {}", to.display()))
    }

    /// Puts a template of `packaging` here, with what it leaves open.
    pub(super) fn fill_in(
        &self,
        template: &str,
        to: &str,
        values: &[(&str, &str)],
    ) -> anyhow::Result<()> {
        let from = packaging().join(template);
        let mut text =
            fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
        for (name, value) in values.iter().chain(&[("VERSION", VERSION)]) {
            text = text.replace(&format!("@{name}@"), value);
        }
        let is_name = |part: &&str| part.bytes().all(|c| c.is_ascii_uppercase() || c == b'_');
        if let Some(name) = text
            .split('@')
            .find(|part| !part.is_empty() && is_name(part))
        {
            bail!("{template} has a value that nobody gives: {name}");
        }
        self.write(text.as_bytes(), to, PLAIN)
    }

    /// Copies the files below a folder that `is_wanted` takes, as plain files.
    pub(super) fn put_folder(
        &self,
        from: &Path,
        to: &str,
        is_wanted: &dyn Fn(&Path) -> bool,
    ) -> anyhow::Result<()> {
        let entries =
            fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let below = format!("{to}/{name}");
            if !is_wanted(&path) {
                continue;
            }
            if path.is_dir() {
                self.put_folder(&path, &below, is_wanted)?;
            } else {
                self.put(&path, &below, PLAIN)?;
            }
        }
        Ok(())
    }

    /// Gives everything below a folder the modes of plain files.
    pub(super) fn make_plain(&self, folder: &Path) -> anyhow::Result<()> {
        make_folder(folder)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let found = fs::symlink_metadata(&path)?;
            if found.is_dir() {
                self.make_plain(&path)?;
            } else if found.is_file() {
                fs::set_permissions(&path, Permissions::from_mode(PLAIN))?;
            }
        }
        Ok(())
    }

    /// Bytes of all files in KiB, each rounded up: what dpkg calls the installed size.
    pub(super) fn kib(&self) -> anyhow::Result<u64> {
        fn kib(path: &Path) -> anyhow::Result<u64> {
            let found = fs::symlink_metadata(path)?;
            if !found.is_dir() {
                return Ok(found.len().div_ceil(1024));
            }
            let mut sum = 1;
            for entry in fs::read_dir(path)? {
                sum += kib(&entry?.path())?;
            }
            Ok(sum)
        }
        kib(&self.root)
    }

    /// The path of a file to be, in folders that are there.
    fn place(&self, to: &str) -> anyhow::Result<PathBuf> {
        let place = self.root.join(to);
        let mut folder = self.root.clone();
        for part in Path::new(to).parent().into_iter().flatten() {
            folder.push(part);
            make_folder(&folder)?;
        }
        Ok(place)
    }
}

/// Makes a folder that everybody may read, whatever the mask is here.
fn make_folder(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)
        .and_then(|()| fs::set_permissions(folder, Permissions::from_mode(EXECUTABLE)))
        .with_context(|| format!("cannot make {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_do_not_depend_on_the_mask_and_templates_are_filled_in() {
        let folder = std::env::temp_dir().join(format!("ttmem-tree-{}", std::process::id()));
        let tree = Tree::new(folder.clone()).unwrap();
        tree.write(b"x", "a/b/c", EXECUTABLE).unwrap();
        let mode = |path: &str| {
            let found = fs::symlink_metadata(folder.join(path)).unwrap();
            found.permissions().mode() & 0o777
        };
        assert_eq!(
            (mode("a"), mode("a/b"), mode("a/b/c")),
            (0o755, 0o755, 0o755)
        );
        assert!(tree.fill_in("wheel/WHEEL.in", "w", &[]).is_err());
        tree.fill_in("wheel/WHEEL.in", "w", &[("TAG", "t-t-t")])
            .unwrap();
        let text = fs::read_to_string(folder.join("w")).unwrap();
        assert!(
            text.contains("Tag: t-t-t") && text.contains(VERSION),
            "{text}"
        );
        assert_eq!(mode("w"), 0o644);
        fs::remove_dir_all(&folder).unwrap();
    }
}
