//! The possible refusals of every operation, in the OpenAPI document.

use serde_json::{Value, json};
use utoipa::{PartialSchema, ToSchema};

use super::error::ErrorResponse;
use super::openapi::for_each_operation;
use super::problem::PROBLEM_JSON;

/// A limit is reached. For a quota, `quotaType` names it and `error` is a constant such as `MONTHLY_QUOTA_EXCEEDED`.
#[derive(Debug, ToSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) struct QuotaErrorResponse {
    error: String,
    /// What to do.
    message: String,
    /// A stable code, such as `FLV0023`.
    code: String,
    /// The page of the code.
    link: String,
    /// The quota, such as `monthly_workflow_runs`.
    #[schema(rename = "quotaType")]
    quota_type: Option<String>,
    limit: Option<i64>,
    current: Option<i64>,
}

/// Status, name, schema and description.
const REFUSALS: &[(u16, &str, &str, &str)] = &[
    (400, "BadRequest", "ValidationErrorResponse", "The request is invalid"),
    (401, "Unauthorized", "ErrorResponse", "The credential is missing or invalid"),
    (403, "Forbidden", "ErrorResponse", "The credential does not allow this"),
    (
        404,
        "NotFound",
        "ErrorResponse",
        "The resource does not exist in this tenant, or the tenant is not the caller's",
    ),
    (409, "Conflict", "ErrorResponse", "The request is not possible in this state"),
    (413, "TooLarge", "ErrorResponse", "The body has more than 16 MiB, or a payload more than 1 MiB"),
    (
        429,
        "TooManyRequests",
        "QuotaErrorResponse",
        "A limit is reached; `Retry-After` says when to try again",
    ),
    (
        503,
        "Unavailable",
        "ErrorResponse",
        "The server cannot answer now; `Retry-After` says when to try again",
    ),
];

/// Adds the refusals to operations that need a credential. Operations that change something have more of them.
pub(super) fn add(document: &mut Value) {
    let components = &mut document["components"];
    components["schemas"]["ValidationErrorResponse"] = json!(ErrorResponse::schema());
    for (status, name, schema, about) in REFUSALS {
        let problem = json!({ "schema": { "$ref": "#/components/schemas/ProblemDetails" } });
        let mut content = json!({
            "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } },
        });
        content[PROBLEM_JSON] = problem;
        let mut response = json!({ "description": about, "content": content });
        if [429, 503].contains(status) {
            let seconds =
                json!({ "schema": { "type": "integer" }, "description": "The number of seconds to wait" });
            response["headers"] = json!({ "Retry-After": seconds });
        }
        components["responses"][*name] = response;
    }
    for_each_operation(document, |method, operation| {
        if operation.get("security") == Some(&json!([{}])) {
            return;
        }
        let changes = method != "get";
        let has_body = operation.get("requestBody").is_some();
        for (status, name, ..) in REFUSALS {
            let may_be = match status {
                409 => changes,
                413 => has_body,
                _ => true,
            };
            if may_be {
                let response = json!({ "$ref": format!("#/components/responses/{name}") });
                operation["responses"][status.to_string()] = response;
            }
        }
    });
}
