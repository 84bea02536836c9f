//! `flovyn dev`: a server for one developer. It makes its own database, tenant and credentials, and keeps them.

mod credentials;
mod data_dir;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use flovyn_server::config::{Config, Jwt, Listen, Metrics, Telemetry, TenantConfig, WorkerTokenConfig};
use flovyn_server::{Server, ServerOptions, StartError, telemetry};

use self::credentials::Credentials;
use self::data_dir::DataDir;
use super::serving;

const TENANT: &str = "default";

#[derive(Args)]
pub(crate) struct Dev {
    /// Where the database and the credentials are kept.
    #[arg(long, value_name = "DIR", default_value = ".flovyn")]
    data_dir: PathBuf,
    /// Address for HTTP, of this machine only; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    /// Address for gRPC, of this machine only; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    grpc: SocketAddr,
    /// Let time stand still until it is moved with POST /_/clock/advance {"ms": N}.
    #[arg(long)]
    virtual_clock: bool,
    /// What to log, such as `info` or `flovyn_service=debug`.
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    log_filter: String,
}

impl Dev {
    pub(crate) async fn run(self) -> Result<(), String> {
        for (option, address) in [("--http", self.http), ("--grpc", self.grpc)] {
            if !address.ip().is_loopback() {
                return Err(format!(
                    "{option} {address}: `flovyn dev` listens on this machine only; use 127.0.0.1, or `flovyn server` \
                     to serve others"
                ));
            }
        }
        let log = Telemetry { log_filter: Some(self.log_filter.clone()), ..Telemetry::default() };
        let telemetry = telemetry::install(&log)
            .map_err(|_| format!("--log-filter {}: not a filter; use for example 'info'", self.log_filter))?;
        let data_dir = DataDir::open(&self.data_dir)?;
        let jwt = Jwt::with_secret_file(data_dir.jwt_secret()?, "flovyn-dev", "flovyn");
        let verifier = jwt.verifier().map_err(|error| error.to_string())?;
        let mut credentials = Credentials::load_or_make(&data_dir, &verifier, TENANT)?;

        let options = self.options(&data_dir, jwt, &credentials);
        let signals = serving::Signals::new()?;
        let server = Server::start(options).await.map_err(explain)?;
        let tenant = server.api().service().store().tenant_by_slug(TENANT).await;
        let tenant = tenant.map_err(|error| error.to_string())?.ok_or("the tenant has gone; start again")?;
        credentials.tenant_id = tenant.id.to_string();
        credentials.http_url = format!("http://{}", server.http_addr());
        credentials.grpc_url = format!("http://{}", server.grpc_addr());
        // Only now: a process that could not start must not change what the running one has written.
        credentials.save(&data_dir)?;
        self.greet(&data_dir, &credentials);
        serving::until_told(server, telemetry, signals).await
    }

    fn options(&self, data_dir: &DataDir, jwt: Jwt, credentials: &Credentials) -> ServerOptions {
        let mut config = Config::local(data_dir.database_url());
        config.http.address = self.http;
        config.grpc = Listen { address: self.grpc };
        config.auth.jwt = Some(jwt);
        config.metrics = Metrics { public: true };
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
        ServerOptions { local_only: true, virtual_clock: self.virtual_clock, ..ServerOptions::new(config) }
    }

    fn greet(&self, data_dir: &DataDir, credentials: &Credentials) {
        let clock =
            if self.virtual_clock { "  Clock         virtual: it stands until you move it\n" } else { "" };
        eprintln!(
            "\n  flovyn dev {version}\n\n  \
             HTTP          {http}\n  \
             gRPC          {grpc}\n  \
             Tenant        {tenant}\n  \
             Data          {data}\n  \
             Credentials   {file}\n{clock}\n  \
             Worker token  {worker}\n  \
             API token     {api}\n\n  \
             Next, in another terminal, start a workflow (it waits until a worker has it):\n\n    \
             curl -X POST -H 'Authorization: Bearer {api}' \\\n      \
             {http}/api/tenants/{tenant}/workflows/hello/trigger\n\n  \
             Press Ctrl-C to stop.\n",
            version = env!("CARGO_PKG_VERSION"),
            http = credentials.http_url,
            grpc = credentials.grpc_url,
            tenant = credentials.tenant,
            data = data_dir.path().display(),
            file = data_dir.credentials_file().display(),
            worker = credentials.worker_token,
            api = credentials.api_token,
        );
    }
}

/// The same error in terms of this command's options.
fn explain(error: StartError) -> String {
    match error {
        StartError::Bind { listener, address, error } if error.kind() == ErrorKind::AddrInUse => {
            let option = format!("--{}", listener.to_lowercase());
            format!(
                "{address} is in use already: stop what listens there, or choose another port with {option} 127.0.0.1:0"
            )
        }
        StartError::Store(error) => format!("{error} (--data-dir)"),
        other => other.to_string(),
    }
}
