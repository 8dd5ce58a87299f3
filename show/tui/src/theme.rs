//! Colours and signs: what a kind of memory or a state looks like, on every kind of terminal.
//!
//! Views name what they mean (an [`Ink`]); here it becomes a style. The colours are those of Okabe
//! and Ito, which people with any kind of colour vision can tell apart. Without colours, kinds of
//! memory differ by the sign they are drawn with; without Unicode, signs are ASCII.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::border;
use std::ffi::OsStr;
use ttmem_report::usage::L1Part;
use unicode_width::UnicodeWidthStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColourDepth {
    /// None: bold, dim and reversed only.
    None,
    Sixteen,
    Palette,
    True,
}

/// What is behind the text of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    Dark,
    Light,
}

/// What something means, from which follows how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ink {
    Text,
    /// What supports a figure rather than being one.
    Faint,
    /// What the eye should find first.
    Strong,
    Frame,
    Chosen,
    Key,
    Good,
    Warning,
    /// Something is wrong, or about to be.
    Danger,
    Peak,
    Free,
    /// Memory that the runtime takes before any allocator.
    Reserved,
    /// The config ring, and kernels in it.
    Kernel,
    /// Circular buffers, dataflow buffers, scratchpads.
    Storage,
    L1,
    L1Small,
    Dram,
    Trace,
    System,
}

