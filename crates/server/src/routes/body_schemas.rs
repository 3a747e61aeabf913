//! Schemas of request and response bodies in an OpenAPI document, made from the types that read and write them.

use schemars::{
    Schema, SchemaGenerator,
    generate::{Contract, SchemaSettings},
};
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;

/// Adds the schema of a type to a generator.
type DefineSchema = fn(&mut SchemaGenerator) -> Schema;

/// Types of the bodies of an API. Its routes refer to them as `#/components/schemas/NAME`.
pub struct BodyTypes {
    /// Types of request bodies.
    pub requests: &'static [DefineSchema],
    /// Types of response bodies, and of request bodies that are written by another subscope.
    pub responses: &'static [DefineSchema],
}

impl BodyTypes {
    /// Returns an OpenAPI document with the schemas of its bodies. An error without a body of its own has that of
    /// [`crate::ApiError`].
    ///
    /// # Errors
    /// If the document cannot be written as JSON.
    pub fn describe(&self, document: &OpenApi) -> serde_json::Result<Value> {
        let mut document = serde_json::to_value(document)?;
        let mut schemas = definitions(self.requests, Contract::Deserialize);
        schemas.append(&mut definitions(self.responses, Contract::Serialize));
        schemas.sort_keys();
        document["components"]["schemas"] = Value::Object(schemas);
        let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
        let operations = paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut);
        for operation in operations {
            let responses =
                operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten();
            for (_, response) in responses.filter(|(status, _)| status.starts_with(['4', '5'])) {
                if response.get("content").is_none() {
                    let schema = json!({ "$ref": "#/components/schemas/ErrorBody" });
                    response["content"] = json!({ "application/json": { "schema": schema } });
                }
            }
        }
        Ok(document)
    }
}

/// Returns the schemas of types and of the types of their fields, by name.
fn definitions(types: &[DefineSchema], contract: Contract) -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.contract = contract;
    settings.definitions_path = "/components/schemas".into();
    let mut generator = settings.into_generator();
    for define in types {
        define(&mut generator);
    }
    generator.take_definitions(true)
}
