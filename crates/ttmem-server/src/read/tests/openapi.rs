//! That the description for programs is true: every path is in it, and every document is as it says.

use super::documents::run_program;
use super::hostility::{exchange, refusal};
use super::*;
use crate::history::Sampler;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use ttmem_api::{Pace, StreamMessage};
use ttmem_event::{CoreType, ProgramId};

fn document() -> Value {
    serde_json::from_str(ttmem_api::OPENAPI).unwrap()
}

/// Holds answers against the schemas of the description.
struct Checker {
    document: Value,
    /// The components that some answer had.
    seen: BTreeSet<String>,
}

impl Checker {
    /// Fails where an answer is not what its schema says: fields that are not in it, too.
    fn check(&mut self, value: &Value, schema: &Value, place: &str) {
        let problem = self.problem(value, schema, place);
        assert!(problem.is_none(), "{}", problem.unwrap());
    }

    fn problem(&mut self, value: &Value, schema: &Value, place: &str) -> Option<String> {
        let wrong = |content: &str| Some(format!("{place}: {content}: {value} is not {schema}"));
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap().to_owned();
            let schema = self.document["components"]["schemas"][&name].clone();
            assert!(schema.is_object(), "{reference}");
            let problem = self.problem(value, &schema, place);
            if problem.is_none() {
                self.seen.insert(name);
            }
            return problem;
        }
        if let Some(several) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
            let several = several.clone();
            let fits = several
                .iter()
                .filter(|one| self.problem(value, one, place).is_none());
            return if fits.count() == 1 {
                None
            } else {
                wrong("none or several of them")
            };
        }
        if let Some(constant) = schema.get("const") {
            return if constant == value {
                None
            } else {
                wrong("another value")
            };
        }
        let kinds: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one.as_str()],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _none => return wrong("a schema without a type"),
        };
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let is_whole = kind == "integer" && kinds.contains(&"number");
        if !kinds.contains(&kind) && !is_whole {
            return wrong("another type");
        }
        if let Some(words) = schema["enum"].as_array()
            && !words.contains(value)
        {
            return wrong("another word");
        }
        match value {
            Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
                self.problem(item, &schema["items"], &format!("{place}[{index}]"))
            }),
            Value::Object(fields) => {
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                let known = schema["properties"]
                    .as_object()
                    .cloned()
                    .unwrap_or_default();
                if required.len() != known.len() {
                    return wrong("a field that may be left out");
                }
                let missing = |name: &&Value| !fields.contains_key(name.as_str().unwrap());
                if let Some(name) = required.iter().find(missing) {
                    return wrong(&format!("{name} is missing"));
                }
                fields.iter().find_map(|(name, field)| {
                    let schema = known.get(name).or(schema.get("additionalProperties"));
                    match schema {
                        Some(schema) => self.problem(field, schema, &format!("{place}.{name}")),
                        None => Some(format!("{place}: {name} is not in the schema")),
                    }
                })
            }
            _plain => None,
        }
    }

    /// The schema of what a path answers with a code.
    fn schema(&self, path: &str, method: &str, code: &str, kind: &str) -> Value {
        let answers = &self.document["paths"][path][method]["responses"];
        let schema = answers[code]["content"][kind]["schema"].clone();
        assert!(!schema.is_null(), "{method} {path} {code}");
        schema
    }
}

/// A ledger in which every list has something.
fn full_ledger() -> Ledger {
    let mut ledger = empty_ledger();
    let process = joined(&mut ledger, 4001);
    run_program(&mut ledger, process);
    let (mesh, sub_device, core_type) = (BOTH, 0, CoreType::Tensix);
    for content in [
        allocated(1, Class::Dram, n150().dram.base, 2048),
        allocated(2, Class::L1, n150().l1.end() - 64, 64),
        EventKind::RingOpened {
            mesh,
            sub_device,
            core_type,
            base: 0x8000,
            size_bytes: 0x1000,
        },
        EventKind::RingAllocated {
            mesh,
            sub_device,
            core_type,
            program: ProgramId(5),
            address: 0x8000,
            size_bytes: 0x100,
            sync: 1,
        },
        EventKind::PrefetchOpened {
            mesh,
            size_bytes: 4096,
        },
        EventKind::Marked {
            name: TextId(2),
            number: 4,
        },
    ] {
        apply(&mut ledger, process, 60, content);
    }
    let gone = joined(&mut ledger, 4002);
    ledger.depart(gone, Departure::Died, 70);
    // It is forgotten by the test.
    joined(&mut ledger, 4003);
    ledger
}

#[test]
fn every_path_of_the_router_is_described() {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    let routed = include_str!("../http.rs")
        .matches("        .route(")
        .count();
    assert_eq!(
        paths.len(),
        routed,
        "paths that are described, and that are there"
    );
    let served = Served::new(empty_ledger());
    for (path, methods) in paths {
        let target = path.replace("{device}", "0");
        for method in ["get", "post"] {
            let request = format!("{} {target} HTTP/1.1\r\n\r\n", method.to_uppercase());
            if path.ends_with("/events") && method == "get" {
                continue;
            }
            let answer = exchange(&served, request.as_bytes());
            let is_there = !answer.starts_with("HTTP/1.1 405 ");
            assert_eq!(
                is_there,
                methods.get(method).is_some(),
                "{request}: {answer}"
            );
            assert!(!answer.contains("\"not_found\""), "{request}: {answer}");
        }
    }
}

