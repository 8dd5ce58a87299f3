//! A shell for the commands of a page: they run one after another, in a home that nobody has used before.
//!
//! All commands of a page are given to one shell, so that folders, variables and programs in the background last as they do for
//! a reader. Standard input is empty and there is no terminal, but for commands that need one: these run in a tmux, and
//! are left by their key once they have drawn something. A server that a page starts listens on a socket of that page, and a page
//! that names ports has a network of its own where that is possible, whatever else runs on the machine.

use super::commands::{Command, matches};
use crate::command::{program, root};
use crate::server::SocketFolder;
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
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

/// Runs the command in `$1.sh` in a terminal until it has drawn its keys, or said where it serves a page, and ends it as a
/// reader does. Its code and its last screen go where those of others go.
const IN_TERMINAL: &str = r#"in_terminal() {
    tmux -u -f /dev/null -S "$1.tmux" new-session -d -x 100 -y 30 "trap : INT; bash $1.sh; echo \$? >$1.code"
    key=
    until [ -s "$1.code" ]; do
        screen=$(tmux -S "$1.tmux" capture-pane -p 2>/dev/null)
        case $screen in
            *'q quit'*) key=q ;;
            *http://*) key=C-c ;;
        esac
        [ -n "$screen" ] && printf '%s\n' "$screen" >"$1.printed"
        [ -n "$key" ] && tmux -S "$1.tmux" send-keys "$key" 2>/dev/null
        sleep 0.1
    done
    [ -n "$key" ] || echo 'it ended before it had drawn anything' >>"$1.printed"
    code=$(cat "$1.code")
    [ -n "$key" ] || code=1
    echo "$code" >"$1.code"
}
"#;

/// How a network of its own is made, in which only this machine can be reached.
const OWN_NETWORK: [&str; 6] = [
    "--user",
    "--map-root-user",
    "--net",
    "sh",
    "-c",
    "ip link set lo up && exec \"$@\"",
];

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

/// A command, and where it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'p> {
    pub(super) command: &'p Command<'p>,
    pub(super) in_terminal: bool,
}

/// A home with nothing in it, which goes with this.
#[derive(Debug)]
pub(super) struct Surroundings {
    home: SocketFolder,
    /// What is set besides what every page has.
    variables: Vec<(String, String)>,
    path: OsString,
}

impl Surroundings {
    /// With more variables; a `PATH` among them is that of programs.
    pub(super) fn make(ttmem: &Path, variables: &[(String, String)]) -> anyhow::Result<Self> {
        let folder = ttmem.parent().context("the program lies in a folder")?;
        let mut variables = variables.to_vec();
        let given = variables.iter().position(|(name, _value)| name == "PATH");
        let path = match given {
            Some(at) => OsString::from(variables.swap_remove(at).1),
            None => std::env::var_os("PATH").unwrap_or_default(),
        };
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
        let home = SocketFolder::make()?;
        for name in ["work", "run", "outcomes"] {
            fs::create_dir(home.path().join(name)).with_context(|| format!("no folder {name}"))?;
        }
        Ok(Self {
            home,
            variables,
            path: std::env::join_paths(folders)?,
        })
    }

    /// Has a folder of the repository where the commands run, as in a checkout.
    pub(super) fn link(&self, name: &str) -> anyhow::Result<()> {
        symlink(root().join(name), self.home.path().join("work").join(name))
            .with_context(|| format!("cannot link {name}"))
    }

