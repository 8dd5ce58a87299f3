//! Text in cells: what others named, made harmless and cut to the columns that there are.
//!
//! Everything that a server sent goes through here: names may hold anything.

use ttmem_report::is_deceptive;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

const ELLIPSIS: &str = "…";
const ELLIPSIS_COLUMNS: usize = 1;

#[must_use]
pub fn width(text: &str) -> usize {
    if is_plain(text) {
        return text.chars().count();
    }
    text.graphemes(true).map(|grapheme| shown(grapheme).1).sum()
}

/// The text in at most so many columns; one that is longer ends with an ellipsis.
#[must_use]
pub fn clip(text: &str, columns: usize) -> String {
    if is_plain(text) {
        let mut places = text.char_indices().map(|(place, _sign)| place);
        let Some(last) = columns.checked_sub(1) else {
            return String::new();
        };
        let cut = places.nth(last).unwrap_or(text.len());
        return match places.next() {
            Some(_longer) => [&text[..cut], ELLIPSIS].concat(),
            None => text.to_owned(),
        };
    }
    let mut clipped = String::new();
    let mut taken = 0;
    // Where the text is to be cut if it turns out to be too long.
    let mut cut = 0;
    for grapheme in text.graphemes(true) {
        let (drawn, wide) = shown(grapheme);
        if taken + wide > columns {
            clipped.truncate(cut);
            if columns > 0 {
                clipped.push_str(ELLIPSIS);
            }
            return clipped;
        }
        clipped.push_str(drawn);
        taken += wide;
        if taken < columns {
            cut = clipped.len();
        }
    }
    clipped
}

/// The end of a text in at most so many columns: of a path the end says more.
pub(crate) fn clip_front(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return clip(text, columns);
    }
    if let Some(room) = columns.checked_sub(ELLIPSIS_COLUMNS)
        && is_plain(text)
    {
        let left_out = text.chars().count().saturating_sub(room);
        let kept = text.char_indices().nth(left_out);
        return [ELLIPSIS, kept.map_or("", |(place, _sign)| &text[place..])].concat();
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut taken = 1;
    for grapheme in text.graphemes(true).rev() {
        let (drawn, wide) = shown(grapheme);
        if taken + wide > columns {
            break;
        }
        kept.push(drawn);
        taken += wide;
    }
    if columns == 0 {
        return String::new();
    }
    kept.push(ELLIPSIS);
    kept.reverse();
    kept.concat()
}

/// A cell of exactly so many columns, text to the left.
#[must_use]
pub fn left(text: &str, columns: usize) -> String {
    let (clipped, blank) = padded(text, columns);
    clipped + &blank
}

/// A cell of exactly so many columns, text to the right.
#[must_use]
pub fn right(text: &str, columns: usize) -> String {
    let (clipped, blank) = padded(text, columns);
    blank + &clipped
}

fn padded(text: &str, columns: usize) -> (String, String) {
    let clipped = clip(text, columns);
    let blank = " ".repeat(columns.saturating_sub(width(&clipped)));
    (clipped, blank)
}

/// Words filled into lines of so many columns; a word that is longer than a line is cut.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let lines = paragraph("", 0, text.split_whitespace(), columns);
    let lines = lines.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// Words filled into lines of so many columns, all but the first indented; the last is ended too.
///
/// `first` begins the first line. A word is never broken, and may hold spaces of its own.
pub fn paragraph<'a>(
    first: &str,
    indent: usize,
    words: impl IntoIterator<Item = &'a str>,
    columns: usize,
) -> String {
    let mut lines = String::new();
    let mut line = clip(first, columns);
    let mut line_has_words = false;
    for word in words {
        let word = clip(word, columns.saturating_sub(indent));
        if line_has_words {
            if width(&line) + 1 + width(&word) > columns {
                lines.push_str(&clip(&line, columns));
                lines.push('\n');
                line = " ".repeat(indent);
            } else {
                line.push(' ');
            }
        }
        line.push_str(&word);
        line_has_words = true;
    }
    // Cut rather than broken: a word too long for its first line.
    lines.push_str(&clip(&line, columns));
    lines.push('\n');
    lines
}

