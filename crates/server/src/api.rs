//! What all transports share: the service, the authenticators, and whether the server is about to stop.

use std::sync::Arc;

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

    pub fn jwt(&self) -> Option<&JwtVerifier> {
        self.inner.jwt.as_ref()
    }

    /// Who holds this token: a worker token, or a JWT where they are configured.
    ///
    /// # Errors
    /// When it is not valid, or cannot be checked.
    pub async fn authenticate(&self, token: &str) -> Result<Principal, AuthError> {
        match self.jwt().filter(|_| token.matches('.').count() == 2) {
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
