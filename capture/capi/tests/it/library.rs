//! The shared library as the loader sees it.

use crate::compile::is_there;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// Cargo puts the library beside the tests of its package.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a program knows its file");
    test.with_file_name("libttmem.so")
}

fn read(program: &str, options: &[&str]) -> String {
    let output = Command::new(program)
        .args(options)
        .arg(library())
        .output()
        .expect("it can be started");
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("symbols are ASCII")
}

/// The functions that the header declares: words before an opening parenthesis.
fn declared() -> BTreeSet<String> {
    let header = include_str!("../../include/ttmem.h");
    let code = header
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line));
    let code: String = code
        .skip_while(|line| !line.contains("extern \"C\""))
        .collect();
    let ends = code.match_indices('(').map(|(at, _)| &code[..at]);
    let names = ends.filter_map(|before| {
        let start = before.rfind(|letter: char| !(letter.is_alphanumeric() || letter == '_'))?;
        Some(&before[start + 1..])
    });
    names
        .filter(|name| name.starts_with("ttmem_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn it_exports_what_the_header_declares_and_no_strange_names() {
    if !is_there("nm") {
        return;
    }
    let symbols = read("nm", &["-D", "--defined-only"]);
    let exported = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let exported: BTreeSet<String> = exported.map(str::to_owned).collect();
    let declared = declared();
    assert!(declared.contains("ttmem_buffer_allocated"));
    let missing: Vec<_> = declared.difference(&exported).collect();
    assert!(missing.is_empty(), "declared and not there: {missing:?}");
    let strange: Vec<_> = exported
        .iter()
        .filter(|name| !name.starts_with("ttmem_"))
        .collect();
    assert!(strange.is_empty(), "not of ours: {strange:?}");
}

#[test]
fn it_has_the_name_of_its_abi_and_stays_loaded() {
    if !is_there("readelf") {
        return;
    }
    let dynamic = read("readelf", &["-d", "--wide"]);
    assert!(
        dynamic.contains("Library soname: [libttmem.so.0]"),
        "{dynamic}"
    );
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let strangers = needed.filter(|line| {
        let known = ["libc.so", "libgcc_s.so", "ld-linux", "libm.so"];
        !known.iter().any(|name| line.contains(name))
    });
    assert_eq!(strangers.collect::<Vec<_>>(), Vec::<&str>::new());
}
