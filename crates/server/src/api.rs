//! What all transports share: the service, the authenticators, and whether the server is about to stop.

use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use flovyn_auth::{API_KEY_PREFIX, ApiKeys, AuthError, Principal, WorkerTokens};
use flovyn_engine::Refusal;
use flovyn_engine::ids::TenantId;
use flovyn_service::Service;
use tokio::sync::watch;

use crate::issuer::Issuer;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::rates::Rates;

/// The other header that an API key may come in.
pub const API_KEY_HEADER: &str = "x-api-key";

/// Who can be let in beside holders of worker tokens.
#[derive(Debug, Default)]
pub struct Authenticators {
    pub issuer: Option<Arc<Issuer>>,
    pub api_keys: ApiKeys,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    service: Service,
    worker_tokens: WorkerTokens,
    authenticators: Authenticators,
    draining: watch::Receiver<bool>,
    live: Live,
    rates: Rates,
    metrics: Arc<Metrics>,
}

impl Api {
    /// `draining` turns true when the server begins to stop: polls end, streams are told.
    pub fn new(
        service: Service,
        authenticators: Authenticators,
        draining: watch::Receiver<bool>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let worker_tokens = WorkerTokens::new(service.store().clone());
        let (live, rates) = (Live::default(), Rates::default());
        let inner = Inner { service, worker_tokens, authenticators, draining, live, rates, metrics };
        Self { inner: Arc::new(inner) }
    }

    pub fn service(&self) -> &Service {
        &self.inner.service
    }

    pub fn worker_tokens(&self) -> &WorkerTokens {
        &self.inner.worker_tokens
    }

    /// Live data of running tasks.
    pub fn live(&self) -> &Live {
        &self.inner.live
    }

    /// Lets a request of this tenant in, if its quota has room for one more just now.
    ///
    /// # Errors
    /// When it has not, or that cannot be found out.
    pub async fn admit(&self, tenant_id: TenantId) -> Result<(), Refusal> {
        self.inner.rates.admit(&self.inner.service, tenant_id).await
    }

    pub fn rates(&self) -> &Rates {
        &self.inner.rates
    }

    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Who sends these headers: somebody with a worker token, or with a JWT or an API key where they are configured.
    ///
    /// # Errors
    /// When there is no credential or more than one, it is not valid, or it cannot be checked.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, AuthError> {
        const ONLY_ONE: AuthError = AuthError::Unauthenticated("send only one credential");
        let count = |name| headers.get_all(name).iter().count();
        match (count(AUTHORIZATION.as_str()), count(API_KEY_HEADER)) {
            (0, 1) => {
                let key =
                    headers.get(API_KEY_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
                self.inner.authenticators.api_keys.authenticate(key, now_ms())
            }
            (0 | 1, 0) => self.authenticate_bearer(headers.get(AUTHORIZATION)).await,
            _ => Err(ONLY_ONE),
        }
    }

    /// The same for an `Authorization` header alone.
    ///
    /// # Errors
    /// When there is none, its token is not valid, or it cannot be checked.
    pub async fn authenticate_bearer(&self, header: Option<&HeaderValue>) -> Result<Principal, AuthError> {
        const MISSING: AuthError = AuthError::Unauthenticated(
            "send a worker token, a JWT or an API key as 'Authorization: Bearer ...'",
        );
        let (scheme, token) = header.and_then(|value| value.to_str().ok()?.split_once(' ')).ok_or(MISSING)?;
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
            return Err(MISSING);
        }
        let Authenticators { issuer, api_keys } = &self.inner.authenticators;
        if token.starts_with(API_KEY_PREFIX) {
            return api_keys.authenticate(token, now_ms());
        }
        // A JWT has three parts; anything else can only be a worker token.
        match issuer.as_ref().filter(|_| token.matches('.').count() == 2) {
            Some(issuer) => issuer.authenticate(token).await,
            None => self.inner.worker_tokens.authenticate(token).await,
        }
    }

    pub fn is_draining(&self) -> bool {
        *self.inner.draining.borrow()
    }

    /// Completes when the server begins to stop.
    pub async fn drains(&self) {
        // The sender lives as long as the server; when it is gone, the server is too.
        let _ = self.inner.draining.clone().wait_for(|draining| *draining).await;
    }
}

/// Credentials of people expire by the clock on the wall, as their JWTs do: a virtual clock does not move it.
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
