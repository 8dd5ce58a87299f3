//! What a workload may say about its tracking.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use ttmem_event::Source;
use ttmem_ring::ring::DEFAULT_SLOTS;

const MIB: u64 = 1 << 20;

/// How a process is tracked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The server's socket; `None` = where a server of this user, of root, or of the old protocol
    /// listens.
    pub socket: Option<PathBuf>,
    /// How events of this process become known.
    pub source: Source,
    /// The process's name; `None` = what the system calls it.
    pub name: Option<String>,
    /// The visible-device set that logical ids are counted in; `None` = `TT_VISIBLE_DEVICES`.
    pub visible_devices: Option<String>,
    /// Labels of the process besides those that are found: `key=value` between commas.
    pub labels: Option<String>,
    /// Events that are kept while the server is slow or away; beyond it, history is elided.
    pub history_events: usize,
    /// How long a thread whose ring is full waits for the pump before its event is lost. One that
    /// has waited in vain does not wait again before there is room.
    pub full_ring_wait: Duration,
    /// Events that fit into the rings of the first eight threads; rings of further ones are
    /// shorter.
    pub ring_events: usize,
    /// Memory that rings may take; threads beyond it lose their events.
    pub ring_memory_bytes: u64,
    /// A user besides root and this one whose server may be given this process's memory.
    pub trusted_uid: Option<u32>,
    /// Which clock stamps the events.
    pub clock: ClockChoice,
}

/// Which clock stamps the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockChoice {
    /// The cycle counter where it is fit for it, else the system's.
    #[default]
    Automatic,
    Tsc,
    Monotonic,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            socket: None,
            source: Source::Client,
            name: None,
            visible_devices: None,
            labels: None,
            // 32 MiB: five seconds at a hundred thousand events per second.
            history_events: 512 << 10,
            // Far longer than the pump takes: with a million live buffers a table of its account
            // grows for a tenth of a second, and a busy machine makes that half a second.
            full_ring_wait: Duration::from_secs(10),
            ring_events: DEFAULT_SLOTS,
            // Eight thousand threads.
            ring_memory_bytes: 512 * MIB,
            trusted_uid: None,
            clock: ClockChoice::Automatic,
        }
    }
}

impl Config {
    /// The defaults, changed by the environment.
    ///
    /// `TTMEM_SOCKET`, `TTMEM_NAME`, `TTMEM_LABELS`, `TTMEM_HISTORY_EVENTS`, `TTMEM_RING_EVENTS`,
    /// `TTMEM_RING_MEMORY_MIB`, `TTMEM_FULL_RING_WAIT_MS`, `TTMEM_TRUST_UID` and `TTMEM_CLOCK`; a
    /// value that makes no sense is as good as none.
    #[must_use]
    pub fn from_env() -> Self {
        Self::from_variables(|name| std::env::var_os(name))
    }

    fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Self {
        let default = Self::default();
        let text = |name: &str| {
            get(name)?
                .into_string()
                .ok()
                .filter(|text| !text.is_empty())
        };
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        let count = |name: &str| usize::try_from(number(name)?).ok();
        Self {
            socket: get("TTMEM_SOCKET")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            name: text("TTMEM_NAME"),
            visible_devices: text("TT_VISIBLE_DEVICES"),
            labels: text("TTMEM_LABELS"),
            history_events: count("TTMEM_HISTORY_EVENTS").unwrap_or(default.history_events),
            full_ring_wait: number("TTMEM_FULL_RING_WAIT_MS")
                .map_or(default.full_ring_wait, Duration::from_millis),
            ring_events: count("TTMEM_RING_EVENTS").unwrap_or(default.ring_events),
            ring_memory_bytes: number("TTMEM_RING_MEMORY_MIB")
                .and_then(|mib| mib.checked_mul(MIB))
                .unwrap_or(default.ring_memory_bytes),
            trusted_uid: number("TTMEM_TRUST_UID").and_then(|uid| u32::try_from(uid).ok()),
            clock: match text("TTMEM_CLOCK").as_deref() {
                Some("tsc") => ClockChoice::Tsc,
                Some("monotonic") => ClockChoice::Monotonic,
                _automatic => ClockChoice::Automatic,
            },
            ..default
        }
    }

    /// Where to look for a server, best first.
    pub(crate) fn socket_paths(&self) -> Vec<PathBuf> {
        if let Some(path) = &self.socket {
            return vec![path.clone()];
        }
        let uid = rustix::process::geteuid().as_raw();
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let runtime = runtime.filter(|path| path.is_absolute());
        let mut paths: Vec<PathBuf> = runtime
            .map(|directory| directory.join("ttmem.sock"))
            .into_iter()
            .collect();
        paths.push(PathBuf::from(format!("/tmp/ttmem-{uid}/ttmem.sock")));
        paths.push(PathBuf::from("/run/ttmem/ttmem.sock"));
        paths.push(PathBuf::from("/tmp/tt_allocation_server.sock"));
        paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Config {
        Config::from_variables(|name| {
            let found = variables.iter().find(|(known, _value)| *known == name)?;
            Some(OsString::from(found.1))
        })
    }

    #[test]
    fn the_environment_changes_the_defaults() {
        let config = with(&[
            ("TTMEM_SOCKET", "/tmp/x.sock"),
            ("TTMEM_HISTORY_EVENTS", "1000"),
            ("TTMEM_FULL_RING_WAIT_MS", "0"),
            ("TTMEM_RING_MEMORY_MIB", "64"),
            ("TTMEM_TRUST_UID", "77"),
            ("TTMEM_CLOCK", "monotonic"),
            ("TTMEM_NAME", "model"),
        ]);
        assert_eq!(config.socket_paths(), [PathBuf::from("/tmp/x.sock")]);
        assert_eq!(config.history_events, 1000);
        assert_eq!(config.full_ring_wait, Duration::ZERO);
        assert_eq!(config.ring_memory_bytes, 64 << 20);
        assert_eq!(config.trusted_uid, Some(77));
        assert_eq!(config.clock, ClockChoice::Monotonic);
        assert_eq!(config.name.as_deref(), Some("model"));
    }

    #[test]
    fn nonsense_in_the_environment_is_no_value() {
        let nonsense = [
            ("TTMEM_SOCKET", ""),
            ("TTMEM_HISTORY_EVENTS", "-1"),
            ("TTMEM_FULL_RING_WAIT_MS", "soon"),
            ("TTMEM_RING_MEMORY_MIB", "18446744073709551615"),
            ("TTMEM_TRUST_UID", "4294967296"),
            ("TTMEM_CLOCK", "sundial"),
        ];
        assert_eq!(with(&nonsense), Config::default());
    }
}
