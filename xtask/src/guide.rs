//! `cargo xtask guide`: the guide is a book whose links lead somewhere and whose commands do what it says.
//!
//! The book's source is `docs/`, its table of contents `docs/SUMMARY.md`. Every command of its pages is run as a
//! reader types it ([`shell`]), what a page shows of the output is compared with what is printed ([`commands`]), the pictures of
//! its chapters are drawn again and compared, mdBook builds it without a warning ([`book`]), and every link in what was built is
//! followed, as far as it leads into the book or the repository ([`links`]).

mod book;
mod commands;
mod links;
mod shell;

use crate::command::{build_for_tests, root, target_dir};
use crate::server::SocketFolder;
use crate::{CannotRun, screens, tool, ttnn};
use anyhow::{Context, bail};
use commands::Block;
use shell::{Run, Surroundings};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The book's source, and in it the table of contents and the chapters.
const SOURCE: &str = "docs";
const CONTENTS: &str = "SUMMARY.md";
const CHAPTERS: &str = "docs/guide";

/// Folders whose pages have to be in the table of contents.
const LISTED: [&str; 3] = [SOURCE, CHAPTERS, "docs/adr"];

/// What a block of commands may need, and why no test can give it that; nothing where this step does.
const NEEDS: [(&str, Option<&str>); 9] = [
    (TTNN, None),
    (MPIRUN, None),
    (TERMINAL, None),
    (PROMETHEUS, None),
    (
        "card",
        Some("captures a trace, which ttnn cannot do without a card"),
    ),
    ("root", Some("changes the system")),
    ("systemd", Some("has a service manager start something")),
    (
        "packages",
        Some("installs what `cargo xtask dist` builds, which steps of their own try"),
    ),
    ("machines", Some("reaches other machines")),
];

/// The real ttnn, with a chip that is not there; pytest with it.
const TTNN: &str = "ttnn";
/// Starts ranks.
const MPIRUN: &str = "mpirun";
/// A terminal, in which a command stays until a key ends it.
const TERMINAL: &str = "terminal";
/// Prometheus and promtool, and the files of the repository that go with them.
const PROMETHEUS: &str = "prometheus";

/// Runs the commands of every page, compares the pictures, builds the book and follows its links; with pages, only runs and
/// compares what these have.
pub(crate) fn run(pages: &[&str]) -> anyhow::Result<()> {
    let ttmem = target_dir().join("debug/ttmem");
    build_for_tests()?;
    if pages.is_empty() {
        let contents = read_page(&format!("{SOURCE}/{CONTENTS}"))?;
        let listed = pages_of(&contents);
        check_contents(&listed)?;
        // All of them, so that one run says everything that is wrong.
        return all_of([
            run_pages(&listed, &ttmem),
            compare_pictures(&chapters()?, &ttmem),
            build_and_follow(),
        ]);
    }
    let pages: Vec<String> = pages.iter().map(|page| (*page).to_owned()).collect();
    run_pages(&pages, &ttmem)?;
    compare_pictures(&pages, &ttmem)
}

/// What became of several checks: each failure is printed, and one that is more than a missing tool comes first.
fn all_of<const N: usize>(checks: [anyhow::Result<()>; N]) -> anyhow::Result<()> {
    let failures = checks.into_iter().filter_map(Result::err);
    let worst = failures
        .inspect(|failure| println!("{failure:#}"))
        .max_by_key(|failure| !failure.is::<CannotRun>());
    worst.map_or(Ok(()), Err)
}

fn build_and_follow() -> anyhow::Result<()> {
    let built = book::build()?;
    println!("book: {}", built.join("index.html").display());
    let followed = links::follow(&built)?;
    println!("links: {followed} lead somewhere");
    Ok(())
}

/// The chapters of the guide, by their paths from the root.
pub(crate) fn chapters() -> anyhow::Result<Vec<String>> {
    pages_in(CHAPTERS)
}

