//! Which hosts a user means: those that may be shown a token.
//!
//! Names of hosts come from others, such as the `instance` of a scrape target. A pattern matches only what it was
//! written for: a `*` never spans a dot, and never stands for a number.

use std::net::IpAddr;
use std::str::FromStr;

use crate::HttpUrl;
use crate::address::Host;

/// A name (`node-7.example`), names with `*` within a label (`node-*.example`), an address, or a network (`10.2.0.0/16`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern(Pattern);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Name(String),
    Network(IpAddr, u8),
}

/// Why a text names no hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a host without a port: a name such as node-*.example, an address, or a network such as 10.2.0.0/16"
)]
pub struct ParseHostPatternError;

impl HostPattern {
    /// Whether the host of a URL is one of these.
    #[must_use]
    pub fn matches(&self, url: &HttpUrl) -> bool {
        match (&self.0, url.host()) {
            (Pattern::Name(pattern), Host::Name(name)) => matches_name(pattern, name),
            (Pattern::Network(network, bits), Host::Number(number)) => {
                prefix(*network, *bits) == prefix(*number, *bits)
            }
            _other_kind => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = ParseHostPatternError;

    fn from_str(text: &str) -> Result<Self, ParseHostPatternError> {
        let (number, bits) = match text.split_once('/') {
            Some((number, bits)) => (number, Some(bits)),
            None => (text, None),
        };
        if let Ok(number) = number.parse::<IpAddr>() {
            let most = if number.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Ok(most), str::parse);
            let bits = bits.ok().filter(|bits| *bits <= most);
            return Ok(Self(Pattern::Network(
                number,
                bits.ok_or(ParseHostPatternError)?,
            )));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte);
        // Something that looks like an address with a `*` would be taken for a network, and is none.
        let is_name = text.bytes().any(|byte| byte.is_ascii_alphabetic()) || text == "*";
        if !is_name || !text.bytes().all(plain) {
            return Err(ParseHostPatternError);
        }
        Ok(Self(Pattern::Name(text.to_ascii_lowercase())))
    }
}

/// The first bits of an address, and of which kind it is.
fn prefix(address: IpAddr, bits: u8) -> (bool, u128) {
    let (whole, length) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let rest = u32::from(length - bits.min(length));
    (address.is_ipv4(), whole.checked_shr(rest).unwrap_or(0))
}

fn matches_name(pattern: &str, name: &str) -> bool {
    if pattern == name {
        return true;
    }
    // The system's resolver takes such a name for a number: 134744072 is 8.8.8.8.
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.is_empty() || last.starts_with(|first: char| first.is_ascii_digit()) {
        return false;
    }
    let (mut patterns, mut labels) = (pattern.split('.'), name.split('.'));
    loop {
        match (patterns.next(), labels.next()) {
            (None, None) => return true,
            (Some(pattern), Some(label)) if matches_label(pattern, label) => {}
            _other => return false,
        }
    }
}

/// Whether a label is a pattern's parts in their order, with anything where the `*` are.
fn matches_label(pattern: &str, label: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else {
        return pattern == label;
    };
    let Some(label) = label.strip_prefix(begin) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut label) = label.strip_suffix(end) else {
        return false;
    };
    for part in middle.split('*') {
        match label.find(part) {
            Some(place) => label = &label[place + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, host: &str) -> bool {
        let pattern: HostPattern = pattern.parse().unwrap();
        pattern.matches(&format!("http://{host}:9400").parse().unwrap())
    }

    #[test]
    fn hosts_that_were_meant_match() {
        for (pattern, host) in [
            ("node-7.example", "Node-7.example"),
            ("NODE-*", "node-7"),
            ("node-*.example", "node-7.example"),
            ("*.example", "node-7.example"),
            ("*-n*-*x.example", "rack-n7-ax.example"),
            ("*", "localhost"),
            ("10.2.0.7", "10.2.0.7"),
            ("10.2.0.0/16", "10.2.255.1"),
            ("0.0.0.0/0", "8.8.8.8"),
            ("fd00::/8", "[fd12::1]"),
            ("::1", "[::1]"),
        ] {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn hosts_that_were_not_meant_do_not() {
        for (pattern, host) in [
            ("node-7.example", "node-7.example.evil"),
            ("node-*", "node-7.evil"),
            ("node-*.example", "node-7.evil.example"),
            ("*.example", "example"),
            ("aba*aba", "aba"),
            ("*", "evil.example"),
            ("*", "134744072"),
            ("*x8*", "0x8080808"),
            ("*.*a", "10.0x0a"),
            ("*", "8.8.8.8"),
            ("10.2.0.0/16", "10.3.0.1"),
            ("10.2.0.7", "[::ffff:10.2.0.7]"),
            ("::/0", "10.2.0.7"),
            ("0.0.0.0/0", "[::1]"),
        ] {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn what_names_no_host_is_refused() {
        for text in [
            "",
            "10.2.*",
            "10.2.0.0/33",
            "10.2.0.0/",
            "::/129",
            "a:9400",
            "http://a",
            "a b",
            "a/8",
            "*.*",
        ] {
            assert_eq!(
                text.parse::<HostPattern>(),
                Err(ParseHostPatternError),
                "{text}"
            );
        }
    }
}
