//! The REST API as the commands use it: JSON out, JSON in, errors with their code, events as they happen.
//!
//! - `answers`: what the server says, as far as it is used here.
//! - `error`: why a call did not succeed, in words for the terminal.
//! - `events`: server-sent events.
//!
//! It knows nothing of the server's code: whatever it can do, every other client of HTTP can do, too.

pub(crate) mod answers;
mod error;
mod events;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use self::error::ClientError;
pub(crate) use self::events::EventStream;

type Result<T> = std::result::Result<T, ClientError>;

/// For a whole answer, or the head of a stream.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The largest page of the largest payloads is smaller.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// A way to one tenant of one server. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    /// Everything before a path: `http://HOST:PORT/api/tenants/TENANT`.
    base: String,
    authorization: HeaderValue,
}

impl Client {
    pub(crate) fn new(url: &str, tenant: &str, token: &str) -> Result<Self> {
        let plain = url.strip_prefix("http://").filter(|host| !host.is_empty());
        let host = plain.ok_or_else(|| ClientError::Url(url.to_owned()))?.trim_end_matches('/');
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| ClientError::Token)?;
        authorization.set_sensitive(true);
        let http = legacy::Client::builder(TokioExecutor::new()).build_http();
        let base = format!("http://{host}/api/tenants{}", path(&[tenant]));
        Ok(Self { http, base, authorization })
    }

    /// `http://HOST:PORT/api/tenants/TENANT`
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, segments: &[&str]) -> Result<T> {
        let answer = self.call(Method::GET, segments, Bytes::new()).await?;
        read(&answer)
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        segments: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T> {
        let body = serde_json::to_vec(body).map_err(|error| ClientError::Unexpected(error.to_string()))?;
        let answer = self.call(Method::POST, segments, body.into()).await?;
        read(&answer)
    }

    /// Follows a stream of events from its beginning.
    pub(crate) async fn follow(&self, segments: &[&str]) -> Result<EventStream> {
        let request = self.request(Method::GET, segments, "text/event-stream", Bytes::new())?;
        let response = self.within(self.send(request)).await?;
        Ok(EventStream::new(response.into_body()))
    }

    async fn call(&self, method: Method, segments: &[&str], body: Bytes) -> Result<Bytes> {
        let request = self.request(method, segments, "application/json", body)?;
        self.within(async { whole(self.send(request).await?.into_body()).await }).await
    }

    fn request(
        &self,
        method: Method,
        segments: &[&str],
        accept: &'static str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{}", self.base, path(segments)))
            .header(AUTHORIZATION, self.authorization.clone())
            .header(ACCEPT, accept);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        request.body(Full::new(body)).map_err(|_| ClientError::Url(self.base.clone()))
    }

    /// The answer, unless it is a refusal.
    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        let unreachable = |error| ClientError::unreachable(&self.base, &error);
        let response = self.http.request(request).await.map_err(unreachable)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        Err(ClientError::refused(status, &whole(response.into_body()).await?))
    }

    async fn within<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let late = |_| ClientError::late(&self.base, ANSWER_WITHIN);
        tokio::time::timeout(ANSWER_WITHIN, answer).await.map_err(late)?
    }
}

async fn whole(body: Incoming) -> Result<Bytes> {
    let collected = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
    Ok(collected.map_err(|error| ClientError::Broken(error.to_string()))?.to_bytes())
}

/// An answer without content is null.
fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T> {
    let answer = if answer.is_empty() { b"null" } else { answer };
    serde_json::from_slice(answer).map_err(|error| ClientError::Unexpected(error.to_string()))
}

/// A path of these segments, whatever characters they have: a name can neither leave its place nor add a query.
pub(crate) fn path(segments: &[&str]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        for byte in segment.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_~:".contains(&byte) || (byte == b'.' && segment.len() > 2)
            {
                path.push(char::from(byte));
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_stays_in_its_place() {
        assert_eq!(path(&["promises", "key:order-7", "resolve"]), "/promises/key:order-7/resolve");
        assert_eq!(path(&["v1.2", "a/b?c#d %"]), "/v1.2/a%2Fb%3Fc%23d%20%25");
        assert_eq!(path(&["..", "."]), "/%2E%2E/%2E");
        assert_eq!(path(&["é"]), "/%C3%A9");
    }

    #[test]
    fn what_cannot_be_an_address_or_a_token_is_refused() {
        for url in ["", "http://", "localhost:8080", "https://localhost"] {
            assert!(matches!(Client::new(url, "default", "t"), Err(ClientError::Url(_))), "{url}");
        }
        assert!(matches!(Client::new("http://localhost", "default", "a\nb"), Err(ClientError::Token)));
        let client = Client::new("http://localhost:1/", "a b", "secret").unwrap();
        assert_eq!(client.base(), "http://localhost:1/api/tenants/a%20b");
        assert!(!format!("{client:?}").contains("secret"));
    }
}
