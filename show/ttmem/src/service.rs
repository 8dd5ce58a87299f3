//! `ttmem service`: a server of this user that systemd starts and keeps running.
//!
//! A file in the user's folder for units, and systemd asked to take notice of it. Where no systemd
//! of this user runs, as in containers, the file is written all the same, and what remains to be
//! done is said.

use crate::cli::ServiceAction;
use crate::commands::reach;
use crate::output;
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::OFlags;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const UNIT: &str = "ttmem.service";

/// The first line of units that are ours.
const MARK: &str = "# Written by `ttmem service install`; `ttmem service uninstall` removes it.";

/// How long systemd may take to answer, and to start or stop a service: longer than it waits itself.
const ANSWER: Duration = Duration::from_secs(10);
const CHANGE: Duration = Duration::from_secs(180);

/// Bytes that are read of what systemctl says.
const MOST_SAID: u64 = 64 << 10;

/// Carries out an action with the variables of the environment that say where units are.
pub(crate) fn run<W: Write>(
    action: ServiceAction,
    variable: impl Fn(&str) -> Option<OsString>,
    output: &mut output::Output<W>,
) -> Result<()> {
    let unit = unit_path(variable)?;
    match action {
        ServiceAction::Install => output.print(&install(&unit)?)?,
        ServiceAction::Uninstall => output.print(&uninstall(&unit)?)?,
        ServiceAction::Status => return status(&unit, output),
    }
    Ok(())
}

