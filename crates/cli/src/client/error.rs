//! Why a call did not succeed.

use std::time::Duration;

use hyper_util::client::legacy;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::connect::NoTls;

/// Each says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(
        "'{0}' is no address of a server: use for example http://127.0.0.1:8080 or https://flovyn.example.com"
    )]
    Url(String),
    #[error("the token has characters that no token has: check it")]
    Token,
    #[error("no certificate to check the server's with: {0}; name a PEM file with SSL_CERT_FILE")]
    Certificates(String),
    #[error("{url} does not answer: {why}; is the server running?")]
    Unreachable { url: String, why: String },
    #[error("the connection broke: {0}; try again")]
    Broken(String),
    /// The code is stable and has a page.
    #[error("{code}: {error}. {advice}")]
    Refused { status: u16, code: String, error: String, advice: String },
    /// Not from Flovyn, but from something else that listens there or stands in between.
    #[error("{url} does not answer as Flovyn does: {0}", described(*status, points_to, start))]
    Foreign { url: String, status: u16, points_to: Option<String>, start: String },
    /// No word of what it said: that depends on who speaks first.
    #[error("{url} does not answer in HTTP")]
    NotHttp { url: String },
    #[error("there is no safe connection to {url}: {why}")]
    NotTls { url: String, why: String },
    /// It may be from Flovyn, but is not what is expected here.
    #[error("an answer that cannot be read: {0}")]
    Unreadable(String),
}

/// The body of a refusal. Without a link `error` is a constant, and all is in `message`.
#[derive(Deserialize)]
struct Refusal {
    error: String,
    message: String,
    code: String,
    link: Option<String>,
}

/// As much of a foreign answer as is shown.
const SHOWN: usize = 200;

fn described(status: u16, points_to: &Option<String>, start: &str) -> String {
    let mut text = format!("HTTP status {status}");
    if let Some(place) = points_to {
        text.push_str(&format!(", which points to {place}"));
    }
    if !start.is_empty() {
        text.push_str(&format!(", and: {start}"));
    }
    text
}

impl ClientError {
    /// What any server may say that is none of Flovyn: the beginning of it, on one line.
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

    /// Says where a redirection leads.
    pub(super) fn pointing_to(self, place: Option<String>) -> Self {
        match self {
            Self::Foreign { url, status, start, .. } => {
                Self::Foreign { url, status, points_to: place, start }
            }
            other => other,
        }
    }

    /// No answer came: there was no connection, it broke, or what came back is no HTTP.
    pub(super) fn unanswered(url: &str, error: &legacy::Error) -> Self {
        let chain = || {
            std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| error.source())
        };
        // The innermost says what happened, the outer ones only where; which of them knows that it broke differs.
        let innermost = chain().last().unwrap_or(error);
        let broke = chain()
            .filter_map(|error| error.downcast_ref::<hyper::Error>())
            .any(|error| error.is_incomplete_message() || error.is_canceled() || error.is_closed());
        let (url, why) = (url.to_owned(), innermost.to_string());
        // What an error of that type wraps is not among its sources.
        let io = innermost.downcast_ref::<std::io::Error>();
        if io.and_then(std::io::Error::get_ref).is_some_and(|inner| inner.is::<NoTls>()) {
            Self::NotTls { url, why }
        } else if error.is_connect() {
            Self::Unreachable { url, why }
        } else if io.is_some() || broke {
            Self::Broken(why)
        } else {
            Self::NotHttp { url }
        }
    }

    /// What was sent with a success, but cannot be read as `T`.
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

/// Commands end with a text.
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
    fn what_is_not_from_flovyn_is_told_as_such() {
        let foreign = ClientError::refused(URL, 502, b"<html>\r\n  bad gateway");
        assert_eq!(
            foreign.to_string(),
            "http://a does not answer as Flovyn does: HTTP status 502, and: <html> bad gateway"
        );
        let moved = ClientError::refused(URL, 301, b"").pointing_to(Some("https://a/x".into()));
        assert_eq!(
            moved.to_string(),
            "http://a does not answer as Flovyn does: HTTP status 301, which points to https://a/x"
        );
    }

    #[test]
    fn a_page_is_not_blamed_on_a_version() {
        let error = serde_json::from_str::<i64>("{}").unwrap_err();
        let page = ClientError::unreadable(URL, 200, b"<html>", &error);
        assert!(matches!(page, ClientError::Foreign { status: 200, .. }), "{page}");
        let json = ClientError::unreadable(URL, 200, b"{}", &error);
        assert!(matches!(&json, ClientError::Unreadable(why) if why.contains("expected i64")), "{json}");
    }
}
