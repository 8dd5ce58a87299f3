//! `cargo xtask schemathesis`: the read API is what its description says.
//!
//! schemathesis reads `/openapi.json` of a running server, makes questions of it, right ones and
//! wrong ones, and holds every answer against it: codes, types, headers, schemas, that what is
//! right is answered and what is wrong is refused. The server has something to answer: the model plays
//! into it all the while. The paths that are left out are `/api/v1/events` and `/api/v1/record`, whose answers have
//! no end; the tests of the server read them.

mod bridge;

use crate::command::{build_for_tests, program, root, run as run_command, target_dir};
use crate::environment::Environment;
use crate::server::{Running, Server};
use anyhow::Context;
use bridge::Bridge;
use std::path::Path;
use std::process::Stdio;

/// The paths whose answers never end.
const ENDLESS: [&str; 2] = ["/api/v1/events", "/api/v1/record"];

/// How thorough it is: some 1500 questions in half a minute, the same every time.
const BOUNDS: [&str; 8] = [
    "--max-examples",
    "50",
    "--workers",
    "2",
    "--seed",
    "6",
    "--request-timeout",
    "20",
];

/// The load that the server has meanwhile: for longer than this takes, and ended with it.
const LOAD: [&str; 7] = [
    "load",
    "--clients",
    "1",
    "--rate",
    "2000",
    "--duration",
    "600",
];

/// Builds a server and runs schemathesis against it, with these arguments beside our own.
pub(crate) fn run(words: &[&str]) -> anyhow::Result<()> {
    build_for_tests()?;
    let folder = root().join("tests/schemathesis");
    let environment = Environment::provide("schemathesis", &folder.join("requirements.txt"))?;
    let ttmem = target_dir().join("debug/ttmem");
    let server = Server::start(&ttmem)?;
    let _load = start_load(&ttmem, &server)?;
    server.wait_for_buffers()?;
    let bridge = Bridge::start(server.socket())?;
    let mut schemathesis = environment.program("schemathesis");
    schemathesis
        .arg("run")
        .arg(format!("http://{}/openapi.json", bridge.address()))
        .args(["--checks", "all"])
        .args(ENDLESS.iter().flat_map(|path| ["--exclude-path", path]))
        .args(BOUNDS)
        .args(["--generation-database", "none"])
        .args(words)
        .env("SCHEMATHESIS_HOOKS", "hooks")
        .env("PYTHONPATH", &folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // It keeps notes where it is started.
        .current_dir(server.folder());
    run_command(&mut schemathesis)?;
    // Whatever was asked, it goes on.
    server
        .status()
        .context("the server does not answer any more")?;
    Ok(())
}

fn start_load(ttmem: &Path, server: &Server) -> anyhow::Result<Running> {
    let mut load = program(ttmem);
    load.args(LOAD).arg("--socket").arg(server.socket());
    let load = load.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    Ok(Running(load.context("cannot start ttmem load")?))
}
