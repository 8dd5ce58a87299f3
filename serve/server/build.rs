//! Embeds the web page, `show/web/dist`, if it was built (`cargo xtask web`): a table of its files for
//! `src/read/page.rs`. Without it the table is empty and everything else is the same.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let folder = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .join("../../show/web/dist");
    // A watched path that does not exist would build this crate anew every time: the folder is always
    // there, with a .gitignore in it.
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    if folder.join("index.html").is_file() {
        files.push(folder.join("index.html"));
        let assets = fs::read_dir(folder.join("assets")).into_iter().flatten();
        files.extend(assets.filter_map(|entry| Some(entry.ok()?.path())));
        files.sort();
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut table = String::from("&[\n");
    for file in files {
        // A copy: the page may be built anew while this crate is compiled.
        let (name, copy) = (name(&file), out.join(name(&file)));
        fs::copy(&file, &copy).expect("it was just listed");
        writeln!(table, "({name:?}, include_bytes!({copy:?})),").expect("into a string");
    }
    table.push(']');
    fs::write(out.join("page.rs"), table).expect("cargo's own folder can be written");
}

fn name(file: &Path) -> &str {
    let name = file.file_name().and_then(|name| name.to_str());
    name.expect("the page's files have plain names")
}
