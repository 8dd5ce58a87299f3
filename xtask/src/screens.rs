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
use crate::{guide, tool};
use anyhow::{Context, bail};
use std::fs;
use std::path::Path;
use terminal::Terminal;

/// The documents that show screens, besides the chapters of the guide.
const DOCUMENTS: [&str; 2] = ["README.md", "docs/top.md"];

/// The most that a picture of the guide may have: pages are read over slow lines, too.
const MOST_PICTURE_BYTES: usize = 60_000;

/// How often a picture is drawn before it counts as another one: a frame may be half of one state and half of the next.
const ATTEMPTS: usize = 3;

/// What is shown instead of the name of this machine.
const HOST: &str = "host";
/// What is shown instead of the name of the user.
const USER: &str = "user";
/// What is shown instead of the path of the server's socket, which ends in this.
const SOCKET: &str = "/tmp/ttmem-demo/ttmem.sock";
const SOCKET_NAME: &str = "/ttmem.sock";

/// Builds the program and makes the screens of every document anew, or of those that are named.
pub(crate) fn run(named: &[&str]) -> anyhow::Result<()> {
    tool::TMUX.ensure()?;
    run_command(&mut cargo(["build", "--package", "ttmem"]))?;
    let ttmem = target_dir().join("debug/ttmem");
    let privates = Privates::of_this_machine()?;
    let documents: Vec<String> = if named.is_empty() {
        let usual = DOCUMENTS.iter().map(|name| (*name).to_owned());
        usual.chain(guide::chapters()?).collect()
    } else {
        named.iter().map(|name| (*name).to_owned()).collect()
    };
    for name in &documents {
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

/// A picture of a document: what it is of, and where it goes.
#[derive(Debug)]
struct Kept<'d> {
    file: &'d str,
    background: picture::Background,
    /// Its figures depend on the moment.
    is_moving: bool,
}

impl<'d> Kept<'d> {
    fn of(picture: &document::Screen<'d>) -> anyhow::Result<Self> {
        let words: Vec<&str> = picture.name.split_whitespace().collect();
        let (file, background, is_moving) = match words.as_slice() {
            [file, background] => (*file, *background, false),
            [file, background, "moving"] => (*file, *background, true),
            _ => bail!("it is not FILE dark, FILE light, or either with `moving`"),
        };
        Ok(Self {
            file,
            background: picture::Background::from_name(background)
                .with_context(|| format!("{background:?} is neither dark nor light"))?,
            is_moving,
        })
    }
}

/// Draws a picture into the file that it names.
fn draw(picture: &document::Screen<'_>, ttmem: &Path, privates: &Privates) -> anyhow::Result<()> {
    println!("{}: ttmem {}", picture.name, picture.arguments);
    let kept = Kept::of(picture)?;
    let svg = drawn(picture, &kept, ttmem, privates)?;
    let path = root().join(kept.file);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context("no folder for it")?;
    }
    fs::write(&path, svg).with_context(|| format!("cannot write {}", kept.file))
}

/// A picture as the program draws it now.
fn drawn(
    picture: &document::Screen<'_>,
    kept: &Kept<'_>,
    ttmem: &Path,
    privates: &Privates,
) -> anyhow::Result<String> {
    let variables = match kept.background {
        picture::Background::Dark => "COLORTERM=truecolor COLORFGBG='15;0'",
        picture::Background::Light => "COLORTERM=truecolor COLORFGBG='0;15'",
    };
    let terminal = Terminal::start(ttmem, picture, variables)?;
    terminal.follow(&picture.steps)?;
    let shown = privates.hidden(&terminal.colours()?)?;
    let columns = usize::from(picture.columns);
    Ok(picture::draw(&shown, columns, kept.background))
}

/// Compares the pictures of a document with what the program draws now, and says how many there are.
///
/// # Errors
/// Where a picture is not shown by the document, is too large, or says something else than the program does.
pub(crate) fn compare(name: &str, text: &str, ttmem: &Path) -> anyhow::Result<usize> {
    let privates = Privates::of_this_machine()?;
    let pictures = document::pictures(text)?;
    for picture in &pictures {
        let kept = Kept::of(picture)?;
        let of = || format!("{name}, picture {}", kept.file);
        let shown = kept.file.rsplit('/').next().unwrap_or(kept.file);
        if !text.contains(&format!("pictures/{shown})")) {
            bail!("{}: the page does not show it", of());
        }
        let svg = fs::read_to_string(root().join(kept.file)).with_context(of)?;
        if svg.len() > MOST_PICTURE_BYTES {
            bail!(
                "{}: {} bytes are more than {MOST_PICTURE_BYTES}",
                of(),
                svg.len()
            );
        }
        let mut found = None;
        for _attempt in 0..ATTEMPTS {
            let now = drawn(picture, &kept, ttmem, &privates).with_context(of)?;
            found = difference(&svg, &now, kept.is_moving);
            if found.is_none() {
                break;
            }
        }
        if let Some((was, is)) = found {
            bail!(
                "{} is not current: it has\n  {was}\nand the program draws\n  {is}\n\
                 `cargo xtask screens {name}` draws it again",
                of()
            );
        }
    }
    Ok(pictures.len())
}

