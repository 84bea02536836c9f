//! Results that are reported after the claim was lost: taken if no other worker has claimed the task since, refused
//! otherwise.

use flovyn_engine::state::TaskStatus;
use serde_json::json;
use tonic::Code;

use super::client::{DEADLINE, Plain, QUEUE};
use crate::common::{Database, TENANT, TestServer};

const LEASE_MS: i64 = 1_000;
const KIND: &str = "work";

/// A task that a worker has claimed and lost, on a server with short leases.
struct Lost {
    server: TestServer,
    worker: Plain,
    task_id: String,
}

impl Lost {
    async fn new(database: Database) -> Self {
        let change = |config: &mut flovyn_server::Config| config.limits.task_lease_ms = Some(LEASE_MS);
        let server = TestServer::start_with(database, change).await;
        let worker = Plain::of(&server);
        let id = worker.register_process(("worker", "host", "1"), &[], &[KIND]).await;
        let task_id = worker.submit_task(KIND).await;
        assert_eq!(worker.poll_task_as(&id, QUEUE, 20).await.unwrap().task_execution_id, task_id);
        let lost = Self { server, worker, task_id };
        lost.wait_for(TaskStatus::Pending).await;
        lost
    }

    async fn status(&self) -> TaskStatus {
        let store = self.server.server.api().service().store();
        store.task_get(TENANT, self.task_id.parse().unwrap()).await.unwrap().unwrap().status
    }

    async fn wait_for(&self, status: TaskStatus) {
        let waiting = async {
            while self.status().await != status {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, waiting).await.expect("the claim ends");
    }

    /// Another process of the same name, as clients have by default.
    async fn other(&self) -> (Plain, String) {
        let other = Plain::of(&self.server);
        let id = other.register_process(("worker", "host", "2"), &[], &[KIND]).await;
        (other, id)
    }
}

async fn a_late_success_counts_if_nobody_has_claimed_the_task(database: Database) {
    let lost = Lost::new(database).await;
    // A failure does not: the attempt has been counted as one.
    let refused = lost.worker.fail_task(&lost.task_id, "late").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    lost.worker.complete_task(&lost.task_id, json!("late")).await.unwrap();
    assert_eq!(lost.status().await, TaskStatus::Completed);
    let (other, other_id) = lost.other().await;
    assert!(other.poll_task_as(&other_id, QUEUE, 0).await.is_none());
}

async fn a_late_result_is_refused_if_another_worker_has_the_task(database: Database) {
    let lost = Lost::new(database).await;
    let (other, other_id) = lost.other().await;
    let again = other.poll_task_as(&other_id, QUEUE, 20).await.unwrap();
    assert_eq!((again.task_execution_id.as_str(), again.execution_count), (lost.task_id.as_str(), 2));
    for late in [
        lost.worker.complete_task(&lost.task_id, json!("late")).await,
        lost.worker.fail_task(&lost.task_id, "late").await,
    ] {
        let refused = late.unwrap_err();
        assert!(refused.message().contains("FLV0050"), "{refused}");
    }
    other.complete_task(&lost.task_id, json!("in time")).await.unwrap();
    assert_eq!(lost.status().await, TaskStatus::Completed);
}

mod sqlite {
    use super::Database::Sqlite;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_late_success_counts_if_nobody_has_claimed_the_task() {
        super::a_late_success_counts_if_nobody_has_claimed_the_task(Sqlite).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_late_result_is_refused_if_another_worker_has_the_task() {
        super::a_late_result_is_refused_if_another_worker_has_the_task(Sqlite).await;
    }
}

mod postgres {
    use super::Database::Postgres;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_late_success_counts_if_nobody_has_claimed_the_task() {
        super::a_late_success_counts_if_nobody_has_claimed_the_task(Postgres).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_late_result_is_refused_if_another_worker_has_the_task() {
        super::a_late_result_is_refused_if_another_worker_has_the_task(Postgres).await;
    }
}