fn pages_in(folder: &str) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(root().join(folder)).with_context(|| format!("no {folder}"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut pages: Vec<String> = names
        .filter(|name| name.ends_with(".md") && name != CONTENTS)
        .map(|name| format!("{folder}/{name}"))
        .collect();
    pages.sort();
    Ok(pages)
}

/// The pages that a table of contents names, by their paths from the root.
fn pages_of(contents: &str) -> Vec<String> {
    let links = contents.split("](").skip(1);
    let pages = links.filter_map(|rest| rest.split_once(')'));
    // A heading for others has no page.
    let named = pages.filter(|(page, _rest)| !page.is_empty());
    named
        .map(|(page, _rest)| format!("{SOURCE}/{page}"))
        .collect()
}

/// Fails where a page is in no table of contents: nobody would find it.
fn check_contents(listed: &[String]) -> anyhow::Result<()> {
    for folder in LISTED {
        let pages = pages_in(folder)?;
        if let Some(page) = pages.iter().find(|page| !listed.contains(page)) {
            bail!("{page} is not in {SOURCE}/{CONTENTS}: add a line for it there");
        }
    }
    Ok(())
}

fn read_page(page: &str) -> anyhow::Result<String> {
    fs::read_to_string(root().join(page)).with_context(|| format!("cannot read {page}"))
}

/// Runs the commands of some pages, each page in a home of its own, and says how many.
fn run_pages(pages: &[String], ttmem: &Path) -> anyhow::Result<()> {
    let (mut run, mut failed) = (0, 0);
    let mut left: BTreeMap<String, usize> = BTreeMap::new();
    let mut provided = Provided::default();
    let mut missing = None;
    for page in pages {
        let text = read_page(page)?;
        let blocks = commands::blocks(&text).with_context(|| page.clone())?;
        let mut meant = Vec::new();
        for block in blocks {
            let reason = reason(&block).with_context(|| format!("{page}:{}", block.line))?;
            let reason = match reason {
                Some(reason) => format!("each {reason}"),
                None => match block
                    .needs
                    .iter()
                    .try_for_each(|need| provided.ensure(need))
                {
                    Ok(()) => {
                        meant.push(block);
                        continue;
                    }
                    Err(error) if error.is::<CannotRun>() => {
                        let reason = format!("{error:#}");
                        missing = Some(error);
                        reason
                    }
                    Err(error) => return Err(error),
                },
            };
            *left.entry(reason).or_default() += block.commands.len();
        }
        if meant.iter().all(|block| block.is_file) {
            continue;
        }
        failed += run_page(page, &meant, &provided, ttmem)?;
        let commands = meant.iter().filter(|block| !block.is_file);
        let commands: usize = commands.map(|block| block.commands.len()).sum();
        println!("{page}: {commands} commands");
        run += commands;
    }
    println!("commands: {run} were run");
    for (reason, count) in left {
        println!("commands: {count} were not: {reason}");
    }
    if failed > 0 {
        bail!("{failed} commands of the guide do not do what it says; see the lines with FAILED");
    }
    missing.map_or(Ok(()), Err)
}

/// Runs the blocks of a page, and says how many of their commands do not do what it says.
fn run_page(
    page: &str,
    blocks: &[Block<'_>],
    provided: &Provided,
    ttmem: &Path,
) -> anyhow::Result<usize> {
    let needs = |need: &str| blocks.iter().any(|block| block.needs.contains(&need));
    let runs = blocks.iter().flat_map(|block| {
        let in_terminal = block.needs.contains(&TERMINAL);
        let run = move |command| Run {
            command,
            in_terminal,
        };
        block.commands.iter().map(run)
    });
    let runs: Vec<Run<'_>> = runs.collect();
    let mut variables = Vec::new();
    if let Some(ttnn) = provided.ttnn.as_ref().filter(|_ttnn| needs(TTNN)) {
        variables.extend_from_slice(&ttnn.variables);
    }
    if let Some(prometheus) = provided
        .prometheus
        .as_ref()
        .filter(|_path| needs(PROMETHEUS))
    {
        let path = tool::path_with(prometheus);
        variables.push(("PATH".to_owned(), path.to_string_lossy().into_owned()));
    }
    let surroundings = Surroundings::make(ttmem, &variables)?;
    if needs(PROMETHEUS) {
        surroundings.link("deploy")?;
    }
    let outcomes = surroundings.run(&runs).with_context(|| page.to_owned())?;
    let mut failed = 0;
    for (number, outcome) in outcomes.iter().enumerate() {
        let command = runs[number].command;
        let next = runs.get(number + 1).map(|next| next.command);
        if let Err(error) = outcome.judge(command, next) {
            failed += 1;
            println!(
                "FAILED {page}:{}: $ {}\n{error:#}\n",
                command.line, command.text
            );
        }
    }
    Ok(failed)
}

/// What pages were given so far.
#[derive(Debug, Default)]
struct Provided {
    ttnn: Option<Ttnn>,
    /// The path of the program.
    prometheus: Option<PathBuf>,
}

#[derive(Debug)]
struct Ttnn {
    variables: Vec<(String, String)>,
    /// Has the description of the chip, which goes with it.
    _folder: SocketFolder,
}

impl Provided {
    /// Has what a block needs.
    ///
    /// # Errors
    /// Where it cannot be had here, [`CannotRun`].
    fn ensure(&mut self, need: &str) -> anyhow::Result<()> {
        match need {
            TTNN if self.ttnn.is_none() => {
                let folder = SocketFolder::make()?;
                self.ttnn = Some(Ttnn {
                    variables: ttnn::variables(folder.path())?,
                    _folder: folder,
                });
            }
            PROMETHEUS if self.prometheus.is_none() => {
                tool::unpacked("promtool", "prometheus")?;
                self.prometheus = Some(tool::unpacked("prometheus", "prometheus")?);
            }
            TERMINAL => tool::TMUX.ensure()?,
            MPIRUN => tool::MPIRUN.ensure()?,
            _ => {}
        }
        Ok(())
    }
}

/// Why a block is not run; nothing if it is.
fn reason(block: &Block<'_>) -> anyhow::Result<Option<&'static str>> {
    let mut found = None;
    for needs in &block.needs {
        let need = NEEDS.iter().find(|(name, _reason)| name == needs);
        let known = NEEDS.map(|(name, _reason)| name).join(", ");
        let (_name, reason) = need.with_context(|| format!("needs={needs} is none of {known}"))?;
        found = found.or(*reason);
    }
    Ok(found)
}

fn compare_pictures(pages: &[String], ttmem: &Path) -> anyhow::Result<()> {
    tool::TMUX.ensure()?;
    let (mut count, mut failed) = (0, 0);
    for page in pages {
        match screens::compare(page, &read_page(page)?, ttmem) {
            Ok(current) => count += current,
            Err(error) => {
                failed += 1;
                println!("FAILED {error:#}\n");
            }
        }
    }
    if failed > 0 {
        bail!(
            "{failed} pages of the guide have pictures that are not current; see the lines with FAILED"
        );
    }
    println!("pictures: {count} are current");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::shell::Outcome;
    use super::*;

    #[test]
    fn the_contents_name_pages() {
        let contents = "# Guide\n\n- [Start](guide/start.md)\n  - [`top`](top.md)\n- [Draft]()\n";
        assert_eq!(pages_of(contents), ["docs/guide/start.md", "docs/top.md"]);
    }

    #[test]
    fn every_page_is_in_the_contents_and_every_block_can_be_read() {
        let contents = read_page("docs/SUMMARY.md").expect("there is one");
        let listed = pages_of(&contents);
        check_contents(&listed).expect("all are");
        for page in &listed {
            let text = read_page(page).expect("the page is there");
            for block in commands::blocks(&text).expect(page) {
                assert!(reason(&block).is_ok(), "{page}: {block:?}");
            }
        }
    }

    #[test]
    fn a_failure_is_more_than_a_missing_tool() {
        let missing = || Err(CannotRun("no tmux".to_owned()).into());
        let failing = || Err(anyhow::anyhow!("wrong"));
        assert!(all_of([Ok(()), Ok(())]).is_ok());
        let error = all_of([missing(), Ok(())]).expect_err("it was skipped");
        assert!(error.is::<CannotRun>());
        for checks in [[missing(), failing()], [failing(), missing()]] {
            assert_eq!(all_of(checks).expect_err("one failed").to_string(), "wrong");
        }
    }

    #[test]
    fn one_need_that_cannot_be_met_is_enough() {
        let blocks = |needs: &str| format!("```sh needs={needs}\ntrue\n```\n");
        let why = |needs: &str| {
            let page = blocks(needs);
            let found = commands::blocks(&page).expect("it can be read");
            reason(&found[0]).expect("it is known")
        };
        assert_eq!(why("ttnn,terminal"), None);
        assert!(why("ttnn,root").is_some());
    }

    #[test]
    fn a_need_that_nobody_knows_is_refused() {
        let blocks = commands::blocks("```sh needs=luck\ntrue\n```\n").expect("it can be read");
        assert!(reason(&blocks[0]).is_err());
    }

    /// What is shown after a failing command has to be its code.
    #[test]
    fn an_outcome_is_judged_by_its_code_and_its_output() {
        let page = "```console\n$ false\n$ echo $?\n1\n$ true\nnever\n```\n";
        let blocks = commands::blocks(page).expect("it can be read");
        let [fails, asks, wrong] = blocks[0].commands.as_slice() else {
            panic!("{blocks:?}");
        };
        let failing = Outcome::new(1, "");
        assert!(failing.judge(fails, Some(asks)).is_ok());
        assert!(failing.judge(fails, None).is_err());
        assert!(
            Outcome::new(0, "").judge(fails, Some(asks)).is_ok(),
            "the code is shown as 1, and compared there"
        );
        assert!(Outcome::new(0, "1\n").judge(asks, None).is_ok());
        assert!(Outcome::new(0, "0\n").judge(asks, None).is_err());
        assert!(Outcome::new(0, "").judge(wrong, None).is_err());
    }
}
