//! The configuration file: what a user would otherwise type each time.
//!
//! An option that is typed wins over its variable, a variable over the file, the file over the default.
//! A file that is not understood is an error with its line, never half of a configuration.

use crate::cli::{Cli, Colour, Command, ConfigAction, ThemeChoice, interval_of, view_of};
use crate::exit::UsageError;
use crate::output::Output;
use anyhow::{Context, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, ValueEnum};
use rustix::fs::OFlags;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ttmem_reader::HttpUrl;
use ttmem_tui::Tab;

/// Names another file than the usual one.
pub(crate) const VARIABLE: &str = "TTMEM_CONFIG";

/// A file with more than this is something else.
const MAX_BYTES: u64 = 64 << 10;

/// What `config init` writes: every key with its default, commented out.
const TEMPLATE: &str = include_str!("config.toml");

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    socket: Option<PathBuf>,
    #[serde(deserialize_with = "url")]
    http: Option<HttpUrl>,
    http_token_file: Option<PathBuf>,
    top: Top,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Top {
    #[serde(deserialize_with = "word")]
    theme: Option<ThemeChoice>,
    #[serde(deserialize_with = "word")]
    colour: Option<Colour>,
    #[serde(deserialize_with = "seconds")]
    interval: Option<Duration>,
    #[serde(deserialize_with = "view")]
    view: Option<Tab>,
}

/// Whether a file that cannot be opened is not there for this user.
///
/// Users of services have homes that are no folders, and `sudo -u` may leave them that of somebody else.
fn is_absent(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => fs::symlink_metadata(path).is_err(),
        _ => false,
    }
}

impl Config {
    /// The user's configuration; that of nobody if there is no file.
    ///
    /// # Errors
    /// When the file cannot be read or is not understood, or one that was named is not there.
    pub(crate) fn load(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let Some((path, is_named)) = path(&variable) else {
            return Ok(Self::default());
        };
        // How programs are told to do without one.
        if path == Path::new("/dev/null") {
            return Ok(Self::default());
        }
        // A pipe that nobody writes to must not hold us up, and a terminal is not to become ours.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = match File::options().read(true).custom_flags(flags).open(&path) {
            Err(error) if !is_named && is_absent(&path, &error) => {
                return Ok(Self::default());
            }
            opened => opened.with_context(|| cannot_read(&path))?,
        };
        let facts = file.metadata().with_context(|| cannot_read(&path))?;
        if !facts.is_file() {
            let what = format!("{}: not a regular file", path.display());
            return Err(UsageError(what).into());
        }
        let mut text = String::new();
        let mut limited = file.take(MAX_BYTES + 1);
        limited
            .read_to_string(&mut text)
            .with_context(|| cannot_read(&path))?;
        if text.len() as u64 > MAX_BYTES {
            let what = format!("{}: more than 64 KiB is no configuration", path.display());
            return Err(UsageError(what).into());
        }
        Self::parse(&text).map_err(|error| {
            let error = error.trim_end();
            UsageError(format!("{}: {error}", path.display())).into()
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if config.socket.is_some() && config.http.is_some() {
            return Err("socket and http name two servers; keep one of them".to_owned());
        }
        Ok(config)
    }

    /// Fills in what was neither typed nor said by a variable.
    pub(crate) fn apply(self, cli: &mut Cli, matches: &ArgMatches, no_colour: bool) {
        let of_command = matches.subcommand().map(|(_name, matches)| matches);
        let is_default = |id: &str| {
            // Demo and run have no options for it.
            let has_it = of_command.filter(|matches| matches.try_contains_id(id).is_ok());
            let source = has_it.and_then(|matches| matches.value_source(id));
            source.is_none_or(|source| source == ValueSource::DefaultValue)
        };
        let http = cli.command.http_options();
        // Whoever names one server does not mean the other one.
        let is_named = cli.socket.is_some() || http.as_ref().is_some_and(|it| it.http.is_some());
        if !is_named {
            match (http, self.http) {
                (Some(options), Some(url)) => {
                    options.http = Some(url);
                    options.http_token_file =
                        options.http_token_file.take().or(self.http_token_file);
                }
                _other => cli.socket = self.socket,
            }
        }
        let Top {
            theme,
            colour,
            interval,
            view,
        } = self.top;
        // NO_COLOR is a variable, too.
        let colour = colour.filter(|_| !no_colour);
        let look = match &mut cli.command {
            Command::Top(options) => &mut options.look,
            Command::Demo(options) => &mut options.look,
            Command::Run(options) => &mut options.look,
            _others => return,
        };
        if let Some(theme) = theme.filter(|_| is_default("theme")) {
            look.theme = theme;
        }
        if let Some(colour) = colour.filter(|_| is_default("colour")) {
            look.colour = colour;
        }
        if let Some(interval) = interval.filter(|_| is_default("interval")) {
            look.interval = interval;
        }
        if let Some(view) = view.filter(|_| is_default("view")) {
            look.view = view;
        }
    }
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// The file, and whether it was named; none if nobody says where the user's files are.
fn path(variable: &impl Fn(&str) -> Option<OsString>) -> Option<(PathBuf, bool)> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    if let Some(named) = set(VARIABLE) {
        return Some((named.into(), true));
    }
    let folder = set("XDG_CONFIG_HOME").map(PathBuf::from);
    // A relative path is to be ignored, says the specification of these folders.
    let folder = folder.filter(|folder| folder.is_absolute());
    let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")))?;
    Some((folder.join("ttmem").join("config.toml"), false))
}

/// `ttmem config`.
pub(crate) fn run(
    action: ConfigAction,
    variable: impl Fn(&str) -> Option<OsString>,
    output: &mut Output<impl Write>,
) -> Result<()> {
    let Some((path, _is_named)) = path(&variable) else {
        let what = "neither XDG_CONFIG_HOME nor HOME says where files of the user are";
        return Err(UsageError(what.to_owned()).into());
    };
    if action == ConfigAction::Init {
        let why = || format!("cannot write {}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(why)?;
        }
        // What is there is the user's.
        let mut file = File::create_new(&path).with_context(why)?;
        file.write_all(TEMPLATE.as_bytes()).with_context(why)?;
    }
    Ok(output.print(&format!("{}\n", path.display()))?)
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer)
}

fn word<'de, D: Deserializer<'de>, T: ValueEnum>(deserializer: D) -> Result<Option<T>, D::Error> {
    let word = text(deserializer)?;
    let known = T::from_str(&word, false);
    known.map(Some).map_err(|_unknown| {
        let names = T::value_variants().iter().filter_map(T::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        D::Error::custom(format!("expected one of {}", names.join(", ")))
    })
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    interval_of(seconds).map(Some).map_err(D::Error::custom)
}

fn view<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Tab>, D::Error> {
    let name = text(deserializer)?;
    view_of(&name).map(Some).ok_or_else(|| {
        let names = Tab::ALL.map(Tab::name).join(", ");
        D::Error::custom(format!("expected one of {names}"))
    })
}

fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<HttpUrl>, D::Error> {
    let url = text(deserializer)?;
    url.parse().map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests;
