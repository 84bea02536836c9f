//! The state that all transports share: the service, the authenticators, and whether the server is draining.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use flovyn_auth::{API_KEY_PREFIX, ApiKeys, AuthError, Principal, WorkerTokens};
use flovyn_engine::Refusal;
use flovyn_engine::ids::TenantId;
use flovyn_service::Service;
use flovyn_store::StoreResult;
use tokio::sync::watch;

use crate::issuer::Issuer;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::peer;
use crate::rates::Rates;
use crate::tenants::{KnownTenants, TenantNames};
use crate::tries::Tries;

/// The header for an API key, as an alternative to `Authorization: Bearer`.
pub const API_KEY_HEADER: &str = "x-api-key";

/// The authenticators in addition to worker tokens.
#[derive(Debug, Default)]
pub struct Authenticators {
    pub issuer: Option<Arc<Issuer>>,
    pub api_keys: ApiKeys,
    /// The number of invalid credentials that one address may send per minute. Beyond that, it is answered that it
    /// made too many tries.
    pub failed_tries_per_minute: u32,
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
    tenants: KnownTenants,
    tries: Tries,
    metrics: Arc<Metrics>,
    max_poll_wait: Duration,
}

impl Api {
    /// `draining` becomes true when the server begins to stop: polls end, and streams are asked to end.
    pub fn new(
        service: Service,
        authenticators: Authenticators,
        draining: watch::Receiver<bool>,
        metrics: Arc<Metrics>,
        max_poll_wait: Duration,
    ) -> Self {
        let worker_tokens = WorkerTokens::new(service.store().clone());
        let (live, rates) = (Live::default(), Rates::default());
        let tries = Tries::new(authenticators.failed_tries_per_minute);
        let inner = Inner {
            service,
            worker_tokens,
            authenticators,
            draining,
            live,
            rates,
            tenants: KnownTenants::default(),
            tries,
            metrics,
            max_poll_wait,
        };
        Self { inner: Arc::new(inner) }
    }

    pub fn service(&self) -> &Service {
        &self.inner.service
    }

    pub fn worker_tokens(&self) -> &WorkerTokens {
        &self.inner.worker_tokens
    }

    /// The longest time that a poll is held, even if the poll asks for more.
    pub(crate) fn max_poll_wait(&self) -> Duration {
        self.inner.max_poll_wait
    }

    /// Live data of running tasks.
    pub fn live(&self) -> &Live {
        &self.inner.live
    }

    /// Admits a request of this tenant if the tenant's rate limit allows one more at this moment.
    ///
    /// # Errors
    /// Fails if the limit is reached, or if the limit cannot be determined.
    pub async fn admit(&self, tenant_id: TenantId) -> Result<(), Refusal> {
        self.inner.rates.admit(&self.inner.service, tenant_id).await
    }

    /// The tenant with this id or slug. `None`: there is none.
    pub(crate) async fn tenant(&self, name: &str) -> StoreResult<Option<TenantNames>> {
        self.inner.tenants.find(&**self.inner.service.store(), name).await
    }

    pub fn rates(&self) -> &Rates {
        &self.inner.rates
    }

    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The principal that sends these headers. The credential is a worker token, or a JWT or an API key where they
    /// are configured.
    ///
    /// # Errors
    /// Fails if there is no credential or more than one, if the credential is not valid, or if it cannot be checked.
    /// Also fails if too many invalid credentials were tried.
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, AuthError> {
        const ONLY_ONE: AuthError = AuthError::Unauthenticated("send only one credential");
        let count = |name| headers.get_all(name).iter().count();
        match (count(AUTHORIZATION.as_str()), count(API_KEY_HEADER)) {
            (0, 1) => {
                let key =
                    headers.get(API_KEY_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
                self.within_tries(key, async || {
                    self.inner.authenticators.api_keys.authenticate(key, now_ms())
                })
                .await
            }
            (0 | 1, 0) => self.authenticate_bearer(headers.get(AUTHORIZATION)).await,
            _ => Err(ONLY_ONE),
        }
    }

    /// Authenticates the credential of an `Authorization` header alone.
    ///
    /// # Errors
    /// Fails like [`Self::authenticate`].
    pub async fn authenticate_bearer(&self, header: Option<&HeaderValue>) -> Result<Principal, AuthError> {
        const MISSING: AuthError = AuthError::Unauthenticated(
            "send a worker token, a JWT or an API key as 'Authorization: Bearer ...'",
        );
        let token = header.and_then(bearer_token).ok_or(MISSING)?;
        self.within_tries(token, || self.check_token(token)).await
    }

    async fn check_token(&self, token: &str) -> Result<Principal, AuthError> {
        let Authenticators { issuer, api_keys, .. } = &self.inner.authenticators;
        if token.starts_with(API_KEY_PREFIX) {
            return api_keys.authenticate(token, now_ms());
        }
        // A JWT has three parts; anything else can only be a worker token.
        match issuer.as_ref().filter(|_| token.matches('.').count() == 2) {
            Some(issuer) => issuer.authenticate(token).await,
            None => self.inner.worker_tokens.authenticate(token).await,
        }
    }

    /// Checks a credential and counts a failure. A credential that has failed too often is refused without a check, and
    /// so is an unknown one if its address has failed too often.
    async fn within_tries(
        &self,
        credential: &str,
        check: impl AsyncFnOnce() -> Result<Principal, AuthError>,
    ) -> Result<Principal, AuthError> {
        let tries = &self.inner.tries;
        let too_many = |retry_after_seconds| AuthError::TooManyTries { retry_after_seconds };
        let address = peer::current();
        tries.admit(address, credential, Instant::now()).map_err(too_many)?;
        let checked = check().await;
        if checked.is_ok() {
            tries.succeeded(credential, Instant::now());
        }
        if matches!(checked, Err(AuthError::Unauthenticated(_)))
            && let Some(seconds) = tries.failed(address, credential, Instant::now())
        {
            return Err(too_many(seconds));
        }
        checked
    }

    pub fn is_draining(&self) -> bool {
        *self.inner.draining.borrow()
    }

    /// Completes when the server begins to stop.
    pub async fn drains(&self) {
        // The sender lives as long as the server. An error means that the server has ended.
        let _ = self.inner.draining.clone().wait_for(|draining| *draining).await;
    }
}

/// The token after `Bearer` in the `Authorization` header. `None` if there is no such header, or more than one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let only = all.next().filter(|_| all.next().is_none());
    only.and_then(bearer_token)
}

fn bearer_token(header: &HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The current wall-clock time. Credentials of users expire by this clock, as their JWTs do; a virtual clock does not
/// move it.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
