//! The crate against machines that the tests make up, and files that fail in every way.

mod devices;
mod reading;
mod regions;
mod writer;

/// A reader for files that do not hang, on a machine that may be busy.
fn patient() -> crate::Reader {
    crate::Reader::with_deadline(std::time::Duration::from_secs(60))
}
