//! Upstream's shared memory: a region of any version, changed anywhere.

#![no_main]

#[cfg(not(fuzzing))]
compile_error!("build the fuzz targets with the flags in fuzz/README.md");

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|input: &[u8]| ttmem_machine::fuzz::check_region(input));
