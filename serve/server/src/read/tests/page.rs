//! The page's files over TCP: whoever asks gets them, and they are all that he gets.

use super::tcp::Both;
use crate::read::page::{FILES, INDEX};

fn get(both: &Both, path: &str, more: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    let answer = both.exchange(request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
    (head.to_lowercase(), body.to_owned())
}

#[test]
fn the_page_is_there_without_a_token_and_may_load_nothing_from_elsewhere() {
    let both = Both::new(Some("s3cret"));
    let (head, body) = get(&both, "/", "");
    assert!(head.starts_with("http/1.1 200 "), "{head}");
    assert!(head.contains("\r\ncontent-type: text/html; charset=utf-8\r\n"));
    assert!(head.contains("\r\ncache-control: no-cache\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-security-policy: default-src 'none'; script-src 'self';"));
    assert!(head.contains("frame-ancestors 'none'"), "{head}");
    assert!(head.contains("\r\nreferrer-policy: no-referrer\r\n"));
    assert!(head.contains("\r\nx-content-type-options: nosniff\r\n"));
    assert!(!head.contains("set-cookie") && !head.contains("access-control"));
    assert!(body.contains("<title>ttmem</title>"), "{body}");
    // Nothing inline, which the policy would not let run, and nothing of another host.
    assert!(!body.contains("<style") && !body.contains("style=") && !body.contains("//"));
    // A build without the page says how to get it, here and to commands.
    let missing = crate::missing_page();
    assert_eq!(missing.is_some(), FILES.is_empty());
    if let Some(missing) = missing {
        let (_why, command) = missing.split_once(": ").expect("a command");
        assert!(command.starts_with("cargo xtask web && "), "{missing}");
        assert!(body.contains(command), "{body}");
    }
    let (head, _body) = get(&both, "/api/v1/snapshot", "");
    assert!(head.starts_with("http/1.1 401 "), "{head}");
}

#[test]
fn assets_are_kept_for_ever_and_what_is_none_is_not_found() {
    let both = Both::new(Some("s3cret"));
    for (name, bytes) in FILES.iter().filter(|(name, _bytes)| *name != INDEX) {
        let (head, body) = get(&both, &format!("/assets/{name}"), "");
        assert!(head.starts_with("http/1.1 200 "), "{name}: {head}");
        assert!(head.contains("immutable"), "{head}");
        assert_eq!(body.len(), bytes.len(), "{name}");
    }
    for path in [
        "/assets/index.html",
        "/assets/none.js",
        "/assets/..%2f..%2fetc%2fpasswd",
    ] {
        let (head, _body) = get(&both, path, "");
        assert!(head.starts_with("http/1.1 404 "), "{path}: {head}");
    }
}

#[test]
fn a_link_from_elsewhere_opens_the_page_and_a_frame_does_not() {
    let both = Both::new(None);
    let from = |dest: &str| {
        let more = format!("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: {dest}\r\n");
        get(&both, "/", &more).0
    };
    assert!(from("document").starts_with("http/1.1 200 "));
    assert!(from("iframe").starts_with("http/1.1 403 "));
}
