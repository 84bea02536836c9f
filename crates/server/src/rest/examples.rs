//! Examples in the OpenAPI document. `examples.json` has one per schema; it is inserted wherever a body has that
//! schema.

use serde_json::Value;

use super::openapi::for_each_operation;

const EXAMPLES: &str = include_str!("examples.json");
const SCHEMAS: &str = "#/components/schemas/";

pub(super) fn add(document: &mut Value) {
    let examples: Value = serde_json::from_str(EXAMPLES).expect("examples.json is valid JSON");
    let put = |content: &mut Value| {
        for media in content.as_object_mut().into_iter().flat_map(|types| types.values_mut()) {
            let name = media
                .pointer("/schema/$ref")
                .and_then(Value::as_str)
                .and_then(|path| path.strip_prefix(SCHEMAS));
            if let Some(example) = name.and_then(|name| examples.get(name)) {
                media["example"] = example.clone();
            }
        }
    };
    for_each_operation(document, |_, operation| {
        if let Some(content) = operation.pointer_mut("/requestBody/content") {
            put(content);
        }
        let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
        for content in responses.into_iter().flatten().filter_map(|(_, one)| one.get_mut("content")) {
            put(content);
        }
    });
    let responses = document.pointer_mut("/components/responses").and_then(Value::as_object_mut);
    for content in responses.into_iter().flatten().filter_map(|(_, one)| one.get_mut("content")) {
        put(content);
    }
}