impl From<L1Part> for Ink {
    fn from(part: L1Part) -> Self {
        match part {
            L1Part::Reserved => Self::Reserved,
            L1Part::Storage => Self::Storage,
            L1Part::Buffers => Self::L1,
            L1Part::Small => Self::L1Small,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    depth: ColourDepth,
    unicode: bool,
    background: Background,
}

/// Colours from an empty to a full core, dark to bright, for every kind of colour vision.
const HEAT: [(u8, u8, u8); 8] = [
    (0, 32, 76),
    (0, 62, 108),
    (67, 84, 108),
    (108, 107, 112),
    (142, 131, 113),
    (181, 155, 99),
    (222, 182, 72),
    (255, 221, 71),
];

const HEAT_PALETTE: [u8; 8] = [17, 24, 60, 243, 101, 137, 178, 221];

impl Theme {
    /// How things look with so many colours, with or without signs beyond ASCII.
    #[must_use]
    pub const fn new(depth: ColourDepth, unicode: bool) -> Self {
        Self {
            depth,
            unicode,
            background: Background::Dark,
        }
    }

    /// How things look on the terminal that the environment describes.
    ///
    /// `variable` gives the value of a variable, if it is set.
    #[must_use]
    pub fn detect<V: AsRef<OsStr>>(variable: impl Fn(&str) -> Option<V>) -> Self {
        let text = |name: &str| {
            let value = variable(name)?;
            let value = value.as_ref().to_string_lossy().to_lowercase();
            Some(value).filter(|value| !value.is_empty())
        };
        let terminal = text("TERM").unwrap_or_default();
        let colours = text("COLORTERM").unwrap_or_default();
        let depth = if text("NO_COLOR").is_some() || terminal == "dumb" {
            ColourDepth::None
        } else if colours.contains("truecolor") || colours.contains("24bit") {
            ColourDepth::True
        } else if terminal.contains("256color") {
            ColourDepth::Palette
        } else {
            ColourDepth::Sixteen
        };
        // The first that is set decides, as in the C library.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(text);
        let locale = locale.unwrap_or_default();
        // Text and background by their numbers among the sixteen: the last two numbers of light ones
        // are white.
        let behind = text("COLORFGBG").unwrap_or_default();
        let is_light = matches!(behind.rsplit(';').next(), Some("7" | "15"));
        Self {
            depth,
            background: if is_light {
                Background::Light
            } else {
                Background::Dark
            },
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    #[must_use]
    pub const fn with_depth(self, depth: ColourDepth) -> Self {
        Self { depth, ..self }
    }

    #[must_use]
    pub const fn with_background(self, background: Background) -> Self {
        Self { background, ..self }
    }

    #[must_use]
    pub const fn unicode(self) -> bool {
        self.unicode
    }

    /// A sign beyond ASCII, or what stands for it where that cannot be drawn.
    pub(crate) const fn pick<T: Copy>(self, sign: T, ascii: T) -> T {
        if self.unicode { sign } else { ascii }
    }

    pub(crate) fn coloured(self) -> bool {
        self.depth > ColourDepth::None
    }

    pub(crate) fn style(self, ink: Ink) -> Style {
        let style = match ink {
            Ink::Text => return Style::new(),
            Ink::Faint | Ink::Free => {
                return match self.depth {
                    // Grey, because many terminals do not dim.
                    ColourDepth::Palette => Style::new().fg(Color::Indexed(self.of(245, 241))),
                    ColourDepth::True => {
                        let grey = self.of(150, 96);
                        Style::new().fg(Color::Rgb(grey, grey, grey))
                    }
                    ColourDepth::None | ColourDepth::Sixteen => {
                        Style::new().add_modifier(Modifier::DIM)
                    }
                };
            }
            Ink::Strong => return Style::new().add_modifier(Modifier::BOLD),
            Ink::Chosen => return Style::new().add_modifier(Modifier::REVERSED),
            Ink::Key | Ink::Danger | Ink::Peak => Style::new().add_modifier(Modifier::BOLD),
            _memory_or_state => Style::new(),
        };
        match self.colour(ink) {
            Some(colour) => style.fg(colour),
            None => style,
        }
    }

    /// The sign that fills a cell with this kind of memory.
    ///
    /// With colours one sign does for all; without, each kind has its own.
    pub(crate) fn fill(self, ink: Ink) -> char {
        if self.coloured() && self.unicode {
            return if ink == Ink::Free { '·' } else { '█' };
        }
        let (sign, ascii) = match ink {
            Ink::Free => ('·', '.'),
            Ink::Reserved => ('░', 'r'),
            Ink::Kernel => ('▞', 'k'),
            Ink::Storage => ('▒', 'c'),
            Ink::L1Small => ('▓', 's'),
            Ink::Trace => ('▚', 't'),
            _solid => ('█', '#'),
        };
        self.pick(sign, ascii)
    }

    /// A cell of a heat map: two signs, and how they look, for a share in thousandths.
    pub(crate) fn heat(self, permille: u16) -> (&'static str, Style) {
        let step = usize::from(permille.min(999)) * HEAT.len() / 1000;
        let signs = self.pick(
            ["  ", "░ ", "░░", "▒░", "▒▒", "▓▒", "▓▓", "██"],
            ["  ", ". ", "..", "::", "oo", "OO", "@@", "##"],
        );
        match self.depth {
            ColourDepth::True => {
                let (red, green, blue) = HEAT[step];
                ("  ", Style::new().bg(Color::Rgb(red, green, blue)))
            }
            ColourDepth::Palette => ("  ", Style::new().bg(Color::Indexed(HEAT_PALETTE[step]))),
            ColourDepth::None | ColourDepth::Sixteen => (signs[step], Style::new()),
        }
    }

    /// Text on a cell of a heat map: black on what is bright, white on what is dark.
    pub(crate) fn readable(self, heat: Style) -> Style {
        let bright = HEAT[4..].iter().zip(&HEAT_PALETTE[4..]);
        let is_bright = bright.into_iter().any(|((red, green, blue), index)| {
            heat.bg == Some(Color::Rgb(*red, *green, *blue))
                || heat.bg == Some(Color::Indexed(*index))
        });
        match heat.bg {
            None => heat,
            Some(_) if is_bright => heat.fg(Color::Black),
            Some(_) => heat.fg(Color::White),
        }
    }

    pub(crate) const fn border(self) -> border::Set<'static> {
        self.pick(border::ROUNDED, ASCII_BORDER)
    }

    pub(crate) const fn between(self) -> &'static str {
        self.pick(" · ", " | ")
    }

    /// What stands behind a text that is being typed.
    pub(crate) const fn caret(self) -> &'static str {
        self.pick("▏", "_")
    }

    pub(crate) fn rule(self, columns: u16) -> String {
        self.pick("─", "-").repeat(usize::from(columns))
    }

    pub(crate) const fn unknown(self) -> &'static str {
        self.pick("–", "-")
    }

    /// Replaces what is beyond ASCII on a canvas, if this terminal cannot draw it.
    ///
    /// Last of all: then it holds for everything that was drawn, names of others included. Nothing
    /// moves, because a sign takes as many columns as the one that it stands for.
    pub(crate) fn ascii(self, canvas: &mut Buffer) {
        if self.unicode {
            return;
        }
        // The columns that the sign before takes beyond its first.
        let mut covered = 0;
        for cell in &mut canvas.content {
            if covered > 0 && cell.symbol() == " " {
                covered -= 1;
                cell.set_char('?');
            } else if !cell.symbol().is_ascii() {
                covered = cell.symbol().width().saturating_sub(1);
                cell.set_char(ascii_sign(cell.symbol()));
            } else {
                covered = 0;
            }
        }
    }

    const fn of<T: Copy>(self, dark: T, light: T) -> T {
        match self.background {
            Background::Dark => dark,
            Background::Light => light,
        }
    }

