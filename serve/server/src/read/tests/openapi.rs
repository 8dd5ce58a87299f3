//! That the description for programs fits the routes, whose types it is made of.

use super::hostility::exchange;
use super::*;
use crate::read::openapi::describe;
use crate::read::routes::table;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The routes whose answers end.
fn asked_routes() -> impl Iterator<Item = (String, &'static str, Value)> {
    let description = describe(&table());
    table().into_iter().map(move |route| {
        let operation = description["paths"][&route.path][route.method].clone();
        let target = route.path.replace("{device}", "0");
        (target, route.method, operation)
    })
}

#[test]
fn every_path_has_its_method_and_refuses_others_as_described() {
    let served = Served::new(empty_ledger());
    for (target, method, operation) in asked_routes() {
        let other = if method == "get" { "POST" } else { "GET" };
        let answer = exchange(
            &served,
            format!("{other} {target} HTTP/1.1\r\n\r\n").as_bytes(),
        );
        assert!(answer.starts_with("HTTP/1.1 405 "), "{target}: {answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase();
        let allow = head
            .lines()
            .find_map(|line| line.strip_prefix("allow: "))
            .expect("the methods that the path has");
        assert!(allow.split(',').any(|each| each == method), "{allow}");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"], "method_not_allowed");
        let refusal = &operation["responses"]["405"];
        assert!(refusal["headers"]["Allow"].is_object(), "{refusal}");
        if target != "/api/v1/events" {
            let request = format!("{} {target} HTTP/1.1\r\n\r\n", method.to_uppercase());
            let answer = exchange(&served, request.as_bytes());
            let code = answer["HTTP/1.1 ".len()..].split(' ').next().unwrap();
            assert!(operation["responses"][code].is_object(), "{answer}");
            assert!(!answer.contains("\"not_found\""), "{answer}");
        }
    }
}

/// Types for other languages are generated from the committed description, without a server.
#[test]
fn committed_description_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let current = format!("{:#}\n", describe(&table()));
    if std::env::var_os("TTMEM_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &current).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap();
    assert!(
        committed == current,
        "docs/openapi.json is out of date: run `TTMEM_BLESS=1 cargo test -p ttmem-server openapi`, then \
         `cargo xtask api-types`"
    );
}

#[test]
fn the_description_is_served_and_refers_to_nothing_that_is_not_in_it() {
    let served = Served::new(empty_ledger());
    let answer = exchange(&served, b"GET /openapi.json HTTP/1.1\r\n\r\n");
    let (_head, body) = answer.split_once("\r\n\r\n").unwrap();
    let description: Value = serde_json::from_str(body).unwrap();
    assert_eq!(description, describe(&table()));
    let schemas = description["components"]["schemas"].as_object().unwrap();
    let references: Vec<&str> = body
        .split("\"$ref\":\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert!(references.len() > schemas.len());
    for reference in references {
        let name = reference.strip_prefix("#/components/schemas/").unwrap();
        assert!(schemas.contains_key(name), "{reference}");
    }
    for (name, schema) in schemas {
        assert!(
            schema["description"].is_string(),
            "{name} has no description"
        );
        let properties = schema["properties"].as_object();
        let fields = properties.map_or(0, |properties| properties.len());
        let required = schema["required"].as_array().map_or(0, Vec::len);
        assert_eq!(fields, required, "{name}: nothing is left out");
    }
}

#[test]
fn types_and_bounds_are_those_of_the_code() {
    let description = describe(&table());
    let schema = |name: &str| &description["components"]["schemas"][name];
    let words = |name: &str| -> Vec<&str> {
        let words = schema(name)["oneOf"].as_array().unwrap().iter();
        words.map(|word| word["const"].as_str().unwrap()).collect()
    };
    assert_eq!(
        words("MemoryClass"),
        ["dram", "l1", "l1_small", "trace", "system"]
    );
    assert_eq!(schema("Snapshot")["properties"]["schema"]["const"], 1);
    let bytes = &schema("ClassUsage")["properties"]["capacity_bytes"];
    assert_eq!(bytes["type"], serde_json::json!(["integer", "null"]));
    assert_eq!(bytes["maximum"], u64::MAX);
    assert_eq!(schema("HexId")["pattern"], "^0x[0-9a-f]{1,16}$");
    assert_eq!(schema("Timestamp")["format"], "date-time");
    assert_eq!(schema("EventFields")["type"], "object");

    let buffers = &description["paths"]["/api/v1/buffers"]["get"];
    let parameter = |name: &str| {
        let parameters = buffers["parameters"].as_array().unwrap().iter();
        parameters
            .clone()
            .find(|each| each["name"] == name)
            .unwrap()
    };
    for name in ["pid", "class", "descending", "since", "limit"] {
        assert_eq!(parameter(name)["required"], false, "{name}");
    }
    let limit = &parameter("limit")["schema"];
    assert_eq!(
        (&limit["minimum"], &limit["maximum"], &limit["type"]),
        (&1.into(), &10_000.into(), &"integer".into())
    );
    let class = &parameter("class")["schema"];
    let expected = serde_json::json!({"$ref": "#/components/schemas/MemoryClass"});
    assert_eq!(*class, expected);
    let next = &buffers["responses"]["200"]["links"]["next"];
    assert_eq!(next["operationId"], "buffers");
    let forget = &description["paths"]["/api/v1/forget"]["post"];
    assert_eq!(forget["parameters"][0]["required"], true);
}
