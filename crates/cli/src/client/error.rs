//! Why a call to the server failed.

use std::time::Duration;

use hyper_util::client::legacy;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::connect::NoTls;

/// A failed call. Each message says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(
        "'{0}' is not a server address: use for example http://127.0.0.1:8080 or https://flovyn.example.com"
    )]
    Url(String),
    #[error("the token contains characters that are not allowed in a token: check it")]
    Token,
    #[error("cannot load trusted certificates: {0}; name a PEM file with SSL_CERT_FILE")]
    Certificates(String),
    #[error("{url} does not answer: {why}; is the server running?")]
    Unreachable { url: String, why: String },
    #[error("the connection broke: {0}; try again")]
    Broken(String),
    /// The server refused the request. `code` is stable and has a page.
    #[error("{code}: {error}. {advice}")]
    Refused { status: u16, code: String, error: String, advice: String },
    /// An HTTP answer that is not from Flovyn: another program listens at the address, or a proxy answered.
    #[error("{url} is not a Flovyn server: it answered with {0}", described(*status, points_to, start))]
    Foreign { url: String, status: u16, points_to: Option<String>, start: String },
    /// The answer is not quoted, because its first bytes depend on which side sends first.
    #[error("{url} does not speak HTTP")]
    NotHttp { url: String },
    #[error("cannot establish TLS with {url}: {why}")]
    NotTls { url: String, why: String },
    /// The answer is JSON and may be from Flovyn, but does not have the expected fields.
    #[error("cannot read the server's answer: {0}")]
    Unreadable(String),
}

/// The body of a refusal. If `link` is missing, `error` is a constant and `message` has the whole text.
#[derive(Deserialize)]
struct Refusal {
    error: String,
    message: String,
    code: String,
    link: Option<String>,
}

/// What hyper says if the other side sends before it has received a request. There is no method to ask for it.
const SENT_FIRST: &str = "received unexpected message from connection";

/// How many characters of a foreign answer are shown.
const SHOWN: usize = 200;

fn described(status: u16, points_to: &Option<String>, start: &str) -> String {
    let mut text = format!("HTTP status {status}");
    if let Some(place) = points_to {
        text.push_str(&format!(", which redirects to {place}"));
    }
    if !start.is_empty() {
        text.push_str(&format!(", and: {start}"));
    }
    text
}

impl ClientError {
    /// An answer of a server that is not Flovyn. Its beginning is kept, on one line.
    pub(super) fn foreign(url: &str, status: u16, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let words: Vec<&str> = text.split_whitespace().collect();
        let start = words.join(" ").chars().take(SHOWN).collect();
        Self::Foreign { url: url.to_owned(), status, points_to: None, start }
    }

    pub(crate) fn refused(url: &str, status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(Refusal { error, message, code, link: Some(_) }) => {
                Self::Refused { status, code, error, advice: message }
            }
            Ok(Refusal { message, code, link: None, .. }) => {
                Self::Refused { status, code, error: message, advice: String::new() }
            }
            Err(_) => Self::foreign(url, status, body),
        }
    }

    /// Adds the target of a redirect.
    pub(super) fn pointing_to(self, place: Option<String>) -> Self {
        match self {
            Self::Foreign { url, status, start, .. } => {
                Self::Foreign { url, status, points_to: place, start }
            }
            other => other,
        }
    }

    /// No HTTP answer arrived: the connection failed or broke, or the reply was not HTTP.
    pub(super) fn unanswered(url: &str, error: &legacy::Error) -> Self {
        let chain = || {
            std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source())
        };
        // The innermost error says what happened; the outer ones only say where. A broken connection may be marked on
        // any of them.
        let innermost = chain().last().unwrap_or(error);
        let broke = chain()
            .filter_map(|error| error.downcast_ref::<hyper::Error>())
            .any(|error| error.is_incomplete_message() || error.is_canceled() || error.is_closed());
        let (url, why) = (url.to_owned(), innermost.to_string());
        // `io::Error::source` leaves out the error that it wraps, so `get_ref` is needed.
        let io = innermost.downcast_ref::<std::io::Error>();
        if io.and_then(std::io::Error::get_ref).is_some_and(|inner| inner.is::<NoTls>()) {
            Self::NotTls { url, why }
        } else if error.is_connect() {
            Self::Unreachable { url, why }
        } else if io.is_some() || (broke && why != SENT_FIRST) {
            Self::Broken(why)
        } else {
            Self::NotHttp { url }
        }
    }

    /// A successful answer whose body does not have the expected form.
    pub(super) fn unreadable(url: &str, status: u16, body: &[u8], error: &serde_json::Error) -> Self {
        match serde_json::from_slice::<&RawValue>(body) {
            Ok(_) => Self::Unreadable(error.to_string()),
            Err(_) => Self::foreign(url, status, body),
        }
    }

    pub(super) fn late(url: &str, limit: Duration) -> Self {
        Self::Unreachable { url: url.to_owned(), why: format!("no answer within {limit:?}") }
    }
}

/// For commands whose error type is a text.
impl From<ClientError> for String {
    fn from(error: ClientError) -> Self {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "http://a";

    #[test]
    fn a_refusal_has_its_code_and_advice() {
        let body = br#"{"error":"no such thing","message":"Look elsewhere.","code":"FLV0031","link":"x"}"#;
        let refused = ClientError::refused(URL, 404, body);
        assert_eq!(refused.to_string(), "FLV0031: no such thing. Look elsewhere.");
        let body = br#"{"error":"NOT_FOUND","message":"there is nothing at /_/x","code":"FLV0082"}"#;
        let refused = ClientError::refused(URL, 404, body);
        assert!(
            matches!(&refused, ClientError::Refused { error, .. } if error == "there is nothing at /_/x")
        );
    }

    #[test]
    fn an_answer_of_another_server_is_recognised() {
        let foreign = ClientError::refused(URL, 502, b"<html>\r\n  bad gateway");
        assert_eq!(
            foreign.to_string(),
            "http://a is not a Flovyn server: it answered with HTTP status 502, and: <html> bad gateway"
        );
        let moved = ClientError::refused(URL, 301, b"").pointing_to(Some("https://a/x".into()));
        assert_eq!(
            moved.to_string(),
            "http://a is not a Flovyn server: it answered with HTTP status 301, which redirects to https://a/x"
        );
    }

    #[test]
    fn an_html_page_is_foreign_and_unexpected_json_is_unreadable() {
        let error = serde_json::from_str::<i64>("{}").unwrap_err();
        let page = ClientError::unreadable(URL, 200, b"<html>", &error);
        assert!(matches!(page, ClientError::Foreign { status: 200, .. }), "{page}");
        let json = ClientError::unreadable(URL, 200, b"{}", &error);
        assert!(matches!(&json, ClientError::Unreadable(why) if why.contains("expected i64")), "{json}");
    }
}
