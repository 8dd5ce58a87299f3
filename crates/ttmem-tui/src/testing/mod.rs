//! For tests: worlds to draw, and screens to compare.

pub(crate) mod screen;
pub(crate) mod world;
