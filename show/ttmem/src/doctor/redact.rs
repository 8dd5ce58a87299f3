//! What may leave this machine: texts without the names, paths and secrets that are known here.
//!
//! What goes into a bundle is chosen, and nothing in it is meant to have a secret. This is the second line: names of
//! files and texts of others end up in messages, and any of them may repeat what must not be seen. So every
//! text that is not our own goes through here.

use serde_json::Value;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

/// What stands in place of a secret.
const REMOVED: &str = "[removed]";

/// What stands in place of a text that could be anything.
const NOT_SHOWN: &str = "[not shown]";

/// Values of variables shorter than this would be found in too many words.
const SHORTEST_VALUE: usize = 8;

/// So short a value is looked for if its variable says that it is secret.
const SHORTEST_SECRET: usize = 4;

/// Parts of the names of variables with secrets.
const SECRET_NAMES: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASS",
    "KEY",
    "AUTH",
    "CREDENTIAL",
    "COOKIE",
    "SESSION",
];

/// The longest text of a driver or a server that is shown.
const LONGEST_PLAIN: usize = 40;

/// What is known here that nobody else has to know.
#[derive(Debug, Default)]
pub(super) struct Redactor {
    /// Texts and what stands in their place, the longest first.
    whole: Vec<(String, Cow<'static, str>)>,
    /// The same for names, which are words of their own.
    words: Vec<(String, &'static str)>,
}

impl Redactor {
    /// Of a folder or file: all of it, whatever is in its name.
    pub(super) fn path(&mut self, path: &Path, shown: &'static str) {
        let text = path.to_string_lossy();
        let text = text.trim_end_matches('/');
        if text.len() > 1 {
            self.whole.push((text.to_owned(), shown.into()));
        }
    }

    /// A version, of which others may have written a part.
    pub(super) fn version(&mut self, found: &str) {
        let shown = version(found);
        if found.len() > 1 && shown != found {
            self.whole.push((found.to_owned(), shown.into()));
        }
    }

    /// Of a user or of this host.
    pub(super) fn name(&mut self, name: &str, shown: &'static str) {
        if name.len() > 1 && name != "root" {
            self.words.push((name.to_owned(), shown));
        }
    }

    /// The values of variables, and their lines.
    pub(super) fn environment(&mut self, variables: impl Iterator<Item = (OsString, OsString)>) {
        for (name, value) in variables {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            let upper = name.to_uppercase();
            let is_secret = SECRET_NAMES.iter().any(|part| upper.contains(part));
            let long = |part: &&str| part.len() >= SHORTEST_SECRET;
            let parts = credentials(&value).into_iter().filter(long);
            self.whole
                .extend(parts.map(|part| (part.to_owned(), REMOVED.into())));
            for line in [&*value].into_iter().chain(value.lines()) {
                let line = line.trim();
                let is_word = line.bytes().all(|byte| byte.is_ascii_lowercase());
                let is_long = line.len() >= SHORTEST_VALUE && !is_word;
                if is_long || (is_secret && line.len() >= SHORTEST_SECRET) {
                    self.whole.push((line.to_owned(), REMOVED.into()));
                }
            }
        }
    }

    /// To be called once everything is known.
    pub(super) fn settle(&mut self) {
        // A path before the folder that it is in, and paths before values that are the same.
        self.whole
            .sort_by_key(|(text, _shown)| std::cmp::Reverse(text.len()));
        self.words
            .sort_by_key(|(text, _shown)| std::cmp::Reverse(text.len()));
    }

    /// A text as it may be shown.
    pub(super) fn text(&self, text: &str) -> String {
        let mut text = without_quotes(text);
        for (hidden, shown) in &self.whole {
            text = text.replace(hidden.as_str(), shown);
        }
        text = without_homes(&text);
        for (name, shown) in &self.words {
            text = without_word(&text, name, shown);
        }
        text
    }

    /// A document of which all texts may be shown; its keys are ours.
    pub(super) fn document(&self, document: &mut Value) {
        match document {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.document(value)),
            Value::Object(values) => values
                .iter_mut()
                .for_each(|(_key, value)| self.document(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// A name or version of others: shown if it looks like one.
pub(super) fn plain(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" ._+-/:".contains(&byte);
    match text.len() <= LONGEST_PLAIN && text.bytes().all(is_plain) {
        true => text.to_owned(),
        false => NOT_SHOWN.to_owned(),
    }
}

/// A version of a Python package: numbers and what the rules for versions have for words. Behind a `+` whoever built it may have
/// written anything; what tools write there by themselves is shown, the commit and the day.
pub(super) fn version(text: &str) -> String {
    let (public, local) = match text.split_once('+') {
        Some((public, local)) => (public, Some(local)),
        None => (text, None),
    };
    let is_word = |part: &str| {
        let word = part.trim_matches(|letter: char| letter.is_ascii_digit());
        !part.is_empty() && matches!(word, "" | "a" | "b" | "rc" | "post" | "dev")
    };
    let is_digits = |text: &str, count: usize| {
        text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_commit = |part: &str| {
        let hash = part.strip_prefix('g').unwrap_or_default();
        (7..=40).contains(&hash.len()) && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_day = |part: &str| part.strip_prefix('d').is_some_and(|day| is_digits(day, 8));
    if public.len() > LONGEST_PLAIN || !public.split('.').all(is_word) {
        return NOT_SHOWN.to_owned();
    }
    let is_plain = |local: &str| {
        let mut parts = local.split('.');
        parts.next().is_some_and(is_commit)
            && parts.next().is_none_or(is_day)
            && parts.next().is_none()
    };
    match local {
        Some(local) if !is_plain(local) => format!("{public}+{NOT_SHOWN}"),
        _ => text.to_owned(),
    }
}

/// A place where huge pages are mounted: those of the system; any other may be named after anything.
pub(super) fn mount(place: &str) -> String {
    match place.starts_with("/dev/hugepages") {
        true => plain(place),
        false => NOT_SHOWN.to_owned(),
    }
}

/// Name and password of a URL.
fn credentials(value: &str) -> Vec<&str> {
    let authority = value.split_once("://").map_or("", |(_scheme, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let credentials = authority.rsplit_once('@');
    credentials.map_or(Vec::new(), |(credentials, _host)| {
        credentials.splitn(2, ':').collect()
    })
}

/// What stood in a file that was not understood may be anything.
fn without_quotes(text: &str) -> String {
    const BEFORE: &str = "not understood: \"";
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, quoted)) = rest.split_once(BEFORE) {
        kept.push_str(before);
        kept.push_str("not understood");
        let mut is_escaped = false;
        let end = quoted.find(|letter| {
            let ends = letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            ends
        });
        rest = end.map_or("", |end| &quoted[end + 1..]);
    }
    kept + rest
}

/// Home folders of anybody: `~`, without what is below them.
fn without_homes(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((at, found)) = ["/home/", "/root/"]
        .iter()
        .filter_map(|folder| Some((rest.find(folder)?, *folder)))
        .min()
    {
        kept.push_str(&rest[..at]);
        kept.push('~');
        let below = &rest[at + found.len()..];
        let end = below.find(|letter: char| letter.is_whitespace() || "\"'`,;:)".contains(letter));
        rest = end.map_or("", |end| &below[end..]);
    }
    kept + rest
}

/// A text without a name where that is a word of its own.
fn without_word(text: &str, name: &str, shown: &str) -> String {
    let is_part = |letter: char| letter.is_alphanumeric();
    let mut rest = text;
    let mut kept = String::new();
    while let Some(at) = rest.find(name) {
        let (before, found) = rest.split_at(at);
        let after = &found[name.len()..];
        let begun = before.chars().next_back().or(kept.chars().next_back());
        let is_word = !begun.is_some_and(is_part) && !after.chars().next().is_some_and(is_part);
        kept.push_str(before);
        kept.push_str(if is_word { shown } else { name });
        rest = after;
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn redactor() -> Redactor {
        let mut redactor = Redactor::default();
        redactor.path(Path::new("/data/ali ce/"), "~");
        redactor.path(Path::new("/"), "~");
        redactor.name("alice", "user");
        redactor.name("root", "user");
        redactor.name("gpu-7", "host");
        let variables = [
            ("HF_TOKEN", "hf_q1"),
            ("JWT", "-----BEGIN KEY-----\nMIIEvQIBAD\n-----END-----"),
            ("INDEX", "https://carl:s3cr@t@pypi.lan/simple"),
            ("LEVEL", "warning"),
            ("SHORT", "a1"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        redactor.environment(variables.into_iter());
        redactor.settle();
        redactor
    }

    #[test]
    fn what_is_known_here_is_taken_out() {
        let redactor = redactor();
        for (text, shown) in [
            ("at /data/ali ce/x y/z", "at ~/x y/z"),
            ("/home/bob/secret plan; /home/eve", "~ plan; ~"),
            ("'/root/.ssh/id'", "'~'"),
            (
                "alice, malice, alice2, /data/alice/",
                "user, malice, alice2, /data/user/",
            ),
            ("on gpu-7.lan, gpu-77", "on host.lan, gpu-77"),
            ("hf_q1 and MIIEvQIBAD", "[removed] and [removed]"),
            ("carl has s3cr@t", "[removed] has [removed]"),
            ("a warning of root: a1", "a warning of root: a1"),
            (
                r#"unknown (not understood: "a \" hidden"), n150"#,
                "unknown (not understood), n150",
            ),
            (r#"not understood: "unended"#, "not understood"),
            ("not understood: pids", "not understood: pids"),
        ] {
            assert_eq!(redactor.text(text), shown);
        }
        let mut document = json!({"a": ["alice", 1, null], "b": {"c": "hf_q1"}});
        redactor.document(&mut document);
        assert_eq!(
            document,
            json!({"a": ["user", 1, null], "b": {"c": "[removed]"}})
        );
    }

    #[test]
    fn a_version_has_no_words_of_whoever_built_it() {
        for known in [
            "0.81.1",
            "0.66.0rc10",
            "0.65.1.dev20251201",
            "0.66.0.dev3+g1a2b3c4d5",
            "0.66.0+g1a2b3c4.d20260801",
        ] {
            assert_eq!(version(known), known);
        }
        for (built, shown) in [
            ("0.81.1+acme", "0.81.1+[not shown]"),
            ("0.81.1+g1a2b3c4.acme", "0.81.1+[not shown]"),
            ("0.81.1+gcafe", "0.81.1+[not shown]"),
            ("acme", "[not shown]"),
            ("0.81.acme", "[not shown]"),
            ("", "[not shown]"),
        ] {
            assert_eq!(version(built), shown);
        }
        let mut redactor = Redactor::default();
        redactor.version("0.81.1+acme");
        redactor.version("");
        redactor.settle();
        let text = redactor.text("0.81.1+acme for Python 3.12");
        assert_eq!(text, "0.81.1+[not shown] for Python 3.12");
        assert_eq!(mount("/dev/hugepages-1G"), "/dev/hugepages-1G");
        assert_eq!(mount("/mnt/acme/huge"), NOT_SHOWN);
    }

    #[test]
    fn texts_of_others_are_short_and_plain() {
        assert_eq!(plain("galaxy-wormhole"), "galaxy-wormhole");
        assert_eq!(plain("16.0 GT/s PCIe"), "16.0 GT/s PCIe");
        for other in ["a\nb", "\u{202e}", "x=y", &"a".repeat(41)] {
            assert_eq!(plain(other), NOT_SHOWN);
        }
    }
}
