//! `cargo xtask types`: the Python package is typed throughout, and can be used so.

use crate::command::{root, run as run_command, target_dir};
use crate::environment::Environment;

/// The oldest release that the package is for.
const OLDEST: &str = "3.10";

pub(crate) fn run() -> anyhow::Result<()> {
    let requirements = root().join("show/python/tests/requirements.txt");
    let mut mypy = Environment::provide("python", &requirements)?.program("mypy");
    mypy.args(["--strict", "--python-version", OLDEST])
        .arg("--cache-dir")
        .arg(target_dir().join("xtask/mypy"))
        .args(["show/python/ttmem", "show/python/tests/typed_use.py"]);
    run_command(mypy.env("MYPYPATH", root().join("show/python")))
}
