//! Who may connect over TCP, and as which principal.
//!
//! The kernel says nothing about the other end of a TCP connection. What is known is what the
//! request says: for whom it is meant, which web page made it, and the token it shows. Requests
//! that web pages of others make a browser send are refused, whatever they ask, by one of three
//! headers. `Host` gives away the page that gets round the browser's rules by pointing a name of its
//! own to this machine. `Origin` is sent with what a script asks and with every `POST`, but not with
//! what a page has as an image, a frame or a link; `Sec-Fetch-Site` is sent with those as well, by
//! browsers of today, to loopback addresses and `localhost`. Old ones, and all of them under another
//! name of this machine, are stopped by the token alone.
//!
//! The page's own files hold no data: they need no token, and a person may follow a link to the page from
//! anywhere. Scripts, frames and images of other pages get nothing of it all the same.

use super::http::Refusal;
use super::page;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use std::net::IpAddr;
use ttmem_reader::Token;
use ttmem_report::routes;

/// From where a page asks, in a browser's words.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// What for: `document` is a page that a person goes to, in a tab of its own.
const SEC_FETCH_DEST: &str = "sec-fetch-dest";

/// On whose behalf a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Principal {
    /// A user of this machine, at the other end of a Unix socket.
    User(u32),
    Anonymous,
    /// Somebody who showed the token: may read, and set marks.
    Bearer,
}

impl Principal {
    /// The user, for what depends on that.
    pub(super) fn user(self) -> Result<u32, Refusal> {
        match self {
            Self::User(uid) => Ok(uid),
            Self::Anonymous | Self::Bearer => Err(Refusal::not_allowed(
                "processes cannot be forgotten over TCP, where the user is not known: use the \
                 server's socket",
            )),
        }
    }

    /// Whether it may have the server record: that takes a thread and a copy of all that is live.
    pub(super) fn may_record(self) -> Result<(), Refusal> {
        match self {
            Self::User(_) | Self::Bearer => Ok(()),
            Self::Anonymous => Err(Refusal::not_allowed(
                "over TCP nothing is recorded without a token: use the server's socket, or start \
                 the server with --http-token-file",
            )),
        }
    }

    /// The user whose marks it sets; one with a token sets them for everybody, as root does.
    pub(super) fn may_mark(self) -> Result<u32, Refusal> {
        match self {
            Self::User(uid) => Ok(uid),
            Self::Bearer => Ok(0),
            Self::Anonymous => Err(Refusal::not_allowed(
                "over TCP nothing is changed without a token: use the server's socket, or start \
                 the server with --http-token-file",
            )),
        }
    }
}

/// The rules of one TCP listener.
#[derive(Debug)]
pub(super) struct Admission {
    /// What has to be shown; nothing, where only this machine can connect.
    pub(super) token: Option<Token>,
    /// Names of this machine besides its addresses, in lower case.
    pub(super) hosts: Vec<String>,
}

impl Admission {
    /// Admits a request that came to the address `here`, or refuses it.
    pub(super) fn admit<B>(
        &self,
        request: &Request<B>,
        here: IpAddr,
    ) -> Result<Principal, Refusal> {
        let host = self.own_host(request, here)?;
        let is_link = is_link_to_page(request);
        if !is_link && is_of_another_page(request.headers(), &host) {
            let detail = "requests of other web pages are not answered";
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "foreign_origin",
                detail,
            ));
        }
        match &self.token {
            None => Ok(Principal::Anonymous),
            Some(token) if shows(request.headers(), token) => Ok(Principal::Bearer),
            // Whether the server is up is asked by programs that have no secrets; the page asks for the
            // token itself.
            Some(_token) if is_public(request.uri().path()) => Ok(Principal::Anonymous),
            Some(_token) => Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "this server wants its token: Authorization: Bearer TOKEN",
            )),
        }
    }

    /// For whom a request is meant, if that is this machine.
    fn own_host<B>(&self, request: &Request<B>, here: IpAddr) -> Result<Authority, Refusal> {
        let mut named = request.headers().get_all(HOST).iter();
        let (Some(host), None) = (named.next(), named.next()) else {
            return Err(Refusal::bad_request("a request has one header Host"));
        };
        let host = Authority::try_from(host.as_bytes()).ok();
        let is_host = |host: &Authority| !host.host().is_empty() && !host.as_str().contains('@');
        let host = host.filter(is_host);
        let Some(host) = host else {
            return Err(Refusal::bad_request("the header Host names no host"));
        };
        // A request to a proxy names the host twice.
        let target = request.uri().authority();
        for authority in target.into_iter().chain([&host]) {
            if !self.is_own(authority.host(), here) {
                return Err(Refusal::new(
                    StatusCode::MISDIRECTED_REQUEST,
                    "foreign_host",
                    "this server does not go by the name in the header Host: use its address, or \
                     start it with --http-host NAME",
                ));
            }
        }
        Ok(host)
    }

    /// Whether a name is this machine's. Its port may be another one: that of a tunnel.
    fn is_own(&self, name: &str, here: IpAddr) -> bool {
        let name = name.to_ascii_lowercase();
        let number = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .unwrap_or(&name);
        if let Ok(number) = number.parse::<IpAddr>() {
            let number = number.to_canonical();
            if number.is_loopback() || number == here.to_canonical() {
                return true;
            }
        }
        name == "localhost" || self.hosts.contains(&name)
    }
}