    fn colour(self, ink: Ink) -> Option<Color> {
        let (plain, palette, (red, green, blue)) = match self.background {
            Background::Dark => on_dark(ink),
            Background::Light => on_light(ink),
        }?;
        match self.depth {
            ColourDepth::None => None,
            ColourDepth::Sixteen => Some(plain),
            ColourDepth::Palette => Some(Color::Indexed(palette)),
            ColourDepth::True => Some(Color::Rgb(red, green, blue)),
        }
    }
}

/// A colour among sixteen, among 256, and as it should be.
type Colour = (Color, u8, (u8, u8, u8));

const fn on_dark(ink: Ink) -> Option<Colour> {
    Some(match ink {
        Ink::Frame => (Color::DarkGray, 242, (108, 108, 108)),
        Ink::Key => (Color::Cyan, 74, (86, 180, 233)),
        Ink::Good => (Color::Green, 36, (0, 158, 115)),
        Ink::Warning => (Color::Yellow, 178, (230, 159, 0)),
        Ink::Danger => (Color::Red, 209, (240, 110, 60)),
        Ink::Peak => (Color::White, 255, (238, 238, 238)),
        Ink::Reserved => (Color::DarkGray, 244, (128, 128, 128)),
        Ink::Kernel => (Color::Magenta, 175, (204, 121, 167)),
        Ink::Storage => (Color::Yellow, 178, (230, 159, 0)),
        Ink::L1 => (Color::Cyan, 74, (86, 180, 233)),
        Ink::L1Small => (Color::LightYellow, 227, (240, 228, 66)),
        Ink::Dram => (Color::Blue, 32, (0, 128, 200)),
        Ink::Trace => (Color::Magenta, 175, (204, 121, 167)),
        Ink::System => (Color::Green, 36, (0, 158, 115)),
        Ink::Text | Ink::Faint | Ink::Strong | Ink::Chosen | Ink::Free => return None,
    })
}

/// The same hues, dark enough to be read: yellow and light grey are lost on white.
const fn on_light(ink: Ink) -> Option<Colour> {
    Some(match ink {
        Ink::Frame => (Color::DarkGray, 245, (138, 138, 138)),
        Ink::Key => (Color::Blue, 25, (0, 95, 150)),
        Ink::Good => (Color::Green, 22, (0, 110, 80)),
        Ink::Warning => (Color::Magenta, 94, (140, 84, 0)),
        Ink::Danger => (Color::Red, 124, (180, 40, 0)),
        Ink::Peak => (Color::Black, 232, (0, 0, 0)),
        Ink::Reserved => (Color::DarkGray, 244, (128, 128, 128)),
        Ink::Kernel => (Color::Magenta, 132, (160, 70, 120)),
        Ink::Storage => (Color::Red, 130, (190, 110, 0)),
        Ink::L1 => (Color::Cyan, 31, (30, 125, 185)),
        Ink::L1Small => (Color::Green, 100, (135, 125, 0)),
        Ink::Dram => (Color::Blue, 25, (0, 80, 160)),
        Ink::Trace => (Color::Magenta, 132, (160, 70, 120)),
        Ink::System => (Color::Green, 29, (0, 110, 80)),
        Ink::Text | Ink::Faint | Ink::Strong | Ink::Chosen | Ink::Free => return None,
    })
}

const ASCII_BORDER: border::Set<'_> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

