//! A client of the REST API: JSON requests and answers, errors with their codes, and event streams.
//!
//! - `answers`: the answers that the commands use.
//! - `connect`: TCP, with TLS for `https://`.
//! - `error`: why a call failed, with messages for the terminal.
//! - `events`: server-sent events.
//!
//! This client uses none of the server's code, so any other HTTP client can do the same.

pub(crate) mod answers;
mod connect;
mod error;
mod events;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::connect::Connector;
pub(crate) use self::error::ClientError;
pub(crate) use self::events::EventStream;
use crate::view::words::now_ms;

type Result<T> = std::result::Result<T, ClientError>;

/// The longest wait for a complete answer, or for the headers of a stream.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The largest answer. A page of the largest payloads is smaller.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// The header in which a server with a virtual clock sends its time.
const NOW_MS: &str = "flovyn-now-ms";

/// Query parameters: names and values. A parameter with the value `None` is left out.
pub(crate) type Query<'a> = [(&'a str, Option<String>)];

/// A client for one tenant of one server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: legacy::Client<Connector, Full<Bytes>>,
    /// `http://HOST:PORT`
    root: String,
    /// The prefix of paths inside the tenant: `http://HOST:PORT/api/tenants/TENANT`.
    base: String,
    authorization: HeaderValue,
    /// The last time that a server with a virtual clock sent. 0 before the first answer, and for other servers.
    server_ms: Arc<AtomicI64>,
}

impl Client {
    pub(crate) fn new(url: &str, tenant: &str, token: &str) -> Result<Self> {
        let root = url.trim_end_matches('/');
        let host = root.strip_prefix("http://").or_else(|| root.strip_prefix("https://"));
        if host.is_none_or(|host| host.is_empty() || host.contains(['/', '?', '#', '@', ' '])) {
            return Err(ClientError::Url(url.to_owned()));
        }
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::Token)?;
        authorization.set_sensitive(true);
        let connector = Connector::new(root.starts_with("https://"))?;
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        let base = format!("{root}/api/tenants{}", path(&[tenant]));
        let server_ms = Arc::default();
        Ok(Self { http, root: root.to_owned(), base, authorization, server_ms })
    }

    /// `http://HOST:PORT/api/tenants/TENANT`
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The time that ages are relative to: that of the server if its clock is virtual, otherwise that of this machine.
    pub(crate) fn now_ms(&self) -> i64 {
        match self.server_ms.load(Ordering::Relaxed) {
            0 => now_ms(),
            server_ms => server_ms,
        }
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, segments: &[&str]) -> Result<T> {
        self.get_with(segments, &[]).await
    }

    pub(crate) async fn get_with<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        query: &Query<'_>,
    ) -> Result<T> {
        let url = format!("{}{}{}", self.base, path(segments), query_text(query));
        self.call(Method::GET, url, Bytes::new()).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T> {
        self.call(Method::POST, format!("{}{}", self.base, path(segments)), written(body)?).await
    }

    pub(crate) async fn delete(&self, segments: &[&str]) -> Result<()> {
        self.call(Method::DELETE, format!("{}{}", self.base, path(segments)), Bytes::new()).await
    }

    /// Posts to a path that does not belong to the tenant.
    pub(crate) async fn post_to_root<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T> {
        self.call(Method::POST, format!("{}{}", self.root, path(segments)), written(body)?).await
    }

    /// Like `post_to_root`, but without a time limit.
    pub(crate) async fn post_to_root_patiently<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T> {
        let url = format!("{}{}", self.root, path(segments));
        let request = self.request(Method::POST, url, "application/json", written(body)?)?;
        self.read(whole(self.send(request).await?).await?)
    }

    /// Reads a path that does not belong to the tenant.
    pub(crate) async fn get_from_root<T: DeserializeOwned>(&self, segments: &[&str]) -> Result<T> {
        self.call(Method::GET, format!("{}{}", self.root, path(segments)), Bytes::new()).await
    }

    /// Opens an event stream. It begins after `last_event_id`, or at the first event if that is `None`.
    pub(crate) async fn follow(&self, segments: &[&str], last_event_id: Option<i64>) -> Result<EventStream> {
        let url = format!("{}{}", self.base, path(segments));
        let mut request = self.request(Method::GET, url, "text/event-stream", Bytes::new())?;
        if let Some(id) = last_event_id {
            request.headers_mut().insert("last-event-id", HeaderValue::from(id));
        }
        let response = self.within(self.send(request)).await?;
        let is_stream = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/event-stream");
        if !response.headers().get(CONTENT_TYPE).is_some_and(is_stream) {
            let status = response.status().as_u16();
            return Err(ClientError::foreign(&self.root, status, b"no event stream"));
        }
        Ok(EventStream::new(response.into_body()))
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, url: String, body: Bytes) -> Result<T> {
        let request = self.request(method, url, "application/json", body)?;
        self.read(self.within(async { whole(self.send(request).await?).await }).await?)
    }

    fn read<T: DeserializeOwned>(&self, (status, answer): (u16, Bytes)) -> Result<T> {
        // An empty body is read as null.
        let answer = if answer.is_empty() { Bytes::from_static(b"null") } else { answer };
        serde_json::from_slice(&answer)
            .map_err(|error| ClientError::unreadable(&self.root, status, &answer, &error))
    }

    fn request(
        &self,
        method: Method,
        url: String,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .header(AUTHORIZATION, self.authorization.clone())
            .header(ACCEPT, accept);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(body)).map_err(|_| ClientError::Url(self.root.clone()))
    }

    /// Sends the request and returns the answer. Fails if the status is not one of success.
    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        let unanswered = |error| ClientError::unanswered(&self.root, &error);
        let response = self.http.request(request).await.map_err(unanswered)?;
        let now_ms = response.headers().get(NOW_MS).and_then(|value| value.to_str().ok()?.parse().ok());
        if let Some(now_ms) = now_ms {
            self.server_ms.store(now_ms, Ordering::Relaxed);
        }
        if response.status().is_success() {
            return Ok(response);
        }
        let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok()).map(str::to_owned);
        let (status, body) = whole(response).await?;
        Err(ClientError::refused(&self.root, status, &body).pointing_to(place))
    }

    async fn within<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let late = |_| ClientError::late(&self.root, ANSWER_WITHIN);
        tokio::time::timeout(ANSWER_WITHIN, answer).await.map_err(late)?
    }
}

