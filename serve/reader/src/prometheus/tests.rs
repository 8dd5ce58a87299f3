use super::*;
use std::io::{Read, Write};
use std::net::TcpListener;

/// What is made of one answer, whatever it is.
fn answered(answer: &[u8]) -> Result<Vec<Sample>, PrometheusError> {
    let (found, asked) = exchanged(answer, |it| it.query("sum by (a) (b) > 0", 1.5));
    let line = "GET /prefix/api/v1/query?query=sum%20by%20%28a%29%20%28b%29%20%3E%200&time=1.500 HTTP/1.1\r\n";
    assert!(asked.starts_with(line), "{asked}");
    found
}

/// What a question makes of one answer, and what was asked.
fn exchanged<T>(answer: &[u8], ask: impl FnOnce(&Prometheus) -> T) -> (T, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/prefix/", listener.local_addr().unwrap());
    let answer = answer.to_vec();
    let server = std::thread::spawn(move || {
        let (mut stream, _peer) = listener.accept().unwrap();
        let mut asked = [0; 4096];
        let length = stream.read(&mut asked).unwrap();
        let _closed = stream.write_all(&answer);
        String::from_utf8_lossy(&asked[..length]).into_owned()
    });
    let found = ask(&Prometheus::at(url.parse().unwrap()));
    (found, server.join().unwrap())
}

fn with_code(code: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {code}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

fn success(result: &str) -> Vec<u8> {
    let body =
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{result}]}}}}"#);
    with_code("200 OK", &body)
}

#[test]
fn samples_have_their_labels_and_are_numbers() {
    let found = answered(&success(
        r#"{"metric":{"__name__":"x","instance":"a:1","rack":"r"},"value":[1.5,"2e3"]},
           {"metric":{"instance":"b:1"},"value":[1.5,"NaN"]},
           {"metric":{"instance":"c:1"},"value":[1.5,"+Inf"]}"#,
    ));
    let found = found.unwrap();
    let labels = Labels {
        instance: "a:1".to_owned(),
        ..Labels::default()
    };
    let value = 2000.0;
    assert_eq!(found[0], Sample { labels, value });
    assert!(found[1].value.is_nan() && found[2].value.is_infinite());
}

#[test]
fn what_would_drive_a_terminal_is_removed_and_what_is_long_is_cut() {
    let long = "x".repeat(100_000);
    let found = answered(&success(&format!(
        r#"{{"metric":{{"instance":"a\u001b[2J\u202eb","name":"{long}"}},"value":[1,"1"]}}"#
    )));
    let labels = &found.unwrap()[0].labels;
    assert_eq!(labels.instance, "a\u{fffd}[2J\u{fffd}b");
    assert_eq!(labels.name.len(), TEXT_LIMIT_CHARACTERS);
}

#[test]
fn refusals_say_why() {
    let body = r#"{"status":"error","errorType":"bad_data","error":"parse error\u0007"}"#;
    let error = answered(&with_code("400 Bad Request", body)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("400: parse error\u{fffd}"), "{text}");
}

#[test]
fn what_is_no_prometheus_is_said_to_be_none() {
    for (code, body, hint) in [
        (
            "404 Not Found",
            r#"{"schema":1,"error":"not_found"}"#,
            "a path",
        ),
        ("502 Bad Gateway", "<html>", "proxy"),
        ("401 Unauthorized", "", "--prometheus-token-file"),
        ("200 OK", "<html>", "(200 to "),
    ] {
        let error = answered(&with_code(code, body)).unwrap_err().to_string();
        let of = format!("/prefix does not answer like Prometheus ({}", &code[..3]);
        assert!(error.contains(&of) && error.contains(hint), "{error}");
    }
}

#[test]
fn a_server_that_drips_its_answers_ends_by_one_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _peer) = listener.accept().unwrap();
        let _head = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n");
        // Every byte is in time for the limit of a single read.
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let prometheus = Prometheus::at(url.parse().unwrap()).with_patience(Duration::from_millis(200));
    let error = prometheus.fleet().unwrap_err();
    assert!(matches!(error, PrometheusError::Slow { .. }), "{error:?}");
    let text = format!("{url} did not answer everything within 200ms");
    assert_eq!(error.to_string(), text);
}

#[test]
fn rules_are_known_by_name() {
    let body = r#"{"status":"success","data":{"groups":[{"name":"g","rules":[{"name":"a:b","type":"recording"}]}]}}"#;
    for (code, body, has) in [
        ("200 OK", body, true),
        ("200 OK", &*body.replace("a:b", "a:c"), false),
        ("404 Not Found", "no such path", false),
        (
            "200 OK",
            r#"{"status":"success","data":{"groups":7}}"#,
            false,
        ),
    ] {
        let (found, asked) = exchanged(&with_code(code, body), |it| it.has_rule("a:b"));
        assert_eq!(found.unwrap(), has, "{body}");
        let line = "GET /prefix/api/v1/rules?type=record HTTP/1.1\r\n";
        assert!(asked.starts_with(line), "{asked}");
    }
}

#[test]
fn what_is_no_answer_is_an_error() {
    for body in [
        "",
        "{}",
        "[]",
        r#"{"status":"success"}"#,
        r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":{}}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,2]}]}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"instance":7},"value":[1,"2"]}]}}"#,
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"two"]}]}}"#,
    ] {
        assert!(answered(&with_code("200 OK", body)).is_err(), "{body}");
    }
}

#[test]
fn an_answer_beyond_the_limit_is_refused_before_it_is_read() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n[";
    let error = answered(head).unwrap_err();
    assert!(
        matches!(
            &error,
            PrometheusError::Request(ApiRequestError::TooLarge { .. })
        ),
        "{error}"
    );
}

#[test]
fn urls_may_have_a_path_but_nothing_else() {
    let parsed = |text: &str| text.parse::<PrometheusUrl>().map(|url| url.to_string());
    assert_eq!(
        parsed("http://127.0.0.1:9090/").as_deref(),
        Ok("http://127.0.0.1:9090")
    );
    assert_eq!(
        parsed("http://a.example:8428/select/0/prometheus/").as_deref(),
        Ok("http://a.example:8428/select/0/prometheus")
    );
    let https = parsed("https://a.example").unwrap_err();
    assert!(https.to_string().contains("tunnel"), "{https}");
    for text in [
        "http://a/x?y=1",
        "http://a/x y",
        "http://a/%2e",
        "http://u@a/x",
        "a:9090",
        "",
        "://",
    ] {
        assert!(parsed(text).is_err(), "{text}");
    }
}
