//! The Debian package: the program, the libraries, the system service and the manual.

use super::tree::{EXECUTABLE, PLAIN, Tree};
use super::{Dist, notices, packaging};
use crate::command::{program, read, root, run as run_command, target_dir};
use crate::{install, tool};
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of `packaging`, and where they go as they are.
const FILES: &[(&str, &str)] = &[
    (
        "systemd/ttmem.service",
        "usr/lib/systemd/system/ttmem.service",
    ),
    ("systemd/ttmem.sysusers", "usr/lib/sysusers.d/ttmem.conf"),
    ("trust", "etc/ttmem/trust"),
    ("debian/default", "etc/default/ttmem"),
    ("debian/copyright", "usr/share/doc/ttmem/copyright"),
    (
        "debian/lintian-overrides",
        "usr/share/lintian/overrides/ttmem",
    ),
    ("debian/conffiles", "DEBIAN/conffiles"),
    ("debian/triggers", "DEBIAN/triggers"),
    ("debian/shlibs", "DEBIAN/shlibs"),
];

const SCRIPTS: [&str; 4] = ["preinst", "postinst", "prerm", "postrm"];

/// Builds it under a version, which tests of an upgrade choose.
pub(super) fn make(dist: &Dist, version: &str) -> anyhow::Result<PathBuf> {
    tool::DPKG_DEB.ensure()?;
    let tree = Tree::new(target_dir().join("xtask/deb"))?;
    let built = &dist.built;
    tree.put(&built.program.stripped, "usr/bin/ttmem", EXECUTABLE)?;
    let attach = "usr/lib/ttmem/libttmem_attach.so";
    tree.put(&built.attach.stripped, attach, PLAIN)?;
    put_library(&tree, dist, "usr")?;
    put_manual(&tree, dist, "usr")?;
    for (from, to) in FILES {
        tree.put(&packaging().join(from), to, PLAIN)?;
    }
    for script in SCRIPTS {
        let from = packaging().join("debian").join(script);
        tree.put(&from, &format!("DEBIAN/{script}"), EXECUTABLE)?;
    }
    put_documents(&tree, dist, version)?;
    let kib = tree.kib()?.to_string();
    let values = [("DEB_VERSION", version), ("KIB", &kib)];
    tree.fill_in("debian/control.in", "DEBIAN/control", &values)?;

    let package = dist.folder.join(format!("ttmem_{version}_amd64.deb"));
    let mut build = program("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]);
    build.arg(tree.root()).arg(&package);
    run_command(build.env("SOURCE_DATE_EPOCH", &dist.epoch))?;
    Ok(package)
}

fn put_documents(tree: &Tree, dist: &Dist, version: &str) -> anyhow::Result<()> {
    let names = ["CHANGELOG.md", "THIRD-PARTY", "changelog"];
    let places = names.map(|name| format!("usr/share/doc/ttmem/{name}"));
    let [changes, notices, changelog] = &places;
    tree.put(&root().join("CHANGELOG.md"), changes, PLAIN)?;
    tree.write(notices::text()?.as_bytes(), notices, PLAIN)?;
    let mut date = program("date");
    date.args(["--utc", "--rfc-email", &format!("--date=@{}", dist.epoch)]);
    let date = read(date.env("LC_ALL", "C"))?;
    let values = [("DEB_VERSION", version), ("DATE", date.trim())];
    tree.fill_in("debian/changelog.in", changelog, &values)?;
    compress(tree, &places)?;
    put_guides(tree, "usr/share/doc/ttmem")
}

/// Puts README and the pages that it links to, as they stand to each other.
pub(super) fn put_guides(tree: &Tree, folder: &str) -> anyhow::Result<()> {
    tree.put(
        &root().join("README.md"),
        &format!("{folder}/README.md"),
        PLAIN,
    )?;
    let is_page = |path: &Path| path.extension().is_some_and(|it| it == "md");
    let to = format!("{folder}/docs");
    for entry in fs::read_dir(root().join("docs"))? {
        let page = entry?.path();
        if is_page(&page) {
            let name = page.file_name().unwrap_or_default().to_string_lossy();
            tree.put(&page, &format!("{to}/{name}"), PLAIN)?;
        }
    }
    put_all(tree, &root().join("docs/guide"), &format!("{to}/guide"))?;
    put_all(tree, &root().join("deploy"), &format!("{folder}/deploy"))
}

/// Puts a folder with all that is below it.
fn put_all(tree: &Tree, from: &Path, to: &str) -> anyhow::Result<()> {
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let to = format!("{to}/{name}");
        if path.is_dir() {
            put_all(tree, &path, &to)?;
        } else {
            tree.put(&path, &to, PLAIN)?;
        }
    }
    Ok(())
}

/// Puts libttmem with what C programs need to be built with it.
pub(super) fn put_library(tree: &Tree, dist: &Dist, prefix: &str) -> anyhow::Result<()> {
    let built = &dist.built;
    let below = tree.root().join(prefix);
    install::lay_out(&below, &built.library.stripped, &built.archive)?;
    for folder in ["lib", "include"] {
        tree.make_plain(&below.join(folder))?;
    }
    Ok(())
}

/// Puts the manual and the completions, as the program writes them.
pub(super) fn put_manual(tree: &Tree, dist: &Dist, prefix: &str) -> anyhow::Result<()> {
    let made = Tree::new(target_dir().join("xtask/manual"))?;
    let mut generate = program(&dist.built.program.stripped);
    run_command(generate.arg("generate-manual").arg(made.root()))?;
    let share = if prefix.is_empty() {
        "share".to_owned()
    } else {
        format!("{prefix}/share")
    };
    for (file, to) in [
        ("ttmem.bash", "bash-completion/completions/ttmem"),
        ("_ttmem", "zsh/vendor-completions/_ttmem"),
        ("ttmem.fish", "fish/vendor_completions.d/ttmem.fish"),
    ] {
        tree.put(&made.root().join(file), &format!("{share}/{to}"), PLAIN)?;
    }
    let mut pages = Vec::new();
    for entry in fs::read_dir(made.root())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "1") {
            let name = path.file_name().context("a page has a name")?;
            let to = format!("{share}/man/man1/{}", name.to_string_lossy());
            tree.put(&path, &to, PLAIN)?;
            pages.push(to);
        }
    }
    compress(tree, &pages)
}

/// Compresses files of a tree, the same every time.
fn compress(tree: &Tree, files: &[String]) -> anyhow::Result<()> {
    let mut gzip = program("gzip");
    gzip.args(["--no-name", "--best", "--force"]);
    run_command(gzip.args(files.iter().map(|file| tree.root().join(file))))
}
