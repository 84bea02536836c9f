//! A development server for this machine only. It creates its own database, tenant and credentials and keeps them in
//! its data directory. It prints nothing: that is up to the commands.

mod credentials;
mod data_dir;
mod database;

use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

use flovyn_server::config::{Config, Jwt, Metrics, MetricsAccess, TenantConfig, WorkerTokenConfig};
use flovyn_server::{Server, ServerOptions, StartError};

use crate::memory;

pub(crate) use self::credentials::Credentials;
pub(crate) use self::data_dir::{DataDir, read_if_there, write_secret};
pub(crate) use self::database::DatabaseArgs;

pub(crate) const TENANT: &str = "default";

/// Options of the server.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    /// The clock moves only when it is advanced.
    pub(crate) virtual_clock: bool,
}

/// Why the server does not run, in terms of the options `--http`, `--grpc` and `--data-dir` of its commands.
#[derive(Debug)]
pub(crate) enum Failure {
    InUse { option: &'static str, address: SocketAddr },
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { option, address } => write!(
                f,
                "{address} is already in use: stop the program that listens there, or choose another port with {option} 127.0.0.1:0"
            ),
            Self::Other(what) => f.write_str(what),
        }
    }
}

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self::Other(what)
    }
}

/// For commands whose error type is a text.
impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        failure.to_string()
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Bind { listener, address, error } if error.kind() == ErrorKind::AddrInUse => {
                Self::InUse { option: if listener == "HTTP" { "--http" } else { "--grpc" }, address }
            }
            StartError::Store(error) => Self::Other(format!("{error} (--data-dir)")),
            other => Self::Other(other.to_string()),
        }
    }
}

/// A running server.
pub(crate) struct LocalServer {
    pub(crate) server: Server,
    pub(crate) credentials: Credentials,
    pub(crate) data_dir: DataDir,
}

impl LocalServer {
    pub(crate) async fn start(data_dir: &Path, options: &Options) -> Result<Self, Failure> {
        for (option, address) in [("--http", options.http), ("--grpc", options.grpc)] {
            if !address.ip().is_loopback() {
                return Err(Failure::Other(format!(
                    "{option} {address}: this server only accepts local connections; use 127.0.0.1, or `flovyn server` \
                     to serve others"
                )));
            }
        }
        let data_dir = DataDir::open(data_dir)?;
        let jwt = Jwt::with_secret_file(data_dir.jwt_secret()?, "flovyn-dev", "flovyn");
        let verifier = jwt.verifier().map_err(|error| error.to_string())?;
        let mut credentials = Credentials::load_or_make(&data_dir, &verifier, TENANT)?;

        let server = Server::start(server_options(&data_dir, options, jwt, &credentials)).await?;
        let tenant = server.api().service().store().tenant_by_slug(TENANT).await;
        let tenant = tenant.map_err(|error| error.to_string())?;
        let tenant =
            tenant.ok_or_else(|| "the tenant was deleted during the start; start again".to_owned())?;
        credentials.tenant_id = tenant.id.to_string();
        credentials.http_url = format!("http://{}", server.http_addr());
        credentials.grpc_url = format!("http://{}", server.grpc_addr());
        // Save only after the start succeeded: a failed start must not change the file of a running server.
        credentials.save(&data_dir)?;
        Ok(Self { server, credentials, data_dir })
    }

    /// Like [`start`](Self::start), but uses a free port if a port is in use. Also returns the addresses that were in
    /// use.
    pub(crate) async fn start_anywhere(
        data_dir: &Path,
        mut options: Options,
    ) -> Result<(Self, Vec<SocketAddr>), Failure> {
        let mut in_use = Vec::new();
        loop {
            match Self::start(data_dir, &options).await {
                Ok(local) => return Ok((local, in_use)),
                // If even port 0 is in use, there is no free port.
                Err(Failure::InUse { option, address }) if address.port() != 0 => {
                    let taken = if option == "--http" { &mut options.http } else { &mut options.grpc };
                    taken.set_port(0);
                    in_use.push(address);
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

fn server_options(
    data_dir: &DataDir,
    options: &Options,
    jwt: Jwt,
    credentials: &Credentials,
) -> ServerOptions {
    let mut config = Config::local(data_dir.database_url());
    config.http.address = options.http;
    config.grpc.address = options.grpc;
    config.auth.jwt = Some(jwt);
    config.metrics = Metrics { access: MetricsAccess::Loopback, ..Metrics::default() };
    config.tenants = vec![TenantConfig {
        id: None,
        slug: TENANT.to_owned(),
        name: None,
        retention_ms: None,
        worker_tokens: vec![WorkerTokenConfig {
            name: "dev".to_owned(),
            token: credentials.worker_token.clone(),
        }],
    }];
    ServerOptions {
        local_only: true,
        virtual_clock: options.virtual_clock,
        ui_credential: Some(credentials.api_token.clone()),
        thread_rests: memory::thread_rests,
        ..ServerOptions::new(config)
    }
}
