//! Where files are looked for: below `/`, or below a folder with a copy of them.

use std::path::{Path, PathBuf};

/// The folder that stands for `/`.
#[derive(Clone, Debug)]
pub struct Roots {
    root: PathBuf,
}

impl Roots {
    /// This machine.
    #[must_use]
    pub fn this_machine() -> Self {
        Self::below("/")
    }

    /// A folder with `sys`, `proc` and `dev` of another machine.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether processes of this machine are meant.
    #[must_use]
    pub fn is_this_machine(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A path that is written as one below `/`.
    #[must_use]
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    /// What a path below the root is called on its machine.
    pub(crate) fn shown(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        Path::new("/").join(below)
    }
}