/// Where systemd looks for the user's own units.
fn unit_path(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    let absolute = |name| {
        variable(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    let folder = folder.context("no folder for units: set HOME or XDG_CONFIG_HOME")?;
    Ok(folder.join("systemd/user").join(UNIT))
}

fn install(unit: &Path) -> Result<String> {
    let program = std::env::current_exe()?;
    // The path of one that was replaced ends in " (deleted)".
    ensure!(
        program.is_file(),
        "this program was replaced or removed while it ran ({}): run the one that is there now",
        program.display()
    );
    let text = unit_text(&program)?;
    check_ours(unit)?;
    let folder = unit.parent().context("a unit lies in a folder")?;
    let failed = || format!("cannot write {}", unit.display());
    fs::create_dir_all(folder).with_context(failed)?;
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder)
        .with_context(failed)?;
    file.write_all(text.as_bytes()).with_context(failed)?;
    file.persist(unit).with_context(failed)?;
    let wrote = format!("wrote {}\n", unit.display());
    if !is_running()? {
        return Ok(format!(
            "{wrote}no systemd of this user runs here; where it does, start the service with\n    \
             systemctl --user daemon-reload\n    systemctl --user enable --now {UNIT}\n"
        ));
    }
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", "--quiet", UNIT])?;
    // One that runs already runs the program that was there before.
    systemctl(&["restart", UNIT])?;
    Ok(format!(
        "{wrote}the server runs, and will whenever you are logged in; \
         `loginctl enable-linger` keeps it running after that\n"
    ))
}

fn uninstall(unit: &Path) -> Result<String> {
    if !exists(unit) {
        return Ok(format!(
            "nothing to remove: {} is not there\n",
            unit.display()
        ));
    }
    check_ours(unit)?;
    let is_running = is_running()?;
    if is_running {
        systemctl(&["disable", "--quiet", "--now", UNIT])?;
    }
    fs::remove_file(unit).with_context(|| format!("cannot remove {}", unit.display()))?;
    // What `enable` made where systemd could not be asked to take it away.
    let enabled = unit.with_file_name("default.target.wants").join(UNIT);
    if enabled.is_symlink() {
        fs::remove_file(&enabled)
            .with_context(|| format!("cannot remove {}", enabled.display()))?;
    }
    if is_running {
        systemctl(&["daemon-reload"])?;
    }
    Ok(format!("removed {}\n", unit.display()))
}

fn status<W: Write>(unit: &Path, output: &mut output::Output<W>) -> Result<()> {
    let installed = if exists(unit) {
        format!("installed: {}\n", unit.display())
    } else {
        "not installed; `ttmem service install` does that\n".to_owned()
    };
    output.print(&installed)?;
    if is_running()? {
        output.print(&format!("systemd: {}\n", state()?))?;
    } else {
        output.print("systemd: none of this user runs here\n")?;
    }
    let socket = reach::socket(Some(reach::default_path()))?;
    output.print(&format!("server: listens on {}\n", socket.display()))?;
    Ok(())
}

/// The unit for a program.
fn unit_text(program: &Path) -> Result<String> {
    Ok(format!(
        "{MARK}
[Unit]
Description=ttmem, live device-memory tracking for Tenstorrent accelerators

[Service]
Type=notify
ExecStart={} serve --quiet --no-legacy-socket
Restart=on-failure
# A command line that is wrong and a socket that is taken stay so.
RestartPreventExitStatus=2 4
NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictRealtime=yes
SystemCallArchitectures=native

[Install]
WantedBy=default.target
",
        quoted(program)?
    ))
}

/// A path as systemd reads it in a command line.
fn quoted(program: &Path) -> Result<String> {
    let text = program.to_str();
    let text = text.with_context(|| format!("{} cannot be written as text", program.display()))?;
    // How to escape these in the path of a program differs between releases of systemd.
    let is_odd = |character: char| character.is_control() || "$\"'\\".contains(character);
    ensure!(
        !text.contains(is_odd),
        "{text:?} cannot be written in a unit: install ttmem where the path has no $, no quotes, no \
         backslashes and no control characters"
    );
    Ok(format!("\"{}\"", text.replace('%', "%%")))
}

/// Leaves alone what somebody else wrote.
fn check_ours(unit: &Path) -> Result<()> {
    match beginning(unit) {
        Ok(text) if text == MARK.as_bytes() => Ok(()),
        Ok(_other) => bail!(
            "{} was not written by `ttmem service install` and is left as it is",
            unit.display()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", unit.display())),
    }
}

/// The first bytes of a file; none of what is no file, which is not waited for.
fn beginning(unit: &Path) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(unit)?;
    let mut text = Vec::new();
    if file.metadata()?.is_file() {
        file.take(MARK.len() as u64).read_to_end(&mut text)?;
    }
    Ok(text)
}

fn exists(unit: &Path) -> bool {
    unit.symlink_metadata().is_ok()
}

/// Whether systemd runs for this user and can be asked.
fn is_running() -> Result<bool> {
    match user_systemctl(&["show", "--property=Version"], ANSWER) {
        Ok(ended) => Ok(ended.status.success()),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(error.into()),
        Err(_absent) => Ok(false),
    }
}

/// What systemd says of the service, such as `active`.
fn state() -> Result<String> {
    // It ends with another code for every state.
    let said = user_systemctl(&["is-active", UNIT], ANSWER).context("cannot run systemctl")?;
    Ok(String::from_utf8_lossy(said.stdout.trim_ascii()).into_owned())
}

fn systemctl(words: &[&str]) -> Result<()> {
    let ended = user_systemctl(words, CHANGE).context("cannot run systemctl")?;
    ensure!(
        ended.status.success(),
        "`systemctl --user {}` failed: {}",
        words.join(" "),
        String::from_utf8_lossy(ended.stderr.trim_ascii())
    );
    Ok(())
}

fn user_systemctl(words: &[&str], patience: Duration) -> io::Result<Output> {
    let mut command = Command::new("systemctl");
    command.arg("--user").args(words);
    run_for(&mut command, patience)
}

/// Runs a program that is ended if it takes longer than that.
fn run_for(command: &mut Command, patience: Duration) -> io::Result<Output> {
    // Not through pipes: a child of a program that was ended may hold them open.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null());
    command
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            let program = command.get_program().to_string_lossy();
            let reason = format!("{program} did not end within {} s", patience.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let read = |file: &mut File| -> io::Result<Vec<u8>> {
        let mut said = Vec::new();
        file.rewind()?;
        file.take(MOST_SAID).read_to_end(&mut said)?;
        Ok(said)
    };
    Ok(Output {
        status,
        stdout: read(&mut stdout)?,
        stderr: read(&mut stderr)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn the_unit_names_the_program_as_systemd_reads_it() {
        let text = unit_text(Path::new("/opt/a b/100%/ttmem")).unwrap();
        let line = "ExecStart=\"/opt/a b/100%%/ttmem\" serve --quiet";
        assert!(text.contains(line), "{text}");
        assert!(text.starts_with(MARK) && text.contains("Type=notify"));
        for odd in ["a\nb", "a$b", "a\"b", "a'b", "a\\b"] {
            let refused = unit_text(&Path::new("/opt").join(odd)).unwrap_err();
            assert!(refused.to_string().contains("path has no $"), "{refused}");
        }
        assert!(unit_text(Path::new(OsStr::from_bytes(b"/\xff"))).is_err());
    }

    #[test]
    fn units_of_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let unit = folder.path().join(UNIT);
        fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
        assert!(install(&unit).is_err() && uninstall(&unit).is_err());
        assert!(fs::read_to_string(&unit).unwrap().contains("/bin/true"));
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let unit = folder.path().join(UNIT);
        rustix::fs::mkfifoat(rustix::fs::CWD, &unit, 0o600.into()).unwrap();
        assert!(install(&unit).is_err() && uninstall(&unit).is_err());
        fs::remove_file(&unit).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &unit).unwrap();
        assert!(install(&unit).is_err() && uninstall(&unit).is_err());
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        // As a script does: it is not the program itself that holds the output.
        let mut hanging = Command::new("sh");
        hanging.args(["-c", "sleep 5 & wait"]);
        let ended = run_for(&mut hanging, Duration::from_millis(50)).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
        let mut quick = Command::new("sh");
        quick.args(["-c", "echo out; echo err >&2; exit 3"]);
        let ended = run_for(&mut quick, CHANGE).unwrap();
        assert_eq!(
            (ended.status.code(), &*ended.stdout),
            (Some(3), &b"out\n"[..])
        );
        assert_eq!(ended.stderr, b"err\n");
    }

    #[test]
    fn it_lies_where_systemd_looks() {
        let with = |known: &'static [(&str, &str)]| {
            unit_path(|name| {
                let found = known.iter().find(|(each, _value)| *each == name)?;
                Some(found.1.into())
            })
        };
        let home = with(&[("HOME", "/home/a"), ("XDG_CONFIG_HOME", "relative")]).unwrap();
        assert_eq!(
            home,
            Path::new("/home/a/.config/systemd/user/ttmem.service")
        );
        let other = with(&[("HOME", "/home/a"), ("XDG_CONFIG_HOME", "/c")]).unwrap();
        assert_eq!(other, Path::new("/c/systemd/user/ttmem.service"));
        assert!(with(&[]).is_err());
    }
}
