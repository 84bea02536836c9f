//! The configuration of a server: a TOML file, with environment variables over it.
//!
//! What is wrong is refused at start, with the name of the key and what to do. Knows nothing of sockets or stores.

mod check;
mod environment;
mod read;

pub use environment::KEYS;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use flovyn_engine::Limits;
use serde::Deserialize;
use uuid::Uuid;

/// Why a configuration cannot be used. The message names the key and says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(crate) String);

impl ConfigError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `sqlite:PATH` or `postgres://...`
    pub database_url: DatabaseUrl,
    #[serde(default = "Listen::grpc")]
    pub grpc: Listen,
    #[serde(default = "Listen::http")]
    pub http: Listen,
    /// For both listeners.
    pub tls: Option<Tls>,
    #[serde(default)]
    pub auth: Auth,
    #[serde(default)]
    pub metrics: Metrics,
    #[serde(default)]
    pub telemetry: Telemetry,
    #[serde(default)]
    pub limits: LeaseLimits,
    /// Made at start if they are not there.
    #[serde(default)]
    pub tenants: Vec<TenantConfig>,
}

impl Config {
    /// A server on this database and on free ports of the loopback address, with nothing else configured.
    pub fn local(database_url: impl Into<String>) -> Self {
        let any_port = Listen { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)) };
        Self {
            database_url: DatabaseUrl(database_url.into()),
            grpc: any_port,
            http: any_port,
            tls: None,
            auth: Auth::default(),
            metrics: Metrics::default(),
            telemetry: Telemetry::default(),
            limits: LeaseLimits::default(),
            tenants: Vec::new(),
        }
    }
}

/// A database URL, which may hold a password: it is masked where it is shown.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct DatabaseUrl(pub String);

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&flovyn_store::open::without_password(&self.0))
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    pub address: SocketAddr,
}

impl Listen {
    fn grpc() -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)) }
    }

    fn http() -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)) }
    }
}

/// PEM files.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    pub jwt: Option<Jwt>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jwt {
    /// For HS256.
    pub secret_file: Option<PathBuf>,
    /// For RS256 and ES256.
    pub public_key_file: Option<PathBuf>,
    pub algorithm: Option<Algorithm>,
    pub issuer: String,
    pub audience: String,
    #[serde(default = "Jwt::default_tenants_claim")]
    pub tenants_claim: String,
    #[serde(default = "Jwt::default_role_claim")]
    pub role_claim: String,
}

impl Jwt {
    /// Tokens signed with a shared secret, under the usual names.
    pub fn with_secret_file(path: impl Into<PathBuf>, issuer: &str, audience: &str) -> Self {
        Self {
            secret_file: Some(path.into()),
            public_key_file: None,
            algorithm: Some(Algorithm::HS256),
            issuer: issuer.to_owned(),
            audience: audience.to_owned(),
            tenants_claim: Self::default_tenants_claim(),
            role_claim: Self::default_role_claim(),
        }
    }

    fn default_tenants_claim() -> String {
        "tenants".to_owned()
    }

    fn default_role_claim() -> String {
        "role".to_owned()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Algorithm {
    HS256,
    RS256,
    ES256,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Whether `/_/metrics` needs no credential.
    #[serde(default)]
    pub public: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Where traces go, as OTLP over gRPC. None: nowhere.
    pub otlp_endpoint: Option<String>,
    #[serde(default)]
    pub log_format: LogFormat,
    /// Directives of tracing's filter, such as `info,flovyn_service=debug`. None: `info`.
    pub log_filter: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// How long workers may be silent. None: the default of the product, in the engine's `Limits`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseLimits {
    pub session_lease_ms: Option<i64>,
    pub workflow_lease_ms: Option<i64>,
    pub task_lease_ms: Option<i64>,
    pub worker_silence_ms: Option<i64>,
    pub cancel_grace_ms: Option<i64>,
}

impl LeaseLimits {
    /// The product's limits with these in them.
    pub fn apply(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            session_lease_ms: self.session_lease_ms.unwrap_or(usual.session_lease_ms),
            workflow_lease_ms: self.workflow_lease_ms.unwrap_or(usual.workflow_lease_ms),
            task_lease_ms: self.task_lease_ms.unwrap_or(usual.task_lease_ms),
            worker_silence_ms: self.worker_silence_ms.unwrap_or(usual.worker_silence_ms),
            cancel_grace_ms: self.cancel_grace_ms.unwrap_or(usual.cancel_grace_ms),
            ..usual
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantConfig {
    /// None: made by the server.
    #[serde(default, deserialize_with = "read::uuid")]
    pub id: Option<Uuid>,
    pub slug: String,
    /// None: the slug.
    pub name: Option<String>,
    /// None: finished work is kept for ever.
    pub retention_ms: Option<i64>,
    #[serde(default)]
    pub worker_tokens: Vec<WorkerTokenConfig>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerTokenConfig {
    pub name: String,
    pub token: String,
}

impl std::fmt::Debug for WorkerTokenConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerTokenConfig").field("name", &self.name).finish_non_exhaustive()
    }
}
