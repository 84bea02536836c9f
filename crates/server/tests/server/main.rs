//! A whole server on real sockets: configuration, start, health, metrics, TLS, stop.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails at that line")]

mod clock;
mod config;
mod http;
mod metrics_page;
mod provision;
mod slow;
mod start;
mod tls;

use flovyn_server::config::{TenantConfig, WorkerTokenConfig};
use flovyn_server::{Config, Server, ServerOptions};
use tempfile::TempDir;

const TOKEN: &str = "fwt_0123456789abcdef0123456789abcdef";

/// A configuration with its own database, one tenant and one worker token.
fn config(folder: &TempDir) -> Config {
    let mut config = Config::local(format!("sqlite:{}", folder.path().join("flovyn.db").display()));
    config.tenants = vec![tenant("default", TOKEN)];
    config
}

fn tenant(slug: &str, token: &str) -> TenantConfig {
    TenantConfig {
        id: None,
        slug: slug.to_owned(),
        name: None,
        retention_ms: None,
        worker_tokens: vec![WorkerTokenConfig { name: "test".to_owned(), token: token.to_owned() }],
    }
}

async fn start(config: Config) -> Server {
    Server::start(ServerOptions::new(config)).await.unwrap()
}
