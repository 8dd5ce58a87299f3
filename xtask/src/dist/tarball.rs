//! The tarball: a prefix to unpack anywhere, and one with debug information.

use super::tree::{EXECUTABLE, PLAIN, Tree};
use super::{Dist, StandIn, VERSION, deb, notices};
use crate::command::{program, root, run as run_command, target_dir};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) fn make(dist: &Dist) -> anyhow::Result<PathBuf> {
    let name = format!("ttmem-{VERSION}-x86_64-linux");
    let tree = Tree::new(target_dir().join("xtask/tarball").join(&name))?;
    let built = &dist.built;
    tree.put(&built.program.stripped, "bin/ttmem", EXECUTABLE)?;
    let attach = "lib/ttmem/libttmem_attach.so";
    tree.put(&built.attach.stripped, attach, EXECUTABLE)?;
    deb::put_library(&tree, dist, "")?;
    deb::put_manual(&tree, dist, "")?;
    for page in ["LICENSE", "CHANGELOG.md"] {
        tree.put(&root().join(page), page, PLAIN)?;
    }
    deb::put_guides(&tree, "share/doc/ttmem")?;
    tree.write(notices::text()?.as_bytes(), "THIRD-PARTY.txt", PLAIN)?;
    pack(dist, &tree, &name)
}

/// Unpacks it somewhere else and runs its program, which has to find its library there.
pub(super) fn check(
    dist: &Dist,
    tarball: &Path,
    standin: &StandIn,
    folder: &Path,
) -> anyhow::Result<()> {
    let mut unpack = program("tar");
    unpack.args(["--extract", "--strip-components=1", "--file"]);
    let place = folder.join("unpacked");
    fs::create_dir_all(&place)?;
    run_command(unpack.arg(tarball).arg("--directory").arg(&place))?;
    let mut ttmem = Command::new(place.join("bin/ttmem"));
    // Nothing of what is installed or set here.
    ttmem
        .env_clear()
        .env("HOME", &place)
        .env("XDG_RUNTIME_DIR", &place)
        .env("PATH", "/usr/bin:/bin");
    standin.play(ttmem, &dist.environment.bin().join("python"), "dispatches")?;
    println!("the tarball: tracked by the library in it");
    Ok(())
}

/// Debug information by build id: unpacked in /usr/lib/debug, debuggers find it.
pub(super) fn make_debug(dist: &Dist) -> anyhow::Result<PathBuf> {
    let name = format!("ttmem-{VERSION}-x86_64-linux-debug");
    let tree = Tree::new(target_dir().join("xtask/tarball").join(&name))?;
    for binary in dist.built.all() {
        let (first, rest) = binary.build_id.split_at(2);
        let place = format!(".build-id/{first}/{rest}.debug");
        tree.put(&binary.debug, &place, PLAIN)?;
    }
    pack(dist, &tree, &name)
}

/// Packs a tree so that the same files give the same bytes.
fn pack(dist: &Dist, tree: &Tree, name: &str) -> anyhow::Result<PathBuf> {
    let packed = dist.folder.join(format!("{name}.tar.gz"));
    let folder = tree.root().parent().unwrap_or(tree.root());
    let mut tar = program("tar");
    tar.args(["--create", "--sort=name", "--format=ustar"])
        .args(["--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", dist.epoch))
        .arg("--use-compress-program=gzip --no-name --best")
        .arg("--file")
        .arg(&packed)
        .arg("--directory")
        .arg(folder)
        .arg(name);
    run_command(&mut tar)?;
    Ok(packed)
}