/// Whether everybody may have what a path names, with or without the token.
fn is_public(path: &str) -> bool {
    path == routes::HEALTH || page::is_file(path)
}

/// Whether a person follows a link to the page, from wherever: a browser opens it in a tab, where the
/// page with the link reads nothing.
fn is_link_to_page<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let mut kinds = headers.get_all(SEC_FETCH_DEST).iter();
    let is_document = kinds.next().is_some_and(|kind| kind == "document") && kinds.next().is_none();
    let is_get = request.method() == Method::GET;
    is_get && is_document && request.uri().path() == page::PAGE && !headers.contains_key(ORIGIN)
}

/// Whether a browser asks for a web page that is not this server's.
fn is_of_another_page(headers: &HeaderMap, host: &Authority) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    // `none` is a person who typed the address. Another port or name of this machine is `same-site`
    // and belongs to another program.
    let is_own_site = |site: &HeaderValue| site == "same-origin" || site == "none";
    origins.any(|origin| !is_same_origin(origin, host)) || sites.any(|site| !is_own_site(site))
}

/// Whether an origin is that of the pages which this server itself would serve.
fn is_same_origin(origin: &HeaderValue, host: &Authority) -> bool {
    let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
    let host = host.as_str().to_ascii_lowercase();
    origin.strip_prefix("http://") == Some(host.as_str())
}

