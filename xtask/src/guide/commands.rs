//! The commands of a page, and what it shows of their output.
//!
//! ````text
//! ```console
//! $ ttmem status
//! DRAM  …  12.0 GiB
//! …
//! $ ttmem run -- ./a.out \
//! >     --steps 3
//! ```
//! ````
//!
//! In a block `console`, a line with `$ ` is a command, lines with `> ` behind it belong to it, and the rest is output: all of
//! it, in this order. `…` stands for any text within a line, and alone in a line for any lines. A command without
//! output may print anything. In a block `sh` every line is a command, and output is not shown. `needs=NAME` behind the
//! language, or several names between commas, says what a block needs besides a shell. A block of any other language with the
//! name of a file behind it, as `python model.py`, is that file, for the commands below it. Does no I/O.

use anyhow::bail;

/// Stands for whatever is printed there.
const ANYTHING: &str = "…";

/// A block of commands.
#[derive(Debug)]
pub(super) struct Block<'p> {
    pub(super) line: usize,
    pub(super) needs: Vec<&'p str>,
    /// It is a file, which its only command writes.
    pub(super) is_file: bool,
    pub(super) commands: Vec<Command<'p>>,
}

/// A command as it is typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command<'p> {
    /// Where it stands in the page.
    pub(super) line: usize,
    pub(super) text: String,
    pub(super) output: Vec<&'p str>,
}

/// The blocks of a page, in its order.
pub(super) fn blocks(page: &str) -> anyhow::Result<Vec<Block<'_>>> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let body: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_number, line)| !line.starts_with("```"))
            .map(|(number, line)| (number + 1, line))
            .collect();
        let mut words = info.split_whitespace();
        let (language, more) = (words.next(), words.next());
        let mut is_file = false;
        let commands = match (language, more) {
            (Some("console"), _) => console(&body)?,
            (Some("sh"), _) => script(&body),
            (Some(_other), Some(name)) => {
                is_file = true;
                vec![file(number + 1, name, &body)]
            }
            _ => continue,
        };
        let needs = match more.map(|word| word.strip_prefix("needs=")) {
            None => Vec::new(),
            Some(_name) if is_file => Vec::new(),
            Some(Some(needs)) => needs.split(',').collect(),
            Some(None) => bail!("line {}: {info:?} is not LANGUAGE needs=NAME", number + 1),
        };
        blocks.push(Block {
            line: number + 1,
            needs,
            is_file,
            commands,
        });
    }
    Ok(blocks)
}

fn console<'p>(body: &[(usize, &'p str)]) -> anyhow::Result<Vec<Command<'p>>> {
    let mut commands: Vec<Command<'p>> = Vec::new();
    for &(number, line) in body {
        if let Some(text) = line.strip_prefix("$ ") {
            commands.push(Command {
                line: number,
                text: text.to_owned(),
                output: Vec::new(),
            });
            continue;
        }
        let Some(command) = commands.last_mut() else {
            bail!("line {number}: output before the first command");
        };
        match line.strip_prefix('>') {
            Some(more) if command.output.is_empty() => {
                command.text.push('\n');
                command
                    .text
                    .push_str(more.strip_prefix(' ').unwrap_or(more));
            }
            _ => command.output.push(line),
        }
    }
    for command in &mut commands {
        while command.output.last().is_some_and(|line| line.is_empty()) {
            command.output.pop();
        }
    }
    Ok(commands)
}

/// What writes a file that a page shows.
fn file<'p>(line: usize, name: &str, body: &[(usize, &'p str)]) -> Command<'p> {
    let mut text = format!("cat > {name} <<'END OF THE FILE'\n");
    for (_number, line) in body {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("END OF THE FILE");
    Command {
        line,
        text,
        output: Vec::new(),
    }
}

fn script<'p>(body: &[(usize, &'p str)]) -> Vec<Command<'p>> {
    let mut commands: Vec<Command<'p>> = Vec::new();
    let mut goes_on = false;
    for &(number, line) in body {
        match commands.last_mut() {
            Some(command) if goes_on => {
                command.text.push('\n');
                command.text.push_str(line);
            }
            _ if line.trim().is_empty() || line.trim_start().starts_with('#') => continue,
            _ => commands.push(Command {
                line: number,
                text: line.to_owned(),
                output: Vec::new(),
            }),
        }
        goes_on = line.ends_with('\\');
    }
    commands
}

/// Whether what was printed is what a page shows.
pub(super) fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&ANYTHING, rest)) => {
            (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..]))
        }
        Some((line, rest)) => {
            let first = printed.split_first();
            first.is_some_and(|(other, others)| line_matches(line, other) && matches(rest, others))
        }
    }
}

fn line_matches(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (shown.trim_end(), printed.trim_end());
    let mut parts = shown.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_commands_with_their_output() {
        let page = "# P\n```text\n$ no\n```\n```console\n$ a \\\n>   b\none\n\ntwo\n\n$ c\n```\n```sh needs=root,card\n# why\nd \\\n  e\nf # g\n```\n";
        let found = blocks(page).expect("it is well formed");
        let [first, second] = found.as_slice() else {
            panic!("{found:?}");
        };
        let command = |line, text: &str, output: &[&'static str]| Command {
            line,
            text: text.to_owned(),
            output: output.to_vec(),
        };
        assert_eq!((first.line, first.needs.as_slice()), (5, &[][..]));
        assert_eq!(
            first.commands,
            [
                command(6, "a \\\n  b", &["one", "", "two"]),
                command(12, "c", &[])
            ]
        );
        assert_eq!(
            (second.line, second.needs.as_slice()),
            (14, &["root", "card"][..])
        );
        assert_eq!(
            second.commands,
            [command(16, "d \\\n  e", &[]), command(18, "f # g", &[])]
        );
    }

    #[test]
    fn a_block_with_the_name_of_a_file_is_that_file() {
        let page = "```python\nno\n```\n```python model.py\nimport ttnn\n\n$x\n```\n";
        let found = blocks(page).expect("it is well formed");
        let [block] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert!(block.is_file && block.needs.is_empty());
        let written = "cat > model.py <<'END OF THE FILE'\nimport ttnn\n\n$x\nEND OF THE FILE";
        assert_eq!(block.commands[0].text, written);
    }

    #[test]
    fn what_is_no_block_of_commands_is_refused() {
        assert!(blocks("```console\nout\n$ a\n```\n").is_err());
        assert!(blocks("```console root\n$ a\n```\n").is_err());
    }

    #[test]
    fn output_is_all_that_is_printed_but_for_ellipses() {
        let printed = ["pid 17 held 3.0 MiB", "b", "c", "d"];
        assert!(matches(&["pid … held 3.0 MiB", "…", "d"], &printed));
        assert!(matches(&["…"], &printed));
        assert!(matches(&["…", "b", "…"], &printed));
        assert!(matches(&["…", "…", "d", "…"], &printed));
        assert!(!matches(&["pid … held 4.0 MiB", "…"], &printed));
        assert!(!matches(&["…", "b", "d"], &printed));
        assert!(
            !matches(&["pid … held 3.0 MiB"], &printed),
            "more is printed"
        );
        assert!(line_matches("a …b… c", "a xb c"));
        assert!(!line_matches("a … a", "a"), "nothing is used twice");
        assert!(!line_matches("a", "ab"));
    }
}
