//! The published wheels of ttnn, and what each needs besides itself.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The number of a release of ttnn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WheelVersion {
    major: u16,
    minor: u16,
    patch: u16,
}

impl WheelVersion {
    const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }
}

impl fmt::Display for WheelVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Why a text is no number of a release.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{text:?} is no version of ttnn: three numbers with points between them are")]
pub struct ParseVersionError {
    text: String,
}

impl FromStr for WheelVersion {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers: Option<Vec<u16>> = text.split('.').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[major, minor, patch]) => Ok(Self::new(major, minor, patch)),
            _other => Err(ParseVersionError {
                text: text.to_owned(),
            }),
        }
    }
}

/// The release that the programs are made for.
pub const NEWEST: WheelVersion = WheelVersion::new(0, 81, 1);

/// An older release to look at beside the newest: buffers cannot be asked everything there.
pub const OLDER: WheelVersion = WheelVersion::new(0, 78, 0);

/// The first release whose wheel exists for Python 3.12 too.
pub const FIRST_FOR_PYTHON_312: WheelVersion = WheelVersion::new(0, 65, 0);

/// Every release with a wheel for Python 3.10, newest first.
pub const WHEELS: [WheelVersion; 28] = [
    NEWEST,
    WheelVersion::new(0, 80, 0),
    WheelVersion::new(0, 79, 0),
    WheelVersion::new(0, 78, 0),
    WheelVersion::new(0, 77, 0),
    WheelVersion::new(0, 76, 0),
    WheelVersion::new(0, 75, 0),
    WheelVersion::new(0, 74, 0),
    WheelVersion::new(0, 73, 1),
    WheelVersion::new(0, 72, 0),
    WheelVersion::new(0, 71, 2),
    WheelVersion::new(0, 70, 1),
    WheelVersion::new(0, 69, 0),
    WheelVersion::new(0, 68, 0),
    WheelVersion::new(0, 67, 4),
    WheelVersion::new(0, 67, 0),
    WheelVersion::new(0, 66, 0),
    WheelVersion::new(0, 65, 1),
    WheelVersion::new(0, 65, 0),
    WheelVersion::new(0, 64, 5),
    WheelVersion::new(0, 64, 4),
    WheelVersion::new(0, 64, 3),
    WheelVersion::new(0, 64, 1),
    WheelVersion::new(0, 64, 0),
    WheelVersion::new(0, 63, 0),
    WheelVersion::new(0, 62, 2),
    WheelVersion::new(0, 62, 0),
    WheelVersion::new(0, 60, 1),
];

/// Releases whose `import ttnn` touches nearly all that their wheels name.
const NEEDING_EVERYTHING: std::ops::RangeInclusive<WheelVersion> =
    WheelVersion::new(0, 64, 1)..=WheelVersion::new(0, 64, 5);

/// The first release that does without networkx.
const FIRST_WITHOUT_NETWORKX: WheelVersion = WheelVersion::new(0, 74, 0);

/// What `import ttnn` asks for besides itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packages {
    /// These: the wheels name up to twenty, pandas and seaborn among them, and neither the
    /// import nor the operations of the tests touch the others.
    Only(&'static [&'static str]),
    Named,
}

#[must_use]
pub fn packages_needed(wheel: WheelVersion) -> Packages {
    if NEEDING_EVERYTHING.contains(&wheel) {
        Packages::Named
    } else if wheel < FIRST_WITHOUT_NETWORKX {
        Packages::Only(&["loguru==0.7.3", "graphviz==0.21", "networkx==3.4.2"])
    } else {
        Packages::Only(&["loguru==0.7.3", "graphviz==0.21"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_they_are_shown() {
        for wheel in WHEELS {
            assert_eq!(wheel.to_string().parse(), Ok(wheel));
        }
        for text in ["", "0.81", "0.81.1.2", "0.81.x", "0.81.-1"] {
            assert!(text.parse::<WheelVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_list_goes_from_the_newest_to_the_oldest() {
        assert_eq!(WHEELS[0], NEWEST);
        assert!(WHEELS.is_sorted_by(|newer, older| newer > older));
        assert!(WHEELS.contains(&FIRST_FOR_PYTHON_312));
    }

    #[test]
    fn older_wheels_need_more() {
        let count = |wheel: &str| match packages_needed(wheel.parse().expect("a version")) {
            Packages::Only(packages) => packages.len(),
            Packages::Named => usize::MAX,
        };
        let wheels = ["0.81.1", "0.74.0", "0.73.1", "0.64.5", "0.64.1", "0.64.0"];
        assert_eq!(wheels.map(count), [2, 2, 3, usize::MAX, usize::MAX, 3]);
    }
}
