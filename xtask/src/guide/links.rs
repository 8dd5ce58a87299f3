//! The links of the built book: each leads to a page, an anchor, a picture or a file of the repository.
//!
//! Pages are written for readers of the repository, too, and link to its other files. Such links leave the book: in what was
//! built they are made to lead to the file where it is. Addresses on the web are not asked.

use super::SOURCE;
use crate::command::root;
use anyhow::{Context, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// What other pages can link to, and what a page links to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Marks {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

/// Follows every link of a built book, and says how many there are.
pub(super) fn follow(built: &Path) -> anyhow::Result<usize> {
    let mut pages = BTreeMap::new();
    collect(built, Path::new(""), &mut pages)?;
    let mut dead = Vec::new();
    let mut count = 0;
    for (page, marks) in &pages {
        for link in &marks.links {
            count += 1;
            match target(page, link) {
                Target::Web => count -= 1,
                Target::Book(path, anchor) => {
                    if let Err(why) = look_up(built, &pages, &path, anchor) {
                        dead.push(format!("{}: {link}: {why}", page.display()));
                    }
                }
                Target::Repository(path) => match in_repository(&path) {
                    Some(file) => lead_out(built, page, link, &file)?,
                    None => dead.push(format!("{}: {link}: no such file", page.display())),
                },
            }
        }
    }
    if !dead.is_empty() {
        bail!(
            "{} links of the guide lead nowhere:\n{}",
            dead.len(),
            dead.join("\n")
        );
    }
    Ok(count)
}

/// Reads every page below a folder of the book.
fn collect(built: &Path, below: &Path, pages: &mut BTreeMap<PathBuf, Marks>) -> anyhow::Result<()> {
    for entry in fs::read_dir(built.join(below)).context("the book was not built")? {
        let name = below.join(entry?.file_name());
        let path = built.join(&name);
        if path.is_dir() {
            collect(built, &name, pages)?;
        } else if name.extension().is_some_and(|it| it == "html") {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            pages.insert(name, marks(&text));
        }
    }
    Ok(())
}

/// The anchors and links of a page.
fn marks(html: &str) -> Marks {
    let mut marks = Marks::default();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment
                .split_once("-->")
                .map_or("", |(_comment, rest)| rest);
            continue;
        }
        let (name, attributes, behind) = tag(rest);
        for (attribute, value) in attributes {
            match attribute {
                "id" => drop(marks.anchors.insert(value)),
                "href" | "src" => marks.links.push(value),
                _ => {}
            }
        }
        // A script may compare things, which does not begin a tag.
        rest = match name {
            "script" => behind
                .split_once("</script")
                .map_or("", |(_script, rest)| rest),
            _ => behind,
        };
    }
    marks
}

/// The name of a tag, its attributes with values, and what stands behind it.
fn tag(text: &str) -> (&str, Vec<(&str, String)>, &str) {
    let end = text
        .find(|sign: char| sign.is_whitespace() || sign == '>')
        .unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches(|sign: char| sign.is_whitespace() || sign == '/');
        if rest.is_empty() {
            return (name, attributes, rest);
        }
        if let Some(behind) = rest.strip_prefix('>') {
            return (name, attributes, behind);
        }
        let is_end = |sign: char| sign.is_whitespace() || "=>/".contains(sign);
        // At least one sign, so that this comes to an end whatever the page has.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..]
            .find(is_end)
            .map_or(rest.len(), |at| at + first);
        let attribute = &rest[..end];
        rest = &rest[end..];
        if let Some((value, behind)) = rest.strip_prefix("=\"").and_then(|it| it.split_once('"')) {
            attributes.push((attribute, value.replace("&amp;", "&")));
            rest = behind;
        }
    }
}

/// Where a link leads to.
#[derive(Debug, PartialEq, Eq)]
enum Target<'l> {
    Web,
    /// A file of the book, and an anchor in it.
    Book(PathBuf, Option<&'l str>),
    /// A file beside the book's source.
    Repository(PathBuf),
}

fn target<'l>(page: &Path, link: &'l str) -> Target<'l> {
    let scheme = link.split([':', '/', '#']).next().unwrap_or_default();
    if link[scheme.len()..].starts_with(':') {
        return Target::Web;
    }
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link, None),
    };
    if path.is_empty() {
        return Target::Book(page.to_owned(), anchor);
    }
    let mut found = page.parent().unwrap_or(Path::new("")).to_owned();
    let mut outside = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir if !outside.as_os_str().is_empty() => drop(outside.pop()),
            Component::ParentDir if !found.pop() => outside.push(".."),
            Component::Normal(name) if outside.as_os_str().is_empty() => found.push(name),
            Component::Normal(name) => outside.push(name),
            _ => {}
        }
    }
    if outside.as_os_str().is_empty() {
        Target::Book(found, anchor)
    } else {
        Target::Repository(outside)
    }
}

