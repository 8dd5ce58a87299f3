//! Bytes of the old protocol, cut and paused anywhere.

#![no_main]

#[cfg(not(fuzzing))]
compile_error!("build the fuzz targets with the flags in fuzz/README.md");

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|input: &[u8]| ttmem_event::fuzz::check_framer(input));
