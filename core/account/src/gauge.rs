//! A running total with its highest value.

/// The highest value of a total, and when it was reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    pub bytes: u64,
    /// When, in nanoseconds since the epoch.
    pub time: u64,
}

impl Peak {
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
    pub(crate) bytes: u64,
    pub(crate) peak: Peak,
    /// The event that reached the peak, in the order of the owner's events.
    pub(crate) peak_order: u64,
    pub(crate) since_mark: Peak,
}

impl Gauge {
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    #[must_use]
    pub fn peak(&self) -> Peak {
        self.peak
    }

    #[must_use]
    pub fn since_mark(&self) -> Peak {
        self.since_mark
    }

    /// The event that reached the highest total ever.
    #[must_use]
    pub fn peak_order(&self) -> u64 {
        self.peak_order
    }

    /// Adds bytes; true if that is the highest total ever.
    #[inline(always)]
    pub fn add(&mut self, bytes: u64, time: u64, order: u64) -> bool {
        // Each process is held to `MAX_HELD_BYTES`: no sum over processes overflows.
        self.bytes += bytes;
        if self.bytes <= self.since_mark.bytes {
            return false;
        }
        self.since_mark = Peak {
            bytes: self.bytes,
            time,
        };
        if self.bytes <= self.peak.bytes {
            return false;
        }
        self.peak = self.since_mark;
        self.peak_order = order;
        true
    }

    #[inline(always)]
    pub fn sub(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.bytes, "gave back {bytes} of {}", self.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Starts a new stretch and returns the peak of the one that ends.
    pub fn mark(&mut self, time: u64) -> Peak {
        std::mem::replace(
            &mut self.since_mark,
            Peak {
                bytes: self.bytes,
                time,
            },
        )
    }

    /// Has all peaks begin anew at what is held after the event `order`.
    pub(crate) fn restart(&mut self, time: u64, order: u64) {
        self.mark(time);
        self.peak = self.since_mark;
        self.peak_order = order;
    }

    /// Takes over a peak that was reached before this gauge existed, unless it was ever higher.
    pub fn remember(&mut self, peak: Peak, order: u64) {
        if peak.bytes >= self.peak.bytes && peak.bytes > 0 {
            self.peak = peak;
            self.peak_order = order;
        }
    }

    /// Takes over the highest total since the last mark, unless it was higher since.
    pub fn remember_since_mark(&mut self, peak: Peak) {
        if peak.bytes >= self.since_mark.bytes {
            self.since_mark = peak;
        }
    }

    /// The same total, which is its own peak: the event `order` reached it.
    #[must_use]
    pub(crate) fn at_peak(self, order: u64) -> Self {
        let (bytes, time) = (self.bytes, 0);
        let now = Peak { bytes, time };
        Self {
            bytes,
            peak: now,
            peak_order: if bytes > 0 { order } else { 0 },
            since_mark: now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_stays_with_its_time_and_a_mark_starts_anew() {
        let mut gauge = Gauge::default();
        gauge.add(10, 1, 1);
        gauge.add(5, 2, 2);
        gauge.sub(12);
        assert_eq!(
            (gauge.bytes(), gauge.peak()),
            (3, Peak { bytes: 15, time: 2 })
        );
        assert_eq!(gauge.mark(3), Peak { bytes: 15, time: 2 });
        gauge.add(4, 4, 4);
        assert_eq!(gauge.since_mark(), Peak { bytes: 7, time: 4 });
        assert_eq!(gauge.peak(), Peak { bytes: 15, time: 2 });
        gauge.restart(5, 4);
        assert_eq!((gauge.peak(), gauge.peak_order()), (gauge.since_mark(), 4));
        assert_eq!(gauge.peak(), Peak { bytes: 7, time: 5 });
    }
}
