//! What stands in the first line of a request.

use serde::Serialize;

/// The path of one device's document.
pub(super) fn of_device(route: &str, name: &str) -> String {
    format!("{route}/{}", percent_encoded(name))
}

/// A path with the fields of a query that are there: those of an object, or pairs in a list.
pub(crate) fn with_query(path: &str, query: &impl Serialize) -> String {
    let mut target = path.to_owned();
    let mut put = |name: &str, value: &serde_json::Value| {
        let value = match value {
            serde_json::Value::Null => return,
            serde_json::Value::String(text) => percent_encoded(text),
            other => other.to_string(),
        };
        let separator = if target.contains('?') { '&' } else { '?' };
        target.push_str(&format!("{separator}{name}={value}"));
    };
    match serde_json::to_value(query) {
        Ok(serde_json::Value::Object(fields)) => {
            fields.iter().for_each(|(name, value)| put(name, value));
        }
        Ok(serde_json::Value::Array(pairs)) => {
            for pair in &pairs {
                if let (Some(name), Some(value)) = (pair[0].as_str(), pair.get(1)) {
                    put(name, value);
                }
            }
        }
        // Nothing is asked.
        _nothing => {}
    }
    target
}

/// Encodes all but unreserved characters: a cursor is the server's text and ends up in our
/// request line.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
