//! The columns of a list that is empty: the fields of its rows, as the API's schema has them.

use schemars::{JsonSchema, schema_for};
use serde_json::{Map, Value, json};

/// Fields may be inside of fields, but not for ever.
const DEEPEST: usize = 8;

/// A row without values: every field is null, or an empty list if it is one.
pub(super) fn of<R: JsonSchema>() -> Map<String, Value> {
    let schema = schema_for!(R).to_value();
    let mut row = Map::new();
    put(&mut row, "", &schema, (&schema, DEEPEST));
    row
}

fn put(row: &mut Map<String, Value>, name: &str, field: &Value, (root, deep): (&Value, usize)) {
    let field = resolved(field, root);
    match field["properties"].as_object().filter(|_| deep > 0) {
        Some(fields) => {
            for (inner, field) in fields {
                let name = super::inner_name(name, inner);
                put(row, &name, field, (root, deep - 1));
            }
        }
        None => {
            let kind = &field["type"];
            let kinds = kind
                .as_array()
                .map_or(std::slice::from_ref(kind), |kinds| kinds);
            let is_list = kinds.iter().any(|kind| kind == "array");
            row.insert(
                name.to_owned(),
                if is_list { json!([]) } else { Value::Null },
            );
        }
    }
}

/// What a field is: where it is defined, and of several forms the one with fields.
fn resolved<'s>(field: &'s Value, root: &'s Value) -> &'s Value {
    let followed = field["$ref"].as_str().and_then(|place| {
        let place = place.strip_prefix('#')?;
        root.pointer(place)
    });
    let field = followed.unwrap_or(field);
    let forms = ["anyOf", "oneOf"].into_iter();
    let mut forms = forms.flat_map(|form| field[form].as_array().into_iter().flatten());
    let with_fields = forms.find(|form| form.get("$ref").is_some());
    match with_fields {
        Some(form) => resolved(form, root),
        None => field,
    }
}
