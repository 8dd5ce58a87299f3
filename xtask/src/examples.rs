//! `cargo xtask examples`: every example, built and run the way a user would.
//!
//! libttmem is installed into a folder of its own; the examples are built against
//! it with plain compilers, through pkg-config and through CMake. Each is run
//! against a server on a private socket, whose account must say what the example
//! says it holds; without a server; under valgrind; and with the compiler's
//! sanitizers. A part whose tools are not to be had is skipped, by name.

use crate::command::{program, read, run as run_command, target_dir};
use crate::install::{self, Profile};
use crate::server::{Holdings, Running, Server};
use crate::{CannotRun, tool};
use anyhow::{Context, bail};

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The sources in C and C++ with what is made of them.
const SOURCES: &[Source] = &[
    Source {
        path: "examples/c/track.c",
        name: "track_c",
        linked: true,
    },
    Source {
        path: "examples/cpp/track.cpp",
        name: "track_cpp",
        linked: true,
    },
    Source {
        path: "examples/cpp/allocation_client.cpp",
        name: "allocation_client",
        linked: false,
    },
];

const WARNINGS: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-O1"];

const SANITIZERS: &[&str] = &[
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

#[derive(Debug)]
struct Source {
    path: &'static str,
    name: &'static str,
    /// Whether it is linked with libttmem, or looks it up.
    linked: bool,
}

impl Source {
    /// The compiler for it, with the dialect.
    fn compiler(&self) -> Command {
        let (compiler, dialect) = if self.path.ends_with(".c") {
            ("cc", "-std=c11")
        } else {
            ("c++", "-std=c++17")
        };
        let mut command = program(compiler);
        command.arg(dialect).args(WARNINGS);
        command
    }

    /// Compiles it into `folder`, with some words before it and some after it.
    fn build(&self, folder: &Path, before: &[String], after: &[String]) -> anyhow::Result<PathBuf> {
        fs::create_dir_all(folder)?;
        let made = folder.join(self.name);
        let mut compiler = self.compiler();
        compiler.args(before).arg(self.path).arg("-o").arg(&made);
        run_command(compiler.args(after))?;
        Ok(made)
    }
}

/// Where libttmem is installed for the examples.
#[derive(Debug)]
struct Installed {
    prefix: PathBuf,
}

impl Installed {
    fn lib(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    fn cflags(&self) -> Vec<String> {
        vec![format!("-I{}", self.prefix.join("include").display())]
    }

    fn libs(&self, source: &Source) -> Vec<String> {
        if !source.linked {
            return vec!["-ldl".to_owned()];
        }
        let lib = self.lib();
        let lib = lib.display();
        vec![
            format!("-L{lib}"),
            "-lttmem".to_owned(),
            format!("-Wl,-rpath,{lib}"),
        ]
    }

    /// What pkg-config says to `option`.
    fn pkg_config(&self, option: &str) -> anyhow::Result<Vec<String>> {
        let mut command = program("pkg-config");
        command.env("PKG_CONFIG_PATH", self.lib().join("pkgconfig"));
        let printed = read(command.args([option, "ttmem"]))?;
        Ok(printed.split_whitespace().map(str::to_owned).collect())
    }

    /// An example that is to be run, with all that it needs to find the library and the server.
    fn command(&self, words: &[&str], example: &Path, socket: &Path) -> Command {
        let mut command = match words {
            [] => program(example),
            [first, rest @ ..] => {
                let mut command = program(first);
                command.args(rest).arg(example);
                command
            }
        };
        command.env("TTMEM_SOCKET", socket);
        command.env("LD_LIBRARY_PATH", self.lib());
        command.env("TT_ALLOC_TRACKING_ENABLED", "1");
        command
    }
}

/// Builds and runs every example.
pub(crate) fn run() -> anyhow::Result<()> {
    tool::CC.ensure()?;
    tool::CXX.ensure()?;
    let folder = target_dir().join("examples");
    let installed = Installed {
        prefix: folder.join("prefix"),
    };
    install::run(&install::Request {
        prefix: installed.prefix.clone(),
        profile: Profile::Dev,
    })?;
    let server = Server::start(&target_dir().join("debug/ttmem"))?;

    let plain = build_plain(&installed, &folder.join("plain"))?;
    let rust = target_dir().join("debug/examples/track");
    for example in plain.iter().chain([&rust]) {
        check_holdings(&installed, &server, example)?;
        check_alone(&installed, &server, example)?;
    }
    check_static(&installed, &server, &folder.join("static"))?;
    let parts = [
        through_pkg_config(&installed, &server, &folder),
        through_cmake(&installed, &server, &folder),
        under_valgrind(&installed, &server, &plain),
        with_sanitizers(&installed, &server, &folder),
    ];
    let mut skipped = Vec::new();
    for part in parts {
        match part {
            Err(error) if error.is::<CannotRun>() => skipped.push(format!("{error:#}")),
            part => part?,
        }
    }
    if !skipped.is_empty() {
        bail!(CannotRun(skipped.join("; ")));
    }
    Ok(())
}

fn build_plain(installed: &Installed, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let build =
        |source: &Source| source.build(folder, &installed.cflags(), &installed.libs(source));
    SOURCES.iter().map(build).collect()
}

/// The C example and the old class with the library inside of them.
fn check_static(installed: &Installed, server: &Server, folder: &Path) -> anyhow::Result<()> {
    let mut cflags = installed.cflags();
    cflags.push("-DTTMEM_STATIC".to_owned());
    let archive = installed.lib().join("libttmem.a");
    let mut libs = vec![archive.to_string_lossy().into_owned()];
    let private = ["gcc_s", "util", "rt", "pthread", "m", "dl", "c"];
    libs.extend(private.map(|name| format!("-l{name}")));
    for source in SOURCES {
        let example = source.build(folder, &cflags, &libs)?;
        check_holdings(installed, server, &example)?;
    }
    Ok(())
}

fn through_pkg_config(installed: &Installed, server: &Server, folder: &Path) -> anyhow::Result<()> {
    tool::PKG_CONFIG.ensure()?;
    let (cflags, libs) = (
        installed.pkg_config("--cflags")?,
        installed.pkg_config("--libs")?,
    );
    for source in SOURCES.iter().filter(|source| source.linked) {
        let example = source.build(&folder.join("pkg-config"), &cflags, &libs)?;
        check_holdings(installed, server, &example)?;
    }
    Ok(())
}

fn through_cmake(installed: &Installed, server: &Server, folder: &Path) -> anyhow::Result<()> {
    tool::CMAKE.ensure()?;
    let build = folder.join("cmake");
    // What an earlier run found must not stand in for what is installed now.
    if build.exists() {
        fs::remove_dir_all(&build)?;
    }
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", installed.prefix.display());
    let mut configure = program("cmake");
    configure
        .args(["-S", "examples", "-B"])
        .arg(&build)
        .arg(prefix);
    run_command(&mut configure)?;
    run_command(program("cmake").arg("--build").arg(&build))?;
    for name in ["track_c", "track_cpp", "track_static", "allocation_client"] {
        check_holdings(installed, server, &build.join(name))?;
    }
    Ok(())
}

fn under_valgrind(installed: &Installed, server: &Server, plain: &[PathBuf]) -> anyhow::Result<()> {
    tool::VALGRIND.ensure()?;
    let valgrind = [
        "valgrind",
        "--quiet",
        "--error-exitcode=99",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
        "--show-leak-kinds=definite",
    ];
    for example in plain {
        run_command(&mut installed.command(&valgrind, example, server.socket()))?;
        run_command(&mut installed.command(&valgrind, example, &server.nowhere()))?;
    }
    Ok(())
}

fn with_sanitizers(installed: &Installed, server: &Server, folder: &Path) -> anyhow::Result<()> {
    let folder = folder.join("sanitized");
    if !has_sanitizers(&folder)? {
        bail!(CannotRun("the compiler has no sanitizers".to_owned()));
    }
    let sanitizers: Vec<String> = SANITIZERS.iter().copied().map(str::to_owned).collect();
    let cflags = [sanitizers, installed.cflags()].concat();
    for source in SOURCES {
        let example = source.build(&folder, &cflags, &installed.libs(source))?;
        check_holdings(installed, server, &example)?;
    }
    Ok(())
}

/// Whether a program with sanitizers can be made: their libraries are a package of their own.
fn has_sanitizers(folder: &Path) -> anyhow::Result<bool> {
    fs::create_dir_all(folder)?;
    let source = folder.join("nothing.cpp");
    fs::write(&source, "int main() { return 0; }\n")?;
    let mut compiler = program("c++");
    compiler
        .args(SANITIZERS)
        .arg(&source)
        .arg("-o")
        .arg(folder.join("nothing"));
    Ok(compiler.stderr(Stdio::null()).status()?.success())
}

/// Runs an example that holds what it has, and compares the server's account with its own.
fn check_holdings(installed: &Installed, server: &Server, example: &Path) -> anyhow::Result<()> {
    let shown = example.display();
    let mut command = installed.command(&[], example, server.socket());
    command
        .arg("--hold")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {shown}"))?;
    let mut running = Running(child);
    let stdout = running
        .0
        .stdout
        .take()
        .context("its output was asked for")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    let held = Holdings::parse(&line).with_context(|| format!("{shown} says {line:?}"))?;
    let pid = running.0.id();
    let what = |when: &str| format!("{shown} as pid {pid}, {when}");
    server
        .wait_for(pid, &held)
        .with_context(|| what("while it holds"))?;
    drop(running.0.stdin.take());
    let status = running.0.wait()?;
    if !status.success() {
        bail!("{} ended with {status}", what("once it was let go"));
    }
    server
        .wait_for(pid, &Holdings::default())
        .with_context(|| what("after its end"))?;
    println!("{shown}: {}", line.trim_end());
    Ok(())
}

/// Runs an example without a server: it must not notice, and must not say anything.
fn check_alone(installed: &Installed, server: &Server, example: &Path) -> anyhow::Result<()> {
    let mut command = installed.command(&[], example, &server.nowhere());
    let printed = read(command.stdin(Stdio::null()))?;
    if !printed.is_empty() {
        bail!(
            "{} prints without being asked: {printed}",
            example.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::root;

    #[test]
    fn every_source_is_there() {
        for source in SOURCES {
            assert!(root().join(source.path).exists(), "{}", source.path);
        }
    }
}
