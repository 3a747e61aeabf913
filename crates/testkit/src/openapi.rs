//! Checks OpenAPI documents.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Returns what is wrong with the references of a document: those that name no schema, and schemas that none names.
pub fn unresolved_references(document: &Value) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut values = vec![document];
    while let Some(value) = values.pop() {
        found.extend(value.get("$ref").and_then(Value::as_str).map(str::to_owned));
        match value {
            Value::Array(items) => values.extend(items),
            Value::Object(fields) => values.extend(fields.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let schemas = document["components"]["schemas"].as_object();
    let defined = schemas.into_iter().flat_map(Map::keys).map(|name| format!("#/components/schemas/{name}"));
    let defined = defined.collect();
    found.symmetric_difference(&defined).cloned().collect()
}
