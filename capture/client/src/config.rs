//! What a workload may say about its tracking.

use crate::labels::refused_labels;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use ttmem_event::Source;
use ttmem_ring::ring::DEFAULT_SLOTS;
use ttmem_ring::segment::Shape;

const MIB: u64 = 1 << 20;

/// Characters of a value that are shown.
const LONGEST_SHOWN: usize = 64;

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
        // What is not taken is named in `wrong_with`.
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
        let uid = crate::host::own_uid();
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

/// What is wrong with the variables by which programs are tracked, or turns tracking off: each in a sentence with the
/// variable, its value and what is used instead.
///
/// For those who start programs: inside of one nothing is said of it, since its standard error is not ours.
pub fn environment_warnings(get: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let config = Config::from_variables(&get);
    let judged = JUDGED.iter().filter_map(|name| {
        let value = get(name).filter(|value| !value.is_empty())?;
        let value = value.to_string_lossy();
        let wrong = wrong_with(name, &value, &config)?;
        let shown: String = value.chars().take(LONGEST_SHOWN).collect();
        Some(format!("{name}: {shown:?} {wrong}"))
    });
    let mut warnings: Vec<String> = judged.collect();
    warnings.extend(refused_labels(config.labels.as_deref().unwrap_or_default()));
    warnings
}

/// The variables that have a wrong value.
const JUDGED: [&str; 7] = [
    "TTMEM_DISABLE",
    "TTMEM_HISTORY_EVENTS",
    "TTMEM_RING_EVENTS",
    "TTMEM_RING_MEMORY_MIB",
    "TTMEM_FULL_RING_WAIT_MS",
    "TTMEM_TRUST_UID",
    "TTMEM_CLOCK",
];

/// What is wrong with the value of a variable, and what is used instead, by what was made of it.
fn wrong_with(name: &str, value: &str, config: &Config) -> Option<String> {
    let no_number = |most: u64, holds: String| match value.parse::<u64>() {
        Ok(number) if number <= most => None,
        Ok(_larger) => Some(format!("is more than {most}; using {holds}")),
        Err(_nonsense) => Some(format!("is not a whole number; using {holds}")),
    };
    match name {
        "TTMEM_DISABLE" => match value {
            "0" => None,
            "1" => Some("turns tracking off".to_owned()),
            _other => Some("is neither 0 nor 1; tracking is on".to_owned()),
        },
        "TTMEM_HISTORY_EVENTS" => no_number(u64::MAX, config.history_events.to_string()),
        "TTMEM_RING_EVENTS" => no_number(u64::MAX, config.ring_events.to_string()).or_else(|| {
            let used = Shape::of(0, config.ring_events)?.slots_per_ring;
            let is_taken = config.ring_events.checked_next_power_of_two() == Some(used);
            (!is_taken).then(|| format!("is out of range; using {used}"))
        }),
        "TTMEM_RING_MEMORY_MIB" => {
            let holds = config.ring_memory_bytes / MIB;
            no_number(u64::MAX / MIB, holds.to_string()).or_else(|| {
                let nothing = "leaves no room for any ring; nothing is tracked";
                (holds == 0).then(|| nothing.to_owned())
            })
        }
        "TTMEM_FULL_RING_WAIT_MS" => {
            no_number(u64::MAX, config.full_ring_wait.as_millis().to_string())
        }
        "TTMEM_TRUST_UID" => {
            let ignored = "is not the number of a user; it is ignored";
            value.parse::<u32>().is_err().then(|| ignored.to_owned())
        }
        "TTMEM_CLOCK" if config.clock == ClockChoice::Automatic => {
            Some("is neither tsc nor monotonic; using the best clock here".to_owned())
        }
        _right => None,
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
        // Each is named, with its value; but for the socket, which is as good as not set.
        let said = warnings(&nonsense);
        assert_eq!(said.len(), nonsense.len() - 1, "{said:#?}");
        for (name, value) in &nonsense[1..] {
            let start = format!("{name}: {value:?} ");
            assert!(
                said.iter().any(|said| said.starts_with(&start)),
                "{said:#?}"
            );
        }
        let clock =
            "TTMEM_CLOCK: \"sundial\" is neither tsc nor monotonic; using the best clock here";
        assert!(said.iter().any(|said| said == clock), "{said:#?}");
    }

    fn warnings(variables: &[(&str, &str)]) -> Vec<String> {
        environment_warnings(|name| {
            let found = variables.iter().find(|(known, _value)| *known == name)?;
            Some(OsString::from(found.1))
        })
    }

    #[test]
    fn odd_values_are_named_with_what_holds_instead() {
        for (name, value, what) in [
            (
                "TTMEM_DISABLE",
                "maybe",
                "is neither 0 nor 1; tracking is on",
            ),
            ("TTMEM_DISABLE", "1", "turns tracking off"),
            (
                "TTMEM_RING_EVENTS",
                "many",
                "is not a whole number; using 8192",
            ),
            ("TTMEM_RING_EVENTS", "0", "is out of range; using 2"),
            (
                "TTMEM_RING_EVENTS",
                "99999999999",
                "is out of range; using 1048576",
            ),
            (
                "TTMEM_RING_MEMORY_MIB",
                "0",
                "leaves no room for any ring; nothing is tracked",
            ),
            (
                "TTMEM_RING_MEMORY_MIB",
                "1.5",
                "is not a whole number; using 512",
            ),
            (
                "TTMEM_TRUST_UID",
                "ada",
                "is not the number of a user; it is ignored",
            ),
        ] {
            let said = warnings(&[(name, value)]);
            assert_eq!(said, [format!("{name}: {value:?} {what}")]);
        }
        let said = warnings(&[("TTMEM_TRUST_UID", "4294967296")]);
        assert!(said[0].ends_with("it is ignored"), "{said:?}");
        for usual in [
            ("TTMEM_DISABLE", "0"),
            ("TTMEM_DISABLE", ""),
            ("TTMEM_RING_EVENTS", "5000"),
            ("TTMEM_RING_MEMORY_MIB", "1"),
            ("TTMEM_CLOCK", "tsc"),
            ("TTMEM_LABELS", "team=vision"),
        ] {
            assert_eq!(warnings(&[usual]), [""; 0], "{usual:?}");
        }
        let said = warnings(&[("TTMEM_LABELS", "team=vision,9=x")]);
        assert!(said[0].starts_with("TTMEM_LABELS: \"9=x\""), "{said:?}");
        let hostile = format!("\u{1b}[2J{}", "x".repeat(1000));
        let said = warnings(&[("TTMEM_DISABLE", &hostile)]);
        assert!(
            said[0].len() < 200 && !said[0].contains('\u{1b}'),
            "{said:?}"
        );
    }
}
