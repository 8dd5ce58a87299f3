//! Asking a Prometheus, or whatever answers like one, for the values of an expression.
//!
//! Instant queries (`/api/v1/query`) and the names of recording rules (`/api/v1/rules`) over plain HTTP, through the same
//! blocking client as the read API. What answers is not our server: size and time are bounded, values are numbers, labels
//! are cut and lose every character that could deceive a reader, and labels that nobody here knows are not kept.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Deserializer};

use crate::client::with_query;
use crate::{Address, ApiClient, ApiRequestError, HttpUrl, ParseHttpUrlError, Token};
use ttmem_report::is_deceptive;

/// A query over a week of a large fleet takes its time; Prometheus gives up after two minutes by itself.
const TIMEOUT: Duration = Duration::from_secs(30);

/// All questions about a fleet together: whoever waits at a terminal is told that it takes too long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Room for some 100,000 samples.
const ANSWER_LIMIT_BYTES: u64 = 32 * 1024 * 1024;

/// More of a label or of a reason is cut.
const TEXT_LIMIT_CHARACTERS: usize = 200;

/// The longest path below which an API may be.
const PREFIX_LIMIT_BYTES: usize = 200;

/// Where a Prometheus is: `http://HOST:PORT`, with a path in front of `/api/v1` where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrometheusUrl {
    server: HttpUrl,
    prefix: String,
}

/// Why a text is no URL of a Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParsePrometheusUrlError {
    #[error(
        "https is not supported: reach Prometheus through a tunnel, such as ssh -L, or a proxy on this machine"
    )]
    Https,
    #[error(transparent)]
    Server(ParseHttpUrlError),
    #[error("expected a path of letters, digits, - . _ ~ and /")]
    Path,
}

impl FromStr for PrometheusUrl {
    type Err = ParsePrometheusUrlError;

    fn from_str(text: &str) -> Result<Self, ParsePrometheusUrlError> {
        let authority = text.find("://").map_or(0, |scheme| scheme + 3);
        let path = text[authority..].find(['/', '?', '#']);
        let (server, path) = text.split_at(path.map_or(text.len(), |path| authority + path));
        let server = server.parse().map_err(|error| match error {
            ParseHttpUrlError::Https => ParsePrometheusUrlError::Https,
            other => ParsePrometheusUrlError::Server(other),
        })?;
        let prefix = path.trim_end_matches('/');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        if prefix.len() > PREFIX_LIMIT_BYTES || !prefix.bytes().all(plain) {
            return Err(ParsePrometheusUrlError::Path);
        }
        Ok(Self {
            server,
            prefix: prefix.to_owned(),
        })
    }
}

impl fmt::Display for PrometheusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.server, self.prefix)
    }
}

/// Why a Prometheus did not answer a query.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    #[error(transparent)]
    Request(ApiRequestError),
    /// It answered that it cannot or will not.
    #[error("{server} refused the query `{query}` with {code}: {reason}")]
    Refused {
        server: Address,
        code: u16,
        reason: String,
        query: String,
    },
    /// Something else listens there.
    #[error("{url} does not answer like Prometheus ({code} to {path}){}", hint(*code))]
    NotPrometheus {
        url: PrometheusUrl,
        path: String,
        code: u16,
    },
    #[error("{url} did not answer everything within {after:?}")]
    Slow { url: PrometheusUrl, after: Duration },
}

/// What a code most often means where no reason came with it.
const fn hint(code: u16) -> &'static str {
    match code {
        401 | 403 => ": it may ask for a token, see --prometheus-token-file",
        404 => ": its URL may have a path",
        502..=504 => ": it may be starting, or the proxy before it does not reach it",
        _other => "",
    }
}

/// A Prometheus that is asked; holds no connection.
#[derive(Debug, Clone)]
pub struct Prometheus {
    client: ApiClient,
    url: PrometheusUrl,
    patience: Duration,
}

/// A value of an expression, and of what it is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) labels: Labels,
    pub(crate) value: f64,
}

/// The labels that are known here; one that is not there is empty, as Prometheus has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub(crate) struct Labels {
    #[serde(deserialize_with = "harmless")]
    pub(crate) instance: String,
    #[serde(deserialize_with = "harmless")]
    pub(crate) device: String,
    #[serde(deserialize_with = "harmless")]
    pub(crate) class: String,
    /// The batch job: Prometheus has a `job` of its own, and renames that of a sample.
    #[serde(rename = "exported_job", deserialize_with = "harmless")]
    pub(crate) workload: String,
    #[serde(deserialize_with = "harmless")]
    pub(crate) user: String,
    #[serde(deserialize_with = "harmless")]
    pub(crate) pid: String,
    #[serde(deserialize_with = "harmless")]
    pub(crate) name: String,
}

fn harmless<'d, D: Deserializer<'d>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| printable(&text))
}

/// A text of somebody else's, cut and safe to print.
fn printable(text: &str) -> String {
    let signs = text.chars().take(TEXT_LIMIT_CHARACTERS);
    signs
        .map(|sign| if is_deceptive(sign) { '\u{fffd}' } else { sign })
        .collect()
}

