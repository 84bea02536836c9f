//! The OpenAPI document matches the server: every route is in it, and its examples are correct.

use std::collections::BTreeSet;
use std::path::Path;

use flovyn_server::rest::ROUTES;
use flovyn_server::rest::openapi::{document, is_alias};
use serde_json::{Map, Value};

use crate::common::Database;
use crate::world::World;

const SCHEMAS: &str = "#/components/schemas/";
/// Operations of the document outside of `/api`.
const BESIDE: &[&str] = &["/_/health", "/_/health/live", "/_/health/ready"];

/// The path, method and operation of each entry.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let below = |(path, item): (&String, &Value)| {
        let item = item.as_object().unwrap().clone();
        let operations = item.into_iter().filter(|(name, _)| name != "parameters");
        operations.map(|(method, one)| (path.clone(), method.to_uppercase(), one)).collect::<Vec<_>>()
    };
    paths.iter().flat_map(below).collect()
}

/// The path without parameter names, because those of the document are better than the router's.
fn nameless(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn every_route_is_in_the_document_and_nothing_else() {
    let routes = ROUTES.iter().filter(|(_, path)| !is_alias(path));
    let routes: BTreeSet<_> = routes.map(|(method, path)| ((*method).to_owned(), nameless(path))).collect();
    let document = document();
    let operations = operations(&document).into_iter().filter(|(path, ..)| !BESIDE.contains(&path.as_str()));
    let found: BTreeSet<_> = operations.map(|(path, method, _)| (method, nameless(&path))).collect();
    let missing: Vec<_> = routes.difference(&found).collect();
    assert!(missing.is_empty(), "these routes have another path in their #[utoipa::path]: {missing:?}");
    let unknown: Vec<_> = found.difference(&routes).collect();
    assert!(unknown.is_empty(), "no route has these: {unknown:?}");
    assert!(ROUTES.iter().any(|(_, path)| is_alias(path)));
}

#[test]
fn the_copy_in_the_repository_is_the_same() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    let document = document();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&path, format!("{document:#}\n")).unwrap();
    }
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert!(
        kept == document,
        "docs/reference/openapi.json is out of date: run this test with UPDATE_OPENAPI=1"
    );
}

#[test]
fn every_operation_is_described() {
    let document = document();
    let tags: Vec<_> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    let mut ids = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let about = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].to_string()), "{about}: its operationId is taken");
        assert!(operation["summary"].is_string(), "{about}: a summary");
        assert!(
            operation["tags"].as_array().unwrap().iter().all(|tag| tags.contains(&tag)),
            "{about}: a tag"
        );
        let named = path.split('/').filter(|part| part.starts_with('{') && *part != "{tenant}").count();
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        assert_eq!(parameters.iter().filter(|one| one["in"] == "path").count(), named, "{about}: parameters");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{about}: a successful response");
        assert!(BESIDE.contains(&path.as_str()) || responses.contains_key("401"), "{about}: refusals");
    }
}

#[test]
fn every_body_has_an_example_that_fits_its_schema() {
    let document = document();
    for (path, method, operation) in operations(&document) {
        let responses = operation["responses"].as_object().unwrap().iter();
        let succeeds = responses.filter(|(status, _)| status.starts_with('2')).map(|(_, response)| response);
        for body in succeeds.chain(operation.get("requestBody")) {
            for (kind, media) in body["content"].as_object().unwrap_or(&Map::new()) {
                let about = format!("{method} {path} {kind}");
                let example = media.get("example").unwrap_or_else(|| panic!("{about}: no example"));
                if kind == "application/json" {
                    fits(&document, &media["schema"], example, &about);
                }
            }
        }
    }
    for (name, response) in document["components"]["responses"].as_object().unwrap() {
        for media in response["content"].as_object().unwrap().values() {
            fits(&document, &media["schema"], &media["example"], name);
        }
    }
}

/// Checks, recursively, that an example has all required fields and no unknown ones.
fn fits(document: &Value, schema: &Value, example: &Value, about: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix(SCHEMAS).unwrap();
        return fits(document, &document["components"]["schemas"][name], example, &format!("{about} {name}"));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let not_null = choices.iter().find(|choice| choice["type"] != "null").unwrap();
        return fits(document, not_null, example, about);
    }
    if let Some(items) = schema.get("items") {
        for item in example.as_array().unwrap_or_else(|| panic!("{about}: no list")) {
            fits(document, items, item, about);
        }
    }
    if let Some(names) = schema["enum"].as_array() {
        assert!(names.contains(example), "{about}: {example}");
    }
    let Some(known) = schema["properties"].as_object() else { return };
    let given = example.as_object().unwrap_or_else(|| panic!("{about}: no object"));
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(given.contains_key(name.as_str().unwrap()), "{about}: {name} is missing");
    }
    for (name, value) in given {
        let field = known.get(name).unwrap_or_else(|| panic!("{about}: {name} is unknown"));
        fits(document, field, value, &format!("{about}.{name}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_understands_its_own_examples() {
    let world = World::start(Database::Sqlite).await;
    let root = world.token(&["*"], "server-admin");
    let mut sent = 0;
    for (path, method, operation) in operations(&document()) {
        let example = operation.pointer("/requestBody/content/application~1json/example");
        let Some(example) = example else { continue };
        let path = path.replace("{tenant}", "one").replace("{kind}", "order-processing");
        let path = path.replace("{executionId}", "550e8400-e29b-41d4-a716-446655440000");
        let path = path.replace("{promise}", "key:approval");
        // The quota of the example would limit the examples after it.
        let path = if path.ends_with("/quota") { path.replace("/one/", "/two/") } else { path };
        let answer = world.call(&root, &method, &path, &example.to_string()).await;
        // The resource that the path names does not exist, but the body was accepted before that check.
        let status = answer.status.to_string();
        assert!([200, 201, 404].contains(&answer.status), "{method} {path}: {answer:?}");
        assert!(operation["responses"].get(&status).is_some(), "{method} {path}: {status} is not described");
        sent += 1;
    }
    assert!(sent >= 12, "{sent}");
}
