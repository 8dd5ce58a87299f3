//! A terminal's screen as an SVG picture: what `tmux capture-pane -e` gives, drawn cell by cell.
//!
//! Blocks, shades, borders and Braille dots are drawn as shapes: fonts leave gaps between them. Equal ones beside each other
//! are one shape. All other text is written once per run of equal looks, stretched to its cells, whatever font is there.

use std::fmt::Write;

/// A cell, in units of the picture.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 18.0;
/// Where letters stand in their cell, and their size.
const BASELINE: f64 = 13.6;
const LETTERS: f64 = 14.0;
const MARGIN: f64 = 10.0;
const FONTS: &str = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace";

/// The first sixteen colours of a terminal, on a dark and on a light background.
const DARK: [u32; 16] = [
    0x0c_0e12, 0xe0_6c75, 0x98_c379, 0xe5_c07b, 0x61_afef, 0xc6_78dd, 0x56_b6c2, 0xc8_ccd4,
    0x6b_7280, 0xff_7b86, 0xb5_e890, 0xff_d68a, 0x7c_c4ff, 0xdd_96f0, 0x70_d6e3, 0xff_ffff,
];
const LIGHT: [u32; 16] = [
    0x2a_2d34, 0xb3_1d28, 0x22_863a, 0x9a_6700, 0x03_66d6, 0x6f_42c1, 0x1b_7c83, 0xd1_d5da,
    0x6a_737d, 0xcb_2431, 0x28_a745, 0xb0_8800, 0x21_88ff, 0x8a_63d2, 0x31_92aa, 0xff_ffff,
];

/// What the terminal of a picture looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Background {
    Dark,
    Light,
}

impl Background {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "dark" => Some(Self::Dark),
            "light" => Some(Self::Light),
            _ => None,
        }
    }

    fn palette(self) -> &'static [u32; 16] {
        match self {
            Self::Dark => &DARK,
            Self::Light => &LIGHT,
        }
    }

    /// What is drawn where nothing else is asked for: the background, and letters.
    fn plain(self) -> (u32, u32) {
        match self {
            Self::Dark => (0x11_1318, 0xd4_d7dd),
            Self::Light => (0xff_ffff, 0x24_292e),
        }
    }
}

/// How a cell is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Look {
    foreground: Option<u32>,
    background: Option<u32>,
    bold: bool,
    faint: bool,
    reversed: bool,
    underlined: bool,
}

/// Some cells of a line that look alike.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    column: usize,
    text: String,
    look: Look,
}

