//! The issuer of JWTs: its keys, and how they are refreshed when the issuer changes them.
//!
//! A key set is read at start, every few minutes, and when a token names a key that is not in the set. If the set
//! cannot be read, the last good set stays in use.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Uri;
use flovyn_auth::{AuthError, JwtVerifier, Principal};
use tokio::sync::Mutex;

use crate::config::{ConfigError, Jwt, KeySource};
use crate::fetch::Fetcher;
use crate::metrics::Metrics;

/// The shortest time between two refreshes caused by tokens that name unknown keys. Anybody can send such a token, so
/// the refreshes must be limited.
const ON_DEMAND_EVERY: Duration = Duration::from_secs(10);

/// Where a key set is read from.
#[derive(Debug)]
enum Source {
    File(PathBuf),
    Url(Uri, Fetcher),
}

impl Source {
    async fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::File(path) => tokio::fs::read(path).await.map_err(|error| error.to_string()),
            Self::Url(uri, fetcher) => fetcher.get(uri).await,
        }
    }
}

/// Verifies tokens of the configured issuer.
#[derive(Debug)]
pub struct Issuer {
    verifier: JwtVerifier,
    /// `None` if the key is fixed and is never read again.
    source: Option<Source>,
    refresh_every: Duration,
    /// When the set was last read on demand. The lock is held during the read, so that many concurrent tokens cause
    /// only one read.
    on_demand: Mutex<Option<Instant>>,
    metrics: Arc<Metrics>,
}

impl Issuer {
    /// Creates the issuer and reads its keys.
    ///
    /// # Errors
    /// Fails if the keys cannot be read or used: a server with a broken authenticator must not start.
    pub async fn open(config: &Jwt, metrics: Arc<Metrics>) -> Result<Self, ConfigError> {
        let source = match config.key_source()? {
            KeySource::Secret(_) | KeySource::Pem(..) => None,
            KeySource::JwksFile(path, _) => Some(Source::File(path)),
            KeySource::JwksUrl(uri, _) => {
                Some(Source::Url(uri, Fetcher::new(config.jwks_ca_file.as_deref())?))
            }
        };
        let verifier = match &source {
            Some(Source::Url(uri, fetcher)) => {
                let failed = |error: String| {
                    ConfigError::new(format!(
                        "auth.jwt.jwks_url: the keys at {uri} cannot be used: {error}; check the address, that this \
                         machine reaches it, and auth.jwt.algorithm"
                    ))
                };
                let document = fetcher.get(uri).await.map_err(failed)?;
                config.verifier_with(&config.key_source()?, document).map_err(failed)?
            }
            _ => config.verifier()?,
        };
        let refresh_every = config.refresh_every();
        Ok(Self { verifier, source, refresh_every, on_demand: Mutex::default(), metrics })
    }

    /// The user whom this token identifies.
    ///
    /// # Errors
    /// Fails if the signature or any claim does not match the configuration.
    pub async fn authenticate(&self, token: &str) -> Result<Principal, AuthError> {
        if self.verifier.names_unknown_key(token) {
            self.refresh_on_demand(token).await;
        }
        self.verifier.authenticate(token)
    }

    async fn refresh_on_demand(&self, token: &str) {
        let mut last = self.on_demand.lock().await;
        let too_soon = last.is_some_and(|at| at.elapsed() < ON_DEMAND_EVERY);
        // The previous holder of the lock may have read the key meanwhile.
        if too_soon || !self.verifier.names_unknown_key(token) {
            return;
        }
        *last = Some(Instant::now());
        self.refresh().await;
    }

    /// Refreshes the key set periodically until it is dropped. Returns at once if the key is fixed.
    pub(crate) async fn keep_fresh(self: Arc<Self>) {
        while self.source.is_some() {
            tokio::time::sleep(self.refresh_every).await;
            self.refresh().await;
        }
    }

    async fn refresh(&self) {
        let Some(source) = &self.source else { return };
        let read = source.read().await.and_then(|document| self.verifier.replace_keys(&document));
        self.metrics.keys_read(read.is_ok());
        match read {
            Ok(keys) => tracing::debug!(keys, "the issuer's keys were read again"),
            Err(error) => {
                tracing::warn!(%error, "the issuer's keys could not be read again; the last ones stay in use");
            }
        }
    }
}
