//! A running total with its highest value.

/// The highest value of a total, and when it was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// The value.
    pub bytes: u64,
    /// When, in nanoseconds since the epoch.
    pub time: u64,
}

impl Peak {
    fn raise(&mut self, bytes: u64, time: u64) {
        if bytes > self.bytes {
            *self = Self { bytes, time };
        }
    }

    /// The higher of two; of equal ones the earlier.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.bytes > self.bytes || (other.bytes == self.bytes && other.time < self.time) {
            other
        } else {
            self
        }
    }
}

/// A total, its peak, and its peak since the last mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    bytes: u64,
    peak: Peak,
    since_mark: Peak,
}

impl Gauge {
    /// The total now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The highest total ever.
    #[must_use]
    pub fn peak(&self) -> Peak {
        self.peak
    }

    /// The highest total since the last mark.
    #[must_use]
    pub fn since_mark(&self) -> Peak {
        self.since_mark
    }

    pub(crate) fn add(&mut self, bytes: u64, time: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.since_mark.bytes {
            self.since_mark.raise(self.bytes, time);
            self.peak.raise(self.bytes, time);
        }
    }

    pub(crate) fn sub(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.bytes, "gave back {bytes} of {}", self.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Starts a new stretch and returns the peak of the one that ends.
    pub(crate) fn mark(&mut self, time: u64) -> Peak {
        std::mem::replace(
            &mut self.since_mark,
            Peak {
                bytes: self.bytes,
                time,
            },
        )
    }

    /// Takes over a peak that was reached before this gauge existed.
    pub(crate) fn remember(&mut self, peak: Peak) {
        self.peak = self.peak.max(peak);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_stays_with_its_time_and_a_mark_starts_anew() {
        let mut gauge = Gauge::default();
        gauge.add(10, 1);
        gauge.add(5, 2);
        gauge.sub(12);
        assert_eq!(
            (gauge.bytes(), gauge.peak()),
            (3, Peak { bytes: 15, time: 2 })
        );
        assert_eq!(gauge.mark(3), Peak { bytes: 15, time: 2 });
        gauge.add(4, 4);
        assert_eq!(gauge.since_mark(), Peak { bytes: 7, time: 4 });
        assert_eq!(gauge.peak(), Peak { bytes: 15, time: 2 });
    }
}
