//! The REST API, called in the same process with the visitor's credential. This is the only access to the server.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt;

use crate::failure::Failure;

/// The contents of an error answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    pub(crate) error: String,
    pub(crate) message: String,
    pub(crate) code: String,
    pub(crate) link: String,
    /// Seconds to wait before a retry, from the header `Retry-After`.
    #[serde(skip)]
    pub(crate) retry_after: Option<u64>,
}

impl Refusal {
    /// Whether too many invalid credentials were tried.
    pub(crate) fn is_of_tries(&self) -> bool {
        self.code == "FLV0077"
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Rest {
    router: Router,
}

impl Rest {
    pub(crate) fn new(router: Router) -> Self {
        Self { router }
    }

    /// A caller with this credential.
    pub(crate) fn caller<'a>(&'a self, credential: &'a str) -> Caller<'a> {
        Caller { rest: self, credential }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller<'a> {
    rest: &'a Rest,
    credential: &'a str,
}

impl Caller<'_> {
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let bytes = self.call(Method::GET, path, None).await?;
        read(&bytes)
    }

    /// Like `get`. `None`: the resource does not exist.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(Failure::Refused(StatusCode::NOT_FOUND, _)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Sends a change. The body must be JSON and is sent unchanged.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Bytes, Failure> {
        self.call(method, path, body).await
    }

    /// Sends a change and reads the answer.
    pub(crate) async fn post<T: DeserializeOwned>(&self, path: &str, body: String) -> Result<T, Failure> {
        self.post_once(path, body, None).await
    }

    /// Like `post`, with an idempotency key: a repeated request with the same key takes effect once.
    pub(crate) async fn post_once<T: DeserializeOwned>(
        &self,
        path: &str,
        body: String,
        key: Option<&str>,
    ) -> Result<T, Failure> {
        let mut request = self.request(Method::POST, path, Body::from(body))?;
        if let Some(key) = key.and_then(|key| HeaderValue::from_str(key).ok()) {
            request.headers_mut().insert("idempotency-key", key);
        }
        read(&self.whole(request).await?)
    }

    /// Opens a stream that stays open. Its content is passed on as it arrives.
    pub(crate) async fn follow(&self, path: &str, since: Option<&HeaderValue>) -> Result<Body, Failure> {
        let mut request = self.request(Method::GET, path, Body::empty())?;
        if let Some(since) = since {
            request.headers_mut().insert("last-event-id", since.clone());
        }
        let response = self.answer(request).await;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(refusal(response).await)
    }

    async fn call(&self, method: Method, path: &str, body: Option<String>) -> Result<Bytes, Failure> {
        let body = body.map_or_else(Body::empty, Body::from);
        self.whole(self.request(method, path, body)?).await
    }

    async fn whole(&self, request: Request<Body>) -> Result<Bytes, Failure> {
        let response = self.answer(request).await;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        collect(response.into_body()).await
    }

    fn request(&self, method: Method, path: &str, body: Body) -> Result<Request<Body>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(AUTHORIZATION, format!("Bearer {}", self.credential))
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        request.map_err(|error| Failure::internal("cannot build a request", &error))
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        match self.rest.router.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

async fn refusal(response: Response<Body>) -> Failure {
    let retry_after =
        response.headers().get(RETRY_AFTER).and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    let status = response.status();
    let refusal = match collect(response.into_body()).await {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Err(failure) => return failure,
    };
    let refusal = Refusal { retry_after, ..refusal };
    if status == StatusCode::UNAUTHORIZED { Failure::SignIn } else { Failure::Refused(status, refusal) }
}

async fn collect(body: Body) -> Result<Bytes, Failure> {
    let collected = body.collect().await;
    collected
        .map(http_body_util::Collected::to_bytes)
        .map_err(|error| Failure::internal("an answer ended early", &error))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|error| Failure::internal("cannot read an answer", &error))
}
