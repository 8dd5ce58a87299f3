//! What a shell needs to run programs on the real ttnn as a user types them.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::own_board::OwnBoard;
use crate::process;
use crate::programs::{BOARDS, PROGRAMS};
use crate::provision::TtnnEnvironment;

/// The program whose packages have pytest.
const WITH_PYTEST: &str = "pytest_plugin";

/// The run that all shells are: no process has this number.
const SHELLS: u32 = 0;

/// Whoever runs this may be root, and the machine may have fewer cores than ranks and no network.
const OPEN_MPI: [(&str, &str); 4] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_oob_tcp_if_include", "lo"),
];

/// The variables of such a shell: `python` has ttnn with one chip that is not there, `pytest` is there and has our plugin, and
/// `mpirun` starts ranks.
///
/// `tools` has our library, `package` is the folder to import our package from. The description of the chip is put into `folder`.
///
/// # Errors
///
/// When pytest cannot be installed, or the description cannot be written.
pub fn variables(
    ttnn: &TtnnEnvironment,
    tools: &Path,
    package: &Path,
    folder: &Path,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let with_pytest = PROGRAMS.iter().find(|program| program.name == WITH_PYTEST);
    let with_pytest = with_pytest.context("no program has pytest")?;
    let pytest = ttnn.packages(with_pytest.name, with_pytest.packages)?;
    // Every shell has the same chip, with new counters: those of earlier ones may have no free slot left.
    let board = OwnBoard::of_run(SHELLS, BOARDS[0].kind, folder)?;
    let interpreter = ttnn.python.parent().context("it lies in a folder")?;
    let usual = env::var_os("PATH").unwrap_or_default();
    let first = [interpreter.to_owned(), pytest.join("bin")];
    let path = joined(first.into_iter().chain(env::split_paths(&usual)))?;
    let mut variables = vec![
        ("PATH", path),
        ("PYTHONPATH", joined([package.to_owned(), pytest])?),
        // Of a wheel that is installed, pytest finds it by itself.
        ("PYTEST_PLUGINS", "ttmem.pytest_plugin".to_owned()),
        (
            "TTMEM_ATTACH_LIBRARY",
            text(&tools.join("libttmem_attach.so"))?,
        ),
        ("TT_METAL_MOCK_CLUSTER_DESC_PATH", text(board.descriptor())?),
        ("TT_METAL_CACHE", text(&ttnn.kernel_cache)?),
    ];
    let segments = text(folder)?;
    variables.extend(process::SEGMENTS.map(|name| (name, segments.clone())));
    variables.extend(OPEN_MPI.map(|(name, value)| (name, value.to_owned())));
    variables.extend(process::QUIET.map(|(name, value)| (name, value.to_owned())));
    Ok(variables)
}

fn joined(folders: impl IntoIterator<Item = PathBuf>) -> anyhow::Result<String> {
    text(Path::new(&env::join_paths(folders)?))
}

/// A path for a line of text.
fn text(path: &Path) -> anyhow::Result<String> {
    match path.to_str() {
        Some(text) if !text.contains('\n') => Ok(text.to_owned()),
        _ => bail!("{} cannot stand in a line", path.display()),
    }
}
