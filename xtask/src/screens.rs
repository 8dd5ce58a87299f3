//! `cargo xtask screens`: the screens and pictures in README and docs, as the program draws them.
//!
//! The documents say how each is made ([`document`]): the real program is started in a real
//! terminal, keys are pressed, and what is on the screen replaces what stood in the document, or
//! becomes an SVG file ([`picture`]). Three things are put in place of what was drawn: the names
//! of this machine and of the user, and the path of the server's socket. A screen that has the path
//! of this repository is refused.

mod document;
mod picture;
mod terminal;

use crate::command::{cargo, program, read, root, run as run_command, target_dir};
use crate::tool;
use anyhow::{Context, bail};
use std::fs;
use std::path::Path;
use terminal::Terminal;

/// The documents that show screens.
const DOCUMENTS: [&str; 2] = ["README.md", "docs/top.md"];

/// What is shown instead of the name of this machine.
const HOST: &str = "host";
/// What is shown instead of the name of the user.
const USER: &str = "user";
/// What is shown instead of the path of the server's socket, which ends in this.
const SOCKET: &str = "/tmp/ttmem-demo/ttmem.sock";
const SOCKET_NAME: &str = "/ttmem.sock";

/// Builds the program and makes every screen anew.
pub(crate) fn run() -> anyhow::Result<()> {
    tool::TMUX.ensure()?;
    run_command(&mut cargo(["build", "--package", "ttmem"]))?;
    let ttmem = target_dir().join("debug/ttmem");
    let privates = Privates::of_this_machine()?;
    for name in DOCUMENTS {
        let path = root().join(name);
        let old = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
        let new = renewed(&old, &ttmem, &privates).with_context(|| format!("in {name}"))?;
        fs::write(&path, new).with_context(|| format!("cannot write {name}"))?;
        for picture in document::pictures(&old)? {
            let of = || format!("of the picture {}", picture.name);
            draw(&picture, &ttmem, &privates).with_context(of)?;
        }
    }
    Ok(())
}

/// Draws a picture into the file that it names.
fn draw(picture: &document::Screen<'_>, ttmem: &Path, privates: &Privates) -> anyhow::Result<()> {
    println!("{}: ttmem {}", picture.name, picture.arguments);
    let parts = picture
        .name
        .split_once(' ')
        .and_then(|(file, background)| Some((file, picture::Background::from_name(background)?)));
    let (file, background) = parts.context("it is not FILE dark or FILE light")?;
    let variables = match background {
        picture::Background::Dark => "COLORTERM=truecolor COLORFGBG='15;0'",
        picture::Background::Light => "COLORTERM=truecolor COLORFGBG='0;15'",
    };
    let terminal = Terminal::start(ttmem, picture, variables)?;
    terminal.follow(&picture.steps)?;
    let shown = privates.hidden(&terminal.colours()?)?;
    let svg = picture::draw(&shown, usize::from(picture.columns), background);
    let path = root().join(file);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context("no folder for it")?;
    }
    fs::write(&path, svg).with_context(|| format!("cannot write {file}"))
}

/// A document with new screens.
fn renewed(old: &str, ttmem: &Path, privates: &Privates) -> anyhow::Result<String> {
    let mut new = String::with_capacity(old.len());
    let mut copied = 0;
    for screen in document::screens(old)? {
        println!("{}: ttmem {}", screen.name, screen.arguments);
        let of = || format!("of the screen {}", screen.name);
        // Without colours, because a document has none: kinds of memory differ by their signs.
        let terminal = Terminal::start(ttmem, &screen, "NO_COLOR=1").with_context(of)?;
        let drawn = terminal.follow(&screen.steps).with_context(of)?;
        new.push_str(&old[copied..screen.place.start]);
        new.push_str(&privates.hidden(&drawn).with_context(of)?);
        copied = screen.place.end;
    }
    new.push_str(&old[copied..]);
    Ok(new)
}

/// What no document may show.
#[derive(Debug)]
struct Privates {
    host: String,
    user: String,
    /// Paths of this machine, which no screen should have in the first place.
    paths: Vec<String>,
}

