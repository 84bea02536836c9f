//! Errors of pages, shown to people as a page, and to scripts and programs as JSON.

use axum::Json;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::html;
use serde_json::json;

use crate::layout;
use crate::parts::document;
use crate::rest::Refusal;
use crate::urls::query;
use crate::wish::Wish;

/// The most characters that are shown of one sentence.
const MOST: usize = 2_000;
/// The directory with a page for each code, the same as in REST.
const CODE_PAGES: &str = "https://github.com/flovyn/flovyn/blob/main/docs/errors";

/// The codes of errors that are found here, before REST is called. They are codes of REST; there are no others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Code {
    InvalidPayload = 1,
    InvalidValue = 11,
    PayloadTooLarge = 20,
    RequestTooSlow = 78,
    Unauthenticated = 80,
    PermissionDenied = 81,
    NotOffered = 82,
    Internal = 90,
}

#[derive(Debug, Clone)]
pub(crate) enum Failure {
    /// The visitor has no session, or its credential is not valid any more.
    SignIn,
    /// Like `SignIn`, for a visitor who asked for this page.
    SignInFor(String),
    /// Like `SignIn`, for a visitor who tried to change something from this page. The change was not made.
    Undone(String),
    /// A change that did not come from one of these pages.
    Forged,
    /// REST refused the request, or would refuse it.
    Refused(StatusCode, Refusal),
}

impl Failure {
    pub(crate) fn said(status: StatusCode, code: Code, error: impl Into<String>, message: &str) -> Self {
        Self::Refused(status, refusal(code, error, message))
    }

    /// An internal error. The details go to the log.
    pub(crate) fn internal(what: &str, error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "{what}");
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::said(status, Code::Internal, "cannot create the page", "Try again.")
    }

    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        let message = "Check the address.";
        Self::said(StatusCode::NOT_FOUND, Code::NotOffered, what, message)
    }

    /// No page has this address.
    pub(crate) fn nothing_at(address: &str) -> Self {
        let path = address.split('?').next().unwrap_or_default();
        Self::not_found(format!("there is nothing at {path}"))
    }

    /// A form contains an invalid value.
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self::said(StatusCode::BAD_REQUEST, Code::InvalidValue, what, "Correct it and send it again.")
    }

    /// The status and the text.
    fn told(&self) -> (StatusCode, Refusal) {
        let not_signed_in = |message| {
            (StatusCode::UNAUTHORIZED, refusal(Code::Unauthenticated, "you are not signed in", message))
        };
        match self {
            Self::SignIn | Self::SignInFor(_) => not_signed_in("Sign in and try again."),
            Self::Undone(_) => not_signed_in("Nothing was changed. Sign in, then do it again."),
            Self::Forged => {
                let what = "the form is not from a page of this session";
                let message = "Load the page again and repeat what you did.";
                (StatusCode::FORBIDDEN, refusal(Code::PermissionDenied, what, message))
            }
            Self::Refused(status, refusal) => (*status, refusal.clone()),
        }
    }

    /// The sign-in page to redirect to, if the visitor must sign in.
    fn sign_in(&self) -> Option<String> {
        let from_start = |page: &'_ str| if page == "/" { String::new() } else { page.to_owned() };
        match self {
            Self::SignInFor(page) => Some(format!("/login{}", query([("next", from_start(page).as_str())]))),
            Self::Undone(page) => {
                Some(format!("/login{}", query([("next", from_start(page).as_str()), ("undone", "1")])))
            }
            _ => None,
        }
    }

    /// Whether the error is sent as JSON. A program that asks for a page is redirected like a browser.
    fn is_data(&self, wish: Wish) -> bool {
        match wish {
            Wish::Page => false,
            Wish::Part => true,
            Wish::Data => !matches!(self, Self::SignInFor(_)),
        }
    }
}

fn refusal(code: Code, error: impl Into<String>, message: &str) -> Refusal {
    let code = format!("FLV{:04}", code as u16);
    let link = format!("{CODE_PAGES}/{code}.md");
    Refusal { error: error.into(), message: message.to_owned(), code, link, retry_after: None }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = match self.sign_in() {
            Some(login) => (StatusCode::SEE_OTHER, [(LOCATION, login)]).into_response(),
            None => page(&self),
        };
        // Kept for `in_form`, which may need another form.
        response.extensions_mut().insert(self);
        response
    }
}

fn page(failure: &Failure) -> Response {
    let (status, refusal) = failure.told();
    let title = status.canonical_reason().unwrap_or("Refused");
    let body = html! {
        section.lonely {
            p.lonely-status { (status.as_u16()) }
            h1 { (title) }
            p { (document::inline(&refusal.error, MOST)) }
            p.muted { (document::inline(&refusal.message, MOST)) }
            @if !refusal.code.is_empty() {
                p { a href=(refusal.link) rel="noreferrer" { "What " (refusal.code) " means" } }
            }
            p { a.button href="/" { "Back to the start" } }
        }
    };
    let mut response = (status, layout::bare(title, body)).into_response();
    if let Some(seconds) = refusal.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Converts an error to the requested form. Its headers stay.
pub(crate) fn in_form(mut response: Response, wish: Wish) -> Response {
    let failure = response.extensions_mut().remove::<Failure>().filter(|failure| failure.is_data(wish));
    let Some(failure) = failure else { return response };
    let (status, Refusal { error, message, code, link, .. }) = failure.told();
    let (kind, body) = if wish == Wish::Part {
        ("application/json", json!({ "error": error, "message": message, "code": code, "link": link }))
    } else {
        let title = status.canonical_reason().unwrap_or("Refused");
        let body = json!({
            "type": link, "title": title, "status": status.as_u16(), "detail": error, "code": code, "error": error,
            "message": message, "link": link,
        });
        ("application/problem+json", body)
    };
    let (mut parts, _) = response.into_parts();
    parts.status = status;
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.remove(LOCATION);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Response::from_parts(parts, Json(body).into_response().into_body())
}
