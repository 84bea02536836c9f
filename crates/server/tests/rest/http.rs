//! A minimal HTTP client.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::worker::PATIENCE;

/// The answer. `body` is null if it is not JSON.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) text: String,
    pub(crate) headers: axum::http::HeaderMap,
}

impl Answer {
    /// The seconds to wait before a retry. `None`: the header is missing.
    pub(crate) fn retry_after(&self) -> Option<i64> {
        self.headers.get("retry-after").map(|value| value.to_str().unwrap().parse().unwrap())
    }

    /// The body, which must come with this status.
    #[track_caller]
    pub(crate) fn ok(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// Checks that the answer is a refusal with this code and a page.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert!(self.body["error"].is_string() && self.body["message"].is_string(), "{}", self.text);
        assert!(self.body["link"].as_str().unwrap().ends_with(&format!("/docs/errors/{code}.md")));
        self.body
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Http {
    address: SocketAddr,
    client: Client<HttpConnector, Full<Bytes>>,
}

pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

impl Http {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    async fn open(
        &self,
        method: &str,
        path: &str,
        headers: Headers<'_>,
        body: Bytes,
    ) -> axum::http::Response<axum::body::Body> {
        let mut request =
            axum::http::Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, value.as_bytes());
        }
        let sent = self.client.request(request.body(Full::new(body)).unwrap());
        let response = tokio::time::timeout(PATIENCE, sent).await.expect("an answer in time").unwrap();
        response.map(axum::body::Body::new)
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: Headers<'_>,
        body: impl Into<Bytes>,
    ) -> Answer {
        let response = self.open(method, path, headers, body.into()).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let read = tokio::time::timeout(PATIENCE, response.into_body().collect());
        let body = read.await.expect("a body in time").unwrap().to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        Answer { status, body: serde_json::from_slice(&body).unwrap_or_default(), text, headers }
    }

    /// A long answer, of which nothing is read yet.
    pub(crate) async fn begin(&self, path: &str, token: &str) -> axum::body::Body {
        let bearer = format!("Bearer {token}");
        let response = self.open("GET", path, &[("authorization", &bearer)], Bytes::new()).await;
        assert_eq!(response.status().as_u16(), 200);
        response.into_body()
    }

    /// A stream of events that stays open.
    pub(crate) async fn follow(&self, path: &str, headers: Headers<'_>) -> Events {
        let response = self.open("GET", path, headers, Bytes::new()).await;
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events { body: response.into_body(), text: String::new() }
    }
}

/// Server-sent events, one after the other.
#[derive(Debug)]
pub(crate) struct Events {
    body: axum::body::Body,
    text: String,
}

/// The id, the type and the data of an event.
pub(crate) type Event = (i64, String, Value);

impl Events {
    /// The next event. `None`: the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                let field =
                    |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let Some(id) = field("id:") else { continue };
                let data = serde_json::from_str(field("data:").unwrap()).unwrap();
                return Some((id.parse().unwrap(), field("event:").unwrap().to_owned(), data));
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("a frame in time")?;
            self.text.push_str(std::str::from_utf8(frame.unwrap().data_ref().unwrap()).unwrap());
        }
    }
}
