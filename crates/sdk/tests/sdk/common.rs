//! A server with one tenant, and workers and clients for it.

use std::time::Duration;

use flovyn_sdk::worker::WorkerBuilder;
use flovyn_sdk::{Client, Worker};
use flovyn_server::config::{TenantConfig, WorkerTokenConfig};
use flovyn_server::{Config, Server, ServerOptions};
use tempfile::TempDir;

const TOKEN: &str = "fwt_sdk-tests-0123456789abcdef0123456789";

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct TestServer {
    server: Server,
    config: Config,
    _folder: TempDir,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::local(format!("sqlite:{}", folder.path().join("flovyn.db").display()));
        config.tenants = vec![TenantConfig {
            id: None,
            slug: "test".into(),
            name: None,
            retention_ms: None,
            worker_tokens: vec![WorkerTokenConfig { name: "test".into(), token: TOKEN.into() }],
        }];
        let server = Server::start(ServerOptions::new(config.clone())).await.unwrap();
        Self { server, config, _folder: folder }
    }

    /// Stops it and starts it again on the same database and port.
    pub(crate) async fn restart(self) -> Self {
        let Self { server, mut config, _folder } = self;
        config.grpc.address = server.grpc_addr();
        server.stop().await;
        let server = Server::start(ServerOptions::new(config.clone())).await.unwrap();
        Self { server, config, _folder }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.grpc_addr())
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url(), TOKEN).unwrap()
    }

    pub(crate) fn worker(&self) -> WorkerBuilder {
        Worker::builder(self.url(), TOKEN)
    }
}
