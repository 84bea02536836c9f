//! A server for tests: two tenants with a worker token each, on its own database.

use std::net::SocketAddr;
use std::sync::Arc;

use flovyn_engine::Limits;
use flovyn_server::config::{TenantConfig, WorkerTokenConfig};
use flovyn_server::{Config, Server, ServerOptions};
use flovyn_testkit::{TestDatabase, fresh_database};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use uuid::Uuid;

pub(crate) const TENANT: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
pub(crate) const TOKEN: &str = "fwt_tenant-one-0123456789abcdef0123456789";
pub(crate) const OTHER_TENANT: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0002);
pub(crate) const OTHER_TOKEN: &str = "fwt_tenant-two-0123456789abcdef0123456789";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// Threads of a server alone: if they end, it ends, as if it had been killed.
struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A server that can be killed.
pub(crate) struct Killable {
    pub(crate) server: TestServer,
    threads: Threads,
}

/// A server that was killed.
pub(crate) struct Killed {
    config: Config,
    place: Arc<Place>,
}

impl Killable {
    pub(crate) async fn start(database: Database, change: impl FnOnce(&mut Config)) -> Self {
        let first = TestServer::start_with(database, change).await;
        let killed = Killed { config: first.config.clone(), place: first._place.clone() };
        first.server.stop().await;
        killed.start().await
    }

    /// Ends the server without notice: requests in flight are not answered, and nothing is released.
    pub(crate) async fn kill(self) -> Killed {
        let Self { server: TestServer { server, mut config, _place }, threads } = self;
        config.grpc.address = server.grpc_addr();
        let closes = server.api().service().store().closes();
        drop(server);
        drop(threads);
        if let Some(mut closes) = closes {
            // Only the end of the channel is waited for.
            assert!(closes.changed().await.is_err());
        }
        Killed { config, place: _place }
    }
}

impl Killed {
    /// Starts it again on the same database and the same gRPC port.
    pub(crate) async fn start(self) -> Killable {
        let runtime = Runtime::new().unwrap();
        let options = ServerOptions::new(self.config.clone());
        let server = runtime.spawn(Server::start(options)).await.unwrap().unwrap();
        let server = TestServer { server, config: self.config, _place: self.place };
        Killable { server, threads: Threads(Some(runtime)) }
    }
}

/// Where the data lies; lives as long as the test.
enum Place {
    Folder(TempDir),
    Database(TestDatabase),
}

pub(crate) struct TestServer {
    pub(crate) server: Server,
    pub(crate) config: Config,
    _place: Arc<Place>,
}

impl TestServer {
    pub(crate) async fn start(database: Database) -> Self {
        Self::start_with(database, |_| {}).await
    }

    /// Starts with a changed configuration.
    pub(crate) async fn start_with(database: Database, change: impl FnOnce(&mut Config)) -> Self {
        Self::start_limited(database, change, |_| ()).await
    }

    /// Starts with a changed configuration and changed product limits.
    pub(crate) async fn start_limited(
        database: Database,
        change: impl FnOnce(&mut Config),
        limits: fn(&mut Limits),
    ) -> Self {
        let place = match database {
            Database::Sqlite => Place::Folder(tempfile::tempdir().unwrap()),
            Database::Postgres => Place::Database(fresh_database().await),
        };
        let url = match &place {
            Place::Folder(folder) => format!("sqlite:{}", folder.path().join("flovyn.db").display()),
            Place::Database(database) => database.url.clone(),
        };
        let mut config = Config::local(url);
        config.tenants = vec![tenant(TENANT, "one", TOKEN), tenant(OTHER_TENANT, "two", OTHER_TOKEN)];
        // Tests of refusals send many invalid credentials from one address.
        config.auth.failed_tries_per_minute = 1_000_000;
        change(&mut config);
        let options = ServerOptions { limits, ..ServerOptions::new(config.clone()) };
        let server = Server::start(options).await.unwrap();
        Self { server, config, _place: Arc::new(place) }
    }

    /// Another server on the same database.
    pub(crate) async fn beside(&self) -> Self {
        let server = Server::start(ServerOptions::new(self.config.clone())).await.unwrap();
        Self { server, config: self.config.clone(), _place: self._place.clone() }
    }

    /// Stops the server gracefully and starts it again on the same database and the same gRPC port.
    pub(crate) async fn restart(self) -> Self {
        let Self { server, mut config, _place } = self;
        config.grpc.address = server.grpc_addr();
        server.stop().await;
        let server = Server::start(ServerOptions::new(config.clone())).await.unwrap();
        Self { server, config, _place }
    }

    pub(crate) fn grpc_addr(&self) -> SocketAddr {
        self.server.grpc_addr()
    }

    /// A connection that is opened on first use, and again after it broke.
    pub(crate) fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.grpc_addr())).unwrap().connect_lazy()
    }
}

fn tenant(id: Uuid, slug: &str, token: &str) -> TenantConfig {
    TenantConfig {
        id: Some(id),
        slug: slug.to_owned(),
        name: None,
        retention_ms: None,
        worker_tokens: vec![WorkerTokenConfig { name: "test".to_owned(), token: token.to_owned() }],
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

/// Like `on_both!`, with other limits.
macro_rules! on_both_limited {
    ($limits:expr; $($name:ident),* $(,)?) => {
        mod limited_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let database = $crate::common::Database::Sqlite;
                super::$name($crate::common::TestServer::start_limited(database, |_| (), $limits).await).await;
            })*
        }
        mod limited_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let database = $crate::common::Database::Postgres;
                super::$name($crate::common::TestServer::start_limited(database, |_| (), $limits).await).await;
            })*
        }
    };
}
pub(crate) use on_both_limited;
