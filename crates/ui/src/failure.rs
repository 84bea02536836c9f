//! Why there is no page, and the page that says so.

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use maud::html;

use crate::layout;
use crate::rest::Refusal;
use crate::urls::encode;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The visitor has no session, or its credential is not valid any more.
    SignIn,
    /// The same, for somebody who wanted this page.
    SignInFor(String),
    /// A change that was not asked for from a page of ours.
    Forged,
    /// REST said no.
    Refused(StatusCode, Refusal),
}

impl Failure {
    /// A fault of ours: what happened goes to the log.
    pub(crate) fn internal(what: &str, error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "{what}");
        Self::Refused(StatusCode::INTERNAL_SERVER_ERROR, said("the page could not be made", "Try again."))
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::Refused(StatusCode::NOT_FOUND, said(what, "Check the address, or start from the overview."))
    }

    /// Something that was typed into a form cannot be sent.
    pub(crate) fn wrong(what: impl Into<String>) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, said(what, "Correct it and send it again."))
    }

    /// Status and words, for pages and for scripts.
    pub(crate) fn told(&self) -> (StatusCode, Refusal) {
        match self {
            Self::SignIn | Self::SignInFor(_) => {
                (StatusCode::UNAUTHORIZED, said("you are not signed in", "Sign in and try again."))
            }
            Self::Forged => {
                let what = "the form is not from a page of this session";
                (StatusCode::FORBIDDEN, said(what, "Load the page again and repeat what you did."))
            }
            Self::Refused(status, refusal) => (*status, refusal.clone()),
        }
    }
}

fn said(error: impl Into<String>, message: &str) -> Refusal {
    Refusal { error: error.into(), message: message.to_owned(), ..Refusal::default() }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        if let Self::SignInFor(next) = &self {
            let next = if next == "/" { String::new() } else { format!("?next={}", encode(next)) };
            return (StatusCode::SEE_OTHER, [(LOCATION, format!("/login{next}"))]).into_response();
        }
        let (status, refusal) = self.told();
        let title = status.canonical_reason().unwrap_or("Refused");
        let body = html! {
            section.lonely {
                p.lonely-status { (status.as_u16()) }
                h1 { (title) }
                p { (refusal.error) }
                p.muted { (refusal.message) }
                @if !refusal.code.is_empty() {
                    p { a href=(refusal.link) rel="noreferrer" { "What " (refusal.code) " means" } }
                }
                p { a.button href="/" { "Back to the start" } }
            }
        };
        (status, layout::bare(title, body)).into_response()
    }
}
