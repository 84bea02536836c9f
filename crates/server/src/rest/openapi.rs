//! The OpenAPI document. Each operation of the table of routes describes itself with `#[utoipa::path]`. Parts that all
//! operations share are added afterwards: refusals, the tenant, examples.

use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use super::error::ErrorResponse;
use super::names::{AttemptStatus, AuditAction, CredentialKind, ExecutionStatus, LogLevel, TaskStatus};
use super::problem::ProblemDetails;
use super::refusals::QuotaErrorResponse;
use super::{OfTenant, examples, me, refusals, tenants};
use crate::http::health;

/// The fields of the schema `FailureInfo`.
const FAILURE_FIELDS: &[&str] = &["failure_type", "failure_details", "retryable"];

#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "Flovyn",
        description = "Durable workflows and tasks. Send a JWT or an API key as `Authorization: Bearer ...`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    paths(health::health, health::live, health::ready, me::get, tenants::create),
    nest((path = "/api/tenants/{tenant}", api = OfTenant)),
    components(schemas(
        ErrorResponse, QuotaErrorResponse, ProblemDetails, AttemptStatus, AuditAction, CredentialKind, ExecutionStatus, LogLevel, TaskStatus,
    )),
    tags(
        (name = "Health", description = "Liveness and readiness of the server"),
        (name = "Tenants", description = "Tenants"),
        (name = "Workers", description = "Worker tokens, workers, and what they can run"),
        (name = "Workflows", description = "Start workflows"),
        (name = "Executions", description = "Read and control executions"),
        (name = "Tasks", description = "Standalone tasks"),
        (name = "Promises", description = "Answer promises"),
        (name = "Activity", description = "Recent activity"),
        (name = "Audit", description = "Who changed what"),
        (name = "Queues", description = "Number of queued items, pause and resume"),
    ),
    security(("bearer_auth" = [])),
)]
struct Document;

/// Whether a route is an alias of one that is in the document. Aliases are left out, such as `/api/orgs` for
/// `/api/tenants`.
pub fn is_alias(path: &str) -> bool {
    let below = path.strip_prefix("/api/tenants/{tenant}").unwrap_or(path);
    // Aliases of `/tasks` and of `/workflow-executions/{id}/cancel`.
    below.starts_with("/task-executions") || below == "/workflows/{name}/cancel"
}

/// The whole document.
pub fn document() -> Value {
    let mut document = serde_json::to_value(Document::openapi()).expect("it contains only names and texts");
    document["components"]["securitySchemes"] =
        json!({ "bearer_auth": { "type": "http", "scheme": "bearer", "bearerFormat": "JWT" } });
    document["components"]["parameters"] = json!({ "tenant": {
        "name": "tenant",
        "in": "path",
        "required": true,
        "description": "Slug or id of the tenant",
        "schema": { "type": "string" },
        "example": "default",
    }});
    let paths = document["paths"].as_object_mut().expect("there are paths");
    for (_, item) in paths.iter_mut().filter(|(path, _)| path.contains("{tenant}")) {
        item["parameters"] = json!([{ "$ref": "#/components/parameters/tenant" }]);
    }
    share_failure(&mut document);
    refusals::add(&mut document);
    for_each_operation(&mut document, |_, operation| tidy(operation));
    examples::add(&mut document);
    document
}

/// Moves the fields of a failure from tasks and attempts to a schema of their own, which both include. The types have
/// these fields themselves, because a flattened field cannot keep JSON unchanged when it is read.
fn share_failure(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object_mut().expect("there are schemas");
    let mut shared = Map::new();
    for name in ["Task", "TaskAttempt"] {
        let schema = &mut schemas[name];
        let own = schema["properties"].as_object_mut().expect("it has properties");
        shared.extend(FAILURE_FIELDS.iter().filter_map(|field| own.remove_entry(*field)));
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        *schema = json!({ "allOf": [{ "$ref": "#/components/schemas/FailureInfo" }, schema.take()] });
        if let Some(description) = description {
            schema["description"] = description;
        }
    }
    let failure = json!({
        "type": "object",
        "description": "The details of a failed attempt, without its error message.",
        "properties": shared,
    });
    schemas.insert("FailureInfo".to_owned(), failure);
}

/// Calls `call` with the method and the operation of every path.
pub(super) fn for_each_operation(document: &mut Value, mut call: impl FnMut(&str, &mut Value)) {
    let paths = document["paths"].as_object_mut().expect("there are paths");
    let items = paths.values_mut().filter_map(Value::as_object_mut);
    for (method, operation) in items.flatten().filter(|(name, _)| *name != "parameters") {
        call(method, operation);
    }
}

/// Removes `null` from the types of optional parameters and bodies, because they are omitted instead.
fn tidy(operation: &mut Value) {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for schema in parameters.into_iter().flatten().filter_map(|parameter| parameter.get_mut("schema")) {
        not_null(schema);
    }
    if let Some(schema) = operation.pointer_mut("/requestBody/content/application~1json/schema") {
        not_null(schema);
    }
}

fn not_null(schema: &mut Value) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
    }
    let mut choices = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    if let Some(only) = choices.find(|choice| choice["type"] != "null").cloned() {
        *schema = only;
    }
}
