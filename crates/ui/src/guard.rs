//! Checks that apply to every request and answer: headers that block foreign content, and the origin of changes.

use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, HOST, LOCATION, ORIGIN, REFERER, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Ui;
use crate::failure::{self, Failure};
use crate::layout;
use crate::session::{self, Found, Session};
use crate::urls::is_local;
use crate::wish::Wish;

/// Only scripts, styles and connections of this server; nothing inline, and no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

const ALWAYS: &[(&str, &str)] = &[
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
];

/// The address of the current page, as the browser sent it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Here {
    /// The path and query of the request.
    pub(crate) page: String,
    /// The host name and port of this server.
    host: String,
}

impl Here {
    fn new(request: &Request) -> Self {
        let page = request.uri().path_and_query().map_or("/", |page| page.as_str()).to_owned();
        let named = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        // HTTP/2 names the host in the URI.
        let host = named.or_else(|| request.uri().authority().map(|authority| authority.as_str()));
        Self { page, host: host.unwrap_or_default().to_owned() }
    }

    /// Reads what `check` stored in every request. Extractors would see only the path below their own router.
    pub(crate) fn of(parts: &Parts) -> Self {
        parts.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// The page that the form was sent from. `None` if the browser does not name it, or if it is not one of these
    /// pages.
    pub(crate) fn form_page<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let (_, named) = headers.get(REFERER)?.to_str().ok()?.split_once("://")?;
        let page = named.strip_prefix(self.host.as_str())?;
        (page.starts_with("/t/") && is_local(page)).then_some(page)
    }
}

/// Adds the headers, refuses changes from other sites, and gives visitors of a local server their session.
pub(crate) async fn check(State(ui): State<Ui>, mut request: Request, next: Next) -> Response {
    let (mut made, wish, here) = (None, Wish::of(request.headers()), Here::new(&request));
    let response = if !request.method().is_safe() && !ui.is_own_page(&here, request.headers()) {
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
        request.extensions_mut().insert(here);
        let response = next.run(request).await;
        match strange {
            Some(own) if asks_to_sign_in(&response) => {
                made = Some(own);
                layout::again().into_response()
            }
            _ => response,
        }
    };
    let mut response = failure::in_form(response, wish);
    let is_refused = response.status().is_client_error();
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    // Pages show one visitor's data, so shared caches must not store them.
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    // A visitor who asks for an unknown page does not need a session.
    if let Some(made) = made.filter(|_| !is_refused && !headers.contains_key(SET_COOKIE)) {
        headers.insert(SET_COOKIE, made.cookie(ui.options.secure));
    }
    response
}

impl Ui {
    fn is_own_page(&self, here: &Here, headers: &HeaderMap) -> bool {
        is_own_page(&here.host, self.options.secure || came_encrypted(headers), headers)
    }

    /// The session of this server for a visitor who sent another one. Browsers do not separate cookies by port, so the
    /// cookie may be from another server on this machine.
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

/// Whether the visitor followed a link on another site, in which case the browser does not send the session. The page
/// is then requested once more from this site, before a sign-in is required.
fn came_by_foreign_link(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    is("sec-fetch-site", "cross-site")
        && is("sec-fetch-mode", "navigate")
        && session::find(headers) == Found::Nothing
}

/// Whether a proxy in front of this server received the request encrypted. The header can only make checks stricter: a
/// client that forges it locks itself out.
pub(crate) fn came_encrypted(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https")
}

/// Whether a change comes from one of these pages. Browsers send the site that a change comes from. Other programs send
/// nothing, and have no cookie to abuse.
///
/// `Sec-Fetch-Site` compares the scheme too, and every current browser sends it over TLS. An `Origin` alone must be
/// `https` if the connection is known to be encrypted. Otherwise both schemes are accepted: a proxy that terminates TLS
/// need not announce it, and refusing `https` would lock out all visitors behind it.
fn is_own_page(host: &str, encrypted: bool, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or(""));
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = text(ORIGIN.as_str()) else { return true };
    match origin.split_once("://") {
        Some(("https", named)) => named == host,
        Some(("http", named)) => named == host && !encrypted,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    type Given = &'static [(&'static str, &'static str)];

    fn headers(given: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        given.iter().copied().map(pair).collect()
    }

    #[test]
    fn changes_come_from_own_pages() {
        // The headers, and whether they are from one of these pages: without and with encryption.
        let cases: &[(Given, bool, bool)] = &[
            (&[], true, true),
            (&[("origin", "http://a:1")], true, false),
            (&[("origin", "https://a:1")], true, true),
            (&[("origin", "ftp://a:1")], false, false),
            (&[("origin", "http://a:2")], false, false),
            (&[("origin", "https://a:2")], false, false),
            (&[("origin", "null")], false, false),
            (&[("sec-fetch-site", "same-origin")], true, true),
            (&[("sec-fetch-site", "same-site")], false, false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://a:1")], false, false),
            (&[("sec-fetch-site", "none")], false, false),
        ];
        for (given, open, encrypted) in cases {
            let headers = headers(given);
            assert_eq!(is_own_page("a:1", false, &headers), *open, "{given:?}");
            assert_eq!(is_own_page("a:1", true, &headers), *encrypted, "{given:?}, encrypted");
        }
    }

    #[test]
    fn the_page_of_a_form_is_one_of_ours() {
        let here = Here { page: "/t/one/tasks".into(), host: "a:1".into() };
        let cases = [
            ("http://a:1/t/one/tasks?q=x", Some("/t/one/tasks?q=x")),
            ("https://a:1/t/one", Some("/t/one")),
            ("http://a:1/login?next=%2F", None),
            ("http://a:1//evil.example/t/", None),
            ("http://a:12/t/one", None),
            ("http://evil.example/t/one", None),
            ("http://a:1@evil.example/t/one", None),
            ("http://a:1", None),
            ("/t/one", None),
            ("", None),
        ];
        for (referer, page) in cases {
            assert_eq!(here.form_page(&headers(&[("referer", referer)])), page, "{referer}");
        }
        assert_eq!(here.form_page(&HeaderMap::new()), None);
    }
}
