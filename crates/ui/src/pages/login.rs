//! Signs in with a credential that REST accepts, and signs out.

use axum::extract::State;
use axum::http::header::{RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use flovyn_rest_types::Me;
use maud::{PreEscaped, html};
use serde::Deserialize;

use crate::Ui;
use crate::extract::{Form, Query};
use crate::failure::Failure;
use crate::guard::came_encrypted;
use crate::layout;
use crate::parts::icons;
use crate::session::{Session, no_cookie};
use crate::urls::is_local;
use crate::visitor::Visitor;

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    next: String,
    /// Whether a form was sent without a session and was not executed.
    #[serde(default)]
    undone: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Credentials {
    #[serde(default)]
    credential: String,
    #[serde(flatten)]
    wanted: Wanted,
    /// Whether to use this machine's own credential.
    #[serde(default)]
    own: String,
}

impl Wanted {
    fn is_undone(&self) -> bool {
        !self.undone.is_empty()
    }
}

pub(crate) async fn get(State(ui): State<Ui>, Query(wanted): Query<Wanted>) -> Response {
    form(&ui, &wanted, None).into_response()
}

fn form(ui: &Ui, wanted: &Wanted, problem: Option<&str>) -> impl IntoResponse {
    let kept = html! {
        input type="hidden" name="next" value=(wanted.next);
        @if wanted.is_undone() { input type="hidden" name="undone" value="1"; }
    };
    let body = html! {
        section.login {
            div.brand { (PreEscaped(icons::BRAND)) span { "Flovyn" } }
            h1 { "Sign in" }
            @if wanted.is_undone() {
                p.problem role="alert" {
                    "Your session had ended, so your form was not processed. Sign in to return to the page, then send it again."
                }
            }
            form method="post" action="/login" {
                (kept)
                label.field {
                    span { "JWT or API key" }
                    input type="password" name="credential" required autofocus autocomplete="off" spellcheck="false";
                }
                @if let Some(problem) = problem { p.problem role="alert" { (problem) } }
                button.button.primary.wide { "Sign in" }
            }
            @if ui.options.own_credential.is_some() {
                form method="post" action="/login" {
                    (kept)
                    input type="hidden" name="own" value="1";
                    button.button.wide { "Sign in as this machine's developer" }
                }
            }
            p.muted {
                "The credential that REST calls send after " code { "Authorization: Bearer" } ". A development server stores one as " code { "api_token" } " in " code { ".flovyn/credentials.json" } "."
            }
        }
    };
    layout::bare("Sign in", body)
}

pub(crate) async fn post(
    State(ui): State<Ui>,
    headers: HeaderMap,
    Form(given): Form<Credentials>,
) -> Response {
    let own = ui.options.own_credential.clone().filter(|_| !given.own.is_empty());
    let credential = own.unwrap_or_else(|| given.credential.trim().to_owned());
    let refuse =
        |status: StatusCode, problem: &str| (status, form(&ui, &given.wanted, Some(problem))).into_response();
    let Some(session) = Session::new(&credential) else {
        return refuse(StatusCode::UNAUTHORIZED, "This is neither a JWT nor an API key.");
    };
    match ui.rest.caller(&credential).get::<Me>("/api/me").await {
        Ok(_) => {
            let next = given.wanted.next.as_str();
            let next = if is_local(next) { next } else { "/" };
            let secure = ui.options.secure || came_encrypted(&headers);
            ([(SET_COOKIE, session.cookie(secure))], Redirect::to(next)).into_response()
        }
        Err(Failure::SignIn) => {
            let problem = "The server does not accept this credential. Check that it is complete and has not expired; worker tokens \
                           are for workers only.";
            refuse(StatusCode::UNAUTHORIZED, problem)
        }
        Err(Failure::Refused(status, refusal)) if refusal.is_of_tries() => {
            let problem = "The server does not accept this credential, and too many invalid ones were tried. Wait a minute, then \
                           try again.";
            let mut response = refuse(status, problem);
            response.headers_mut().extend(refusal.retry_after.map(|seconds| (RETRY_AFTER, seconds.into())));
            response
        }
        Err(failure) => failure.into_response(),
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct Leaving {
    #[serde(default)]
    form_token: String,
}

pub(crate) async fn leave(
    State(ui): State<Ui>,
    visitor: Result<Visitor, Failure>,
    Form(given): Form<Leaving>,
) -> Result<Response, Failure> {
    // A visitor who is not signed in has nothing to lose.
    if visitor.is_ok_and(|visitor| !visitor.session.knows(&given.form_token)) {
        return Err(Failure::Forged);
    }
    Ok(([(SET_COOKIE, no_cookie(ui.options.secure))], Redirect::to("/login")).into_response())
}
