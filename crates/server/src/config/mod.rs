//! The configuration of a server: a TOML file, with environment variables over it.
//!
//! What is wrong is refused at start, with the name of the key and what to do. Knows nothing of sockets or stores.

mod auth;
mod check;
mod environment;
mod read;

pub(crate) use auth::KeySource;
pub use auth::{Algorithm, ApiKeyConfig, Auth, Jwt};
pub use environment::KEYS;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

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
    #[serde(default)]
    pub http: Http,
    /// For both listeners.
    pub tls: Option<Tls>,
    #[serde(default)]
    pub auth: Auth,
    #[serde(default)]
    pub metrics: Metrics,
    #[serde(default)]
    pub docs: Docs,
    #[serde(default)]
    pub audit: Audit,
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
            http: Http { address: any_port.address, cors: None },
            tls: None,
            auth: Auth::default(),
            metrics: Metrics::default(),
            docs: Docs::default(),
            audit: Audit::default(),
            telemetry: Telemetry::default(),
            limits: LeaseLimits::default(),
            tenants: Vec::new(),
        }
    }

    /// Whether `/api/docs` needs no credential: on this machine it does not, unless that is said.
    pub fn docs_are_public(&self) -> bool {
        self.docs.public.unwrap_or(self.http.address.ip().is_loopback())
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
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    #[serde(default = "Http::default_address")]
    pub address: SocketAddr,
    /// None: pages of other origins are not answered.
    pub cors: Option<Cors>,
}

impl Http {
    fn default_address() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { address: Self::default_address(), cors: None }
    }
}

/// Which web pages may call the REST API from a browser.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// Such as `https://app.example.com`; `*` alone is any.
    pub allowed_origins: Vec<String>,
    /// Whether browsers may send cookies and the like along. Not with `*`.
    #[serde(default)]
    pub allow_credentials: bool,
}

/// PEM files.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Whether `/_/metrics` needs no credential.
    #[serde(default)]
    pub public: bool,
}

/// The API's own documentation. It is the same for everybody and holds nothing of any tenant.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Docs {
    /// Whether `/api/docs` needs no credential. None: only on a loopback address.
    pub public: Option<bool>,
}

/// The log of who changed what.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    pub retention_days: u32,
}

impl Default for Audit {
    fn default() -> Self {
        Self { retention_days: 90 }
    }
}

impl Audit {
    pub(crate) fn kept(self) -> Duration {
        Duration::from_secs(u64::from(self.retention_days) * 24 * 60 * 60)
    }
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
