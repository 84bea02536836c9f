//! A server with one tenant, and workers and clients for it.

use std::net::SocketAddr;
use std::time::Duration;

use flovyn_engine::Limits;
use flovyn_sdk::worker::WorkerBuilder;
use flovyn_sdk::{Client, Worker};
use flovyn_server::config::{TenantConfig, WorkerTokenConfig};
use flovyn_server::{Config, Server, ServerOptions};
use flovyn_testkit::{TestDatabase, fresh_database};
use tempfile::TempDir;

pub(crate) const TOKEN: &str = "fwt_sdk-tests-0123456789abcdef0123456789";

/// Longer than any step takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// The directory of the database; deleted at the end of the test.
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
        Self::start_with(database, |_| ()).await
    }

    /// Starts a server with another configuration.
    pub(crate) async fn start_with(database: Database, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_as(database, change, |_| ()).await
    }

    /// Starts a server with other limits.
    pub(crate) async fn start_limited(database: Database, limits: fn(&mut Limits)) -> Self {
        Self::start_as(database, |_| (), limits).await
    }

    async fn start_as(database: Database, change: impl FnOnce(&mut Config), limits: fn(&mut Limits)) -> Self {
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
        change(&mut config);
        let options = ServerOptions { limits, ..ServerOptions::new(config.clone()) };
        let server = Server::start(options).await.unwrap();
        Self { server, config, _place: place }
    }

    /// Restarts the server on the same database and port.
    pub(crate) async fn restart(self) -> Self {
        let Self { server, mut config, _place } = self;
        config.grpc.address = server.grpc_addr();
        server.stop().await;
        // The system may give this port to an outgoing connection, so it may be in use for a moment.
        let mut server = Server::start(ServerOptions::new(config.clone())).await;
        for _ in 0..100 {
            if server.is_ok() {
                break;
            }
            server = Server::start(ServerOptions::new(config.clone())).await;
        }
        Self { server: server.unwrap(), config, _place }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.grpc_addr()
    }

    fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// The row of an execution.
    pub(crate) async fn execution(&self, id: uuid::Uuid) -> flovyn_engine::state::Execution {
        let rows = self.server.api().service().store().snapshot().await.unwrap().executions;
        rows.into_iter().find(|row| row.id == id).unwrap()
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
