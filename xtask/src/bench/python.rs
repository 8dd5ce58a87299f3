//! `cargo xtask bench python`: the import of the Python package, and its pytest plugin in each test.

use crate::command::{cargo, root, run as run_command, target_dir};
use crate::dist::StandIn;
use crate::environment::Environment;
use crate::tool;
use std::fs;

pub(super) fn run(words: &[&str]) -> anyhow::Result<()> {
    tool::CXX.ensure()?;
    run_command(&mut cargo([
        "build",
        "--release",
        "--package",
        "ttmem-attach",
    ]))?;
    let folder = target_dir().join("xtask/bench-python");
    fs::create_dir_all(&folder)?;
    let standin = StandIn::build(&folder)?;
    let package = root().join("show/python");
    let environment = Environment::provide("python", &package.join("tests/requirements.txt"))?;
    let paths = std::env::join_paths([&package, &root().join(StandIn::TTNN)])?;
    let mut bench = environment.program("python");
    bench
        .arg(package.join("tests/bench.py"))
        .args(words)
        .env("PYTHONPATH", paths)
        .env("TTMEM_TESTS_BOARD", &standin.board)
        .env(
            "TTMEM_ATTACH_LIBRARY",
            target_dir().join("release/libttmem_attach.so"),
        )
        // A server would be one more process that runs beside.
        .env("TTMEM_SOCKET", "/nonexistent/ttmem.sock")
        .env_remove("TTMEM_DISABLE")
        // Compiled once, as what is installed is; not beside the sources.
        .env("PYTHONPYCACHEPREFIX", folder.join("compiled"))
        .env_remove("PYTHONDONTWRITEBYTECODE");
    run_command(&mut bench)
}
