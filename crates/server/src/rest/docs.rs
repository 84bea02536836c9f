//! The API documentation: the OpenAPI document and Swagger UI, both inside the binary. It is the same for every caller
//! and contains no tenant's data. Callers from other machines still need a credential, unless the configuration makes
//! it public.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, X_CONTENT_TYPE_OPTIONS};
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flovyn_engine::Code;
use utoipa_swagger_ui::Config;

use super::access::person;
use super::error::{RestError, no_such_path_at};
use super::openapi;
use crate::api::Api;

const DOCUMENT: &str = "/api/docs/openapi.json";
/// The pages load nothing from other origins.
const ONLY_OURS: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                         frame-ancestors 'none'";

static TEXT: LazyLock<String> = LazyLock::new(|| openapi::document().to_string());

/// The only table of documentation paths. The router is built from it, and tests iterate over it.
macro_rules! routes {
    ($($path:literal $handler:path;)*) => {
        /// The method and path of every documentation route.
        pub const DOCS_ROUTES: &[(&str, &str)] = &[$(("GET", concat!("/api", $path)),)*];

        pub(super) fn router(api: &Api, public: bool) -> Router<Api> {
            let router = Router::new()$(.route($path, get($handler)))*;
            if public { router } else { router.layer(from_fn_with_state(api.clone(), guard)) }
        }
    };
}

routes! {
    "/docs" to_pages;
    "/docs/" index;
    "/docs/openapi.json" document;
    "/docs/{file}" file;
}

async fn to_pages() -> impl IntoResponse {
    (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "/api/docs/")])
}

async fn index() -> Response {
    page("index.html")
}

async fn document() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str())
}

async fn guard(State(api): State<Api>, request: Request, next: Next) -> Result<Response, RestError> {
    let (parts, body) = request.into_parts();
    person(&api, &parts).await?;
    Ok(next.run(Request::from_parts(parts, body)).await)
}

async fn file(name: Result<Path<String>, PathRejection>, uri: Uri) -> Response {
    match name {
        Ok(Path(name)) => page(&name),
        // The path is not valid UTF-8.
        Err(_) => no_such_path_at(uri.path()).into_response(),
    }
}

/// Serves a file of Swagger UI.
fn page(name: &str) -> Response {
    // By default, Swagger UI sends the document to an external validator.
    let config = Config::from(DOCUMENT).validator_url("none");
    match utoipa_swagger_ui::serve(name, Arc::new(config)) {
        Ok(Some(file)) => {
            let headers = [
                (CONTENT_TYPE, file.content_type.as_str()),
                (CONTENT_SECURITY_POLICY, ONLY_OURS),
                (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            (headers, file.bytes.into_owned()).into_response()
        }
        Ok(None) => no_such_path_at(&format!("/docs/{name}")).into_response(),
        Err(error) => {
            tracing::error!(%error, "cannot create a page of the documentation");
            RestError::new(Code::Internal, "cannot create the page").into_response()
        }
    }
}
