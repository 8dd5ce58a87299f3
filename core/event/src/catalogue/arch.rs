//! Chip architectures and the names and numbers the runtime gives them.

use super::memory_map::{BLACKHOLE, MemoryMap, WORMHOLE};

/// A generation of Tenstorrent chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// Grayskull: known by name only, current runtimes no longer drive it.
    Grayskull,
    Wormhole,
    Blackhole,
    /// Quasar: known by name only, there is no board yet.
    Quasar,
    /// Anything else, with the runtime's number for it (0 when there is none).
    Unknown(u16),
}

impl Arch {
    /// Every architecture that has a name.
    pub const NAMED: [Self; 4] = [
        Self::Grayskull,
        Self::Wormhole,
        Self::Blackhole,
        Self::Quasar,
    ];

    /// The name as the runtime prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grayskull => "grayskull",
            Self::Wormhole => "wormhole_b0",
            Self::Blackhole => "blackhole",
            Self::Quasar => "quasar",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The architecture of that name in any case; `wormhole` stands for `wormhole_b0`.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        let name = name.trim();
        if name.eq_ignore_ascii_case("wormhole") {
            return Self::Wormhole;
        }
        Self::NAMED
            .into_iter()
            .find(|arch| name.eq_ignore_ascii_case(arch.name()))
            .unwrap_or(Self::Unknown(0))
    }

    /// The runtime's number for the architecture.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Grayskull => 1,
            Self::Wormhole => 2,
            Self::Blackhole => 3,
            Self::Quasar => 4,
            Self::Unknown(code) => code,
        }
    }

    /// The architecture of a number as [`code`](Self::code) gives it.
    #[must_use]
    pub const fn from_code(code: u16) -> Self {
        match code {
            1 => Self::Grayskull,
            2 => Self::Wormhole,
            3 => Self::Blackhole,
            4 => Self::Quasar,
            other => Self::Unknown(other),
        }
    }

    /// The number in replies of the predecessor's protocol.
    ///
    /// Its viewers index a table of names with it, so everything they cannot
    /// know is 0, their "invalid".
    #[must_use]
    pub fn legacy_code(self) -> u32 {
        match self {
            Self::Unknown(_) => 0,
            known => u32::from(known.code()),
        }
    }

    /// The memory layout of its chips, if the catalogue has it.
    #[must_use]
    pub const fn memory_map(self) -> Option<&'static MemoryMap> {
        match self {
            Self::Wormhole => Some(&WORMHOLE),
            Self::Blackhole => Some(&BLACKHOLE),
            Self::Grayskull | Self::Quasar | Self::Unknown(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        for arch in Arch::NAMED {
            assert_eq!(Arch::from_name(arch.name()), arch);
            assert_eq!(Arch::from_code(arch.code()), arch);
            assert_eq!(u32::from(arch.code()), arch.legacy_code());
        }
        for code in 0..=u16::MAX {
            assert_eq!(Arch::from_code(code).code(), code);
        }
    }

    #[test]
    fn names_are_those_of_the_runtime() {
        assert_eq!(Arch::Wormhole.name(), "wormhole_b0");
        assert_eq!(Arch::Blackhole.name(), "blackhole");
        assert_eq!(Arch::from_name(" WORMHOLE_B0\n"), Arch::Wormhole);
        assert_eq!(Arch::from_name("Wormhole"), Arch::Wormhole);
    }

    #[test]
    fn legacy_codes_are_those_of_the_old_protocol() {
        let codes = Arch::NAMED.map(|arch| (arch.name(), arch.legacy_code()));
        assert_eq!(
            codes,
            [
                ("grayskull", 1),
                ("wormhole_b0", 2),
                ("blackhole", 3),
                ("quasar", 4)
            ]
        );
        assert_eq!(Arch::Unknown(9).legacy_code(), 0);
    }

    #[test]
    fn an_unknown_architecture_is_a_value_without_figures() {
        assert_eq!(Arch::from_name("graphene"), Arch::Unknown(0));
        assert_eq!(Arch::from_name(""), Arch::Unknown(0));
        for arch in [
            Arch::Unknown(0),
            Arch::Unknown(u16::MAX),
            Arch::Grayskull,
            Arch::Quasar,
        ] {
            assert!(arch.memory_map().is_none());
        }
    }
}
