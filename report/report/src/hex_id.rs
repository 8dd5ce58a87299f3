//! 64-bit ids as hex strings.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;

use crate::text_form::text_form;

/// A 64-bit id that is written as `"0x1f"`: doubles hold only 53 bits of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(extend("pattern" = "^0x[0-9a-f]{1,16}$"))]
pub struct HexId(#[schemars(with = "String")] pub u64);

/// A string that is not `0x` followed by one to sixteen hex digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a hex id: expected 0x and 1 to 16 hex digits")]
pub struct ParseHexIdError;

impl From<u64> for HexId {
    fn from(id: u64) -> Self {
        Self(id)
    }
}

impl fmt::Display for HexId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl FromStr for HexId {
    type Err = ParseHexIdError;

    fn from_str(text: &str) -> Result<Self, ParseHexIdError> {
        let digits = text.strip_prefix("0x").ok_or(ParseHexIdError)?;
        if !(1..=16).contains(&digits.len()) {
            return Err(ParseHexIdError);
        }
        // `from_str_radix` would also take a sign.
        let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = plain
            .then(|| u64::from_str_radix(digits, 16).ok())
            .flatten();
        id.map(Self).ok_or(ParseHexIdError)
    }
}

text_form!(HexId, "a hex id such as \"0x1f\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_survives_json() {
        for id in [0, 1, 0x1f, (1 << 53) + 1, u64::MAX] {
            let json = serde_json::to_string(&HexId(id)).unwrap();
            assert_eq!(serde_json::from_str::<HexId>(&json).unwrap(), HexId(id));
        }
        assert_eq!(serde_json::to_string(&HexId(255)).unwrap(), "\"0xff\"");
    }

    #[test]
    fn refuses_what_is_not_a_hex_id() {
        for text in [
            "",
            "0x",
            "ff",
            "0x+f",
            "0x-1",
            "0xg",
            "0x00000000000000001",
            "0x é",
        ] {
            assert_eq!(text.parse::<HexId>(), Err(ParseHexIdError), "{text:?}");
        }
    }
}
