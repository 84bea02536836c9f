//! The configuration of a server: a TOML file, overridden by environment variables.
//!
//! An invalid configuration is refused at start, with the name of the key and what to do. This module knows nothing
//! of sockets or stores.

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

/// The reason why a configuration cannot be used. The message names the key and says what to do.
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
    /// TLS for both listeners. `None`: no TLS.
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
    /// Tenants that are created at start if they do not exist.
    #[serde(default)]
    pub tenants: Vec<TenantConfig>,
}

impl Config {
    /// A configuration for a server on this database and on free ports of the loopback address, with defaults for the
    /// rest.
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

    /// Whether `/api/docs` needs no credential. If this is not configured, it needs none on a loopback address.
    pub fn docs_are_public(&self) -> bool {
        self.docs.public.unwrap_or(self.http.address.ip().is_loopback())
    }
}

/// A database URL. It may contain a password, which is masked in output.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct DatabaseUrl(pub String);

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&flovyn_store::open::without_password(&self.0))
    }
}

/// How an embedded database is opened. These settings do not apply to PostgreSQL, which checks itself.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    #[serde(default)]
    pub check: DatabaseCheck,
}

/// How much of the database file is checked before the server accepts requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseCheck {
    /// A small file is checked completely. A large file is sampled, and the complete check runs in the background.
    #[default]
    Auto,
    /// The whole file is checked, however long that takes.
    Full,
    /// Only a sample is checked.
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
    /// The longest time that a poll is held, even if the poll asks for more.
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
    /// `None`: web pages of other origins cannot call the API.
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
    /// Origins such as `https://app.example.com`. A single `*` allows every origin.
    pub allowed_origins: Vec<String>,
    /// Whether browsers may send credentials such as cookies. Not allowed with `*`.
    #[serde(default)]
    pub allow_credentials: bool,
}

/// The certificate and the private key, as PEM files.
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
    /// How long the body of a request may pause.
    pub body_silence_ms: u64,
    /// How long a request may take. The time that it waits for its result, and the extra time for a large body, are
    /// not included.
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

/// Who may read `/_/metrics`, which shows the metrics of all tenants.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    #[serde(default)]
    pub access: MetricsAccess,
    /// A credential that can only read metrics. `None`: there is no such token, unless `token_file` is set.
    pub token: Option<String>,
    /// A file that contains the token.
    pub token_file: Option<PathBuf>,
}

impl std::fmt::Debug for Metrics {
    /// Omits the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("access", &self.access).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricsAccess {
    /// Nobody: the path does not exist.
    Off,
    /// A caller with the scrape token, or with a JWT or an API key of the role `server-admin`.
    #[default]
    Token,
    /// Like `Token`, and also callers on this machine without a credential.
    Loopback,
}

/// The API documentation. It is the same for everybody and contains no data of any tenant.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Docs {
    /// Whether `/api/docs` needs no credential. `None`: only if the server listens on a loopback address.
    pub public: Option<bool>,
}

/// The audit log.
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
    /// The collector that receives traces, as OTLP over gRPC. `None`: no traces are sent.
    pub otlp_endpoint: Option<String>,
    #[serde(default)]
    pub log_format: LogFormat,
    /// Directives of tracing's filter, such as `info,flovyn_service=debug`. `None`: `info`.
    pub log_filter: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// How long workers may be silent, how long clean-up may take, and how often an activation may be refused. `None`: the default of the product, in the
/// engine's `Limits`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseLimits {
    pub session_lease_ms: Option<i64>,
    pub workflow_lease_ms: Option<i64>,
    pub task_lease_ms: Option<i64>,
    pub worker_silence_ms: Option<i64>,
    pub cancel_grace_ms: Option<i64>,
    pub equal_refusals: Option<i64>,
}

impl LeaseLimits {
    /// The product's limits, with the configured values in place of the defaults.
    pub fn apply(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            session_lease_ms: self.session_lease_ms.unwrap_or(usual.session_lease_ms),
            workflow_lease_ms: self.workflow_lease_ms.unwrap_or(usual.workflow_lease_ms),
            task_lease_ms: self.task_lease_ms.unwrap_or(usual.task_lease_ms),
            worker_silence_ms: self.worker_silence_ms.unwrap_or(usual.worker_silence_ms),
            cancel_grace_ms: self.cancel_grace_ms.unwrap_or(usual.cancel_grace_ms),
            equal_refusals: self.equal_refusals.unwrap_or(usual.equal_refusals),
            ..usual
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantConfig {
    /// `None`: the server generates the id.
    #[serde(default, deserialize_with = "read::uuid")]
    pub id: Option<Uuid>,
    pub slug: String,
    /// `None`: the slug is the name.
    pub name: Option<String>,
    /// `None`: finished work is kept without limit.
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
