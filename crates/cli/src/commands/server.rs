//! `flovyn server`: a server with a configuration file, environment variables, or both.

use std::path::PathBuf;

use clap::Args;
use flovyn_server::{Config, ServerOptions, telemetry};

use super::serving;
use crate::memory;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn server --config /etc/flovyn/server.toml
  FLOVYN_DATABASE_URL=postgres://flovyn@db/flovyn flovyn server --config server.toml")]
pub(crate) struct Server {
    /// A TOML file. Each key can also be set by an environment variable, such as FLOVYN_DATABASE_URL.
    #[arg(long, value_name = "FILE", env = "FLOVYN_CONFIG")]
    config: Option<PathBuf>,
}

impl Server {
    pub(crate) async fn run(self) -> Result<(), String> {
        let config = Config::load(self.config.as_deref()).map_err(|error| error.to_string())?;
        let telemetry = telemetry::install(&config.telemetry).map_err(|error| error.to_string())?;
        let signals = serving::Signals::new()?;
        let options = ServerOptions { thread_rests: memory::thread_rests, ..ServerOptions::new(config) };
        let server = flovyn_server::Server::start(options).await;
        serving::until_told(server.map_err(|error| error.to_string())?, telemetry, signals).await
    }
}
