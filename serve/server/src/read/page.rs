//! The web page: static files that the build embedded, and what browsers may do with them.
//!
//! The files hold no data and are the same on every server of a version, so they are served without
//! a token; every document that the page then asks for is admitted like anybody's.

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::http::{ReadState, Refusal};

/// The page's own path.
pub(super) const PAGE: &str = "/";

/// Its scripts and styles, whose names change with what they hold.
const ASSETS: &str = "/assets/";

/// By name; empty if the page was not there at build time.
pub(super) static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

pub(super) const INDEX: &str = "index.html";

/// Nothing from elsewhere, nothing inline, no frame around it, no form that leaves it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What builds the page and then a program with it: one line of a shell, in a checkout.
macro_rules! build_with_page {
    () => {
        "cargo xtask web && cargo build --release -p ttmem -p ttmem-attach"
    };
}

/// The sentence of a program that was built without the page.
const MISSING: &str = concat!(
    "this build of ttmem has no web page; packages have it, and in a checkout, with Node.js installed, this builds it: ",
    build_with_page!()
);

const WITHOUT_PAGE: &str = concat!(
    "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>ttmem</title>
<p>This build of ttmem has no web page; packages have it. In a checkout, with Node.js installed, this builds it:
<pre>",
    build_with_page!(),
    "</pre>
<p>Until then: <code>ttmem top</code>, or the <a href=\"/openapi.json\">read API</a>.
"
);

/// Why this build cannot show the page, and the command that changes it; `None` if it can.
#[must_use]
pub fn missing_page() -> Option<&'static str> {
    found(INDEX).is_none().then_some(MISSING)
}

/// What a report may do: show what is in it. It asks nobody for anything.
const REPORT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                             img-src data:; base-uri 'none'; form-action 'none'";

/// The page as one file that shows data instead of asking a server.
#[derive(Clone, Copy, Debug)]
pub struct ReportPage {
    style: &'static str,
    script: &'static str,
}

impl ReportPage {
    /// The page of this build.
    ///
    /// # Errors
    /// The sentence of [`missing_page`] if it has none.
    pub fn of_this_build() -> Result<Self, &'static str> {
        let file = |kind: &str| {
            let found = FILES.iter().find(|(name, _bytes)| name.ends_with(kind));
            found
                .and_then(|(_name, bytes)| str::from_utf8(bytes).ok())
                .ok_or(MISSING)
        };
        Ok(Self {
            style: file(".css")?,
            script: file(".js")?,
        })
    }

    /// The file with data as `show/web/src/embedded.ts` describes them: JSON, packed by gzip and then as base64.
    #[must_use]
    pub fn with(self, data: &str) -> String {
        one_file(self.style, self.script, data)
    }
}

fn one_file(style: &str, script: &str, data: &str) -> String {
    // Neither may end its element early: in a string or a regular expression `\/` is `/`.
    let script = script
        .replace("</script", "<\\/script")
        .replace("<!--", "<\\!--");
    let data = data.replace('<', "");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{REPORT_POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>ttmem</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <script type=\"application/octet-stream;base64\" id=\"ttmem-data\">{data}</script>\n\
         <script type=\"module\">{script}</script>\n</body>\n</html>\n"
    )
}

/// Whether a path is one of the page's files rather than a document.
pub(super) fn is_file(path: &str) -> bool {
    path == PAGE || path.starts_with(ASSETS)
}

pub(super) fn router() -> Router<ReadState> {
    Router::new()
        .route(PAGE, get(async || index()))
        .route("/assets/{name}", get(asset))
}

fn index() -> Response {
    let page = found(INDEX).unwrap_or(WITHOUT_PAGE.as_bytes());
    // It names the assets of this build.
    file(INDEX, page, "no-cache")
}

async fn asset(Path(name): Path<String>) -> Response {
    match found(&name).filter(|_file| name != INDEX) {
        Some(bytes) => file(&name, bytes, "public, max-age=31536000, immutable"),
        None => {
            let detail = "the page has no such file: it was built anew, load it again";
            Refusal::unknown("not_found", detail).into_response()
        }
    }
}

fn found(name: &str) -> Option<&'static [u8]> {
    let file = FILES.iter().find(|(each, _bytes)| *each == name);
    file.map(|(_name, bytes)| *bytes)
}

fn file(name: &str, bytes: &'static [u8], caching: &'static str) -> Response {
    let headers: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, content_type(name)),
        (CACHE_CONTROL, caching),
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    let mut response = (StatusCode::OK, bytes).into_response();
    for (header, value) in headers {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(header, value);
    }
    response
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_stem, kind)| kind) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _other => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_one_file_in_which_nothing_ends_its_element_early() {
        let script = "const end = '</script><script>x()</script>'; const note = '<!-- y';";
        let page = one_file("body { margin: 0 }", script, "QUJD</script><b>");
        assert_eq!(
            page.matches("<script").count(),
            3,
            "two, and one in a string"
        );
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(!page.contains("<!--"), "{page}");
        assert!(page.contains(">QUJD/script>b></script>"), "{page}");
        assert!(!page.contains("src=") && !page.contains("href="), "{page}");
        assert_eq!(ReportPage::of_this_build().is_ok(), !FILES.is_empty());
    }
}