impl Privates {
    fn of_this_machine() -> anyhow::Result<Self> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname");
        let mut paths = vec![root().display().to_string()];
        paths.extend(std::env::var("HOME"));
        Ok(Self {
            host: host.context("this machine has no name")?.trim().to_owned(),
            user: read(program("id").arg("-un"))?.trim().to_owned(),
            paths,
        })
    }

    /// A screen that can be shown to everybody, with or without colours.
    fn hidden(&self, drawn: &str) -> anyhow::Result<String> {
        let mut shown = String::with_capacity(drawn.len());
        for line in drawn.lines() {
            shown.push_str(self.line_hidden(line).trim_end());
            shown.push('\n');
        }
        let name = [&self.user, &self.host]
            .into_iter()
            .find(|name| find_word(&shown, name).is_some());
        let is_shown = |path: &&String| path.len() > 1 && shown.contains(path.as_str());
        match name.or_else(|| self.paths.iter().find(is_shown)) {
            Some(private) => bail!("{private:?} is on it:\n{shown}"),
            None => Ok(shown),
        }
    }

    /// A line without the names of this machine and user and the path of a socket, as wide as it was: its
    /// widest gap takes the difference.
    fn line_hidden(&self, line: &str) -> String {
        let socket = line.find(SOCKET_NAME).map(|end| {
            let word = line[..end]
                .rfind(char::is_whitespace)
                .map_or(0, |at| at + 1);
            // Colours may stand before it.
            let slash = line[word..].find('/').unwrap_or(0);
            word + slash..end + SOCKET_NAME.len()
        });
        let mut shown = line.to_owned();
        if let Some(place) = socket {
            shown.replace_range(place, SOCKET);
        }
        for (name, instead) in [(&self.host, HOST), (&self.user, USER)] {
            if let Some(at) = find_word(&shown, name) {
                shown.replace_range(at..at + name.len(), instead);
            }
        }
        let gaps = shown.split(|sign| sign != ' ').map(str::len);
        let gap = " ".repeat(gaps.max().unwrap_or(0));
        let (before, after) = (line.chars().count(), shown.chars().count());
        let width = (gap.len() + before).saturating_sub(after).max(2);
        if gap.len() < 2 || before == after {
            return shown;
        }
        shown.replacen(&gap, &" ".repeat(width), 1)
    }
}

/// Where a text has a word.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_apart = |sign: Option<char>| sign.is_none_or(|sign| !sign.is_alphanumeric());
    let mut found = text.match_indices(word).map(|(at, _)| at);
    found.find(|at| {
        let (before, after) = (&text[..*at], &text[at + word.len()..]);
        // An escape sequence for a colour ends in a letter.
        let is_coloured = before.ends_with('m') && before.contains('\u{1b}');
        (is_apart(before.chars().next_back()) || is_coloured) && is_apart(after.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn privates() -> Privates {
        Privates {
            host: "galaxy-17".to_owned(),
            user: "ada".to_owned(),
            paths: vec!["/home/lovelace".to_owned()],
        }
    }

    #[test]
    fn host_and_socket_are_replaced_and_the_line_keeps_its_width() {
        let status = "galaxy-17  21:55:45 UTC  7 events/s  /tmp/ttmem-Oh1ddf/ttmem.sock     live, every 0.5 s";
        let shown = privates()
            .hidden(&format!("1 Overview\n{status}\nDRAM   \n"))
            .expect("nothing else is private");
        let expected = "host  21:55:45 UTC  7 events/s  /tmp/ttmem-demo/ttmem.sock            live, every 0.5 s";
        assert_eq!(shown, format!("1 Overview\n{expected}\nDRAM\n"));
        assert_eq!(status.len(), expected.len());
        let shown = privates().hidden("pid 7 · ada · python");
        assert_eq!(shown.expect("likewise"), "pid 7 · user · python\n");
    }

    #[test]
    fn a_screen_that_shows_more_is_refused() {
        let status = "galaxy-17  /tmp/x/ttmem.sock  live";
        for private in ["/home/lovelace/model.toml", "ada x=ada"] {
            let drawn = format!("1 Overview\n{status}\n{private}\n");
            assert!(privates().hidden(&drawn).is_err(), "{private}");
        }
    }

    #[test]
    fn colours_stay_where_they_are() {
        let status =
            "\u{1b}[1mgalaxy-17\u{1b}[0m  \u{1b}[2m/tmp/ttmem-Oh1ddf/ttmem.sock\u{1b}[0m     live";
        let shown = privates().hidden(status).expect("all private is hidden");
        let expected = "\u{1b}[1mhost\u{1b}[0m  \u{1b}[2m/tmp/ttmem-demo/ttmem.sock\u{1b}[0m            live\n";
        assert_eq!(shown, expected);
    }
}
