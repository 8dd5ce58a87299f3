//! Options of `ttmem top`.

use super::{ChosenDevice, HttpOptions, PrometheusOptions, RecordedOptions};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::time::Duration;
use ttmem_reader::HostPattern;
use ttmem_report::GroupBy;
use ttmem_tui::{ColourDepth, Tab};

/// The intervals that make sense: below, a server does little else; above, nothing is live.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=60.0;

#[derive(Debug, Args)]
pub(crate) struct TopOptions {
    #[command(flatten)]
    pub(crate) look: Look,

    /// Print the view once, as text; also when standard output is not a terminal.
    #[arg(long)]
    pub(crate) once: bool,

    /// Print what the view is drawn from once, as JSON.
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,

    /// Print the list of the view once, as CSV.
    #[arg(long)]
    pub(crate) csv: bool,

    /// Print buffers in groups: by line, operation, size, class, process or layout; with --view buffers.
    #[arg(long, value_name = "BY", value_parser = group())]
    pub(crate) group: Option<GroupBy>,

    #[command(flatten)]
    pub(crate) chosen: ChosenDevice,

    #[command(flatten)]
    pub(crate) recorded: RecordedOptions,

    #[command(flatten)]
    pub(crate) http: HttpOptions,

    #[command(flatten)]
    pub(crate) prometheus: PrometheusOptions,

    /// Hosts of --prometheus that are shown the token of --http-token-file: names such as node-*.example, addresses, or
    /// networks such as 10.2.0.0/16. All others are asked without it.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) http_token_host: Vec<HostPattern>,
}

/// What the terminal view looks like, and what it begins with.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct Look {
    /// Ask the server this often, in seconds from 0.1 to 60.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "0.5",
        value_parser = interval,
        env = "TTMEM_INTERVAL"
    )]
    pub(crate) interval: Duration,

    /// The view to begin with.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "overview",
        value_parser = view(),
        env = "TTMEM_VIEW"
    )]
    pub(crate) view: Tab,

    /// How many colours the terminal has; text has none.
    #[arg(
        long,
        visible_alias = "color",
        value_name = "WHEN",
        value_enum,
        default_value_t = Colour::Auto,
        env = "TTMEM_COLOUR"
    )]
    pub(crate) colour: Colour,

    /// Colours for a dark or a light background; auto asks the terminal.
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        default_value_t = ThemeChoice::Auto,
        env = "TTMEM_THEME"
    )]
    pub(crate) theme: ThemeChoice,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            interval: ttmem_tui::INTERVAL,
            view: Tab::default(),
            colour: Colour::Auto,
            theme: ThemeChoice::Auto,
        }
    }
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
    PossibleValuesParser::new(Tab::ALL.map(Tab::name))
        .try_map(|name| view_of(&name).ok_or("no such view"))
}

/// What the view of buffers can be grouped by.
fn group() -> impl TypedValueParser<Value = GroupBy> {
    PossibleValuesParser::new(ttmem_tui::GROUPINGS.map(GroupBy::as_str)).try_map(|name| {
        let mut known = ttmem_tui::GROUPINGS.into_iter();
        known
            .find(|by| by.as_str() == name)
            .ok_or("no such grouping")
    })
}

pub(crate) fn view_of(name: &str) -> Option<Tab> {
    Tab::ALL.into_iter().find(|tab| tab.name() == name)
}

fn interval(text: &str) -> Result<Duration, String> {
    interval_of(text.parse().unwrap_or(f64::NAN))
}

pub(crate) fn interval_of(seconds: f64) -> Result<Duration, String> {
    Some(seconds)
        .filter(|seconds| INTERVALS.contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "expected seconds from 0.1 to 60".to_owned())
}
