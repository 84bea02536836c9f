//! `flovyn dev`: a development server that runs until Ctrl-C.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use flovyn_server::config::Telemetry;
use flovyn_server::telemetry;

use super::serving;
use crate::local::{self, Credentials, DataDir, LocalServer};
use crate::terminal::say;

#[derive(Args)]
#[command(after_help = "\
Commands in the same folder find this server automatically; elsewhere, pass --data-dir.

Examples:
  flovyn dev
  flovyn dev --http 127.0.0.1:0 --grpc 127.0.0.1:0   # with another server running
  flovyn dev --virtual-clock                         # then: flovyn clock advance 30d")]
pub(crate) struct Dev {
    /// The directory for the database and the credentials.
    #[arg(long, value_name = "DIR", default_value = ".flovyn")]
    data_dir: PathBuf,
    /// Local address for HTTP; port 0 uses a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    /// Local address for gRPC; port 0 uses a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    grpc: SocketAddr,
    /// Stop the clock: it moves only with `flovyn clock advance`.
    #[arg(long)]
    virtual_clock: bool,
    /// What to log, such as `info` or `flovyn_service=debug`.
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    log_filter: String,
}

impl Dev {
    pub(crate) async fn run(self) -> Result<(), String> {
        let log = Telemetry { log_filter: Some(self.log_filter.clone()), ..Telemetry::default() };
        let telemetry = telemetry::install(&log)
            .map_err(|_| format!("--log-filter {}: not a filter; use for example 'info'", self.log_filter))?;
        let signals = serving::Signals::new()?;
        let options = local::Options { http: self.http, grpc: self.grpc, virtual_clock: self.virtual_clock };
        let local = LocalServer::start(&self.data_dir, &options).await?;
        self.greet(&local.data_dir, &local.credentials);
        serving::until_told(local.server, telemetry, signals).await
    }

    fn greet(&self, data_dir: &DataDir, credentials: &Credentials) {
        let clock =
            if self.virtual_clock { "  Clock         virtual: it stops until you advance it\n" } else { "" };
        // Commands find the default folder without an option.
        let named = match data_dir.path() == Path::new(".flovyn") {
            true => String::new(),
            false => format!(" --data-dir {}", data_dir.path().display()),
        };
        say(&format!(
            "\n  flovyn dev {version}\n\n  \
             Web UI        {http}/ (signed in)\n  \
             HTTP          {http}\n  \
             gRPC          {grpc}\n  \
             Tenant        {tenant} ({tenant_id})\n  \
             Data          {data}\n  \
             Credentials   {file}\n{clock}\n  \
             Worker token  {worker}\n  \
             API token     {api}\n\n  \
             Next, in another terminal, start a workflow (it waits for a worker):\n\n    \
             flovyn workflow start hello{named}\n    \
             flovyn workflow list{named}\n\n  \
             Press Ctrl-C to stop.\n",
            version = env!("CARGO_PKG_VERSION"),
            http = credentials.http_url,
            grpc = credentials.grpc_url,
            tenant = credentials.tenant,
            tenant_id = credentials.tenant_id,
            data = data_dir.path().display(),
            file = data_dir.credentials_file().display(),
            worker = credentials.worker_token,
            api = credentials.api_token,
        ));
    }
}
