//! A terminal to look at a program in: a tmux of its own.

use super::document::{Screen, Step};
use crate::command::{program, read, root};
use crate::server::SocketFolder;
use anyhow::bail;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a text may take to come: a scenario is played meanwhile, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A terminal with the program in it; both end with it.
#[derive(Debug)]
pub(super) struct Terminal {
    folder: SocketFolder,
}

impl Terminal {
    /// Starts what a screen wants, with these variables.
    pub(super) fn start(
        ttmem: &Path,
        screen: &Screen<'_>,
        variables: &str,
    ) -> anyhow::Result<Self> {
        let terminal = Self {
            folder: SocketFolder::make()?,
        };
        // By its name, as a user starts it: the view shows commands. What only prints something has ended by the time it is looked at.
        let folder = ttmem.parent().unwrap_or(ttmem).display();
        let command = format!(
            "PATH='{folder}':\"$PATH\" env {variables} ttmem {}; exec sleep {}",
            screen.arguments,
            2 * PATIENCE.as_secs()
        );
        let mut start = terminal.tmux();
        start.args(["new-session", "-d", "-s", "screen"]);
        start.args(["-x", &screen.columns.to_string()]);
        start.args(["-y", &screen.rows.to_string()]);
        start.arg("-c").arg(root()).arg(command);
        read(&mut start)?;
        Ok(terminal)
    }

    /// Does what a screen wants, and gives what there is to see then.
    pub(super) fn follow(&self, steps: &[Step<'_>]) -> anyhow::Result<String> {
        let mut seen = String::new();
        for step in steps {
            match step {
                Step::Press(keys) => {
                    let mut press = self.tmux();
                    read(press.args(["send-keys", "-t", "screen"]).args(keys))?;
                }
                Step::Wait(texts) => seen = self.wait_for(texts)?,
            }
        }
        Ok(seen)
    }

    /// What there is to see, with escape sequences for its colours.
    pub(super) fn colours(&self) -> anyhow::Result<String> {
        read(
            self.tmux()
                .args(["capture-pane", "-e", "-p", "-t", "screen"]),
        )
    }

    fn wait_for(&self, texts: &[&str]) -> anyhow::Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = read(self.tmux().args(["capture-pane", "-p", "-t", "screen"]))?;
            if texts.iter().all(|text| screen.contains(text)) {
                return Ok(screen);
            }
            if Instant::now() > deadline {
                bail!("never seen together: {texts:?}; the screen is\n{screen}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn tmux(&self) -> Command {
        let mut tmux = program("tmux");
        for (name, _value) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TTMEM_") {
                tmux.env_remove(name);
            }
        }
        // Whose settings these are must not show.
        tmux.env("XDG_CONFIG_HOME", "/nonexistent");
        for name in ["TMUX", "TMPDIR", "ENV"] {
            tmux.env_remove(name);
        }
        tmux.env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh");
        tmux.args(["-u", "-f", "/dev/null", "-S"]);
        tmux.arg(self.folder.path().join("tmux.sock"));
        tmux
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Fails when the program has ended, and the terminal with it.
        let _ended = self.tmux().arg("kill-server").output();
    }
}
