//! Requests that nobody should send.

use std::fmt::Write as _;

/// Paths that take a question.
const PATHS: [&str; 14] = [
    "/api/v1/snapshot",
    "/api/v1/devices/0",
    "/api/v1/processes",
    "/api/v1/buffers",
    "/api/v1/buffers/groups",
    "/api/v1/cbs",
    "/api/v1/kernels",
    "/api/v1/programs",
    "/api/v1/l1map/0",
    "/api/v1/blocks/0",
    "/api/v1/history",
    "/api/v1/last",
    "/metrics",
    "/readyz",
];

/// Names of parameters, some of which some path knows.
const NAMES: [&str; 12] = [
    "limit", "cursor", "pid", "class", "sort", "since", "x", "cells", "seconds", "count", "by",
    "%00",
];

/// Values that are mostly wrong.
const VALUES: [&str; 12] = [
    "-1",
    "0",
    "99999999999999999999",
    "",
    "k-1-1-1",
    "1-1-1",
    "%ff%fe",
    "%zz",
    "dram",
    "2026-02-30T00:00:00Z",
    "\u{1b}[31m",
    "1e9",
];

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes of any kind behind a capital letter, with which HTTP begins.
    Noise,
    /// A method that no path takes, or none.
    Method,
    /// A head that is too long.
    LongHead,
    /// More headers than anybody needs.
    ManyHeaders,
    /// No end of the head.
    Half,
    Query,
    /// A path that leads nowhere.
    Path,
    /// Percent signs in all the wrong places.
    Percent,
    ManyParameters,
    /// A body that never comes, or that nobody asked for.
    Body,
    /// Heads that contradict themselves, and other protocols.
    Smuggled,
    /// A good question, whose answer nobody waits for.
    Reset,
    Good,
}

impl Kind {
    pub(super) const ALL: [Self; 13] = [
        Self::Noise,
        Self::Method,
        Self::LongHead,
        Self::ManyHeaders,
        Self::Half,
        Self::Query,
        Self::Path,
        Self::Percent,
        Self::ManyParameters,
        Self::Body,
        Self::Smuggled,
        Self::Reset,
        Self::Good,
    ];

    /// A request of this kind.
    pub(super) fn bytes(self, random: &mut Random) -> Vec<u8> {
        let path = random.pick(&PATHS);
        match self {
            Self::Noise => {
                let mut bytes = vec![random.pick(b"ABGPZ")];
                bytes.extend((0..random.below(2000)).map(|_byte| random.byte()));
                bytes
            }
            Self::Method => {
                let method = random.pick(&["BREW", "DELETE", "PUT", "OPTIONS", "X", "GETGET"]);
                head(method, path, "")
            }
            Self::LongHead => {
                let value = "y".repeat(16_000 + random.below(50_000));
                head("GET", path, &format!("X: {value}\r\n"))
            }
            Self::ManyHeaders => head("GET", path, &"X: y\r\n".repeat(65 + random.below(2000))),
            Self::Half => {
                let whole = head("GET", path, "Host: x\r\n");
                let length = 1 + random.below(whole.len() - 4);
                whole[..length].to_vec()
            }
            Self::Query => head("GET", &with_query(path, 1 + random.below(4), random), ""),
            Self::Path => {
                let depth = 1 + random.below(40);
                let path = random.pick(&["/..", "//", "/api", "/api/v1", "/%2e%2e", "/é"]);
                head("GET", &path.repeat(depth), "")
            }
            Self::Percent => {
                let junk = random.pick(&["%", "%f", "%ff", "%00", "%0d%0a", "%25%", "%u0041"]);
                let junk = junk.repeat(1 + random.below(200));
                let device = random.pick(&["/api/v1/devices/", "/api/v1/l1map/", "/"]);
                head("GET", &format!("{device}{junk}?{junk}={junk}"), "")
            }
            Self::ManyParameters => head("GET", &with_query(path, 1000, random), ""),
            Self::Body => {
                // Of no process: the highest pid of any Linux is below.
                let path = random.pick(&["/api/v1/mark?name=x", "/api/v1/forget?pid=4194305"]);
                let length = random.pick(&["0", "5", "4294967296", "-1", "99999999999999999999"]);
                let mut bytes = head("POST", path, &format!("Content-Length: {length}\r\n"));
                bytes.extend((0..random.below(100_000)).map(|_byte| b'z'));
                bytes
            }
            Self::Smuggled => random
                .pick(&[
                    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                    "GET http://elsewhere/api/v1/snapshot HTTP/1.1\r\n\r\n",
                    "CONNECT elsewhere:1 HTTP/1.1\r\n\r\n",
                    "OPTIONS * HTTP/1.1\r\n\r\n",
                    "GET /healthz HTTP/9.9\r\n\r\n",
                    "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                    "GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                    "POST /api/v1/mark HTTP/1.1\r\nContent-Length: 1\r\n\
                     Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
                    "GET /healthz HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
                    "GET /healthz HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
                ])
                .as_bytes()
                .to_vec(),
            Self::Reset => head("GET", "/api/v1/buffers?limit=10000", ""),
            Self::Good => head("GET", path, ""),
        }
    }
}

/// The head of a request.
fn head(method: &str, target: &str, headers: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\n{headers}\r\n").into_bytes()
}

/// A path with this many parameters.
fn with_query(path: &str, count: usize, random: &mut Random) -> String {
    let mut target = format!("{path}?");
    for _parameter in 0..count {
        let (name, value) = (random.pick(&NAMES), random.pick(&VALUES));
        // Into a string nothing can fail.
        let _written = write!(target, "{name}={value}&");
    }
    target
}

/// Xorshift: what matters is that it is the same every time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Another row of numbers for another seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
