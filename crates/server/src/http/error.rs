//! Errors as JSON: `error` is the kind, `message` says what to do, `code` is stable and has a page.

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
    pub code: Code,
    pub retry_after_seconds: Option<i64>,
}

impl HttpError {
    pub(crate) fn new(
        status: StatusCode,
        error: &'static str,
        code: Code,
        message: impl Into<String>,
    ) -> Self {
        Self { status, error, message: message.into(), code, retry_after_seconds: None }
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", Code::PermissionDenied, message)
    }
}

impl From<AuthError> for HttpError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Unauthenticated(what) => {
                Self::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", Code::Unauthenticated, what)
            }
            AuthError::TooManyTries { retry_after_seconds } => Self {
                retry_after_seconds: Some(retry_after_seconds),
                ..Self::new(
                    StatusCode::TOO_MANY_REQUESTS,
                    "RESOURCE_EXHAUSTED",
                    Code::TooManyTries,
                    Code::TooManyTries.advice(),
                )
            },
            AuthError::Unavailable => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "UNAVAILABLE",
                Code::StoreUnavailable,
                "cannot check the credential now; try again",
            ),
        }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let code = self.code.to_string();
        let body = Json(json!({ "error": self.error, "message": self.message, "code": code }));
        let mut response = (self.status, body).into_response();
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = header::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

pub(super) async fn method_not_allowed(uri: Uri) -> HttpError {
    let message = format!("{} does not support this method", uri.path());
    HttpError::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", Code::NotOffered, message)
}