fn written(body: &impl Serialize) -> Result<Bytes> {
    let body = serde_json::to_vec(body).map_err(|error| ClientError::Unreadable(error.to_string()))?;
    Ok(body.into())
}

/// Reads the whole body of an answer. Returns it with the status.
async fn whole(response: Response<Incoming>) -> Result<(u16, Bytes)> {
    let status = response.status().as_u16();
    let collected = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
    let collected = collected.map_err(|error| match error.is::<LengthLimitError>() {
        true => ClientError::Unreadable(format!("larger than {} MiB", MAX_ANSWER_BYTES >> 20)),
        false => ClientError::Broken(error.to_string()),
    })?;
    Ok((status, collected.to_bytes()))
}

/// Joins segments to a path. Special characters are encoded, so a name can neither leave its segment nor add a query.
pub(crate) fn path(segments: &[&str]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        push_encoded(&mut path, segment);
    }
    path
}

fn query_text(query: &Query<'_>) -> String {
    let mut text = String::new();
    for (name, value) in query {
        let Some(value) = value else { continue };
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        push_encoded(&mut text, value);
    }
    text
}

fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_~:".contains(&byte) || (byte == b'.' && text.len() > 2) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_a_segment_are_encoded() {
        assert_eq!(path(&["promises", "key:order-7", "resolve"]), "/promises/key:order-7/resolve");
        assert_eq!(path(&["v1.2", "a/b?c#d %"]), "/v1.2/a%2Fb%3Fc%23d%20%25");
        assert_eq!(path(&["..", "."]), "/%2E%2E/%2E");
        assert_eq!(path(&["é"]), "/%C3%A9");
    }

    #[test]
    fn an_invalid_address_or_token_is_refused() {
        for url in
            ["", "http://", "localhost:8080", "ftp://localhost", "http://a/b", "http://a b", "http://u:p@a"]
        {
            assert!(matches!(Client::new(url, "default", "t"), Err(ClientError::Url(_))), "{url}");
        }
        assert!(matches!(Client::new("http://localhost", "default", "a\nb"), Err(ClientError::Token)));
        let client = Client::new("http://localhost:1/", "a b", "secret").unwrap();
        assert_eq!(client.base(), "http://localhost:1/api/tenants/a%20b");
        assert!(!format!("{client:?}").contains("secret"));
        assert!(Client::new("https://flovyn.example.com", "default", "t").is_ok());
    }

    #[test]
    fn a_query_leaves_out_parameters_without_a_value() {
        let query =
            [("status", Some("FAILED".to_owned())), ("kind", None), ("label", Some("a:b&c=d".into()))];
        assert_eq!(query_text(&query), "?status=FAILED&label=a:b%26c%3Dd");
        assert_eq!(query_text(&[]), "");
    }
}
