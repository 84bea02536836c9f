//! The only place where a refusal becomes an HTTP answer.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use flovyn_auth::AuthError;
use flovyn_engine::code::{Class, visible};
use flovyn_engine::{Code, Exceeded, Refusal};
use flovyn_store::StoreError;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::problem::ProblemDetails;

/// The directory with a page for each code.
const PAGES: &str = "https://github.com/flovyn/flovyn/blob/main/docs/errors";

/// The reason why a request was refused.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorResponse {
    /// The problem with this request.
    error: String,
    /// What to do.
    message: String,
    /// A stable code, such as `FLV0031`.
    code: String,
    /// The page of the code.
    link: String,
}

/// An error. `error` describes this request, `message` says what to do, `code` is stable and has a page.
#[derive(Debug, Clone)]
pub struct RestError {
    status: StatusCode,
    error: String,
    message: String,
    code: Code,
    exceeded: Option<Exceeded>,
    retry_after_seconds: Option<i64>,
}

impl RestError {
    pub(super) fn new(code: Code, error: impl Into<String>) -> Self {
        let message = code.advice().to_owned();
        Self {
            status: status(code),
            error: visible(error.into()),
            message,
            code,
            exceeded: None,
            retry_after_seconds: None,
        }
    }

    pub(super) fn unauthenticated() -> Self {
        Self::new(Code::Unauthenticated, "Missing or invalid authorization token")
    }

    pub(super) fn forbidden(error: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, error)
    }

    fn page(&self) -> String {
        format!("{PAGES}/{}.md", self.code)
    }

    /// The fields `error` and `message`. If a quota is used up, `error` is a constant, so that programs can tell which
    /// quota it is.
    fn told(&self) -> (String, String) {
        match self.exceeded {
            Some(_) => (quota(self.code).0.to_owned(), self.error.clone()),
            None => (self.error.clone(), self.message.clone()),
        }
    }

    fn body(&self) -> Value {
        let (error, message) = self.told();
        let mut body =
            json!(ErrorResponse { error, message, code: self.code.to_string(), link: self.page() });
        if let Some(exceeded) = &self.exceeded {
            body["quotaType"] = quota(self.code).1.into();
            body["limit"] = exceeded.limit.into();
            if let Some(current) = exceeded.current {
                body["current"] = current.into();
            }
        }
        body
    }

    pub(super) fn problem(self) -> ProblemDetails {
        let (error, message) = self.told();
        ProblemDetails {
            page: self.page(),
            title: words(&format!("{:?}", self.code)),
            status: self.status.as_u16(),
            detail: self.error,
            code: self.code.to_string(),
            error,
            message,
            quota_type: self.exceeded.as_ref().map(|_| quota(self.code).1),
            limit: self.exceeded.as_ref().map(|exceeded| exceeded.limit),
            current: self.exceeded.as_ref().and_then(|exceeded| exceeded.current),
        }
    }
}

/// The constant in `error` for a used-up quota, and the name of the quota.
fn quota(code: Code) -> (&'static str, &'static str) {
    match code {
        Code::MonthlyQuotaExceeded => ("MONTHLY_QUOTA_EXCEEDED", "monthly_workflow_runs"),
        Code::ConcurrentQuotaExceeded => ("CONCURRENT_QUOTA_EXCEEDED", "concurrent_workflows"),
        _ => ("RATE_LIMIT_EXCEEDED", "requests_per_second"),
    }
}

/// Splits `ExecutionNotFound` into words.
fn words(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push(' ');
            text.extend(letter.to_lowercase());
        } else {
            text.push(letter);
        }
    }
    text
}

fn status(code: Code) -> StatusCode {
    match code.class() {
        _ if code == Code::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        _ if code == Code::RequestTooSlow => StatusCode::REQUEST_TIMEOUT,
        Class::InvalidArgument => StatusCode::BAD_REQUEST,
        Class::NotFound => StatusCode::NOT_FOUND,
        Class::AlreadyExists | Class::FailedPrecondition | Class::Aborted => StatusCode::CONFLICT,
        Class::Unauthenticated => StatusCode::UNAUTHORIZED,
        Class::PermissionDenied => StatusCode::FORBIDDEN,
        Class::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Class::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Class::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Class::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<Refusal> for RestError {
    fn from(refusal: Refusal) -> Self {
        let retry_after_seconds = refusal.exceeded.map(|exceeded| exceeded.retry_after_seconds);
        Self { exceeded: refusal.exceeded, retry_after_seconds, ..Self::new(refusal.code, refusal.message) }
    }
}

impl From<StoreError> for RestError {
    /// The database's message may name hosts and files, so it goes to the log only.
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a database read failed");
        match error {
            StoreError::Damaged(_) => Self::new(Code::DatabaseDamaged, "the database is damaged"),
            _ => Self::new(Code::StoreUnavailable, "the database did not answer"),
        }
    }
}

impl From<AuthError> for RestError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::TooManyTries { retry_after_seconds } => Self {
                retry_after_seconds: Some(retry_after_seconds),
                ..Self::new(Code::TooManyTries, "too many invalid credentials were tried")
            },
            AuthError::Unavailable => Self::new(Code::StoreUnavailable, "cannot check the credential now"),
            _ => Self::unauthenticated(),
        }
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                let seconds = self.retry_after_seconds.unwrap_or(1).max(1);
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            _ => {}
        }
        // For callers that ask for problem details.
        response.extensions_mut().insert(self);
        response
    }
}

pub(super) async fn no_such_path(uri: Uri) -> RestError {
    no_such_path_at(uri.path())
}

/// The error for an unknown path below `/api`.
pub(super) fn no_such_path_at(path: &str) -> RestError {
    let error = format!("there is nothing at /api{path}");
    RestError { status: StatusCode::NOT_FOUND, ..RestError::new(Code::NotOffered, error) }
}

pub(super) async fn no_such_method(uri: Uri) -> RestError {
    let error = format!("/api{} does not support this method", uri.path());
    RestError { status: StatusCode::METHOD_NOT_ALLOWED, ..RestError::new(Code::NotOffered, error) }
}

/// The engine returned the wrong kind of reply, which is a bug in the server.
pub(super) fn unexpected() -> RestError {
    tracing::error!("the engine returned an unexpected kind of reply");
    RestError::new(Code::Internal, "an unexpected reply")
}
