//! `cargo xtask fleet`: Prometheus, Alertmanager, VictoriaMetrics and nginx, for real.
//!
//! The rules, alerts, dashboards and examples of `deploy/` and `ttmem fleet` are tried on engines that are started
//! here, on loopback, against servers with planted causes: `tests/fleet`. The engines are taken out of Debian's
//! packages without installing these, whose services would be started.

use crate::CannotRun;
use crate::command::{build_for_tests, program, read, root, run as run_command, target_dir};
use crate::environment::Environment;
use crate::tool::{OPENSSL, unpacked};
use crate::web;
use anyhow::bail;
use std::path::PathBuf;
use std::process::Command;

/// Alerts, figures, dashboards and `ttmem fleet` on running engines.
pub(crate) fn run() -> anyhow::Result<()> {
    run_command(&mut script("live.py")?)
}

/// Two hundred hosts with thirty-two devices each, scraped by one Prometheus.
pub(crate) fn scale(words: &[&str]) -> anyhow::Result<()> {
    run_command(script("scale.py")?.args(words))
}

/// A program of `tests/fleet`, which is told where the engines are.
fn script(name: &str) -> anyhow::Result<Command> {
    let alertmanager = unpacked("prometheus-alertmanager", "prometheus-alertmanager")?;
    let engines = [
        ("FLEET_PROMETHEUS", unpacked("prometheus", "prometheus")?),
        ("FLEET_PROMTOOL", unpacked("promtool", "prometheus")?),
        ("FLEET_ALERTMANAGER", alertmanager.clone()),
        (
            "FLEET_VICTORIA",
            unpacked("victoria-metrics", "victoria-metrics")?,
        ),
        ("FLEET_NGINX", unpacked("nginx", "nginx")?),
        ("FLEET_OPENSSL", PathBuf::from("openssl")),
    ];
    OPENSSL.ensure()?;
    let lay_over = ["--user", "--map-root-user", "--mount", "true"];
    if alertmanager.is_absolute()
        && let Err(error) = read(program("unshare").args(lay_over))
    {
        // An Alertmanager that is not installed finds its templates only in a name space of its own.
        bail!(CannotRun(format!(
            "no user namespaces here; install the package prometheus-alertmanager: {error:#}"
        )));
    }
    let folder = root().join("tests/fleet");
    let environment = Environment::provide("fleet", &folder.join("requirements.txt"))?;
    let schema = folder.join("schema");
    web::install(&schema)?;
    build_for_tests()?;
    let mut python = environment.program("python");
    python
        .arg(folder.join(name))
        .envs(engines)
        .env("FLEET_TSC", schema.join("node_modules/.bin/tsc"))
        .env("TTMEM", target_dir().join("debug/ttmem"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // Those of whoever runs this are about other servers.
        .env_remove("TTMEM_SOCKET")
        .env_remove("TTMEM_HTTP")
        .env_remove("TTMEM_PROMETHEUS");
    Ok(python)
}
