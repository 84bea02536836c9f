//! A database with the first schema and runs in flight works with the current Flovyn: it is sound, and all runs
//! finish.

#[path = "../../../sdk/examples/in_flight/workflows.rs"]
mod workflows;

use std::collections::BTreeSet;
use std::time::Duration;

use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::{ExecutionStatus, TaskStatus};
use flovyn_sdk::{Client, Worker};
use flovyn_server::config::{TenantConfig, WorkerTokenConfig};
use flovyn_server::{Config, Server, ServerOptions};
use flovyn_service::doctor::Doctor;
use flovyn_store::open;

use crate::fixture;

/// The fixtures contain the hash of this token.
const TOKEN: &str = "fwt_upgrade-0123456789abcdef0123456789ab";
/// Longer than any step here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Migrates the schema and returns the store.
async fn migrated(url: &str) -> Snapshot {
    let snapshot = open::store(url).await.unwrap().snapshot().await.unwrap();
    let statuses: BTreeSet<String> = snapshot.executions.iter().map(|row| row.status.to_string()).collect();
    assert_eq!(statuses.len(), 6, "one of every status: {statuses:?}");
    let running = |status: &TaskStatus| *status == TaskStatus::Running;
    assert!(snapshot.tasks.iter().any(|row| running(&row.status)), "a task that runs");
    assert!(!snapshot.promises.is_empty() && !snapshot.timers.is_empty() && !snapshot.keys.is_empty());
    snapshot
}

pub(crate) async fn assert_sound(url: &str) {
    let mut doctor = Doctor::new(open::inspect(url).await.unwrap());
    while let Some(examined) = doctor.next().await.unwrap() {
        assert_eq!(examined.findings, [], "{}", examined.part);
    }
}

async fn start(url: &str) -> Server {
    let mut config = Config::local(url.to_owned());
    config.tenants = vec![TenantConfig {
        id: None,
        slug: "test".into(),
        name: None,
        retention_ms: None,
        worker_tokens: vec![WorkerTokenConfig { name: "test".into(), token: TOKEN.into() }],
    }];
    Server::start(ServerOptions::new(config)).await.unwrap()
}

/// Every in-flight run ends with the result that its code defines.
pub(crate) async fn everything_finishes(url: &str) {
    let before = migrated(url).await;
    assert_sound(url).await;
    let server = start(url).await;
    let grpc = format!("http://{}", server.grpc_addr());
    let worker = workflows::all(Worker::builder(&grpc, TOKEN)).build().unwrap().start();
    let client = Client::new(&grpc, TOKEN).unwrap();
    for key in ["answer-0", "answer-1", "answer-2", "answer-child"] {
        client.resolve_promise(&format!("key:{key}"), "yes").await.unwrap();
    }
    let open: Vec<_> = before.executions.iter().filter(|row| !row.status.is_terminal()).collect();
    assert!(open.len() >= 10, "only {} runs were in flight", open.len());
    for row in open {
        let result = client.handle::<serde_json::Value>(row.id).result(PATIENCE).await;
        let result = result.unwrap_or_else(|error| panic!("{} {}: {error}", row.kind, row.id)).to_string();
        let expected = match &*row.kind {
            "waiting" => "yes 42",
            "parent" => "child says answer-child: yes 42",
            "sleeping" => "awake",
            "in-task" => "2",
            "between-attempts" => "3",
            "in-step" => "5",
            _ => "20",
        };
        assert!(result.contains(expected), "{}: {result}", row.kind);
    }
    let store = server.api().service().store().clone();
    let tenant = before.tenants[0].id;
    let mut moments = tokio::time::interval(Duration::from_millis(50));
    for task in before.tasks.iter().filter(|row| row.execution_id.is_none()) {
        let done = async {
            while store.task_get(tenant, task.id).await.unwrap().unwrap().status != TaskStatus::Completed {
                moments.tick().await;
            }
        };
        tokio::time::timeout(PATIENCE, done).await.unwrap();
    }
    let after = store.snapshot().await.unwrap();
    assert!(after.executions.iter().all(|row| row.status.is_terminal()));
    let count = |status| after.executions.iter().filter(|row| row.status == status).count();
    assert_eq!((count(ExecutionStatus::Failed), count(ExecutionStatus::Cancelled)), (1, 1));
    assert_sound(url).await;
    worker.stop().await;
    drop(store);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_flight_finish_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    everything_finishes(&fixture::sqlite_url(&fixture::sqlite(folder.path()))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_flight_finish_on_postgres() {
    let database = fixture::postgres().await;
    everything_finishes(&database.url).await;
}