/// Draws a screen with escape sequences.
pub(super) fn draw(screen: &str, columns: usize, background: Background) -> String {
    let rows = screen.lines().count();
    let width = columns as f64 * WIDTH + 2.0 * MARGIN;
    let height = rows as f64 * HEIGHT + 2.0 * MARGIN;
    let (paper, ink) = background.plain();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"{FONTS}\" font-size=\"{LETTERS}\" \
         fill=\"#{ink:06x}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#{paper:06x}\"/>\n"
    );
    let mut look = Look::default();
    for (row, line) in screen.lines().enumerate() {
        for run in runs(line, &mut look, background) {
            let (mut front, mut back) = (run.look.foreground.unwrap_or(ink), run.look.background);
            if run.look.reversed {
                (front, back) = (back.unwrap_or(paper), Some(front));
            }
            let place = (
                MARGIN + run.column as f64 * WIDTH,
                MARGIN + row as f64 * HEIGHT,
            );
            let written = (front != ink).then_some(front);
            draw_run(&mut svg, &run, place, (front, written), back);
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The texts of a picture, line by line.
pub(super) fn lines(svg: &str) -> Vec<String> {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for piece in svg.split("<text").skip(1) {
        let Some((how, text)) = piece.split_once('>') else {
            continue;
        };
        let height = how
            .split(" y=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let (height, text) = (
            height.unwrap_or_default(),
            text.split('<').next().unwrap_or_default(),
        );
        match lines.last_mut() {
            Some((same, line)) if *same == height => {
                line.push(' ');
                line.push_str(text);
            }
            _ => lines.push((height, text.to_owned())),
        }
    }
    lines.into_iter().map(|(_height, line)| line).collect()
}

/// Draws a run in its colour; letters name it only where the picture's own is another.
fn draw_run(
    svg: &mut String,
    run: &Run,
    (x, y): (f64, f64),
    (front, written): (u32, Option<u32>),
    back: Option<u32>,
) {
    let cells = run.text.chars().count() as f64;
    if let Some(back) = back {
        rectangle(svg, (x, y), (cells * WIDTH, HEIGHT), back, 1.0);
    }
    let mut letters = String::new();
    let signs: Vec<char> = run.text.chars().collect();
    let is_one_shape = |one: &char, next: &char| one == next && fills_its_width(*one);
    let mut column = 0;
    for equal in signs.chunk_by(is_one_shape) {
        let place = (x + column as f64 * WIDTH, y);
        let is_drawn = draw_shape(svg, equal[0], equal.len(), place, front);
        letters.extend(equal.iter().map(|sign| if is_drawn { ' ' } else { *sign }));
        column += equal.len();
    }
    if letters.trim().is_empty() {
        return;
    }
    let blank = letters.chars().take_while(|sign| *sign == ' ').count();
    let letters = letters.trim();
    let _infallible = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" xml:space=\"preserve\"",
        x + blank as f64 * WIDTH,
        y + BASELINE,
        letters.chars().count() as f64 * WIDTH,
    );
    if let Some(colour) = written {
        let _infallible = write!(svg, " fill=\"#{colour:06x}\"");
    }
    let looks = [
        (run.look.bold, " font-weight=\"bold\""),
        (run.look.faint, " opacity=\"0.65\""),
        (run.look.underlined, " text-decoration=\"underline\""),
    ];
    svg.extend(
        looks
            .iter()
            .filter(|(has, _)| *has)
            .map(|(_, attribute)| *attribute),
    );
    svg.push('>');
    for sign in letters.chars() {
        match sign {
            '&' => svg.push_str("&amp;"),
            '<' => svg.push_str("&lt;"),
            '>' => svg.push_str("&gt;"),
            sign => svg.push(sign),
        }
    }
    svg.push_str("</text>\n");
}

fn rectangle(
    svg: &mut String,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    fill: u32,
    opacity: f64,
) {
    let _infallible = write!(
        svg,
        "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"#{fill:06x}\""
    );
    if opacity < 1.0 {
        let _infallible = write!(svg, " opacity=\"{opacity}\"");
    }
    svg.push_str("/>\n");
}

/// Whether a sign is a shape that goes from one side of its cell to the other.
fn fills_its_width(sign: char) -> bool {
    matches!(sign, '\u{2500}' | '\u{2580}'..='\u{2588}' | '\u{2591}'..='\u{2594}')
}

/// Draws a sign that is a shape rather than a letter, over some cells if it fills its width.
fn draw_shape(svg: &mut String, sign: char, cells: usize, (x, y): (f64, f64), fill: u32) -> bool {
    let code = u32::from(sign);
    let mut part = |left: f64, top: f64, width: f64, height: f64, opacity: f64| {
        let place = (x + left * WIDTH, y + top * HEIGHT);
        let size = (cells as f64 * width * WIDTH, height * HEIGHT);
        rectangle(svg, place, size, fill, opacity);
    };
    let eighths = |count: u32| f64::from(count) / 8.0;
    // Lines of a border: from the middle to the left, right, top and bottom.
    let mut line = |left: bool, right: bool, top: bool, bottom: bool| {
        if left && right {
            part(0.0, 0.47, 1.0, 0.06, 1.0);
        }
        for (drawn, from) in [(left, 0.0), (right, 0.5)] {
            if drawn && left != right {
                part(from, 0.47, 0.5, 0.06, 1.0);
            }
        }
        for (drawn, from) in [(top, 0.0), (bottom, 0.5)] {
            if drawn {
                part(0.44, from, 0.12, 0.5, 1.0);
            }
        }
    };
    match code {
        0x2500 => line(true, true, false, false),
        0x2502 => line(false, false, true, true),
        0x256d => line(false, true, false, true),
        0x256e => line(true, false, false, true),
        0x256f => line(true, false, true, false),
        0x2570 => line(false, true, true, false),
        0x2580 => part(0.0, 0.0, 1.0, 0.5, 1.0),
        0x2581..=0x2588 => {
            let height = eighths(code - 0x2580);
            part(0.0, 1.0 - height, 1.0, height, 1.0);
        }
        0x2589..=0x258f => part(0.0, 0.0, eighths(0x2590 - code), 1.0, 1.0),
        0x2590 => part(0.5, 0.0, 0.5, 1.0, 1.0),
        0x2591..=0x2593 => part(0.0, 0.0, 1.0, 1.0, 0.25 * f64::from(code - 0x2590)),
        0x2594 => part(0.0, 0.0, 1.0, 0.125, 1.0),
        0x2595 => part(0.875, 0.0, 0.125, 1.0, 1.0),
        0x2596..=0x259f => {
            // Upper left, upper right, lower left, lower right.
            const QUARTERS: [u8; 10] = [
                0b0010, 0b0001, 0b1000, 0b1011, 0b1001, 0b1110, 0b1101, 0b0100, 0b0110, 0b0111,
            ];
            let quarters = QUARTERS[(code - 0x2596) as usize];
            for (bit, left, top) in [(8, 0.0, 0.0), (4, 0.5, 0.0), (2, 0.0, 0.5), (1, 0.5, 0.5)] {
                if quarters & bit != 0 {
                    part(left, top, 0.5, 0.5, 1.0);
                }
            }
        }
        0x2800..=0x28ff => {
            const DOTS: [(f64, f64); 8] = [
                (0.0, 0.0),
                (0.0, 1.0),
                (0.0, 2.0),
                (1.0, 0.0),
                (1.0, 1.0),
                (1.0, 2.0),
                (0.0, 3.0),
                (1.0, 3.0),
            ];
            for (bit, (column, row)) in DOTS.into_iter().enumerate() {
                if (code - 0x2800) >> bit & 1 == 1 {
                    part(0.14 + column * 0.5, 0.06 + row * 0.25, 0.24, 0.12, 1.0);
                }
            }
        }
        _ => return false,
    }
    true
}

/// A line in runs of equal looks; what was set at its end holds for the next one.
fn runs(line: &str, look: &mut Look, background: Background) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut column = 0;
    let mut signs = line.chars();
    while let Some(sign) = signs.next() {
        if sign == '\u{1b}' {
            let mut sequence = String::new();
            // Only `ESC [ … m` changes looks; charset switches have one letter behind a bracket.
            match signs.next() {
                Some('[') => {
                    let last = signs.by_ref().find(|sign| {
                        sequence.push(*sign);
                        sign.is_ascii_alphabetic()
                    });
                    if last == Some('m') {
                        sequence.pop();
                        change(look, &sequence, background.palette());
                    }
                }
                Some('(' | ')') => drop(signs.next()),
                _ => {}
            }
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.look == *look => run.text.push(sign),
            _ => runs.push(Run {
                column,
                text: sign.to_string(),
                look: *look,
            }),
        }
        column += 1;
    }
    runs
}

