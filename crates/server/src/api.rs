//! What all transports share: the service, the authenticators, and whether the server is about to stop.

use std::sync::Arc;

use flovyn_auth::{JwtVerifier, WorkerTokens};
use flovyn_service::Service;
use tokio::sync::watch;

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
}

impl Api {
    /// `draining` turns true when the server begins to stop: polls end, streams are told.
    pub fn new(service: Service, jwt: Option<JwtVerifier>, draining: watch::Receiver<bool>) -> Self {
        let worker_tokens = WorkerTokens::new(service.store().clone());
        Self { inner: Arc::new(Inner { service, worker_tokens, jwt, draining }) }
    }

    pub fn service(&self) -> &Service {
        &self.inner.service
    }

    pub fn worker_tokens(&self) -> &WorkerTokens {
        &self.inner.worker_tokens
    }

    pub fn jwt(&self) -> Option<&JwtVerifier> {
        self.inner.jwt.as_ref()
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
