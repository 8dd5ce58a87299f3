//! The checks that the fuzz targets run on every input, and ordinary tests on the kept ones.

mod framer;
mod frames;

pub use framer::check_framer;
pub use frames::check_frames;
