//! `ttmem fleet`: which hosts, jobs and devices are full, fragmented, failing or growing, as a Prometheus knows.

use crate::cli::PrometheusOptions;
use crate::exit::{NothingFound, UsageError};
use crate::output::{Output, Screen};
use crate::render;
use anyhow::Result;
use std::io::Write;
use ttmem_reader::{Prometheus, Token};
use ttmem_report::escape_json;

/// Rows of each list, unless the user wants otherwise.
pub(super) const ROWS: usize = 20;

/// The Prometheus that was named.
pub(super) fn prometheus(options: &PrometheusOptions) -> Result<Option<Prometheus>> {
    let Some(url) = &options.prometheus else {
        return match &options.prometheus_token_file {
            Some(_) => {
                let what = "--prometheus-token-file is only for --prometheus";
                Err(UsageError(what.to_owned()).into())
            }
            None => Ok(None),
        };
    };
    let prometheus = Prometheus::at(url.clone());
    Ok(Some(match &options.prometheus_token_file {
        Some(file) => prometheus.with_token(Token::read(file)?),
        None => prometheus,
    }))
}

/// Asks once and prints.
pub(super) fn print(
    prometheus: &Prometheus,
    as_json: bool,
    rows: usize,
    screen: Screen,
    output: &mut Output<impl Write>,
) -> Result<()> {
    let fleet = prometheus.fleet()?;
    let text = if as_json {
        escape_json(format!("{}\n", serde_json::to_string_pretty(&fleet)?))
    } else {
        render::fleet(&fleet, rows, screen)
    };
    output.print(&text)?;
    if fleet.hosts.is_empty() {
        let what = format!(
            "{} knows no ttmem server; is one scraped?",
            prometheus.url()
        );
        return Err(NothingFound(what).into());
    }
    Ok(())
}
