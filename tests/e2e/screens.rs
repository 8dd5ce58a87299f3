//! The screens in README and docs are what the program draws: each is made again as the document
//! says, and what does not depend on the moment must be the same.

// The same reader as that of `cargo xtask screens`, which wrote them.
#[path = "../../xtask/src/screens/document.rs"]
mod document;

use super::support::place::{TTMEM, quoted, source};
use super::support::tmux::Tmux;
use document::{Screen, Step, pictures, screens};

const README: &str = include_str!("../../README.md");
const TOP: &str = include_str!("../../docs/top.md");

/// The views in docs/top.md, the eight tabs, two of their pages, and the help.
const SHOWN: [&str; 11] = [
    "overview",
    "processes",
    "device",
    "l1map",
    "dram",
    "programs",
    "rings",
    "buffers",
    "events",
    "leaks",
    "help",
];

/// The screen of a name, and its text.
fn shown(document: &'static str, name: &str) -> (Screen<'static>, &'static str) {
    let all = screens(document).expect("every screen says how it is made");
    let found = all.into_iter().find(|screen| screen.name == name);
    let screen = found.expect("the screen is shown");
    let text = &document[screen.place.clone()];
    (screen, text)
}

/// What is drawn now; `None` where there is no tmux.
fn drawn(screen: &Screen<'_>) -> Option<String> {
    let root = source("");
    let root = quoted(root.to_str().expect("text"));
    let command = format!("cd {root} && exec {TTMEM} {}", screen.arguments);
    let terminal = Tmux::with(screen.columns, screen.rows, &command)?;
    let mut seen = String::new();
    for step in &screen.steps {
        match step {
            Step::Press(keys) => terminal.press(keys),
            Step::Wait(texts) => {
                let what = format!("{texts:?}");
                let all = |seen: &str| texts.iter().all(|text| seen.contains(text));
                seen = terminal.wait_until(&what, all);
            }
        }
    }
    Some(seen)
}

/// The headings of columns: lines with three words or more that are all in capitals.
///
/// Only the words: how far apart they stand depends on the figures below.
fn headings(screen: &str) -> Vec<Vec<&str>> {
    let is_heading = |words: &Vec<&str>| {
        let lower = |word: &&str| word.contains(|sign: char| sign.is_ascii_lowercase());
        let long = words.iter().filter(|word| word.len() > 1).count();
        long >= 3 && !words.iter().any(lower)
    };
    screen.lines().map(words).filter(is_heading).collect()
}

/// The words of a line that have a letter.
fn words(line: &str) -> Vec<&str> {
    let words = line.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    let has_letter = |word: &&str| word.contains(|sign: char| sign.is_ascii_alphabetic());
    words.filter(has_letter).collect()
}

fn assert_still_drawn(document: &'static str, name: &str) {
    let (screen, text) = shown(document, name);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), usize::from(screen.rows), "its size\n{text}");
    let widest = lines.iter().map(|line| line.chars().count()).max();
    assert!(widest <= Some(usize::from(screen.columns)), "{text}");
    // Nobody's machine: only the status line has such things.
    let status = lines[1];
    let neutral = "  /tmp/ttmem-demo/ttmem.sock  ";
    assert!(
        status.starts_with("host  ") && status.contains(neutral),
        "{status}"
    );
    assert_eq!(text.matches("ttmem.sock").count(), 1, "{text}");
    if let Some(Step::Wait(texts)) = screen.steps.last() {
        let missing: Vec<_> = texts
            .iter()
            .filter(|wanted| !text.contains(**wanted))
            .collect();
        assert!(missing.is_empty(), "{missing:?} are not in\n{text}");
    }

    let Some(now) = drawn(&screen) else {
        return;
    };
    let now_lines: Vec<&str> = now.lines().collect();
    assert_eq!(lines[0], now_lines[0], "the tabs");
    assert_eq!(lines.last(), now_lines.last(), "the keys");
    let now_headings = headings(&now);
    for heading in headings(text) {
        assert!(
            now_headings.contains(&heading),
            "{heading:?} is not in\n{now}"
        );
    }
}

#[test]
fn every_view_is_shown_once() {
    let all = screens(TOP).expect("every screen says how it is made");
    let names: Vec<&str> = all.iter().map(|screen| screen.name).collect();
    assert_eq!(names, SHOWN);
    let with_columns = names.iter().filter(|name| {
        let (_screen, text) = shown(TOP, name);
        !headings(text).is_empty()
    });
    assert!(with_columns.count() >= 8, "headings are recognised");
    assert!(screens(README).expect("likewise").is_empty(), "a picture");
}

#[test]
fn headings_are_told_from_rows() {
    let screen = "\
  TIME (UTC)  PID  EVENT   WHAT
  DRAM  1.1 GiB  11.9 GiB
 0 [  ]  ███   ADDRESS   SIZE KIND▼ L1_SMALL
SYSTEM          0 B          –      –        0 B
keys of this view
";
    let expected = [
        vec!["TIME", "UTC", "PID", "EVENT", "WHAT"],
        vec!["ADDRESS", "SIZE", "KIND", "L1_SMALL"],
    ];
    assert_eq!(headings(screen), expected);
}

/// The texts of a picture, piece by piece.
fn texts(svg: &str) -> String {
    let pieces = svg.split("<text").skip(1);
    let pieces = pieces.filter_map(|piece| {
        let (_how, text) = piece.split_once('>')?;
        Some(text.split('<').next().unwrap_or_default())
    });
    pieces.collect::<Vec<_>>().join(" ")
}

fn assert_picture_of_readme_is_still_drawn() {
    let all = pictures(README).expect("every picture says how it is made");
    assert_eq!(all.len(), 1, "{all:?}");
    let picture = &all[0];
    let (file, _background) = picture
        .name
        .split_once(' ')
        .expect("a file and a background");
    assert!(
        README.contains(&format!("]({file})")),
        "README shows {file}"
    );
    let svg = std::fs::read_to_string(source(file)).expect("it was drawn");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    let Some(now) = drawn(picture) else {
        return;
    };
    // The titles of the views and the headings of its table.
    let shown = texts(&svg);
    let mut parts = headings(&now);
    parts.push(words(now.lines().next().expect("the tabs")));
    for word in parts.concat() {
        assert!(
            shown.contains(word),
            "{word} is not in the picture: {shown}"
        );
    }
}

/// All at the same time, each in a terminal of its own: they wait for what a demo shows, and compute hardly anything.
#[test]
fn every_screen_and_picture_is_still_drawn() {
    let failed: Vec<&str> = std::thread::scope(|scope| {
        let picture = scope.spawn(assert_picture_of_readme_is_still_drawn);
        let screens = SHOWN.map(|name| (name, scope.spawn(|| assert_still_drawn(TOP, name))));
        let all = screens
            .into_iter()
            .chain([("the picture of README", picture)]);
        all.filter_map(|(name, drawn)| drawn.join().is_err().then_some(name))
            .collect()
    });
    assert!(failed.is_empty(), "not as they are shown: {failed:?}");
}
