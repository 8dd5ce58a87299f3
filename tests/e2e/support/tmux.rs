//! A terminal that a test drives by keys and reads: a tmux of its own.

use super::c_program::is_there;
use super::server::{NO_FOLDER, TTMEM};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A screen takes a while where many programs run; this only ends what hangs.
const WATCHDOG: Duration = Duration::from_secs(120);

/// What the shell in the terminal says when it waits.
pub(crate) const PROMPT: &str = "prompt>";

/// A terminal with a shell or a program in it; ended when the test is done with it.
#[derive(Debug)]
pub(crate) struct Tmux {
    folder: tempfile::TempDir,
}

impl Tmux {
    /// A terminal of some size with a shell in it; `None` where there is no tmux.
    pub(crate) fn with_shell(columns: u16, rows: u16) -> Option<Self> {
        let terminal = Self::with(columns, rows, &format!("exec env PS1='{PROMPT} ' sh -i"))?;
        terminal.wait_for(PROMPT);
        Some(terminal)
    }

    /// A terminal of some size with a command of the program under test in it, and nothing else.
    pub(crate) fn with_ttmem(columns: u16, rows: u16, arguments: &str) -> Option<Self> {
        Self::with(columns, rows, &format!("exec {TTMEM} {arguments}"))
    }

    /// A terminal of some size with a command of a shell in it, and nothing else.
    pub(crate) fn with(columns: u16, rows: u16, command: &str) -> Option<Self> {
        if !is_there("tmux") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let terminal = Self { folder };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let size = ["-x", &columns, "-y", &rows];
        let session = ["new-session", "-d", "-s", "test"];
        terminal.told(&[&session[..], &size[..], &[command][..]].concat());
        Some(terminal)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("tmux.sock")
    }

    fn tell(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        for (name, _value) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TTMEM_") {
                command.env_remove(name);
            }
        }
        command
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .env_remove("ENV")
            .env("LC_ALL", "C.UTF-8")
            .env("XDG_CONFIG_HOME", NO_FOLDER)
            .env("SHELL", "/bin/sh")
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(self.socket())
            .args(words)
            .output()
            .expect("tmux is there; `apt-get install tmux` if not")
    }

    /// What tmux answers; it must have done what it was told.
    fn told(&self, words: &[&str]) -> String {
        let output = self.tell(words);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {complaint}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Presses keys by their names: `Space`, `Enter`, `C-z`, or a character.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.told(&[&["send-keys", "-t", "test"], keys].concat());
    }

    /// Types a text as it is.
    pub(crate) fn type_text(&self, text: &str) {
        self.told(&["send-keys", "-t", "test", "-l", text]);
    }

    /// Types a line into the shell.
    pub(crate) fn run(&self, line: &str) {
        self.type_text(line);
        self.press(&["Enter"]);
    }

    /// What is on the screen.
    pub(crate) fn screen(&self) -> String {
        self.told(&["capture-pane", "-p", "-t", "test"])
    }

    /// What is on the screen, with the sequences that make it look as it does.
    pub(crate) fn styled_screen(&self) -> String {
        self.told(&["capture-pane", "-p", "-e", "-t", "test"])
    }

    /// What tmux knows of the terminal, such as `cursor_flag`.
    pub(crate) fn knows(&self, variable: &str) -> String {
        let format = format!("#{{{variable}}}");
        let known = self.told(&["display-message", "-p", "-t", "test", &format]);
        known.trim_end().to_owned()
    }

    /// Gives the terminal another size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.told(&["resize-window", "-t", "test", "-x", &columns, "-y", &rows]);
    }

    /// Closes the terminal under whatever runs in it.
    pub(crate) fn close(&self) {
        self.told(&["kill-pane", "-t", "test"]);
    }

    /// Waits for a text on the screen, and gives the screen that has it.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits for a screen on which something holds, and gives it.
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            let waited = begun.elapsed();
            assert!(waited < WATCHDOG, "never seen: {what}\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // Whose last terminal was closed is gone already.
        let _gone = self.tell(&["kill-server"]);
    }
}
