//! The pages of the manual and the completions of shells, written from the command line's definition.
//!
//! Packages have them; whoever installed the program by other means can write them, too.

use crate::cli::Cli;
use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use std::path::Path;

pub(crate) fn generate(folder: &Path) -> Result<()> {
    let failed = || format!("cannot write to {}", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(failed)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut shown(), "ttmem", folder).with_context(failed)?;
    }
    Ok(())
}

/// The command line without hidden commands, which completions of zsh would list.
fn shown() -> Command {
    let all = Cli::command();
    let commands = all.get_subcommands().filter(|each| !each.is_hide_set());
    Command::new("ttmem")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments())
        .subcommands(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shown_command_has_a_page_and_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        generate(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("ttmem.1").contains("Tenstorrent"));
        let completions = [read("ttmem.bash"), read("_ttmem"), read("ttmem.fish")];
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let page = folder.path().join(format!("ttmem-{name}.1"));
            assert_eq!(page.exists(), !command.is_hide_set(), "{name}");
            for text in &completions {
                assert_eq!(text.contains(name), !command.is_hide_set(), "{name}");
            }
        }
        assert!(read("ttmem-serve.1").contains("socket\\-group"));
    }
}
