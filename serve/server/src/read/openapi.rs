//! The description of the read API for programs, in OpenAPI 3.1, made of the routes and their types.

use super::routes::{AtQuery, Route};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use ttmem_report::{ErrorBody, SchemaVersion, routes};

const SCHEMAS: &str = "/components/schemas";

/// How a path ends that names a device.
const DEVICE: &str = "{device}";

/// Why every path may refuse a request.
const REFUSALS: [(u16, &str); 6] = [
    (400, "The request was not understood."),
    (401, "Over TCP: this server wants its token."),
    (403, "Over TCP: asked by another web page."),
    (405, "The path was asked with another method than this."),
    (421, "Over TCP: the header Host names another machine."),
    (503, "Too many readers at once, or the server is stopping."),
];

/// Why a path that names a device may refuse a request besides.
const DEVICE_REFUSALS: [(u16, &str); 2] = [
    (404, "There is no such thing."),
    (409, "Several devices have this logical id."),
];

/// Why a path that takes an instant may refuse a request besides.
const INSTANT_REFUSAL: (u16, &str) = (
    404,
    "With `at`: nothing is recorded, or the instant cannot be read.",
);

/// Describes routes and every type in their answers.
pub(super) fn describe(routes: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = SchemaGenerator::new(settings.with(|settings| {
        settings.definitions_path = SCHEMAS.into();
        settings.meta_schema = None;
    }));
    let mut paths = Map::new();
    for route in routes {
        let operation = operation(route, &mut generator);
        paths.insert(route.path.clone(), json!({ route.method: operation }));
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "ttmem",
            "version": SchemaVersion::NUMBER.to_string(),
            "description": "Device memory of Tenstorrent accelerators, as ttmem serve knows it. \
                            Bytes and counts are integers; what is not known is null, never 0 and \
                            never left out. Fields and words may be added within a schema: readers \
                            ignore what they do not know.",
        },
        "servers": [{
            "url": "/",
            "description": "This server: its Unix sockets, and TCP where it was started with --http.",
        }],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(false),
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "Only over TCP, where the server was started with --http-token-file.",
            }},
        },
    });
    bound_integers(&mut document);
    document
}

fn operation(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let query = (route.query)(generator).to_value();
    let answer = (route.answer)(generator).to_value();
    let problem = generator.subschema_for::<ErrorBody>().to_value();
    let names_device = route.path.ends_with(DEVICE);
    let operation_id = route
        .path
        .trim_start_matches("/api/v1")
        .trim_end_matches(DEVICE);
    let operation_id = operation_id.trim_matches('/').replace('/', "_");
    let mut parameters = query_parameters(&query);
    if route.takes_at {
        let at = AtQuery::json_schema(generator).to_value();
        parameters.extend(query_parameters(&at));
    }
    if names_device {
        parameters.push(json!({
            "name": "device",
            "in": "path",
            "required": true,
            "description": "A logical id, or a unique id in hex.",
            "schema": {"type": "string", "pattern": "^([0-9]{1,9}|0x[0-9a-fA-F]{1,16})$"},
        }));
    }
    if route.path == routes::EVENTS {
        parameters.push(json!({
            "name": "Last-Event-ID",
            "in": "header",
            "description": "The same as `after`, as browsers send it.",
            "schema": {"type": "string"},
        }));
    }
    let mut responses = Map::new();
    let of_device = DEVICE_REFUSALS.iter().filter(|_refusal| names_device);
    let of_instant = [INSTANT_REFUSAL];
    let of_instant = of_instant.iter().filter(|_refusal| route.takes_at);
    let refusals = REFUSALS.iter().chain(of_instant).chain(of_device);
    let refusals = refusals.chain(&route.refusals);
    for (code, reason) in refusals {
        responses.insert(code.to_string(), refusal(*code, reason, &problem));
    }
    let mut answered = json!({
        "description": route.summary,
        "content": {route.media_type: {"schema": answer}},
    });
    if is_page(&answer, generator) {
        answered["links"] = json!({"next": {
            "operationId": operation_id,
            "parameters": {"cursor": "$response.body#/next"},
            "description": "The page that follows, unless next is null.",
        }});
    }
    responses.insert("200".to_owned(), answered);
    let mut operation = json!({
        "operationId": operation_id,
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses,
    });
    // Whoever asks whether the server is up needs no token.
    if route.path == routes::HEALTH {
        operation["security"] = json!([]);
    }
    operation
}

/// Whether an answer goes on behind a cursor.
fn is_page(answer: &Value, generator: &SchemaGenerator) -> bool {
    let name = answer["$ref"]
        .as_str()
        .and_then(|reference| reference.rsplit('/').next());
    let schema = name.and_then(|name| generator.definitions().get(name));
    schema.is_some_and(|schema| schema["properties"].get("next").is_some())
}

/// The properties of a query as parameters: those that may be null may be left out.
fn query_parameters(query: &Value) -> Vec<Value> {
    let required = query["required"].as_array();
    let properties = query["properties"].as_object().into_iter().flatten();
    properties
        .map(|(name, property)| {
            let mut schema = property.clone();
            let is_optional = remove_null(&mut schema);
            let description = schema.as_object_mut().and_then(|schema| {
                schema.remove("default");
                schema.remove("description")
            });
            let is_listed = required.is_some_and(|names| names.iter().any(|each| each == name));
            json!({
                "name": name,
                "in": "query",
                "required": is_listed && !is_optional,
                "description": description,
                "schema": schema,
            })
        })
        .collect()
}

/// Takes null out of what a schema allows, and says whether it was there.
fn remove_null(schema: &mut Value) -> bool {
    if let Some([known, null]) = schema["type"].as_array().map(Vec::as_slice)
        && null == "null"
    {
        schema["type"] = known.clone();
        return true;
    }
    let Some([known, null]) = schema["anyOf"].as_array().map(Vec::as_slice) else {
        return false;
    };
    let (known, is_null) = (known.clone(), null["type"] == "null");
    if is_null && let Some(schema) = schema.as_object_mut() {
        schema.remove("anyOf");
        schema.extend(known.as_object().cloned().unwrap_or_default());
    }
    is_null
}

fn refusal(code: u16, reason: &str, problem: &Value) -> Value {
    let mut refusal = json!({
        "description": reason,
        "content": {"application/json": {"schema": problem}},
    });
    let (header, meaning) = match code {
        401 => ("WWW-Authenticate", "How to show the token."),
        405 => ("Allow", "The methods that the path has."),
        429 | 503 => ("Retry-After", "Seconds to wait."),
        _other => return refusal,
    };
    refusal["headers"] = json!({header: {"description": meaning, "schema": {"type": "string"}}});
    refusal
}

/// Says what the formats of integers mean, which only some programs know.
fn bound_integers(value: &mut Value) {
    let most = match value.get("format").and_then(Value::as_str) {
        Some("uint32") => Some(u64::from(u32::MAX)),
        Some("uint64") => Some(u64::MAX),
        _other => None,
    };
    match value {
        Value::Object(fields) => {
            if let Some(most) = most {
                fields.entry("maximum").or_insert(most.into());
            }
            fields.values_mut().for_each(bound_integers);
        }
        Value::Array(items) => items.iter_mut().for_each(bound_integers),
        _plain => {}
    }
}