#[test]
fn another_method_is_refused_as_described() {
    let mut checker = Checker {
        document: document(),
        seen: BTreeSet::new(),
    };
    let served = Served::new(empty_ledger());
    let paths = checker.document["paths"].as_object().unwrap().clone();
    for (path, methods) in paths {
        let (method, other) = match methods.get("get") {
            Some(_get) => ("get", "POST"),
            None => ("post", "GET"),
        };
        let refused = &methods[method]["responses"]["405"]["$ref"];
        let name = refused.as_str().expect(&path).rsplit('/').next().unwrap();
        let described = checker.document["components"]["responses"][name].clone();
        let target = path.replace("{device}", "0");
        let request = format!("{other} {target} HTTP/1.1\r\n\r\n");
        let answer = exchange(&served, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let allow = head.to_ascii_lowercase();
        let allow = allow
            .split("\r\n")
            .find_map(|line| line.strip_prefix("allow: "));
        let allow = allow.expect("the methods that the path has");
        assert!(
            allow.split(',').any(|each| each == method),
            "{path}: {allow}"
        );
        assert!(described["headers"]["Allow"].is_object(), "{described}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"], "method_not_allowed", "{path}");
        let schema = &described["content"]["application/json"]["schema"];
        checker.check(&body, schema, &path);
    }
}

#[test]
fn every_document_is_as_described() {
    let ledger = keeper(full_ledger());
    let (histories, places) = (Histories::default(), Places::default());
    let sampler =
        Sampler::start(ledger.clone(), histories.clone(), places.clone(), || NOW).unwrap();
    let mut journal = Journal::default();
    let freed = |id| Event {
        time: 1,
        kind: EventKind::BufferFreed {
            mesh: BOTH,
            buffer: BufferId(id),
        },
    };
    journal.push(Batch {
        anomalies: vec![(1, ttmem_ledger::Anomaly::UnknownFree)],
        ..streams::batch(0, (0..3).map(freed).collect())
    });
    let reader = journal.reader();
    let state = ReadState::new(ledger, Arc::new(facts), reader, histories, places);
    let served = Served::from(state, HttpLimits::SOCKET);
    let client = served.client();
    while client.history(60).unwrap().times.is_empty() {
        thread::sleep(Duration::from_millis(50));
    }
    drop(sampler);

    let mut checker = Checker {
        document: document(),
        seen: BTreeSet::new(),
    };
    for (method, path, query) in [
        ("get", "/api/v1/snapshot", ""),
        ("get", "/api/v1/devices/{device}", ""),
        ("get", "/api/v1/processes", ""),
        ("get", "/api/v1/buffers", ""),
        ("get", "/api/v1/buffers", "?sort=size&limit=1"),
        ("get", "/api/v1/buffers/groups", "?by=layout"),
        ("get", "/api/v1/cbs", ""),
        ("get", "/api/v1/kernels", ""),
        ("get", "/api/v1/programs", ""),
        ("get", "/api/v1/l1map/{device}", "?x=0&y=0"),
        ("get", "/api/v1/blocks/{device}", ""),
        ("get", "/api/v1/peak/{device}", ""),
        ("get", "/api/v1/history", ""),
        ("post", "/api/v1/mark", "?name=a"),
        ("post", "/api/v1/forget", "?pid=4003"),
        ("get", "/openapi.json", ""),
    ] {
        let target = path.replace("{device}", "0");
        let method = method.to_uppercase();
        let request = format!("{method} {target}{query} HTTP/1.1\r\n\r\n");
        let answer = exchange(&served, request.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let (_head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        if path == "/openapi.json" {
            assert_eq!(body, checker.document);
            continue;
        }
        let schema = checker.schema(path, &method.to_lowercase(), "200", "application/json");
        checker.check(&body, &schema, path);
    }

    let schema = checker.schema("/api/v1/events", "get", "200", "text/event-stream");
    for (pace, after, count) in [(Pace::Raw, 0, 4), (Pace::Raw, 9, 2), (Pace::Changes, 0, 2)] {
        let stream = client.events(pace, Some(after)).unwrap();
        for message in stream.take(count) {
            let message: StreamMessage = message.unwrap();
            let message = serde_json::to_value(&message).unwrap();
            checker.check(&message, &schema, "/api/v1/events");
        }
    }

    // The last events are of the keeper, which has none here: their form is that of the stream's.
    let problem = exchange(&served, b"GET /api/v1/history?seconds=0 HTTP/1.1\r\n\r\n");
    let (_head, body) = problem.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let schema = checker.schema("/api/v1/history", "get", "400", "application/json");
    checker.check(&body, &schema, "a problem");
    assert_eq!(refusal(client.history(0)).0, 400);

    let last = ttmem_api::LastEvents {
        schema: ttmem_api::SCHEMA,
        events: client
            .events(Pace::Raw, Some(0))
            .unwrap()
            .filter_map(|message| match message.unwrap() {
                StreamMessage::Event(event) => Some(event.event),
                _other => None,
            })
            .take(3)
            .collect(),
    };
    let schema = checker.schema("/api/v1/last", "get", "200", "application/json");
    checker.check(
        &serde_json::to_value(&last).unwrap(),
        &schema,
        "/api/v1/last",
    );

    let described = checker.document["components"]["schemas"]
        .as_object()
        .unwrap();
    let unseen: Vec<&String> = described
        .keys()
        .filter(|name| !checker.seen.contains(*name))
        .collect();
    // Only asked for, or only by one word of a parameter.
    assert_eq!(unseen, ["SortBy"], "every component is in some answer");
}
