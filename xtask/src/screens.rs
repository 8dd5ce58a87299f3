//! `cargo xtask screens`: the screens in README and docs, as the program draws them.
//!
//! The documents say how each screen is made ([`document`]): the real program is started in a real
//! terminal, keys are pressed, and what is on the screen replaces what stood in the document. Two
//! things are put in place of what was drawn, both in the line with the state of the connection:
//! the name of this machine and the path of the server's socket. A screen that tells the name of
//! the user or where this repository lies is refused.

mod document;
mod terminal;

use crate::command::{cargo, root, run as run_command, target_dir};
use crate::tool;
use anyhow::{Context, bail};
use std::fs;
use std::path::Path;
use terminal::Terminal;

/// The documents that show screens.
const DOCUMENTS: [&str; 2] = ["README.md", "docs/top.md"];

/// What is shown instead of the name of this machine.
const HOST: &str = "host";
/// What is shown instead of the path of the server's socket.
const SOCKET: &str = "/tmp/ttmem-demo/ttmem.sock";
/// The line of a screen that has both.
const STATUS_LINE: usize = 1;

/// Builds the program and makes every screen anew.
pub(crate) fn run() -> anyhow::Result<()> {
    tool::TMUX.ensure()?;
    run_command(&mut cargo(["build", "--package", "ttmem"]))?;
    let ttmem = target_dir().join("debug/ttmem");
    let privates = Privates::of_this_machine()?;
    for name in DOCUMENTS {
        let path = root().join(name);
        let old = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
        let new = renewed(&old, &ttmem, &privates).with_context(|| format!("in {name}"))?;
        fs::write(&path, new).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// A document with new screens.
fn renewed(old: &str, ttmem: &Path, privates: &Privates) -> anyhow::Result<String> {
    let mut new = String::with_capacity(old.len());
    let mut copied = 0;
    for screen in document::screens(old)? {
        println!("{}: ttmem {}", screen.name, screen.arguments);
        let of = || format!("of the screen {}", screen.name);
        let terminal = Terminal::start(ttmem, &screen).with_context(of)?;
        let drawn = terminal.follow(&screen.steps).with_context(of)?;
        new.push_str(&old[copied..screen.place.start]);
        new.push_str(&privates.hidden(&drawn).with_context(of)?);
        copied = screen.place.end;
    }
    new.push_str(&old[copied..]);
    Ok(new)
}

/// What no document may tell.
#[derive(Debug)]
struct Privates {
    host: String,
    /// Names of users, which no screen should have in the first place.
    users: Vec<String>,
    /// Paths of this machine, alike.
    paths: Vec<String>,
}

impl Privates {
    fn of_this_machine() -> anyhow::Result<Self> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname");
        let mut paths = vec![root().display().to_string()];
        paths.extend(std::env::var("HOME"));
        Ok(Self {
            host: host.context("this machine has no name")?.trim().to_owned(),
            users: std::env::var("USER").into_iter().collect(),
            paths,
        })
    }

    /// A screen that can be shown to everybody.
    fn hidden(&self, drawn: &str) -> anyhow::Result<String> {
        let mut shown = String::with_capacity(drawn.len());
        for (number, line) in drawn.lines().enumerate() {
            if number == STATUS_LINE {
                shown.push_str(&self.status_hidden(line)?);
            } else {
                shown.push_str(line.trim_end());
            }
            shown.push('\n');
        }
        let is_word = |user: &&String| {
            let mut words = shown.split(|sign: char| !sign.is_alphanumeric());
            words.any(|word| word == user.as_str())
        };
        let is_told = |path: &&String| path.len() > 1 && shown.contains(path.as_str());
        let user = self.users.iter().find(is_word);
        match user.or_else(|| self.paths.iter().find(is_told)) {
            Some(told) => bail!("{told:?} is on it:\n{shown}"),
            None => Ok(shown),
        }
    }

    /// The line of state, as wide as it was: two blanks or more stand between its parts.
    fn status_hidden(&self, line: &str) -> anyhow::Result<String> {
        let parts = line.split("  ").map(str::trim);
        let mut facts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        let state = facts.pop().unwrap_or_default();
        let (mut has_host, mut has_socket) = (false, false);
        for fact in &mut facts {
            if *fact == self.host {
                (*fact, has_host) = (HOST, true);
            } else if fact.ends_with("/ttmem.sock") {
                (*fact, has_socket) = (SOCKET, true);
            }
        }
        if !has_host || !has_socket {
            bail!("neither host nor socket should be missing in {line:?}");
        }
        let facts = facts.join("  ");
        let room = line.trim_end().chars().count();
        let gap = room.saturating_sub(facts.chars().count() + state.chars().count());
        Ok(format!("{facts}{}{state}", " ".repeat(gap.max(2))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn privates() -> Privates {
        Privates {
            host: "galaxy-17".to_owned(),
            users: vec!["ada".to_owned()],
            paths: vec!["/home/lovelace".to_owned()],
        }
    }

    #[test]
    fn host_and_socket_are_replaced_and_the_line_keeps_its_width() {
        let status = "galaxy-17  21:55:45 UTC  7 events/s  /tmp/ttmem-Oh1ddf/ttmem.sock     live, every 0.5 s";
        let shown = privates()
            .hidden(&format!("1 Overview\n{status}\nDRAM   \n"))
            .expect("nothing else is private");
        let expected = "host  21:55:45 UTC  7 events/s  /tmp/ttmem-demo/ttmem.sock            live, every 0.5 s";
        assert_eq!(shown, format!("1 Overview\n{expected}\nDRAM\n"));
        assert_eq!(status.len(), expected.len());
    }

    #[test]
    fn a_screen_that_tells_more_is_refused() {
        let status = "galaxy-17  /tmp/x/ttmem.sock  live";
        for told in ["/home/lovelace/model.toml", "owner ada", "x=ada"] {
            let drawn = format!("1 Overview\n{status}\n{told}\n");
            assert!(privates().hidden(&drawn).is_err(), "{told}");
        }
        for status in ["galaxy-17  live", "/tmp/x/ttmem.sock  live", ""] {
            let drawn = format!("1 Overview\n{status}\n");
            assert!(privates().hidden(&drawn).is_err(), "{status}");
        }
    }
}