fn ascii_sign(sign: &str) -> char {
    match sign {
        // The end of what was cut.
        "…" => '~',
        "–" => '-',
        "·" => '.',
        "≥" => '>',
        _any => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::screen::{SIZES, text};
    use crate::testing::world;
    use crate::views::{Chosen, Tab};
    use crate::widgets::Canvas;
    use ratatui::layout::Rect;

    fn detected(variables: &[(&str, &str)]) -> Theme {
        Theme::detect(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_says_what_a_terminal_can() {
        let cases: [(&[(&str, &str)], ColourDepth); 6] = [
            (&[], ColourDepth::Sixteen),
            (&[("TERM", "xterm-256color")], ColourDepth::Palette),
            (
                &[("TERM", "xterm"), ("COLORTERM", "truecolor")],
                ColourDepth::True,
            ),
            (
                &[("COLORTERM", "truecolor"), ("NO_COLOR", "1")],
                ColourDepth::None,
            ),
            (&[("NO_COLOR", "")], ColourDepth::Sixteen),
            (&[("TERM", "dumb")], ColourDepth::None),
        ];
        for (variables, depth) in cases {
            assert_eq!(detected(variables).depth, depth, "{variables:?}");
        }
        assert!(detected(&[("LANG", "de_DE.UTF-8")]).unicode);
        assert!(detected(&[("LC_ALL", "C.utf8")]).unicode);
        assert!(!detected(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]).unicode);
        assert!(!detected(&[]).unicode);
    }

    /// The contrast of two colours, times 100, as the web's guidelines define it.
    fn contrast(one: (u8, u8, u8), other: (u8, u8, u8)) -> u32 {
        let light = |(red, green, blue): (u8, u8, u8)| {
            let linear = |part: u8| {
                let part = f64::from(part) / 255.0;
                if part <= 0.03928 {
                    part / 12.92
                } else {
                    ((part + 0.055) / 1.055).powf(2.4)
                }
            };
            0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue) + 0.05
        };
        let (one, other) = (light(one), light(other));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 100 and 2100"
        )]
        let hundredths = (one.max(other) / one.min(other) * 100.0) as u32;
        hundredths
    }

    #[test]
    fn every_ink_can_be_read_on_dark_and_on_light() {
        const WORDS: [Ink; 5] = [Ink::Faint, Ink::Key, Ink::Good, Ink::Warning, Ink::Danger];
        const FILLS: [Ink; 9] = [
            Ink::Frame,
            Ink::Reserved,
            Ink::Kernel,
            Ink::Storage,
            Ink::L1,
            Ink::L1Small,
            Ink::Dram,
            Ink::Trace,
            Ink::System,
        ];
        let backgrounds = [
            (Background::Dark, [(0, 0, 0), (30, 30, 30)]),
            (Background::Light, [(255, 255, 255), (253, 246, 227)]),
        ];
        for (background, behind) in backgrounds {
            let theme = Theme::new(ColourDepth::True, true).with_background(background);
            for (inks, least) in [(&WORDS[..], 450), (&FILLS[..], 290)] {
                for ink in inks {
                    let Some(Color::Rgb(red, green, blue)) = theme.style(*ink).fg else {
                        panic!("{ink:?} has no colour");
                    };
                    for behind in behind {
                        let contrast = contrast((red, green, blue), behind);
                        assert!(contrast >= least, "{ink:?} on {behind:?}: {contrast}");
                    }
                }
            }
        }
        for (set, background) in [
            ("15;0", Background::Dark),
            ("0;15", Background::Light),
            ("0;default;7", Background::Light),
            ("", Background::Dark),
        ] {
            assert_eq!(detected(&[("COLORFGBG", set)]).background, background);
        }
    }

    #[test]
    fn without_colours_kinds_of_memory_differ_by_their_sign() {
        for unicode in [false, true] {
            let theme = Theme::new(ColourDepth::None, unicode);
            let inks = [
                Ink::Free,
                Ink::Reserved,
                Ink::Kernel,
                Ink::Storage,
                Ink::L1,
                Ink::L1Small,
            ];
            let mut signs: Vec<char> = inks.map(|ink| theme.fill(ink)).to_vec();
            signs.sort_unstable();
            signs.dedup();
            assert_eq!(signs.len(), inks.len());
            assert!(unicode || signs.iter().all(char::is_ascii));
            for ink in inks {
                assert_eq!(theme.style(ink).fg, None);
            }
        }
    }

    #[test]
    fn without_unicode_everything_is_ascii_and_where_it_was() {
        let mut canvas = Buffer::empty(Rect::new(0, 0, 12, 2));
        canvas.set_string(0, 0, "ab模型cé…", Style::new());
        canvas.set_string(0, 1, "\u{fffd}≥ – x    模", Style::new());
        let before = text(&canvas);
        Theme::new(ColourDepth::None, true).ascii(&mut canvas);
        assert_eq!(text(&canvas), before);
        Theme::new(ColourDepth::None, false).ascii(&mut canvas);
        assert_eq!(text(&canvas), "ab????c?~\n?> - x    ??\n");
    }

    #[test]
    fn without_unicode_there_is_nothing_but_ascii_in_any_view() {
        let theme = Theme::new(ColourDepth::None, false);
        let mut replaced = 0;
        for tab in Tab::ALL {
            for (world, data) in world::all() {
                for (width, height) in SIZES {
                    let mut canvas = Buffer::empty(Rect::new(0, 0, width, height));
                    let area = canvas.area;
                    let mut view = tab.view();
                    view.draw(
                        &mut Canvas::new(&mut canvas, theme),
                        area,
                        &data,
                        &Chosen::default(),
                    );
                    replaced += usize::from(!text(&canvas).is_ascii());
                    theme.ascii(&mut canvas);
                    let screen = text(&canvas);
                    assert!(screen.is_ascii(), "{tab:?} {world}\n{screen}");
                }
            }
        }
        // Else the test would hold without what it tests.
        assert!(replaced > 0);
    }

    #[test]
    fn heat_grows_with_the_share_and_takes_any_number() {
        let theme = Theme::new(ColourDepth::None, true);
        assert_eq!(theme.heat(0).0, "  ");
        assert_eq!(theme.heat(1000).0, "██");
        assert_eq!(theme.heat(u16::MAX).0, "██");
    }
}
