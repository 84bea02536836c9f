//! Why a call or a connection failed, in words that say what to do.

use std::error::Error;

use tonic::Status;

use crate::error::Carried;
use crate::wire::ERROR_CODE;

/// Failures that trying again does not cure: part of the cause's text, and what to do.
const LASTING: &[(&str, &str)] = &[
    (
        "UnknownIssuer",
        "the server's certificate is signed by a CA that is not trusted here: name the CA's PEM file with `Tls::ca_file` or SSL_CERT_FILE",
    ),
    (
        "BadSignature",
        "the server's certificate is signed by another CA of the same name: name the right CA's PEM file with `Tls::ca_file`",
    ),
    (
        "CaUsedAsEndEntity",
        "the server's certificate is a CA certificate: give the server a certificate of its own, signed by that CA",
    ),
    (
        "not valid for name",
        "the server's certificate has other names: use one of them in the URL, or name it with `Tls::server_name`",
    ),
    ("certificate expired", "renew the server's certificate, or check the clock of this machine"),
    (
        "CertificateRequired",
        "the server asks for a client certificate: give one with `Tls::client_certificate_files`",
    ),
    (
        "received fatal alert",
        "the server refused the TLS connection: check the client certificate given with `Tls::client_certificate_files`",
    ),
    (
        "InvalidContentType",
        "the server does not speak TLS at this address: use a URL with http://, or set `[tls]` in the server's configuration",
    ),
    ("HTTP/2 was not negotiated", "this is not the server's gRPC address: use the one of `grpc.address`"),
];

/// Failures that may pass: a server that stops looks the same.
const PASSING: &[(&str, &str)] = &[(
    "operation was canceled",
    "the peer closed the connection without an answer: if it speaks TLS, use a URL with https://; if it asks for a client certificate, give one with `Tls::client_certificate_files`",
)];

/// What the transport says about everything.
const SAYS_NOTHING: &[&str] = &["", "transport error"];

/// The message of a server, or every cause of a broken connection and what to do about it.
pub(crate) fn reason(status: &Status) -> String {
    if status.metadata().contains_key(ERROR_CODE) {
        return status.message().to_owned();
    }
    let text = chain(status);
    match advice(LASTING, &text).or_else(|| advice(PASSING, &text)) {
        Some(advice) => format!("{text}; {advice}"),
        None => text,
    }
}

/// Whether trying again cannot help before somebody changes the configuration.
pub(crate) fn lasts(status: &Status) -> bool {
    !status.metadata().contains_key(ERROR_CODE) && advice(LASTING, &chain(status)).is_some()
}

fn advice(list: &[(&str, &'static str)], text: &str) -> Option<&'static str> {
    list.iter().find(|(part, _)| text.contains(part)).map(|(_, advice)| *advice)
}

/// An error with its causes. A cause that the text before it has already is left out.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut said = vec![match error.downcast_ref::<Status>() {
        Some(status) => status.message().to_owned(),
        None => error.to_string(),
    }];
    let mut next = error.source();
    while let Some(cause) = next {
        // It says what the error that it stands for is called, not why.
        if !cause.is::<Carried>() {
            said.push(cause.to_string());
        }
        next = cause.source();
    }
    let mut text = String::new();
    for cause in said.iter().filter(|cause| !SAYS_NOTHING.contains(&cause.as_str())) {
        if !text.contains(cause) {
            text = if text.is_empty() { cause.clone() } else { format!("{text}: {cause}") };
        }
    }
    if text.is_empty() { said.swap_remove(0) } else { text }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn broken(cause: &'static str) -> Status {
        Status::from_error(Box::new(io::Error::other(io::Error::other(cause))))
    }

    #[test]
    fn a_cause_is_named_once_and_comes_with_advice_where_there_is_some() {
        assert_eq!(reason(&broken("connection refused")), "connection refused");
        assert!(!lasts(&broken("connection refused")));
        let untrusted = broken("invalid peer certificate: UnknownIssuer");
        let text = reason(&untrusted);
        assert!(text.starts_with("invalid peer certificate: UnknownIssuer; "), "{text}");
        assert!(text.contains("`Tls::ca_file`"), "{text}");
        assert!(lasts(&untrusted));
        let closed = broken("operation was canceled");
        assert!(reason(&closed).contains("https://") && reason(&closed).contains("client certificate"));
        assert!(!lasts(&closed), "a server that stops looks the same");
        let silent = Status::from_error(Box::new(io::Error::other("transport error")));
        assert_eq!(reason(&silent), "transport error", "better than nothing");
    }

    #[test]
    fn what_the_server_says_stays_as_it_is() {
        let mut status = Status::unavailable("UnknownIssuer is the name of a workflow");
        status.metadata_mut().insert(ERROR_CODE, "FLV0001".parse().unwrap());
        assert_eq!(reason(&status), "UnknownIssuer is the name of a workflow");
        assert!(!lasts(&status));
    }
}
