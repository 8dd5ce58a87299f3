//! Options of `ttmem top`.

use super::HttpOptions;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::time::Duration;
use ttmem_tui::{ColourDepth, Tab};

/// The intervals that make sense: below, a server does little else; above, nothing is live.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=60.0;

#[derive(Debug, Args)]
pub(crate) struct TopOptions {
    /// Ask the server this often, in seconds from 0.1 to 60.
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = interval)]
    pub(crate) interval: Duration,

    /// The view to begin with.
    #[arg(long, value_name = "NAME", default_value = "overview", value_parser = view())]
    pub(crate) view: Tab,

    /// Print the view once, as text; also when standard output is not a terminal.
    #[arg(long)]
    pub(crate) once: bool,

    /// Print what the view is drawn from once, as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// How many colours the terminal has; text has none.
    #[arg(
        long,
        visible_alias = "color",
        value_name = "WHEN",
        value_enum,
        default_value_t = Colour::Auto
    )]
    pub(crate) colour: Colour,

    /// Colours for a dark or a light background; auto asks the terminal.
    #[arg(long, value_name = "NAME", value_enum, default_value_t = ThemeChoice::Auto)]
    pub(crate) theme: ThemeChoice,

    #[command(flatten)]
    pub(crate) http: HttpOptions,
}

/// What is behind the text of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThemeChoice {
    /// As the terminal answers; dark if it does not.
    Auto,
    Dark,
    Light,
}

/// How many colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// As the environment says.
    Auto,
    /// None.
    Never,
    /// The sixteen that every terminal has.
    #[value(name = "16")]
    Sixteen,
    /// A palette of 256.
    #[value(name = "256")]
    Palette,
    /// Any.
    True,
}

impl Colour {
    /// What the user chose; none if the environment decides.
    pub(crate) const fn depth(self) -> Option<ColourDepth> {
        match self {
            Self::Auto => None,
            Self::Never => Some(ColourDepth::None),
            Self::Sixteen => Some(ColourDepth::Sixteen),
            Self::Palette => Some(ColourDepth::Palette),
            Self::True => Some(ColourDepth::True),
        }
    }
}

fn view() -> impl TypedValueParser<Value = Tab> {
    PossibleValuesParser::new(Tab::ALL.map(Tab::name)).try_map(|name| {
        let mut tabs = Tab::ALL.into_iter();
        tabs.find(|tab| tab.name() == name).ok_or("no such view")
    })
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok();
    seconds
        .filter(|seconds| INTERVALS.contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected seconds from 0.1 to 60".to_owned())
}