/// Whether every character is a sign of one column by itself: nearly all text is, with what this
/// program draws, and need not be taken apart into graphemes.
pub(super) fn is_plain(text: &str) -> bool {
    // Beside ASCII: ellipsis, middle dot, lines and blocks.
    text.chars()
        .all(|sign| matches!(sign, ' '..='~' | '…' | '·' | '\u{2500}'..='\u{259f}'))
}

/// How a grapheme is drawn, and the columns that it takes.
///
/// What could steer a terminal, reorder its neighbours or hide becomes a sign of its own.
fn shown(grapheme: &str) -> (&str, usize) {
    let wide = grapheme.width();
    if wide > 0 && !grapheme.contains(is_deceptive) {
        (grapheme, wide)
    } else {
        ("\u{fffd}", 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_cut_like_any_other() {
        let cut = |text: &str, columns| {
            let (plain, other) = (clip(text, columns), clip(&format!("{text}é"), columns));
            assert_eq!(width(&plain), plain.chars().count());
            (plain, other)
        };
        for (columns, plain, other) in [
            (0, "", ""),
            (1, "…", "…"),
            (4, "ab·…", "ab·…"),
            (5, "ab·─e", "ab·─…"),
            (6, "ab·─e", "ab·─eé"),
        ] {
            assert_eq!(cut("ab·─e", columns), (plain.to_owned(), other.to_owned()));
        }
        assert_eq!(clip("a\u{301}", 1), "a\u{301}");
        for (columns, plain) in [(0, ""), (1, "…"), (3, "…─e"), (5, "ab·─e")] {
            assert_eq!(clip_front("ab·─e", columns), plain, "{columns}");
        }
    }

    #[test]
    fn wide_characters_take_two_columns_and_are_never_halved() {
        assert_eq!(width("模型"), 4);
        assert_eq!(clip("模型", 4), "模型");
        assert_eq!(clip("模型x", 4), "模…");
        assert_eq!(clip("模型", 3), "模…");
        assert_eq!(left("模型", 5), "模型 ");
        assert_eq!(right("模", 3), " 模");
        assert_eq!(clip("é", 1), "é");
    }

    #[test]
    fn cut_texts_say_so_at_the_end_that_was_cut() {
        assert_eq!(clip("python3", 6), "pytho…");
        assert_eq!(clip_front("kernels/reader.cpp", 11), "…reader.cpp");
        assert_eq!(clip_front("模型.cpp", 6), "….cpp");
        assert_eq!(clip("x", 0), "");
        assert_eq!(clip_front("x", 0), "");
    }

    #[test]
    fn nothing_can_steer_the_terminal() {
        let nasty = "a\u{1b}[2J\r\n\u{202e}b\u{7}";
        for drawn in [clip(nasty, 40), clip_front(nasty, 40), left(nasty, 40)] {
            assert!(!drawn.chars().any(char::is_control), "{drawn:?}");
            assert!(!drawn.contains('\u{202e}'));
        }
        assert_eq!(width("\u{200b}"), 1);
    }

    #[test]
    fn lines_are_filled_and_never_longer() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh", 4), ["abc…"]);
        assert!(wrap("  ", 4).is_empty());
    }

    #[test]
    fn paragraphs_fill_lines_and_hang() {
        assert_eq!(
            paragraph("  a: ", 4, "one two three four".split(' '), 12),
            "  a: one two\n    three\n    four\n"
        );
        assert_eq!(paragraph("", 0, [], 12), "\n");
        assert_eq!(
            paragraph("", 1, ["peak 1 B,", "free 2 B"], 14),
            "peak 1 B,\n free 2 B\n"
        );
        let long = paragraph(
            "  first: ",
            4,
            ["xxxxxxxxx", "two", "xxxxxxxxxxxxxxxxxxx"],
            12,
        );
        assert!(
            long.lines().all(|line| line.chars().count() <= 12),
            "{long}"
        );
    }

    #[test]
    fn signs_of_two_columns_do_not_push_a_line_out() {
        let words = ["模型推論", "メモリ", "模型推論模型"];
        let text = paragraph("  a: ", 4, words, 14);
        assert_eq!(text, "  a: 模型推論\n    メモリ\n    模型推論…\n");
        assert!(text.lines().all(|line| width(line) <= 14));
    }
}
