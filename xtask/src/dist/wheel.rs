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

/// The manual of the package.
const MANUAL: &str = "docs/python.md";

/// A wheel beyond this is a mistake: something was not stripped.
const LARGEST: u64 = 20 << 20;

pub(super) fn make(dist: &Dist) -> anyhow::Result<PathBuf> {
    let tree = Tree::new(target_dir().join("xtask/wheel"))?;
    let info = format!("ttmem-{VERSION}.dist-info");
    let package = root().join("show/python/ttmem");
    tree.put_folder(&package, "ttmem", &|path| {
        !path.ends_with("__pycache__") && !path.ends_with("lib")
    })?;
    tree.put(&dist.built.attach.stripped, LIBRARY, EXECUTABLE)?;
    // As a script the program is put on the path as it is.
    let script = format!("ttmem-{VERSION}.data/scripts/ttmem");
    tree.put(&dist.built.program.stripped, &script, EXECUTABLE)?;
    let manual = without_links(&fs::read_to_string(root().join(MANUAL))?);
    tree.write(manual.as_bytes(), "ttmem/manual.md", PLAIN)?;
    let metadata = format!("{info}/METADATA");
    tree.fill_in("wheel/METADATA.in", &metadata, &[("MANUAL", &manual)])?;
    tree.fill_in("wheel/WHEEL.in", &format!("{info}/WHEEL"), &[("TAG", TAG)])?;
    let entry_points = root().join("show/python/entry_points.txt");
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

/// A page without links to others, which the wheel does not have.
fn without_links(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, label, behind)) = rest.split_once("](").and_then(|(before, behind)| {
        let (before, label) = before.rsplit_once('[')?;
        let (target, behind) = behind.split_once(')')?;
        (!target.contains("://")).then_some((before, label, behind))
    }) {
        text.push_str(before);
        text.push_str(label);
        rest = behind;
    }
    text + rest
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

#[cfg(test)]
mod tests {
    use super::without_links;

    #[test]
    fn links_to_other_pages_become_their_words() {
        let page = "a [b c](d.md#e), `x[1](2)` [f](g.md) h";
        assert_eq!(without_links(page), "a b c, `x1` f h");
        assert_eq!(without_links("t.peak[\"l1\"] (x)"), "t.peak[\"l1\"] (x)");
    }
}
