//! A shell for the commands of a page: they run one after another, in a home that nobody has used before.
//!
//! All commands of a page are given to one shell, so that folders, variables and programs in the background last as they do for
//! a reader. Standard input is empty and there is no terminal. A server that a page starts listens on a socket of that page, whatever
//! else runs on the machine.

use super::commands::{Command, matches};
use crate::command::program;
use crate::server::SocketFolder;
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How long the commands of a page may take together, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// How wide what is printed may be: as wide as pages are.
const COLUMNS: &str = "100";

/// Waits until a server or a program that was started in the background is there: a reader types more slowly.
const WAIT_FOR_SERVER: &str = "until ttmem status >/dev/null 2>&1";
const WAIT_FOR_PROGRAM: &str = "until ttmem status 2>/dev/null | grep -q ' live '";

/// What became of a command.
#[derive(Debug)]
pub(super) struct Outcome {
    code: i32,
    printed: String,
}

impl Outcome {
    #[cfg(test)]
    pub(super) fn new(code: i32, printed: &str) -> Self {
        let printed = printed.to_owned();
        Self { code, printed }
    }

    /// Holds it against the page.
    ///
    /// # Errors
    /// If the command failed and the next one does not show its code, or if it printed something else.
    pub(super) fn judge(
        &self,
        command: &Command<'_>,
        next: Option<&Command<'_>>,
    ) -> anyhow::Result<()> {
        let is_code_shown = next.is_some_and(|next| next.text == "echo $?");
        if self.code != 0 && !is_code_shown {
            bail!("it ended with code {}:\n{}", self.code, self.printed);
        }
        let mut printed: Vec<&str> = self.printed.lines().collect();
        while printed.last().is_some_and(|line| line.trim().is_empty()) {
            printed.pop();
        }
        if !command.output.is_empty() && !matches(&command.output, &printed) {
            bail!(
                "it prints\n{}\nand the page shows\n{}",
                printed.join("\n"),
                command.output.join("\n")
            );
        }
        Ok(())
    }
}

/// A home with nothing in it, which goes with this.
#[derive(Debug)]
pub(super) struct Surroundings {
    home: SocketFolder,
    path: OsString,
}

impl Surroundings {
    pub(super) fn make(ttmem: &Path) -> anyhow::Result<Self> {
        let folder = ttmem.parent().context("the program lies in a folder")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
        let home = SocketFolder::make()?;
        for name in ["work", "run", "outcomes"] {
            fs::create_dir(home.path().join(name)).with_context(|| format!("no folder {name}"))?;
        }
        Ok(Self {
            home,
            path: std::env::join_paths(folders)?,
        })
    }

    /// Runs commands to their end.
    pub(super) fn run(&self, commands: &[&Command<'_>]) -> anyhow::Result<Vec<Outcome>> {
        let home = self.home.path();
        let script = home.join("script");
        fs::write(&script, self.script(commands)).context("cannot write the commands down")?;
        let mut shell = program("bash");
        for (name, _value) in std::env::vars_os() {
            let name = name.to_string_lossy();
            // Those of whoever runs this are about other servers and other homes.
            if ["TTMEM_", "XDG_", "CARGO"]
                .iter()
                .any(|begin| name.starts_with(begin))
            {
                shell.env_remove(&*name);
            }
        }
        shell
            .arg(&script)
            .current_dir(home.join("work"))
            .env("HOME", home)
            .env("XDG_RUNTIME_DIR", home.join("run"))
            .env("PATH", &self.path)
            .env("COLUMNS", COLUMNS)
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "dumb")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Commands write to files; the shell itself says who was killed.
            .stderr(Stdio::null())
            .process_group(0);
        Group(shell.spawn().context("cannot start bash")?).wait()?;
        (0..commands.len())
            .map(|number| self.outcome(number))
            .collect()
    }

    /// All commands, each with its output and its code in files of their own.
    fn script(&self, commands: &[&Command<'_>]) -> String {
        let outcomes = self.home.path().join("outcomes");
        let outcomes = outcomes.display();
        let mut script = String::from("code=0\n");
        for (number, command) in commands.iter().enumerate() {
            let file = format!("{outcomes}/{number}");
            let is_server = command.text.starts_with("ttmem serve");
            if is_server {
                script.push_str("export TTMEM_SOCKET=\"$XDG_RUNTIME_DIR/ttmem.sock\"\n");
            }
            // The code of the command before is there for `echo $?`.
            let _infallible = write!(
                script,
                "(exit $code)\n{{\n{}\n}} >{file}.printed 2>&1\ncode=$?\necho $code >{file}.code\n",
                command.text
            );
            if command.text.trim_end().ends_with('&') {
                let wait = if is_server {
                    WAIT_FOR_SERVER
                } else {
                    WAIT_FOR_PROGRAM
                };
                let _infallible = writeln!(script, "{wait}; do sleep 0.05; done");
            }
        }
        script
    }

    fn outcome(&self, number: usize) -> anyhow::Result<Outcome> {
        let file = |ending: &str| {
            let path = self.home.path().join(format!("outcomes/{number}.{ending}"));
            let bytes = fs::read(path)
                .context("a command before it ended the shell, or bash cannot read it")?;
            anyhow::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Outcome {
            code: file("code")?.trim().parse().context("a code is a number")?,
            printed: file("printed")?,
        })
    }
}

/// A shell and all that it started, which end with it.
struct Group(Child);

impl Group {
    fn wait(mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.0.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("the commands did not end within {} s", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Fails where nothing is left of it.
        let group = format!("-{}", self.0.id());
        let _ended = program("kill").args(["-KILL", "--", &group]).output();
        let _reaped = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::commands::blocks;

    fn outcomes(page: &str) -> Vec<(i32, String)> {
        let blocks = blocks(page).expect("it is well formed");
        let commands: Vec<_> = blocks.iter().flat_map(|block| &block.commands).collect();
        let surroundings = Surroundings::make(Path::new("/usr/bin/true")).expect("a home");
        let outcomes = surroundings.run(&commands).expect("they end");
        outcomes
            .into_iter()
            .map(|outcome| (outcome.code, outcome.printed))
            .collect()
    }

    #[test]
    fn commands_of_a_page_share_a_shell_and_codes_can_be_asked_for() {
        let page = "```console\n$ cd ..; A=7\n$ test -d work && echo $A; ls work\n$ (exit 6)\n$ echo $?\n$ cat <<'END'\n> b\n> END\n```\n";
        let found = outcomes(page);
        let texts: Vec<(i32, &str)> = found
            .iter()
            .map(|(code, text)| (*code, text.as_str()))
            .collect();
        assert_eq!(
            texts,
            [(0, ""), (0, "7\n"), (6, ""), (0, "6\n"), (0, "b\n")]
        );
    }

    #[test]
    fn a_page_that_ends_the_shell_is_an_error() {
        let blocks = blocks("```sh\nexit 0\ntrue\n```\n").expect("it is well formed");
        let commands: Vec<_> = blocks.iter().flat_map(|block| &block.commands).collect();
        let surroundings = Surroundings::make(Path::new("/usr/bin/true")).expect("a home");
        assert!(surroundings.run(&commands).is_err());
    }
}
