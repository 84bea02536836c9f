//! The configuration of a server: a TOML file, with environment variables over it.
//!
//! What is wrong is refused at start, with the name of the key and what to do. Knows nothing of sockets or stores.

mod auth;
mod check;
mod environment;
mod metrics;
mod read;

pub(crate) use auth::KeySource;
pub use auth::{Algorithm, ApiKeyConfig, Auth, Jwt};
pub use environment::KEYS;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use flovyn_engine::Limits;
use flovyn_store::sqlite::FileCheck;
use serde::Deserialize;
use uuid::Uuid;

use crate::slow::Patience;

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
    #[serde(default)]
    pub database: Database,
    #[serde(default)]
    pub grpc: Grpc,
    #[serde(default)]
    pub http: Http,
    /// For both listeners.
    pub tls: Option<Tls>,
    #[serde(default)]
    pub auth: Auth,
    #[serde(default)]
    pub requests: Requests,
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
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            database_url: DatabaseUrl(database_url.into()),
            database: Database::default(),
            grpc: Grpc { address: any_port, ..Grpc::default() },
            http: Http { address: any_port, cors: None },
            tls: None,
            auth: Auth::default(),
            requests: Requests::default(),
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

/// How an embedded database is opened. PostgreSQL checks itself.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    #[serde(default)]
    pub check: DatabaseCheck,
}

/// How much of the file is checked before the server serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseCheck {
    /// All of a small file. Of a large one a sample, and all of it in the background.
    #[default]
    Auto,
    /// All of it, however long that takes.
    Full,
    /// A sample, and no more.
    Quick,
}

impl Database {
    pub(crate) fn file_check(self) -> FileCheck {
        match self.check {
            DatabaseCheck::Auto => FileCheck::default(),
            DatabaseCheck::Full => FileCheck::Full,
            DatabaseCheck::Quick => FileCheck::Quick,
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grpc {
    pub address: SocketAddr,
    /// Longest time that a poll is held, whatever it asks for.
    pub max_poll_wait_ms: u64,
}

impl Default for Grpc {
    fn default() -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)), max_poll_wait_ms: 300_000 }
    }
}

impl Grpc {
    pub(crate) fn max_poll_wait(&self) -> Duration {
        Duration::from_millis(self.max_poll_wait_ms)
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

/// How slow a request may be, over HTTP and gRPC.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Requests {
    /// How long its body may be silent.
    pub body_silence_ms: u64,
    /// How long it may take, beside waiting for what it asks for and the time that a large body takes.
    pub limit_ms: u64,
}

impl Default for Requests {
    fn default() -> Self {
        Self { body_silence_ms: 20_000, limit_ms: 120_000 }
    }
}

impl Requests {
    pub(crate) fn patience(self) -> Patience {
        let (silence, whole) =
            (Duration::from_millis(self.body_silence_ms), Duration::from_millis(self.limit_ms));
        Patience { silence, whole }
    }
}

/// Who may read `/_/metrics`, which shows the figures of all tenants.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    #[serde(default)]
    pub access: MetricsAccess,
    /// A credential that reads metrics and does nothing else. None: there is none.
    pub token: Option<String>,
    /// The file that holds it.
    pub token_file: Option<PathBuf>,
}

impl std::fmt::Debug for Metrics {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("access", &self.access).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricsAccess {
    /// Nobody: the path does not exist.
    Off,
    /// Whoever has the scrape token, or a JWT or an API key of the role `server-admin`.
    #[default]
    Token,
    /// The same, and callers on this machine without a credential.
    Loopback,
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
