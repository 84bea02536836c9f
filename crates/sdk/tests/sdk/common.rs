//! A server with one tenant, and workers and clients for it.

use std::time::Duration;

use flovyn_sdk::worker::WorkerBuilder;
use flovyn_sdk::{Client, Worker};
use flovyn_server::config::{TenantConfig, WorkerTokenConfig};
use flovyn_server::{Config, Server, ServerOptions};
use flovyn_testkit::{TestDatabase, fresh_database};
use tempfile::TempDir;

const TOKEN: &str = "fwt_sdk-tests-0123456789abcdef0123456789";

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// Where the data lies; lives as long as the test.
enum Place {
    Folder(TempDir),
    Database(TestDatabase),
}

pub(crate) struct TestServer {
    server: Server,
    config: Config,
    _place: Place,
}

impl TestServer {
    pub(crate) async fn start(database: Database) -> Self {
        let place = match database {
            Database::Sqlite => Place::Folder(tempfile::tempdir().unwrap()),
            Database::Postgres => Place::Database(fresh_database().await),
        };
        let url = match &place {
            Place::Folder(folder) => format!("sqlite:{}", folder.path().join("flovyn.db").display()),
            Place::Database(database) => database.url.clone(),
        };
        let mut config = Config::local(url);
        config.tenants = vec![TenantConfig {
            id: None,
            slug: "test".into(),
            name: None,
            retention_ms: None,
            worker_tokens: vec![WorkerTokenConfig { name: "test".into(), token: TOKEN.into() }],
        }];
        let server = Server::start(ServerOptions::new(config.clone())).await.unwrap();
        Self { server, config, _place: place }
    }

    /// Stops it and starts it again on the same database and port.
    pub(crate) async fn restart(self) -> Self {
        let Self { server, mut config, _place } = self;
        config.grpc.address = server.grpc_addr();
        server.stop().await;
        let server = Server::start(ServerOptions::new(config.clone())).await.unwrap();
        Self { server, config, _place }
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

/// Runs each test on both databases: `on_both!(name, ...)` for `async fn name(server: TestServer)`.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::common::TestServer::start($crate::common::Database::Sqlite).await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::common::TestServer::start($crate::common::Database::Postgres).await).await;
            })*
        }
    };
}
pub(crate) use on_both;
