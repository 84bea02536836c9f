//! Why a call did not succeed.

use std::time::Duration;

use serde::Deserialize;

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
    /// Not from Flovyn, but from something in between.
    #[error("HTTP status {status} without a reason: is this a Flovyn server? It said: {start}")]
    Foreign { status: u16, start: String },
    #[error("an answer that is not understood: {0}; is the server of another version?")]
    Unexpected(String),
}

/// The body of a refusal. Outside of the API there is no link, and `error` is a constant.
#[derive(Deserialize)]
struct Refusal {
    error: String,
    message: String,
    code: String,
    link: Option<String>,
}

/// As much of a foreign answer as is shown.
const SHOWN: usize = 200;

impl ClientError {
    pub(crate) fn refused(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(Refusal { error, message, code, link: Some(_) }) => {
                Self::Refused { status, code, error, advice: message }
            }
            Ok(Refusal { message, code, link: None, .. }) => {
                Self::Refused { status, code, error: message, advice: String::new() }
            }
            Err(_) => {
                let start = String::from_utf8_lossy(body).chars().take(SHOWN).collect();
                Self::Foreign { status, start }
            }
        }
    }

    pub(super) fn unreachable(url: &str, error: &dyn std::error::Error) -> Self {
        // The innermost says what happened, the outer ones only where.
        let mut innermost = error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        Self::Unreachable { url: url.to_owned(), why: innermost.to_string() }
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

    #[test]
    fn a_refusal_has_its_code_and_advice() {
        let body = br#"{"error":"no such thing","message":"Look elsewhere.","code":"FLV0031","link":"x"}"#;
        let refused = ClientError::refused(404, body);
        assert_eq!(refused.to_string(), "FLV0031: no such thing. Look elsewhere.");
        let body = br#"{"error":"NOT_FOUND","message":"there is nothing at /_/x","code":"FLV0082"}"#;
        let refused = ClientError::refused(404, body);
        assert!(
            matches!(&refused, ClientError::Refused { error, .. } if error == "there is nothing at /_/x")
        );
        let foreign = ClientError::refused(502, b"<html>bad gateway");
        assert!(matches!(foreign, ClientError::Foreign { status: 502, .. }), "{foreign}");
        assert!(foreign.to_string().contains("bad gateway"));
    }
}
