//! The numbers that old senders put into one-byte and four-byte code fields.
//!
//! Owns the numbering only. What a class or an architecture means to accounting
//! is decided by the callers, which translate these codes into their own types.

use std::fmt;

/// Memory classes as the runtime numbers them in the `buffer_type` of an ALLOC.
pub mod buffer_type {
    pub const DRAM: u8 = 0;
    /// Worker L1.
    pub const L1: u8 = 1;
    /// Host memory visible to the device.
    pub const SYSTEM_MEMORY: u8 = 2;
    /// The L1 region kept apart for small buffers.
    pub const L1_SMALL: u8 = 3;
    /// The DRAM region kept apart for traces.
    pub const TRACE: u8 = 4;
}

/// Kernel types as senders number them in the `buffer_type` of a KERNEL_LOAD.
pub mod kernel_type {
    /// A kernel of the user's program.
    pub const APPLICATION: u8 = 0;
    /// A kernel of the fabric between chips.
    pub const FABRIC: u8 = 1;
    /// A kernel of the dispatch system.
    pub const DISPATCH: u8 = 2;
}

/// Which list of memory classes a sender's `buffer_type` indexes.
///
/// The old Python client shipped with a list that lacks SYSTEM_MEMORY, so its
/// L1_SMALL and TRACE are off by one. Its records cannot be told from the
/// runtime's, therefore the numbering is configured, never detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BufferTypeNumbering {
    /// The runtime's own enumeration, sent by every C++ sender.
    #[default]
    Runtime,
    /// The Python client's: 0 DRAM, 1 L1, 2 L1_SMALL, 3 TRACE.
    PythonClient,
}

impl BufferTypeNumbering {
    /// Translates a wire `buffer_type` into the runtime's numbering.
    ///
    /// `None` if the code names no class in this numbering.
    #[must_use]
    pub const fn class_code(self, wire: u8) -> Option<u8> {
        match (self, wire) {
            (Self::Runtime, buffer_type::DRAM..=buffer_type::TRACE) => Some(wire),
            (Self::PythonClient, 0) => Some(buffer_type::DRAM),
            (Self::PythonClient, 1) => Some(buffer_type::L1),
            (Self::PythonClient, 2) => Some(buffer_type::L1_SMALL),
            (Self::PythonClient, 3) => Some(buffer_type::TRACE),
            _ => None,
        }
    }
}

/// Chip architecture as a device-info reply carries it.
///
/// A number rather than an enum: a newer peer may name a chip that did not exist
/// when this was written, and that must stay a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArchCode(
    /// The number on the wire.
    pub u32,
);

impl ArchCode {
    /// No or unknown device.
    pub const INVALID: Self = Self(0);
    pub const GRAYSKULL: Self = Self(1);
    /// Wormhole B0.
    pub const WORMHOLE_B0: Self = Self(2);
    pub const BLACKHOLE: Self = Self(3);
    pub const QUASAR: Self = Self(4);

    /// The vendor's name of the architecture, if the number is a known one.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::INVALID => Some("Invalid"),
            Self::GRAYSKULL => Some("Grayskull"),
            Self::WORMHOLE_B0 => Some("Wormhole_B0"),
            Self::BLACKHOLE => Some("Blackhole"),
            Self::QUASAR => Some("Quasar"),
            Self(_) => None,
        }
    }
}

impl fmt::Display for ArchCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "architecture {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_numbering_is_the_identity_on_known_classes() {
        for code in 0..=4 {
            assert_eq!(BufferTypeNumbering::Runtime.class_code(code), Some(code));
        }
        for code in 5..=u8::MAX {
            assert_eq!(BufferTypeNumbering::Runtime.class_code(code), None);
        }
    }

    #[test]
    fn python_numbering_skips_system_memory() {
        let mapped = [0, 1, 2, 3, 4, 255].map(|c| BufferTypeNumbering::PythonClient.class_code(c));
        assert_eq!(mapped, [Some(0), Some(1), Some(3), Some(4), None, None]);
    }

    #[test]
    fn unknown_architecture_is_a_value() {
        assert_eq!(ArchCode::WORMHOLE_B0.to_string(), "Wormhole_B0");
        assert_eq!(ArchCode(77).to_string(), "architecture 77");
        assert_eq!(ArchCode(77).name(), None);
    }
}
