//! A window sliding over images: what convolution and pooling have in common.

use super::super::job::Job;
use crate::tensor::TensorSpec;

/// What a window is described by; height and width are the input's. Layers that differ in what
/// nobody looks at here can be told apart by a number.
pub(super) const WINDOW: &[&str] = &[
    "batch",
    "height",
    "width",
    "kernel",
    "stride",
    "padding",
    "out_channels",
    "number",
];

/// A window sliding over images of one size.
#[derive(Clone, Copy, Debug)]
pub(in crate::ttnn) struct Window {
    batch: u64,
    height: u64,
    pub(super) width: u64,
    pub(in crate::ttnn) kernel: u64,
    pub(super) stride: u64,
    pub(super) padding: u64,
}

impl Window {
    /// As attributed; without attributes, a 3x3 window over one square image.
    pub(in crate::ttnn) fn new(image: &TensorSpec, attributes: &[(&str, u64)]) -> Self {
        let attribute = |name: &str, default: u64| {
            let mut given = attributes.iter();
            let found = given.find(|(given, _value)| *given == name);
            found.map_or(default, |(_name, value)| *value)
        };
        let rows = image.shape.iter().rev().skip(1);
        let rows = rows.fold(1_u64, |rows, dim| rows.saturating_mul(*dim));
        let batch = attribute("batch", 1).max(1);
        let side = (rows / batch).isqrt().max(1);
        let kernel = attribute("kernel", 3).max(1);
        Self {
            batch,
            height: attribute("height", side).max(1),
            width: attribute("width", side).max(1),
            kernel,
            stride: attribute("stride", 1).max(1),
            padding: attribute("padding", kernel / 2),
        }
    }

    pub(super) fn of(job: &Job<'_>) -> Self {
        Self::new(job.first().spec, job.attributes)
    }

    /// The attributes that make the same window over any tensor.
    pub(in crate::ttnn) const fn attributes(&self) -> [(&'static str, u64); 6] {
        [
            ("batch", self.batch),
            ("height", self.height),
            ("width", self.width),
            ("kernel", self.kernel),
            ("stride", self.stride),
            ("padding", self.padding),
        ]
    }

    /// Positions of the window along a side of the image.
    const fn along(&self, length: u64) -> u64 {
        let padded = length.saturating_add(self.padding.saturating_mul(2));
        padded.saturating_sub(self.kernel) / self.stride + 1
    }

    /// Positions of the window over all images.
    pub(super) const fn positions(&self) -> u64 {
        let image = self
            .along(self.height)
            .saturating_mul(self.along(self.width));
        image.saturating_mul(self.batch)
    }

    /// Rows of memory that a core needs from its neighbours: the window's height less one.
    pub(super) const fn halo_rows(&self) -> u64 {
        let line = self.width.saturating_add(self.padding.saturating_mul(2));
        line.saturating_mul(self.kernel - 1)
    }

    /// Lines of the output image that so many positions touch.
    pub(super) const fn lines(&self, positions: u64) -> u64 {
        positions.div_ceil(self.along(self.width)).saturating_add(1)
    }
}