/// What `ESC [ codes m` does.
fn change(look: &mut Look, codes: &str, palette: &[u32; 16]) {
    let mut codes = codes
        .split([';', ':'])
        .map(|code| code.parse().unwrap_or(0_u32));
    while let Some(code) = codes.next() {
        match code {
            0 => *look = Look::default(),
            1 => look.bold = true,
            2 => look.faint = true,
            4 => look.underlined = true,
            7 => look.reversed = true,
            22 => (look.bold, look.faint) = (false, false),
            24 => look.underlined = false,
            27 => look.reversed = false,
            30..=37 => look.foreground = Some(palette[(code - 30) as usize]),
            40..=47 => look.background = Some(palette[(code - 40) as usize]),
            90..=97 => look.foreground = Some(palette[(code - 82) as usize]),
            100..=107 => look.background = Some(palette[(code - 92) as usize]),
            38 => look.foreground = extended(&mut codes, palette),
            48 => look.background = extended(&mut codes, palette),
            39 => look.foreground = None,
            49 => look.background = None,
            _ => {}
        }
    }
}

/// One of 256 colours, or of all.
fn extended(codes: &mut impl Iterator<Item = u32>, palette: &[u32; 16]) -> Option<u32> {
    const STEPS: [u32; 6] = [0, 95, 135, 175, 215, 255];
    match codes.next()? {
        2 => {
            let (red, green, blue) = (codes.next()?, codes.next()?, codes.next()?);
            Some((red & 255) << 16 | (green & 255) << 8 | (blue & 255))
        }
        5 => match codes.next()? {
            number @ 0..16 => Some(palette[number as usize]),
            number @ 16..232 => {
                let number = number - 16;
                let step = |of: u32| STEPS[(of % 6) as usize];
                Some(step(number / 36) << 16 | step(number / 6) << 8 | step(number))
            }
            number => Some((8 + 10 * (number.min(255) - 232)) * 0x01_0101),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(line: &str) -> Vec<Run> {
        runs(line, &mut Look::default(), Background::Dark)
    }

    #[test]
    fn cells_of_one_look_are_one_run() {
        let found = looks("ab\u{1b}[1;38;5;196mcd\u{1b}[48;2;1;2;3me\u{1b}[0mf");
        let texts: Vec<_> = found
            .iter()
            .map(|run| (run.column, run.text.as_str()))
            .collect();
        assert_eq!(texts, [(0, "ab"), (2, "cd"), (4, "e"), (5, "f")]);
        let bold = Look {
            foreground: Some(0xff_0000),
            bold: true,
            ..Look::default()
        };
        assert_eq!(found[1].look, bold);
        assert_eq!(
            found[2].look,
            Look {
                background: Some(0x01_0203),
                ..bold
            }
        );
        assert_eq!(found[3].look, Look::default());
    }

    #[test]
    fn looks_hold_until_they_are_changed_and_odd_sequences_change_nothing() {
        let mut look = Look::default();
        runs("\u{1b}[7mx", &mut look, Background::Dark);
        assert!(look.reversed);
        let found = runs(
            "a\u{1b}(Bb\u{1b}[2Kc\u{1b}[999md\u{1b}",
            &mut look,
            Background::Light,
        );
        assert_eq!((found.len(), found[0].text.as_str()), (1, "abcd"));
    }

    #[test]
    fn blocks_are_shapes_and_letters_are_escaped() {
        let svg = draw("▌<a & b>\n⣿\n", 8, Background::Light);
        assert!(svg.contains("&lt;a &amp; b&gt;"), "{svg}");
        assert!(!svg.contains('▌') && !svg.contains('⣿'), "{svg}");
        // The paper, half a block, eight dots.
        assert_eq!(svg.matches("<rect").count(), 1 + 1 + 8, "{svg}");
        assert!(svg.contains("#ffffff"), "the light paper: {svg}");
    }

    #[test]
    fn equal_blocks_are_one_shape_and_plain_letters_name_no_colour() {
        let svg = draw("████──a⣿⣿\n", 10, Background::Light);
        // The paper, a bar, a line, sixteen dots.
        assert_eq!(svg.matches("<rect").count(), 1 + 1 + 1 + 16, "{svg}");
        let bar = format!("width=\"{:.2}\" height=\"{HEIGHT:.2}\"", 4.0 * WIDTH);
        assert!(svg.contains(&bar), "{svg}");
        assert!(svg.contains("xml:space=\"preserve\">a</text>"), "{svg}");
    }

    #[test]
    fn a_reversed_run_swaps_paper_and_ink() {
        let svg = draw("\u{1b}[7mx", 1, Background::Dark);
        let (paper, ink) = Background::Dark.plain();
        assert!(
            svg.contains(&format!("xml:space=\"preserve\" fill=\"#{paper:06x}\"")),
            "{svg}"
        );
        assert!(
            svg.contains(&format!("height=\"{HEIGHT:.2}\" fill=\"#{ink:06x}\"")),
            "{svg}"
        );
    }
}
