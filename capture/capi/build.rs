//! Gives the shared library its name for the linker and keeps it loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Programs ask the loader for the name of the ABI, not of the file.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libttmem.so.0");
    // Its thread and its thread-local data outlive a `dlclose`: the code must as well.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