/// Whether a request shows the token, once.
fn shows(headers: &HeaderMap, token: &Token) -> bool {
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let (Some(shown), None) = (shown.next(), shown.next()) else {
        return false;
    };
    let Some((scheme, secret)) = shown.as_bytes().split_at_checked("Bearer ".len()) else {
        return false;
    };
    scheme.eq_ignore_ascii_case(b"Bearer ") && token.matches(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    fn admission(token: Option<&str>) -> Admission {
        Admission {
            token: token.map(|token| Token::new(token).unwrap()),
            hosts: vec!["node-7.example".to_owned(), "198.51.100.1".to_owned()],
        }
    }

    /// What becomes of a request with these headers: whose it is, or the code of the refusal.
    fn asked(
        token: Option<&str>,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Result<Principal, u16> {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let admitted = admission(token).admit(&request, HERE);
        admitted.map_err(|refusal| refusal.into_response().status().as_u16())
    }

    #[test]
    fn a_request_is_meant_for_this_machine() {
        for host in [
            "localhost",
            "LocalHost:9400",
            "127.0.0.1",
            "127.8.9.10:1",
            "[::1]:9400",
            "[::ffff:127.0.0.1]",
            "192.0.2.7:9400",
            "[::ffff:192.0.2.7]",
            "Node-7.example:80",
            "198.51.100.1",
        ] {
            assert_eq!(
                asked(None, "/", &[("host", host)]),
                Ok(Principal::Anonymous),
                "{host}"
            );
        }
        for (host, code) in [
            ("evil.example", 421),
            ("evil.example:9400", 421),
            ("192.0.2.8", 421),
            ("0.0.0.0", 421),
            ("[::]", 421),
            ("localhost.evil.example", 421),
            ("127.0.0.1.evil.example", 421),
            ("2130706433", 421),
            ("127.1", 421),
            ("", 400),
            (":80", 400),
            ("localhost@evil.example", 400),
            ("evil.example@localhost", 400),
            ("localhost, evil.example", 400),
            ("localhost/", 400),
            ("[::1", 400),
        ] {
            assert_eq!(asked(None, "/", &[("host", host)]), Err(code), "{host:?}");
        }
        assert_eq!(asked(None, "/", &[]), Err(400));
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(asked(None, "/", &twice), Err(400));
        // As a proxy is asked: then the target counts as well.
        let own = [("host", "localhost")];
        assert_eq!(asked(None, "http://evil.example/", &own), Err(421));
        assert_eq!(
            asked(None, "http://127.0.0.1:9400/", &own),
            Ok(Principal::Anonymous)
        );
    }

    #[test]
    fn pages_of_others_are_refused() {
        let from =
            |origin: &str| asked(None, "/", &[("host", "localhost:9400"), ("origin", origin)]);
        assert_eq!(from("http://localhost:9400"), Ok(Principal::Anonymous));
        assert_eq!(from("HTTP://LOCALHOST:9400"), Ok(Principal::Anonymous));
        for origin in [
            "",
            "null",
            "http://evil.example",
            "http://localhost",
            "http://localhost:9401",
            "https://localhost:9400",
            "http://127.0.0.1:9400",
            "localhost:9400",
            "http://localhost:9400.evil.example",
            "http://localhost:9400 http://evil.example",
        ] {
            assert_eq!(from(origin), Err(403), "{origin:?}");
        }
        let twice = [
            ("host", "localhost"),
            ("origin", "http://localhost"),
            ("origin", "http://evil.example"),
        ];
        assert_eq!(asked(None, "/", &twice), Err(403));
    }

    #[test]
    fn what_a_page_shows_from_here_is_refused_though_it_has_no_origin() {
        let own = ("host", "127.0.0.1:9400");
        let from = |sites: &[&str]| {
            let sites = sites.iter().map(|site| ("sec-fetch-site", *site));
            let headers: Vec<_> = std::iter::once(own).chain(sites).collect();
            asked(None, "/api/v1/events", &headers)
        };
        for site in ["same-origin", "none"] {
            assert_eq!(from(&[site]), Ok(Principal::Anonymous), "{site}");
        }
        for site in ["cross-site", "same-site", "", "None", "same-origin, none"] {
            assert_eq!(from(&[site]), Err(403), "{site:?}");
        }
        assert_eq!(from(&["none", "cross-site"]), Err(403));
        // A token does not make up for it.
        let headers = [
            own,
            ("authorization", "Bearer s3cret"),
            ("sec-fetch-site", "cross-site"),
        ];
        assert_eq!(asked(Some("s3cret"), routes::SNAPSHOT, &headers), Err(403));
    }

    #[test]
    fn a_person_may_follow_a_link_to_the_page_and_no_page_may_embed_it() {
        let own = ("host", "127.0.0.1:9400");
        let asked = |target: &str, dest: &str, more: &[(&'static str, &'static str)]| {
            let mut headers = vec![own, ("sec-fetch-site", "cross-site")];
            headers.push(("sec-fetch-dest", dest));
            headers.extend_from_slice(more);
            asked(Some("s3cret"), target, &headers)
        };
        assert_eq!(asked("/", "document", &[]), Ok(Principal::Anonymous));
        for dest in [
            "iframe", "frame", "script", "image", "empty", "object", "Document", "",
        ] {
            assert_eq!(asked("/", dest, &[]), Err(403), "{dest:?}");
        }
        // A form that posts, and whatever is no page.
        let origin = ("origin", "http://evil.example");
        assert_eq!(asked("/", "document", &[origin]), Err(403));
        for target in [routes::SNAPSHOT, routes::EVENTS, "/assets/index.js", "//"] {
            assert_eq!(asked(target, "document", &[]), Err(403), "{target}");
        }
        let twice = ("sec-fetch-dest", "document");
        assert_eq!(asked("/", "document", &[twice]), Err(403));
    }

    #[test]
    fn the_pages_files_need_no_token_and_its_documents_do() {
        let asked = |target: &str| asked(Some("s3cret"), target, &[("host", "localhost")]);
        for target in ["/", "/assets/index-1.js", "/?at=now"] {
            assert_eq!(asked(target), Ok(Principal::Anonymous), "{target}");
        }
        for target in [
            "/assets",
            "/api/v1/snapshot",
            "/index.html",
            "//assets/x",
            "/./",
        ] {
            assert_eq!(asked(target), Err(401), "{target}");
        }
    }

    #[test]
    fn a_token_is_shown_once_and_whole() {
        let with = |shown: &str| {
            let headers = [("host", "localhost"), ("authorization", shown)];
            asked(Some("s3cret"), routes::SNAPSHOT, &headers)
        };
        assert_eq!(with("Bearer s3cret"), Ok(Principal::Bearer));
        assert_eq!(with("bEARER s3cret"), Ok(Principal::Bearer));
        for shown in [
            "",
            "s3cret",
            "Bearer",
            "Bearer ",
            "Bearer s3cre",
            "Bearer s3crets",
            "Bearer  s3cret",
            "Bearer S3CRET",
            "Basic s3cret",
            "Bearers3cret",
        ] {
            assert_eq!(with(shown), Err(401), "{shown:?}");
        }
        let own = ("host", "localhost");
        let right = ("authorization", "Bearer s3cret");
        let wrong = ("authorization", "Bearer x");
        let asked = |target: &str, headers: &[_]| asked(Some("s3cret"), target, headers);
        assert_eq!(asked(routes::SNAPSHOT, &[own, right, wrong]), Err(401));
        assert_eq!(asked(routes::SNAPSHOT, &[own]), Err(401));
        assert_eq!(asked(routes::OPENAPI, &[own]), Err(401));
        assert_eq!(asked(routes::HEALTH, &[own]), Ok(Principal::Anonymous));
        // The name counts before the token.
        assert_eq!(asked(routes::HEALTH, &[("host", "x"), right]), Err(421));
    }

    #[test]
    fn who_may_change_something() {
        assert!(Principal::User(7).may_mark().is_ok() && Principal::Bearer.may_mark().is_ok());
        assert!(Principal::Anonymous.may_mark().is_err());
        assert_eq!(Principal::User(7).user().ok(), Some(7));
        assert!(Principal::Bearer.user().is_err() && Principal::Anonymous.user().is_err());
    }
}
