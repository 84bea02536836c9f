//! What all transports share: the service, the authenticators, and whether the server is about to stop.

use std::sync::Arc;

use axum::http::HeaderValue;
use flovyn_auth::{AuthError, JwtVerifier, Principal, WorkerTokens};
use flovyn_service::Service;
use tokio::sync::watch;

use crate::live::Live;

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    service: Service,
    worker_tokens: WorkerTokens,
    jwt: Option<JwtVerifier>,
    draining: watch::Receiver<bool>,
    live: Live,
}

impl Api {
    /// `draining` turns true when the server begins to stop: polls end, streams are told.
    pub fn new(service: Service, jwt: Option<JwtVerifier>, draining: watch::Receiver<bool>) -> Self {
        let worker_tokens = WorkerTokens::new(service.store().clone());
        Self { inner: Arc::new(Inner { service, worker_tokens, jwt, draining, live: Live::default() }) }
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

    /// Who sends this `Authorization` header: somebody with a worker token, or with a JWT where they are configured.
    ///
    /// # Errors
    /// When there is no header, its token is not valid, or it cannot be checked.
    pub async fn authenticate(&self, header: Option<&HeaderValue>) -> Result<Principal, AuthError> {
        const MISSING: AuthError =
            AuthError::Unauthenticated("send a worker token or a JWT as 'Authorization: Bearer ...'");
        let (scheme, token) = header.and_then(|value| value.to_str().ok()?.split_once(' ')).ok_or(MISSING)?;
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
            return Err(MISSING);
        }
        // A JWT has three parts; anything else can only be a worker token.
        match self.inner.jwt.as_ref().filter(|_| token.matches('.').count() == 2) {
            Some(jwt) => jwt.authenticate(token),
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
