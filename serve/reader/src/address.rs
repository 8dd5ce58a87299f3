//! Where a server is: its Unix socket, or a URL.
//!
//! A URL is `http://HOST:PORT` and nothing more. What else URLs can have is refused with a sentence
//! about what to do instead: users type these.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ttmem_report::decimal;

/// What a URL without a port means.
const DEFAULT_PORT: u16 = 80;

/// The longest name that the DNS knows.
const MAX_NAME_BYTES: usize = 253;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The Unix socket at this path.
    Unix(PathBuf),
    /// TCP.
    Http(HttpUrl),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Http(url) => write!(f, "{url}"),
        }
    }
}

impl From<&Path> for Address {
    fn from(path: &Path) -> Self {
        Self::Unix(path.to_owned())
    }
}

impl From<HttpUrl> for Address {
    fn from(url: HttpUrl) -> Self {
        Self::Http(url)
    }
}

/// A server's URL: `http://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    host: Host,
    port: u16,
}

/// A machine, by name or by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Name(String),
    Number(IpAddr),
}

/// Why a text is no URL of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseHttpUrlError {
    #[error("expected a URL such as http://127.0.0.1:9400")]
    Scheme,
    #[error("https is not supported: reach the server through a tunnel, such as ssh -L")]
    Https,
    #[error("a URL is no place for a name or a password: put a token into a file")]
    UserInfo,
    #[error("a URL has only host and port here, such as http://127.0.0.1:9400")]
    Path,
    #[error("expected a host name, an IPv4 address, or an IPv6 address in brackets")]
    Host,
    #[error("expected a port from 1 to 65535")]
    Port,
}

impl HttpUrl {
    /// Host and port, as the header `Host` has them.
    #[must_use]
    pub fn authority(&self) -> String {
        match &self.host {
            Host::Name(name) => format!("{name}:{}", self.port),
            Host::Number(number) => SocketAddr::new(*number, self.port).to_string(),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// The addresses of the host, of which there is one if it was given as a number.
    ///
    /// Looking up a name takes as long as the system's resolver is configured to wait.
    pub(crate) fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.host {
            Host::Number(number) => Ok(vec![SocketAddr::new(*number, self.port)]),
            Host::Name(name) => Ok((name.as_str(), self.port).to_socket_addrs()?.collect()),
        }
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority())
    }
}

impl From<SocketAddr> for HttpUrl {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: Host::Number(address.ip()),
            port: address.port(),
        }
    }
}

impl FromStr for HttpUrl {
    type Err = ParseHttpUrlError;

    fn from_str(text: &str) -> Result<Self, ParseHttpUrlError> {
        if after_scheme(text, "https://").is_some() {
            return Err(ParseHttpUrlError::Https);
        }
        let rest = after_scheme(text, "http://").ok_or(ParseHttpUrlError::Scheme)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(ParseHttpUrlError::UserInfo);
        }
        if !matches!(path, "" | "/") {
            return Err(ParseHttpUrlError::Path);
        }
        let (host, port) = split_authority(authority)?;
        Ok(Self { host, port })
    }
}

/// What follows a scheme, whatever its case.
fn after_scheme<'t>(text: &'t str, scheme: &str) -> Option<&'t str> {
    let (begin, rest) = text.split_at_checked(scheme.len())?;
    begin.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn split_authority(authority: &str) -> Result<(Host, u16), ParseHttpUrlError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (number, port) = bracketed.split_once(']').ok_or(ParseHttpUrlError::Host)?;
            let number: Ipv6Addr = number.parse().map_err(|_error| ParseHttpUrlError::Host)?;
            (Host::Number(number.into()), port)
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (name, port) = authority.split_at(end);
            // An IPv6 address without brackets: nobody knows where the port begins.
            if port.matches(':').count() > 1 {
                return Err(ParseHttpUrlError::Host);
            }
            (host_named(name)?, port)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(digits) => decimal(digits)
            .filter(|port| *port != 0)
            .ok_or(ParseHttpUrlError::Port)?,
        None if port.is_empty() => DEFAULT_PORT,
        None => return Err(ParseHttpUrlError::Host),
    };
    Ok((host, port))
}

fn host_named(name: &str) -> Result<Host, ParseHttpUrlError> {
    if let Ok(number) = name.parse::<std::net::Ipv4Addr>() {
        return Ok(Host::Number(number.into()));
    }
    // The name ends up in our request: nothing but what names have may get there.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(plain) {
        return Err(ParseHttpUrlError::Host);
    }
    Ok(Host::Name(name.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, ParseHttpUrlError> {
        text.parse().map(|url: HttpUrl| url.to_string())
    }

    #[test]
    fn names_and_numbers_are_understood() {
        for (text, shown) in [
            ("http://127.0.0.1:9400", "http://127.0.0.1:9400"),
            ("http://127.0.0.1:9400/", "http://127.0.0.1:9400"),
            (
                "HTTP://Node-7.example_1.org:1",
                "http://node-7.example_1.org:1",
            ),
            ("http://[::1]:65535", "http://[::1]:65535"),
            ("http://[::FFFF:10.0.0.1]", "http://[::ffff:10.0.0.1]:80"),
            ("http://localhost", "http://localhost:80"),
        ] {
            assert_eq!(parsed(text).as_deref(), Ok(shown), "{text}");
        }
        let url: HttpUrl = "http://[::1]:9400".parse().unwrap();
        assert_eq!(url.authority(), "[::1]:9400");
        assert_eq!(url.resolve().unwrap(), ["[::1]:9400".parse().unwrap()]);
        assert_eq!(
            HttpUrl::from("[::1]:9400".parse::<SocketAddr>().unwrap()),
            url
        );
    }

    #[test]
    fn what_is_refused_is_refused_for_its_reason() {
        use ParseHttpUrlError::{Host, Https, Path, Port, Scheme, UserInfo};
        for (text, reason) in [
            ("", Scheme),
            ("127.0.0.1:9400", Scheme),
            ("/run/ttmem.sock", Scheme),
            ("http:/x", Scheme),
            ("ftp://x", Scheme),
            ("ü", Scheme),
            ("https://x:1", Https),
            ("HTTPS://x", Https),
            ("http://user:secret@x", UserInfo),
            ("http://@x", UserInfo),
            ("http://x/api/v1/snapshot", Path),
            ("http://x?y", Path),
            ("http://x#y", Path),
            ("http://", Host),
            ("http://:80", Host),
            ("http://a b", Host),
            ("http://a\r\nX: y", Host),
            ("http://ü", Host),
            ("http://::1", Host),
            ("http://::1:9400", Host),
            ("http://[::1", Host),
            ("http://[::1]9400", Host),
            ("http://[fe80::1%25eth0]:1", Host),
            ("http://[127.0.0.1]", Host),
            ("http://x:", Port),
            ("http://x:0", Port),
            ("http://x:+1", Port),
            ("http://x:65536", Port),
            ("http://[::1]:", Port),
        ] {
            assert_eq!(parsed(text), Err(reason), "{text:?}");
        }
        assert_eq!(parsed(&format!("http://{}", "a".repeat(254))), Err(Host));
    }
}