    /// Runs commands to their end.
    pub(super) fn run(&self, commands: &[Run<'_>]) -> anyhow::Result<Vec<Outcome>> {
        let home = self.home.path();
        let script = home.join("script");
        fs::write(&script, self.script(commands)?).context("cannot write the commands down")?;
        let mut shell = program("bash");
        if commands.iter().any(names_port) && can_have_own_network() {
            shell = program("unshare");
            shell.args(OWN_NETWORK).args(["sh", "bash"]);
        }
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
            .env("SHELL", "/bin/sh")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Commands write to files; the shell itself says who was killed.
            .stderr(Stdio::null())
            .process_group(0);
        let ended = Group(shell.spawn().context("cannot start bash")?).wait();
        for number in 0..commands.len() {
            let socket = home.join(format!("outcomes/{number}.tmux"));
            if socket.exists() {
                // Fails when what ran in it has ended, as it should have.
                let mut tmux = program("tmux");
                let _ended = tmux.arg("-S").arg(socket).arg("kill-server").output();
            }
        }
        ended?;
        (0..commands.len())
            .map(|number| self.outcome(number))
            .collect()
    }

    /// All commands, each with its output and its code in files of their own.
    fn script(&self, commands: &[Run<'_>]) -> anyhow::Result<String> {
        let outcomes = self.home.path().join("outcomes");
        let outcomes = outcomes.display();
        let mut script = format!("{IN_TERMINAL}code=0\n");
        for (number, run) in commands.iter().enumerate() {
            let (file, command) = (format!("{outcomes}/{number}"), run.command);
            if run.in_terminal {
                fs::write(format!("{file}.sh"), &command.text)
                    .context("cannot write a command down")?;
                let _infallible = writeln!(script, "in_terminal {file}");
                continue;
            }
            let is_server = command.text.starts_with("ttmem serve");
            if is_server {
                // Where commands look, and not where those of old programs do: others may have a server there.
                script.push_str("export TTMEM_SOCKET=\"$XDG_RUNTIME_DIR/ttmem.sock\"\n");
            }
            // The code of the command before is there for `echo $?`.
            let _infallible = write!(
                script,
                "(exit $code)\n{{\n{}\n}} >{file}.printed 2>&1\ncode=$?\necho $code >{file}.code\n",
                command.text
            );
            if is_server {
                script.push_str("unset TTMEM_SOCKET\n");
            }
            // Others, such as a Prometheus, the page waits for itself.
            if command.text.trim_end().ends_with('&') && command.text.starts_with("ttmem ") {
                let wait = if is_server {
                    WAIT_FOR_SERVER
                } else {
                    WAIT_FOR_PROGRAM
                };
                let _infallible = writeln!(script, "{wait}; do sleep 0.05; done");
            }
        }
        Ok(script)
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

/// Whether a command names a port on loopback that somebody else may have taken.
fn names_port(run: &Run<'_>) -> bool {
    let mut ports = run.command.text.split("127.0.0.1:").skip(1);
    ports.any(|rest| rest.starts_with(|sign: char| ('1'..='9').contains(&sign)))
}

fn can_have_own_network() -> bool {
    let mut unshare = program("unshare");
    let tried = unshare.args(OWN_NETWORK).args(["sh", "true"]).output();
    tried.is_ok_and(|output| output.status.success())
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
    use crate::guide::commands::{Block, blocks};
    use crate::tool;

    fn runs<'p>(blocks: &'p [Block<'p>]) -> Vec<Run<'p>> {
        let runs = |block: &'p Block<'p>| {
            let in_terminal = block.needs.contains(&"terminal");
            let run = move |command| Run {
                command,
                in_terminal,
            };
            block.commands.iter().map(run)
        };
        blocks.iter().flat_map(runs).collect()
    }

    fn outcomes(page: &str) -> Vec<(i32, String)> {
        let blocks = blocks(page).expect("it is well formed");
        let surroundings = Surroundings::make(Path::new("/usr/bin/true"), &[]).expect("a home");
        let outcomes = surroundings.run(&runs(&blocks)).expect("they end");
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
    fn a_file_of_a_page_is_there_for_the_commands_below_it() {
        let page = "```text a.txt\n$b\n```\n```console\n$ cat a.txt\n```\n";
        assert_eq!(outcomes(page)[1], (0, "$b\n".to_owned()));
    }

    /// What is run in a terminal and says nothing there has not been seen to work.
    #[test]
    fn what_needs_a_terminal_gets_one_and_its_key() {
        if tool::TMUX.ensure().is_err() {
            return;
        }
        let page = "```sh needs=terminal\n\
                    test -t 0 && echo 'q quit' && read -rsn1 key && test $key = q\n\
                    trap 'exit 7' INT; echo http://x; while :; do sleep 0.1; done\n\
                    true\n```\n";
        let codes: Vec<i32> = outcomes(page).iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [0, 7, 1]);
    }

    #[test]
    fn a_port_that_others_may_have_is_recognised() {
        let page = "```sh\na 127.0.0.1:0\nb 127.0.0.1:9400\nc 127.0.0.1\n```\n";
        let blocks = blocks(page).expect("it is well formed");
        let found: Vec<bool> = runs(&blocks).iter().map(names_port).collect();
        assert_eq!(found, [false, true, false]);
    }

    #[test]
    fn a_page_that_ends_the_shell_is_an_error() {
        let blocks = blocks("```sh\nexit 0\ntrue\n```\n").expect("it is well formed");
        let surroundings = Surroundings::make(Path::new("/usr/bin/true"), &[]).expect("a home");
        assert!(surroundings.run(&runs(&blocks)).is_err());
    }
}
