//! Hostile recordings: what reading them takes, against their size.

#![no_main]

#[cfg(not(fuzzing))]
compile_error!("build the fuzz targets with the flags in fuzz/README.md");

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|input: &[u8]| ttmem_record::fuzz::check_budget(input));
