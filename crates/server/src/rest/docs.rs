//! The API's own documentation: the OpenAPI document and Swagger UI, both inside the binary. The same for everybody, with
//! nothing of any tenant in it; still, others than this machine need a credential unless the configuration says otherwise.

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
/// The pages need nothing from anywhere else, and get nothing from there.
const ONLY_OURS: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                         frame-ancestors 'none'";

static TEXT: LazyLock<String> = LazyLock::new(|| openapi::document().to_string());

/// The one table of paths of the documentation: the router is built from it, and tests go through it.
macro_rules! routes {
    ($($path:literal $handler:path;)*) => {
        /// Method and path of everything here.
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
        // Bytes that are no text.
        Err(_) => no_such_path_at(uri.path()).into_response(),
    }
}

/// A file of Swagger UI.
fn page(name: &str) -> Response {
    // Its default is to send the document to a validator elsewhere.
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
            tracing::error!(%error, "a page of the documentation could not be made");
            RestError::new(Code::Internal, "the page could not be made").into_response()
        }
    }
}
