//! Databases with the first schema and runs in flight (see `fixtures/README.md`).

use std::path::{Path, PathBuf};

use flovyn_testkit::{TestDatabase, fresh_database};
use tokio_postgres::NoTls;

pub(crate) fn sqlite(folder: &Path) -> PathBuf {
    let path = folder.join("flovyn.db");
    std::fs::write(&path, include_bytes!("fixtures/schema_0001.db")).unwrap();
    path
}

pub(crate) fn sqlite_url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

pub(crate) async fn postgres() -> TestDatabase {
    let database = fresh_database().await;
    execute(&database.url, include_str!("fixtures/schema_0001.sql")).await;
    database
}

pub(crate) async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

pub(crate) async fn execute(url: &str, sql: &str) {
    connect(url).await.batch_execute(sql).await.unwrap();
}
