//! A worker that stopped without a broken connection receives nothing more until it is heard again.

use std::time::Duration;

use flovyn_proto::v1;
use flovyn_proto::v1::task_execution_client::TaskExecutionClient;

use super::worker::{PATIENCE, TASK, Worker, hello, signed};
use crate::common::{Database, TestServer};

/// The session lease in these tests: short, so that silence begins soon.
const LEASE_MS: i64 = 1_500;

async fn submit_task(server: &TestServer) -> String {
    let mut tasks = TaskExecutionClient::new(server.channel());
    let submit = v1::SubmitTaskRequest { kind: TASK.into(), input: "1".into(), ..Default::default() };
    tasks.submit_task(signed(submit)).await.unwrap().into_inner().task_execution_id
}

/// Waits until `count` claims wait for work.
pub(crate) async fn claims_wait(server: &TestServer, count: usize) {
    let mut moments = tokio::time::interval(Duration::from_millis(5));
    let waited = async {
        while server.server.api().service().pollers() != count {
            moments.tick().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waited).await;
    assert!(waited.is_ok(), "{} claims wait, not {count}", server.server.api().service().pollers());
}

/// The next task of a worker that sends heartbeats in the meantime.
async fn task_of(worker: &mut Worker) -> v1::TaskExecutionInfo {
    let begin = tokio::time::Instant::now();
    loop {
        worker.grant(0, 0).await;
        if let Ok(task) = tokio::time::timeout(Duration::from_millis(50), worker.task()).await {
            return task;
        }
        assert!(begin.elapsed() < PATIENCE, "no task came");
    }
}

async fn a_silent_worker_is_given_nothing(database: Database) {
    let server =
        TestServer::start_with(database, |config| config.limits.session_lease_ms = Some(LEASE_MS)).await;
    let mut silent = Worker::with(&server, hello(uuid::Uuid::new_v4()), 0, 1).await.unwrap();
    claims_wait(&server, 1).await;
    // No heartbeats are sent, so the worker's waiting claim is withdrawn.
    claims_wait(&server, 0).await;
    let id = submit_task(&server).await;
    let mut other = Worker::with(&server, hello(uuid::Uuid::new_v4()), 0, 1).await.unwrap();
    let task = task_of(&mut other).await;
    assert_eq!((task.task_execution_id, task.execution_count), (id, 1));
    assert_eq!(silent.unread(), (0, 0));
    // Once it is heard again, it receives the next task.
    let next = submit_task(&server).await;
    assert_eq!(task_of(&mut silent).await.task_execution_id, next);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_worker_is_given_nothing_on_sqlite() {
    a_silent_worker_is_given_nothing(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_worker_is_given_nothing_on_postgres() {
    a_silent_worker_is_given_nothing(Database::Postgres).await;
}