#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum Answer {
    Success {
        data: Data,
    },
    Error {
        #[serde(default)]
        error: String,
    },
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Vector(Vec<VectorSample>),
    Scalar((f64, String)),
}

#[derive(Deserialize)]
struct VectorSample {
    metric: Labels,
    value: (f64, String),
}

#[derive(Deserialize)]
struct RuleAnswer {
    data: RuleGroups,
}

#[derive(Deserialize)]
struct RuleGroups {
    groups: Vec<RuleGroup>,
}

#[derive(Deserialize)]
struct RuleGroup {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    name: String,
}

impl Prometheus {
    #[must_use]
    pub fn at(url: PrometheusUrl) -> Self {
        let client = ApiClient::at(url.server.clone())
            .with_timeout(TIMEOUT)
            .with_body_limit(ANSWER_LIMIT_BYTES);
        Self {
            client,
            url,
            patience: PATIENCE,
        }
    }

    /// Shows a token with every query.
    #[must_use]
    pub fn with_token(mut self, token: Token) -> Self {
        self.client = self.client.with_token(token);
        self
    }

    #[must_use]
    pub fn url(&self) -> &PrometheusUrl {
        &self.url
    }

    /// The same with one deadline for everything that is asked of it from now on.
    pub(crate) fn hurried(&self) -> Self {
        let mut hurried = self.clone();
        let end = Instant::now() + self.patience;
        hurried.client = hurried.client.until(end);
        hurried
    }

    #[cfg(test)]
    fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The time that it has, in seconds since 1970: what follows is asked of this one moment.
    pub(crate) fn now(&self) -> Result<f64, PrometheusError> {
        match self.ask("time()", None)? {
            Data::Scalar((_time, value)) => self.number("time()", &value),
            // What VictoriaMetrics makes of a number.
            Data::Vector(samples) => match samples.as_slice() {
                [sample] => self.number("time()", &sample.value.1),
                _other => Err(self.malformed("time() is not a number")),
            },
        }
    }

    /// The values of an expression at a moment, NaN and infinities as well.
    pub(crate) fn query(&self, query: &str, time: f64) -> Result<Vec<Sample>, PrometheusError> {
        let Data::Vector(samples) = self.ask(query, Some(time))? else {
            return Err(self.malformed(format!("`{query}` gives no list")));
        };
        let mut found = Vec::with_capacity(samples.len());
        for sample in samples {
            let value = self.number(query, &sample.value.1)?;
            let labels = sample.metric;
            found.push(Sample { labels, value });
        }
        Ok(found)
    }

    /// Whether it has a recording rule of this name, evaluated or not. Not everything that answers queries knows of rules:
    /// no answer is a no.
    pub(crate) fn has_rule(&self, name: &str) -> Result<bool, PrometheusError> {
        let path = format!("{}/api/v1/rules", self.url.prefix);
        let (code, body) = self.answer(&with_query(&path, &[("type", "record")]))?;
        let Ok(RuleAnswer { data }) = serde_json::from_slice(&body) else {
            return Ok(false);
        };
        let mut rules = data.groups.iter().flat_map(|group| &group.rules);
        Ok(code == 200 && rules.any(|rule| rule.name == name))
    }

    fn ask(&self, query: &str, time: Option<f64>) -> Result<Data, PrometheusError> {
        let path = format!("{}/api/v1/query", self.url.prefix);
        let time = time.map(|time| format!("{time:.3}"));
        let target = with_query(&path, &[("query", Some(query.to_owned())), ("time", time)]);
        let (code, body) = self.answer(&target)?;
        let refused = |reason: String| PrometheusError::Refused {
            server: self.client.server().clone(),
            code,
            reason,
            query: query.to_owned(),
        };
        match serde_json::from_slice(&body) {
            Ok(Answer::Success { data }) if code == 200 => Ok(data),
            Ok(Answer::Error { error }) => Err(refused(printable(&error))),
            Ok(Answer::Success { .. }) => Err(refused("no reason given".to_owned())),
            Err(_) => Err(PrometheusError::NotPrometheus {
                url: self.url.clone(),
                path,
                code,
            }),
        }
    }

    fn answer(&self, target: &str) -> Result<(u16, Vec<u8>), PrometheusError> {
        let answer = self.client.any_answer(target);
        answer.map_err(|error| match error {
            ApiRequestError::Timeout { .. } if self.client.is_late() => PrometheusError::Slow {
                url: self.url.clone(),
                after: self.patience,
            },
            other => PrometheusError::Request(other),
        })
    }

    fn number(&self, query: &str, text: &str) -> Result<f64, PrometheusError> {
        text.parse()
            .map_err(|_error| self.malformed(format!("`{query}` gives {:?}", printable(text))))
    }

    fn malformed(&self, reason: impl Into<String>) -> PrometheusError {
        let server = self.client.server();
        PrometheusError::Request(ApiRequestError::malformed(server, reason))
    }
}

#[cfg(test)]
mod tests;
