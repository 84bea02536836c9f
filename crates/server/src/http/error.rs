//! Errors as JSON: `error` is the kind, `message` says what to do, `code` is the engine's code if there is one.

use axum::Json;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use flovyn_auth::AuthError;
use flovyn_engine::Code;
use serde_json::json;

#[derive(Debug, Clone)]
pub struct HttpError {
    pub status: StatusCode,
    pub error: &'static str,
    pub message: String,
    pub code: Option<Code>,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into(), code: None }
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", message).coded(Code::PermissionDenied)
    }

    pub(crate) fn coded(self, code: Code) -> Self {
        Self { code: Some(code), ..self }
    }
}

impl From<AuthError> for HttpError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Unauthenticated(what) => {
                Self::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", what).coded(Code::Unauthenticated)
            }
            AuthError::Unavailable => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "UNAVAILABLE",
                "the credential could not be checked just now; try again",
            )
            .coded(Code::StoreUnavailable),
        }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let code = self.code.map(|code| code.to_string());
        let body = Json(json!({ "error": self.error, "message": self.message, "code": code }));
        let mut response = (self.status, body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

pub(super) async fn not_found(uri: Uri) -> HttpError {
    HttpError::new(StatusCode::NOT_FOUND, "NOT_FOUND", format!("there is nothing at {}", uri.path()))
}

pub(super) async fn method_not_allowed(uri: Uri) -> HttpError {
    let message = format!("{} does not answer this method", uri.path());
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
}
