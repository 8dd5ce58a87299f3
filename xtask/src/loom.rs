//! `cargo xtask loom`: the lock-free code under the model checker.
//!
//! The checker's atomics replace the real ones by `--cfg loom`, so the build has a
//! directory of its own. A model that is not run proves nothing: the number that
//! ran is compared with the number there are known to be.

use crate::command::{cargo, target_dir};
use anyhow::{Context, bail};
use std::process::Stdio;

/// The crates with models, the module they are in, and how many there are at least; fewer mean
/// that some are no longer compiled.
const CRATES: [(&str, &str, usize); 2] = [
    ("ttmem-ring", "models", 34),
    ("ttmem-attach", "lock_free::tests", 8),
];

/// The release profile is that of packages, which nothing here becomes: what it does for their speed and for debuggers takes longer than it saves.
const FOR_ITSELF: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
];

/// Builds the models and runs each in every interleaving that it asks for.
pub(crate) fn run() -> anyhow::Result<()> {
    for (package, module, models) in CRATES {
        run_models(package, module, models)?;
    }
    Ok(())
}

fn run_models(package: &str, module: &str, expected: usize) -> anyhow::Result<()> {
    // Optimised: a model runs thousands of times.
    let words = ["test", "-p", package, "--release", "--lib", module];
    let mut models = cargo(words);
    models.arg("--target-dir").arg(target_dir().join("loom"));
    // A bound or a limit from outside would change what the models try.
    for variable in std::env::vars_os().map(|(name, _value)| name) {
        if variable.to_string_lossy().starts_with("LOOM_") {
            models.env_remove(variable);
        }
    }
    println!("$ RUSTFLAGS='--cfg loom' cargo {}", words.join(" "));
    models.env("RUSTFLAGS", "--cfg loom").envs(FOR_ITSELF);
    let output = models.stderr(Stdio::inherit()).output();
    let output = output.context("cannot start cargo")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    print!("{printed}");
    if !output.status.success() {
        bail!("a model does not hold: {}", output.status);
    }
    let ran = passed(&printed).context("the models did not report how many passed")?;
    if ran < expected {
        bail!("{ran} models of {package} ran, and there are {expected}");
    }
    println!("{ran} models of {package} hold");
    Ok(())
}

/// How many tests passed, as the test program prints at its end.
fn passed(printed: &str) -> Option<usize> {
    let result = printed
        .lines()
        .find_map(|line| line.strip_prefix("test result: ok. "))?;
    result.split_once(" passed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_models_is_read_from_the_last_line() {
        let printed = "test models::a ... ok\n\n\
            test result: ok. 22 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n";
        assert_eq!(passed(printed), Some(22));
        assert_eq!(passed("test result: FAILED. 1 passed; 1 failed\n"), None);
        assert_eq!(passed(""), None);
    }
}
