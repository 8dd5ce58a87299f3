//! The headers are accepted by C and C++ compilers without a warning.

use std::path::{Path, PathBuf};
use std::process::Command;

const STRICT: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// Whether a program can be started; where every test must run, it has to be.
pub(crate) fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    let must = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(
        there || !must,
        "{program} is not there, and with CI=true every test must run"
    );
    if !there {
        eprintln!("skipped: there is no {program}");
    }
    there
}

/// Compiles `source`, without making anything of it.
fn check(compiler: &str, options: &[&str], source: &Path) {
    let mut command = Command::new(compiler);
    command
        .args(options)
        .args(STRICT)
        .args(["-I", INCLUDE, "-fsyntax-only"]);
    let output = command.arg(source).output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{compiler} {options:?} {}:\n{said}",
        source.display()
    );
}

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(path)
}

#[test]
fn ttmem_h_is_c11_and_cpp17() {
    let header = Path::new(INCLUDE).join("ttmem.h");
    if is_there("gcc") {
        check("gcc", &["-x", "c", "-std=c11"], &header);
        check("gcc", &["-std=c11"], &example("c/track.c"));
    }
    if is_there("g++") {
        check("g++", &["-x", "c++", "-std=c++17"], &header);
        check("g++", &["-std=c++17"], &example("cpp/track.cpp"));
    }
}

#[test]
fn the_allocation_client_is_cpp17_of_every_dialect() {
    if !is_there("g++") {
        return;
    }
    let source = example("cpp/allocation_client.cpp");
    let dialects: &[&[&str]] = &[
        &[],
        &["-fno-exceptions", "-fno-rtti"],
        &["-fvisibility=hidden", "-Wshadow", "-Wconversion"],
        // Compiles only while the types in the header are those of ttmem.h.
        &["-DTTMEM_STATIC"],
        &["-DTTMEM_STATIC", "-fno-exceptions", "-fno-rtti"],
    ];
    for dialect in dialects {
        check("g++", &[&["-std=c++17"], *dialect].concat(), &source);
    }
}

/// Every form of the calls that some instrumented tree has.
#[test]
fn the_old_forms_of_the_calls_compile() {
    if !is_there("g++") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("forms.cpp");
    let text = "
        #include <ttmem_allocation_client.hpp>
        using tt::tt_metal::AllocationClient;
        void forms(int device, std::uint64_t size, std::uint64_t id, std::uint32_t num_cores) {
            if (!AllocationClient::is_enabled()) return;
            AllocationClient::report_allocation(device, size, 1, id);
            AllocationClient::report_deallocation(device, id);
            AllocationClient::report_cb_allocation(device, size, id);
            AllocationClient::report_cb_deallocation(device, size, id);
            AllocationClient::report_cb_deallocation(device, id);
            AllocationClient::report_kernel_load(device, size, id);
            AllocationClient::report_kernel_load(device, size, id, 2);
            AllocationClient::report_kernel_load(device, size, id, 2, num_cores);
            AllocationClient::report_kernel_unload(device, size, id);
            AllocationClient::report_kernel_unload(device, id);
        }
    ";
    std::fs::write(&source, text).unwrap();
    check("g++", &["-std=c++17"], &source);
}