/// The first line of two pictures that says something else, but for what differs from run to run.
fn difference(old: &str, new: &str, is_moving: bool) -> Option<(String, String)> {
    let lines = |svg: &str| -> Vec<String> {
        let lines = picture::lines(svg).into_iter();
        lines.map(|line| lasting(&line, is_moving)).collect()
    };
    let (old, new) = (lines(old), lines(new));
    if is_moving {
        // Rows come and go: the first line has the views, the last one the keys.
        let ends = |lines: &[String]| Some((lines.first()?.clone(), lines.last()?.clone()));
        let (was, is) = (ends(&old)?, ends(&new)?);
        return (was != is).then(|| (was.0 + " / " + &was.1, is.0 + " / " + &is.1));
    }
    // Where a sentence goes on in the next line, and what stands at the end of the first, depends on how long the
    // numbers in it are.
    let at_once = |lines: &[String]| -> String {
        let words = lines.iter().flat_map(|line| line.split(' '));
        let lasting = words.filter(|word| !word.starts_with('[') && !["#", "more"].contains(word));
        lasting.collect::<Vec<_>>().join(" ")
    };
    if says_the_same(&at_once(&old), &at_once(&new)) {
        return None;
    }
    let count = old.len().max(new.len());
    let line = |lines: &[String], number: usize| lines.get(number).cloned().unwrap_or_default();
    let mut pairs = (0..count).map(|number| (line(&old, number), line(&new, number)));
    pairs.find(|(old, new)| !says_the_same(old, new))
}

/// Whether two lines are the same, but for where a long text is cut: the numbers before it are not always as long.
fn says_the_same(old: &str, new: &str) -> bool {
    /// As much as numbers before it may differ in length, and a word that goes on in the next line.
    const MOST: usize = 32;
    let (old, new): (Vec<_>, Vec<_>) = (old.split('…').collect(), new.split('…').collect());
    let is_cut_alike = |old: &str, new: &str| {
        let (old, new) = (old.trim_end(), new.trim_end());
        old.len().abs_diff(new.len()) <= MOST && (old.starts_with(new) || new.starts_with(old))
    };
    let last = old.len() - 1;
    let mut pairs = old.iter().zip(&new).enumerate();
    old.len() == new.len()
        && pairs.all(|(at, (old, new))| old == new || at < last && is_cut_alike(old, new))
}

/// A line without what differs from run to run: times, ages, pids and rates. Figures with a unit of bytes or a per cent sign and
/// addresses stay, unless everything moves.
fn lasting(line: &str, is_moving: bool) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_figure = |at: usize| {
        let unit = words.get(at + 1).copied().unwrap_or_default();
        let unit = unit.trim_matches(|sign: char| !sign.is_alphabetic());
        words[at].ends_with('%')
            || words[at].starts_with("0x")
            || ["B", "KiB", "MiB", "GiB"].contains(&unit)
    };
    let masked = (0..words.len()).map(|at| {
        if !is_moving && is_figure(at) {
            return words[at].to_owned();
        }
        if at > 0 && ["µs", "ms"].contains(&words[at]) {
            return "s".to_owned();
        }
        let mut mask = words[at].replace(|sign: char| sign.is_ascii_digit(), "#");
        while mask.contains("##") {
            mask = mask.replace("##", "#");
        }
        mask
    });
    masked.collect::<Vec<_>>().join(" ")
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
    fn a_picture_is_current_if_only_times_pids_and_ages_differ() {
        let draw = |screen: &str| picture::draw(screen, 60, picture::Background::Light);
        let old = draw("1 Overview\npid 20290 · 64.0 KiB at 0x15e000 · 0 s ago\n06:12:42 UTC");
        let later = draw("1 Overview\npid 7 · 64.0 KiB at 0x15e000 · 17 ms ago\n23:59:00 UTC");
        assert_eq!(difference(&old, &later, false), None);
        for other in ["65.0 KiB", "64.0 MiB"] {
            let other = draw(&format!(
                "1 Overview\npid 7 · {other} at 0x15e000 · 17 s ago\n06:12:42 UTC"
            ));
            assert!(difference(&old, &other, false).is_some());
            assert_eq!(difference(&old, &other, true), None, "it moves");
        }
        let cut = [
            "pid 7, needs 64.0 KiB in… [9]",
            "pid 12345, needs 64.0 KiB… [9]",
        ];
        assert_eq!(difference(&draw(cut[0]), &draw(cut[1]), false), None);
        let wrapped = [
            "pid 7, needs 64.0 KiB in [9]\nbanks",
            "pid 12345, needs 64.0 KiB [9]\nin banks",
        ];
        assert_eq!(
            difference(&draw(wrapped[0]), &draw(wrapped[1]), false),
            None
        );
        let other = "pid 7, needs 65.0 KiB in… [9]";
        assert!(difference(&draw(cut[0]), &draw(other), false).is_some());
        assert!(difference(&old, &draw("1 Overviews\n06:12:42 UTC"), true).is_some());
        assert!(
            difference(&old, &draw("1 Overview"), false).is_some(),
            "lines are missing"
        );
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
