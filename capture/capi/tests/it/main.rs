//! What a C or C++ program gets of libttmem: the headers and the shared library.
#![expect(
    clippy::print_stderr,
    reason = "a test that cannot run where it is says so"
)]

mod compile;
mod header;
mod library;
