//! What was held over time, for a block that is drawn.

use super::Sums;
use crate::own_account::Point;
use ttmem_event::Class;

/// Points of a timeline; when there are as many, neighbours become one.
pub(super) const MAX_POINTS: usize = 512;

/// What was held over time, with fewer points the longer it is; none of its maxima is lost.
#[derive(Debug)]
pub(super) struct Timeline {
    points: Vec<Point>,
    /// Changes that become one point.
    step: usize,
    /// Changes that the last point has.
    taken: usize,
}

impl Timeline {
    pub(super) fn new(sums: Sums, time: u64) -> Self {
        Self {
            points: vec![Point {
                time,
                bytes: sums.0,
            }],
            step: 1,
            taken: 1,
        }
    }

    pub(super) fn push(&mut self, sums: Sums, time: u64) {
        if self.taken < self.step
            && let Some(last) = self.points.last_mut()
        {
            self.taken += 1;
            raise(last, &sums.0);
            return;
        }
        if self.points.len() == MAX_POINTS {
            self.halve();
        }
        self.taken = 1;
        self.points.push(Point {
            time,
            bytes: sums.0,
        });
    }

    fn halve(&mut self) {
        let pairs = self.points.chunks(2);
        self.points = pairs
            .filter_map(|pair| {
                let mut first = *pair.first()?;
                raise(&mut first, &pair.last()?.bytes);
                Some(first)
            })
            .collect();
        self.step = self.step.saturating_mul(2);
    }

    /// The points, the last of which is what is held now.
    pub(super) fn points(&self, sums: Sums, time: u64) -> Vec<Point> {
        let mut points = self.points.clone();
        points.push(Point {
            time,
            bytes: sums.0,
        });
        points
    }
}

fn raise(point: &mut Point, bytes: &[u64; Class::COUNT]) {
    for (highest, bytes) in point.bytes.iter_mut().zip(bytes) {
        *highest = (*highest).max(*bytes);
    }
}
