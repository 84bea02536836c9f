//! Protects a development server from foreign web pages. A browser on this machine connects to the loopback address for
//! any page whose name resolves to it (DNS rebinding). But the browser sends that name and the origin of the page,
//! which are checked here.

use axum::extract::Request;
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::HttpError;

pub(super) async fn check(request: Request, next: Next) -> Response {
    if !is_local(request.uri(), request.headers()) {
        let message = "this development server answers only to localhost, and only to local pages";
        return HttpError::forbidden(message).into_response();
    }
    next.run(request).await
}

pub(super) fn is_local(uri: &Uri, headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).map(|host| host.to_str().unwrap_or(""));
    // HTTP/2 names the host in the URI.
    let host = host.or_else(|| uri.authority().map(|authority| authority.as_str()));
    let origin_is_local = headers.get(header::ORIGIN).is_none_or(|origin| {
        let page = origin.to_str().unwrap_or("");
        let address = page.strip_prefix("http://").or_else(|| page.strip_prefix("https://"));
        address.is_some_and(is_loopback)
    });
    host.is_some_and(is_loopback) && origin_is_local
}

/// `localhost`, `127.0.0.1` or `[::1]`, with or without a port.
fn is_loopback(authority: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        let rest = authority.get(..name.len()).filter(|start| start.eq_ignore_ascii_case(name));
        let port = rest.and_then(|_| authority.get(name.len()..));
        port.is_some_and(|port| {
            port.is_empty() || port.strip_prefix(':').is_some_and(|number| number.parse::<u16>().is_ok())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_hosts_and_pages_pass() {
        let cases = [
            (Some("localhost:8080"), None, true),
            (Some("LOCALHOST"), None, true),
            (Some("127.0.0.1:1"), Some("http://localhost:5173"), true),
            (Some("[::1]:8080"), Some("https://[::1]"), true),
            (None, None, false),
            (Some("evil.example"), None, false),
            (Some("localhost.evil.example"), None, false),
            (Some("127.0.0.1.evil.example:80"), None, false),
            (Some("localhost:evil"), None, false),
            (Some("localhost:8080"), Some("https://evil.example"), false),
            (Some("localhost:8080"), Some("http://localhost.evil.example"), false),
            (Some("localhost:8080"), Some("null"), false),
        ];
        for (host, origin, passes) in cases {
            let mut headers = HeaderMap::new();
            if let Some(host) = host {
                headers.insert(header::HOST, host.parse().unwrap());
            }
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(is_local(&Uri::from_static("/"), &headers), passes, "{host:?} {origin:?}");
        }
    }
}
