//! Migrates the schema, with one transaction per migration.
//!
//! Processes that start together take turns by an advisory lock. A process that is killed leaves only complete
//! migrations.

use std::cmp::Ordering;

use tokio_postgres::Client;

use crate::port::{StoreError, StoreResult};
use crate::postgres::connect::{Connector, Purpose, spawn};
use crate::postgres::error;

/// Never change a released migration; add a new one. Processes of the previous version continue to work during and
/// after the migration. So a new column needs a default, and nothing that they use may be removed.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_init.sql"),
    include_str!("migrations/0002_quota.sql"),
    include_str!("migrations/0003_turn.sql"),
    include_str!("migrations/0004_audit.sql"),
    include_str!("migrations/0005_task_listing.sql"),
    include_str!("migrations/0006_reporter.sql"),
    include_str!("migrations/0007_deferred_end.sql"),
    include_str!("migrations/0008_clean_up.sql"),
    include_str!("migrations/0009_equal_refusals.sql"),
    include_str!("migrations/0010_workflow_key.sql"),
    include_str!("migrations/0011_failure.sql"),
    include_str!("migrations/0012_worker_process.sql"),
];

/// Any number that no other program uses on the same database ("flovyn" in ASCII).
const LOCK: i64 = 0x66_6c_6f_76_79_6e;

pub(super) async fn migrate(connector: &Connector) -> StoreResult<()> {
    let (client, connection) = connector.open(Purpose::Migration).await?;
    spawn(connection);
    while !step(&client, MIGRATIONS).await? {}
    Ok(())
}

/// Refuses a database whose schema is not exactly that of this binary.
pub(super) async fn check(connector: &Connector) -> StoreResult<()> {
    let (client, connection) = connector.open(Purpose::Migration).await?;
    spawn(connection);
    let known = client.query_one("SELECT to_regclass('schema_version') IS NOT NULL", &[]).await;
    if !known.map_err(|error| failed(&error))?.get::<_, bool>(0) {
        return Err(StoreError::Fatal("this is not a Flovyn database: it has no schema version".to_owned()));
    }
    let row = client.query_one("SELECT coalesce(max(version), 0) FROM schema_version", &[]).await;
    let found: i32 = row.map_err(|error| failed(&error))?.get(0);
    let needed = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    match found.cmp(&needed) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(too_new(found, needed)),
        Ordering::Less => Err(StoreError::Fatal(format!(
            "the database has schema version {found}, this binary needs {needed}: bring it up to date with \
             `flovyn migrate`"
        ))),
    }
}

fn too_new(found: i32, known: i32) -> StoreError {
    StoreError::Fatal(format!(
        "the database has schema version {found}, this binary knows versions up to {known}: start the newer \
         Flovyn that upgraded it"
    ))
}

/// Applies the next migration. Returns true if there is none.
async fn step(client: &Client, migrations: &[&str]) -> StoreResult<bool> {
    run(client, "BEGIN").await?;
    run(client, &format!("SELECT pg_advisory_xact_lock({LOCK})")).await?;
    run(
        client,
        "CREATE TABLE IF NOT EXISTS schema_version (version integer PRIMARY KEY, applied_ms bigint NOT NULL)",
    )
    .await?;
    let row = client
        .query_one("SELECT coalesce(max(version), 0) FROM schema_version", &[])
        .await
        .map_err(|error| failed(&error))?;
    let found: i32 = row.get(0);
    let known = i32::try_from(migrations.len()).unwrap_or(i32::MAX);
    if found > known {
        return Err(too_new(found, known));
    }
    let next = usize::try_from(found).ok().and_then(|found| migrations.get(found));
    if let Some(migration) = next {
        run(client, migration).await?;
        let version = found + 1;
        run(
            client,
            &format!(
                "INSERT INTO schema_version VALUES ({version}, floor(extract(epoch FROM clock_timestamp()) * 1000))"
            ),
        )
        .await?;
        tracing::info!(version, "the database schema was upgraded");
    }
    run(client, "COMMIT").await?;
    Ok(next.is_none())
}

async fn run(client: &Client, sql: &str) -> StoreResult<()> {
    client.batch_execute(sql).await.map_err(|error| failed(&error))
}

fn failed(error: &tokio_postgres::Error) -> StoreError {
    error::from_driver(error, "migrate the schema")
}