/// Whether the book has a file and the anchor in it; the error says what is missing.
fn look_up(
    built: &Path,
    pages: &BTreeMap<PathBuf, Marks>,
    path: &Path,
    anchor: Option<&str>,
) -> Result<(), &'static str> {
    if !built.join(path).exists() {
        return Err("no such page, or it is not in the table of contents");
    }
    let Some(anchor) = anchor.filter(|anchor| !anchor.is_empty()) else {
        return Ok(());
    };
    let page = pages.get(path).ok_or("only pages have anchors")?;
    if page.anchors.contains(anchor) {
        Ok(())
    } else {
        Err("the page has no such heading")
    }
}

/// A file of the repository that a link out of the book means: mdBook takes every link to a page for one of its own.
fn in_repository(outside: &Path) -> Option<PathBuf> {
    let as_written = root().join(SOURCE).join(outside);
    let page = as_written.with_extension("md");
    [as_written, page].into_iter().find(|file| file.exists())
}

/// Has a link lead to a file where it is.
fn lead_out(built: &Path, page: &Path, link: &str, file: &Path) -> anyhow::Result<()> {
    let path = built.join(page);
    let file = file.canonicalize().context("it is there")?;
    let html = fs::read_to_string(&path)?;
    let folder = path
        .parent()
        .context("a page lies in a folder")?
        .canonicalize()?;
    let way = relative(&folder, &file);
    let html = html.replace(
        &format!("href=\"{link}\""),
        &format!("href=\"{}\"", way.display()),
    );
    fs::write(&path, html).with_context(|| format!("cannot write {}", path.display()))
}

/// The way from a folder to a file.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let pairs = from.components().zip(to.components());
    let common = pairs.take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_and_links_are_those_of_tags() {
        let html = "<!-- <a href=\"no\"> --><h1 id=\"a-b\"><a class=header href=\"#a-b\">A &lt; b</a></h1>\n\
                    <code>href=\"no\" < 3</code><script src=\"x.js\">if (a<b) { \"href='no'\" }</script>\
                    <img alt=\"a > b\" src=\"p.svg\"/><a\nhref=\"q?a=1&amp;b=2\"";
        let found = marks(html);
        assert_eq!(found.anchors.into_iter().collect::<Vec<_>>(), ["a-b"]);
        assert_eq!(found.links, ["#a-b", "x.js", "p.svg", "q?a=1&b=2"]);
    }

    #[test]
    fn links_lead_into_the_book_out_of_it_or_to_the_web() {
        let page = Path::new("guide/start.html");
        let book = |path: &str, anchor| Target::Book(PathBuf::from(path), anchor);
        assert_eq!(target(page, "#x"), book("guide/start.html", Some("x")));
        assert_eq!(target(page, "../cli.html#y"), book("cli.html", Some("y")));
        assert_eq!(target(page, "faq.html"), book("guide/faq.html", None));
        assert_eq!(
            target(page, "../../deploy/x"),
            Target::Repository("../deploy/x".into())
        );
        assert_eq!(
            target(Path::new("cli.html"), "../README.html"),
            Target::Repository("../README.html".into())
        );
        for web in ["https://example.com/a#b", "mailto:a@example.com"] {
            assert_eq!(target(page, web), Target::Web);
        }
    }

    #[test]
    fn dead_links_and_anchors_are_found() {
        let pages = BTreeMap::from([(PathBuf::from("Cargo.toml"), marks("<p id=\"a\">"))]);
        let look = |path: &str, anchor| look_up(&root(), &pages, Path::new(path), anchor);
        assert_eq!(look("Cargo.toml", Some("a")), Ok(()));
        assert!(look("Cargo.toml", Some("b")).is_err());
        assert!(look("nowhere.html", None).is_err());
        assert!(
            in_repository(Path::new("../README.html")).is_some(),
            "it was a page"
        );
        assert!(in_repository(Path::new("../nowhere")).is_none());
    }

    #[test]
    fn the_way_out_goes_up_to_what_is_common() {
        let way = relative(Path::new("/r/target/guide"), Path::new("/r/deploy/x.yml"));
        assert_eq!(way, Path::new("../../deploy/x.yml"));
    }
}
