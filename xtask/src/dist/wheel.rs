//! The wheel: the Python package, the library that is preloaded inside it, and the program.

use super::tree::{EXECUTABLE, PLAIN, Tree};
use super::{Dist, VERSION, notices};
use crate::command::{root, run as run_command, target_dir};
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};

/// Any Python 3, no ABI of it, machines with our C library.
pub(super) const TAG: &str = "py3-none-manylinux_2_28_x86_64";

/// Where the package finds what is built; `ttmem run` knows it, too.
const LIBRARY: &str = "ttmem/lib/libttmem_attach.so";

/// A wheel beyond this is a mistake: something was not stripped.
const LARGEST: u64 = 20 << 20;

pub(super) fn make(dist: &Dist) -> anyhow::Result<PathBuf> {
    let tree = Tree::new(target_dir().join("xtask/wheel"))?;
    let info = format!("ttmem-{VERSION}.dist-info");
    let package = root().join("python/ttmem");
    tree.put_folder(&package, "ttmem", &|path| {
        !path.ends_with("__pycache__") && !path.ends_with("lib")
    })?;
    tree.put(&dist.built.attach.stripped, LIBRARY, EXECUTABLE)?;
    // As a script the program is put on the path as it is.
    let script = format!("ttmem-{VERSION}.data/scripts/ttmem");
    tree.put(&dist.built.program.stripped, &script, EXECUTABLE)?;
    tree.fill_in("wheel/METADATA.in", &format!("{info}/METADATA"), &[])?;
    tree.fill_in("wheel/WHEEL.in", &format!("{info}/WHEEL"), &[("TAG", TAG)])?;
    let entry_points = root().join("python/entry_points.txt");
    if entry_points.exists() {
        tree.put(&entry_points, &format!("{info}/entry_points.txt"), PLAIN)?;
    }
    let licence = root().join("LICENSE");
    tree.put(&licence, &format!("{info}/licenses/LICENSE"), PLAIN)?;
    let notices = notices::text()?;
    let to = format!("{info}/licenses/THIRD-PARTY.txt");
    tree.write(notices.as_bytes(), &to, PLAIN)?;

    let mut pack = dist.environment.program("wheel");
    pack.arg("pack").arg(tree.root());
    pack.arg("--dest-dir").arg(&dist.folder);
    run_command(pack.env("SOURCE_DATE_EPOCH", &dist.epoch))?;
    let wheel = dist.folder.join(format!("ttmem-{VERSION}-{TAG}.whl"));
    check_size(&wheel)?;
    Ok(wheel)
}

fn check_size(wheel: &Path) -> anyhow::Result<()> {
    let bytes = fs::metadata(wheel)
        .with_context(|| format!("{} was not made", wheel.display()))?
        .len();
    anyhow::ensure!(
        bytes <= LARGEST,
        "{} has {bytes} bytes, more than {LARGEST}",
        wheel.display()
    );
    Ok(())
}
