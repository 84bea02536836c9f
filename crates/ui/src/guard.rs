//! What every answer and every request goes through: headers that keep foreign content out, and the origin of changes.

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, LOCATION, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Ui;
use crate::failure::Failure;
use crate::layout;
use crate::session::{self, Found, Session};

/// Scripts, styles and connections of this server only; nothing inline, nothing in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const ALWAYS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
];

/// Path and query of the page that was asked for, as the browser knows it.
#[derive(Debug, Clone)]
pub(crate) struct Here(pub(crate) String);

/// Adds the headers, refuses changes that another site asks for, and gives visitors of a local server their session.
pub(crate) async fn check(State(ui): State<Ui>, mut request: Request, next: Next) -> Response {
    let mut made = None;
    let mut response = if !request.method().is_safe() && !is_own_page(request.headers()) {
        Failure::Forged.into_response()
    } else if came_by_foreign_link(request.headers()) {
        layout::again().into_response()
    } else {
        let found = session::find(request.headers());
        let strange = request.method().is_safe().then(|| ui.strange(&found)).flatten();
        let session = match found {
            Found::Session(session) => Some(session),
            Found::SignedOut => None,
            Found::Nothing => {
                made = ui.options.own_credential.as_deref().and_then(Session::new);
                made.clone()
            }
        };
        if let Some(session) = session {
            request.extensions_mut().insert(session);
        }
        let here = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
        request.extensions_mut().insert(Here(here));
        let response = next.run(request).await;
        match strange {
            Some(own) if asks_to_sign_in(&response) => {
                made = Some(own);
                layout::again().into_response()
            }
            _ => response,
        }
    };
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    // Pages show one visitor's data: nobody else's cache may keep them.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(made) = made.filter(|_| !headers.contains_key(SET_COOKIE)) {
        headers.insert(SET_COOKIE, made.cookie(ui.options.secure));
    }
    response
}

impl Ui {
    /// The session to be had here by somebody who has another one. Browsers do not tell the ports of one machine apart, so a
    /// cookie may be of a server that ran there before, or runs beside this one.
    fn strange(&self, found: &Found) -> Option<Session> {
        let own = self.options.own_credential.as_deref()?;
        matches!(found, Found::Session(session) if session.credential() != own)
            .then(|| Session::new(own))
            .flatten()
    }
}

fn asks_to_sign_in(response: &Response) -> bool {
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    response.status().is_redirection() && location.is_some_and(|location| location.starts_with("/login"))
}

/// A browser that follows a link on another site does not send the session along. Asked by a page of ours it does, so such
/// a visitor is sent here once more before anybody asks for a credential.
fn came_by_foreign_link(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    is("sec-fetch-site", "cross-site")
        && is("sec-fetch-mode", "navigate")
        && session::find(headers) == Found::Nothing
}

/// Browsers say which site a change comes from. Programs that are none say nothing, and have no cookie to abuse.
fn is_own_page(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin";
    }
    let host = text("host").unwrap_or("");
    match text(ORIGIN.as_str()) {
        None => true,
        Some(origin) => origin.split_once("://").is_some_and(|(_, named)| named == host),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    #[test]
    fn changes_come_from_own_pages() {
        let cases: &[(&[(&str, &str)], bool)] = &[
            (&[("host", "a:1")], true),
            (&[("host", "a:1"), ("origin", "http://a:1")], true),
            (&[("host", "a:1"), ("origin", "http://a:2")], false),
            (&[("host", "a:1"), ("origin", "null")], false),
            (&[("host", "a:1"), ("sec-fetch-site", "same-origin")], true),
            (&[("host", "a:1"), ("sec-fetch-site", "same-site")], false),
            (&[("host", "a:1"), ("sec-fetch-site", "cross-site"), ("origin", "http://a:1")], false),
            (&[("host", "a:1"), ("sec-fetch-site", "none")], false),
        ];
        for (given, own) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in *given {
                headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
            }
            assert_eq!(is_own_page(&headers), *own, "{given:?}");
        }
    }
}
