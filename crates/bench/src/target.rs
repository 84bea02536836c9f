//! The database that a benchmark runs on. It is created for the benchmark and removed after it.

use std::sync::Arc;

use clap::ValueEnum;
use flovyn_service::{Options, Service};
use flovyn_store::Store;
use flovyn_store::postgres::{PostgresOptions, PostgresStore};
use flovyn_store::sqlite::SqliteStore;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

impl Database {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// A fresh database with a service on it.
pub(crate) struct Target {
    pub(crate) service: Service,
    _directory: tempfile::TempDir,
    database: Option<flovyn_testkit::TestDatabase>,
}

impl Target {
    pub(crate) async fn new(database: Database) -> Result<Self, String> {
        let directory = folder()?;
        let mut fresh = None;
        let store: Arc<dyn Store> = match database {
            Database::Sqlite => {
                let path = directory.path().join("flovyn.db");
                Arc::new(SqliteStore::open(path, Default::default()).map_err(|error| error.to_string())?)
            }
            Database::Postgres => {
                let database = flovyn_testkit::fresh_database().await;
                let options = PostgresOptions::new(&database.url);
                fresh = Some(database);
                Arc::new(PostgresStore::connect(options).await.map_err(|error| error.to_string())?)
            }
        };
        let service = Service::start(store, Options::default());
        Ok(Self { service, _directory: directory, database: fresh })
    }

    /// Runs VACUUM ANALYZE on PostgreSQL after a bulk load, as autovacuum would do after a while. Does nothing on
    /// SQLite.
    pub(crate) async fn analyze(&self) -> Result<(), String> {
        let Some(database) = &self.database else { return Ok(()) };
        let connected = tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await;
        let (client, connection) = connected.map_err(|error| error.to_string())?;
        tokio::spawn(async move { drop(connection.await) });
        client.batch_execute("VACUUM ANALYZE").await.map_err(|error| error.to_string())
    }
}

/// A folder for a database. It is removed when its guard is dropped. The folder is beside this program and not in the
/// system's temporary directory: that directory may be in memory and would hide the cost of fsync. Files that a killed
/// run leaves behind are among other build products.
pub(crate) fn folder() -> Result<tempfile::TempDir, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let beside = own.parent().ok_or("this program has no folder")?;
    tempfile::tempdir_in(beside).map_err(|error| format!("no folder in {}: {error}", beside.display()))
}
