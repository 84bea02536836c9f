//! A client that blocks while one of its polls is held, like a blocking poll on an event loop. Its other poll, its
//! results and its own calls wait until the poll is answered. All polls ask for 30 seconds.

use serde_json::json;
use uuid::Uuid;

use super::client::{DEADLINE, Plain, QUEUE, kinds};
use super::commands::schedule;
use super::messages::{TaskExecutionInfo, WorkflowExecution};
use crate::common::{Database, TestServer, on_both};

on_both!(
    a_chain_of_tasks,
    a_worker_of_workflows_only,
    a_worker_that_registers_each_half_by_itself,
    its_own_calls_are_not_held_up,
    a_concurrent_client_is_held_as_long_as_it_asks,
);

const WORKER: &str = "serial";
const SECONDS: i64 = 30;
const TASKS: usize = 3;

/// Polls one at a time, without end.
struct Serial {
    client: Plain,
    workflows: String,
    tasks: String,
}

impl Serial {
    async fn new(server: &TestServer) -> Self {
        let client = Plain::of(server);
        let id = client.register(WORKER, &["chain"], &["step"]).await;
        Self { client, workflows: id.clone(), tasks: id }
    }

    /// Polls once per class. Work that arrives is executed before the next poll.
    async fn turn(&self) {
        if let Some(execution) = self.poll_workflow().await {
            self.activate(&execution.id).await;
        }
        if let Some(task) = self.poll_task().await {
            self.client.complete_task(task.task_execution_id, json!(1)).await.unwrap();
        }
    }

    async fn poll_workflow(&self) -> Option<WorkflowExecution> {
        self.client.poll_workflow_once(&self.workflows, QUEUE, SECONDS).await
    }

    async fn poll_task(&self) -> Option<TaskExecutionInfo> {
        self.client.poll_task_once(&self.tasks, QUEUE, SECONDS).await
    }

    /// Schedules tasks one after the other, then ends.
    async fn activate(&self, id: &str) {
        let events = self.client.events(id).await;
        let done = events.iter().filter(|event| event.kind == "TASK_COMPLETED").count();
        match done < TASKS {
            true => self.client.suspend(id, vec![schedule(Uuid::new_v4(), "step", json!(done))]).await,
            false => self.client.complete(id, json!(done)).await,
        }
    }

    async fn has_ended(&self, id: &str) -> bool {
        kinds(&self.client.events(id).await).last() == Some(&"WORKFLOW_COMPLETED")
    }

    /// Works until this execution has ended. In each turn one task is done, and the first and the last turn have one poll
    /// without work. `holds.rs` tests how long such a poll is held.
    async fn work_until_ended(&self, id: &str) {
        let mut turns = 0;
        let work = async {
            while !self.has_ended(id).await {
                self.turn().await;
                turns += 1;
                assert!(turns <= TASKS + 2, "polls bring nothing although there is work");
            }
        };
        tokio::time::timeout(DEADLINE, work).await.expect("its polls block it");
    }
}

async fn a_chain_of_tasks(server: TestServer) {
    let worker = Serial::new(&server).await;
    let application = Plain::of(&server);
    for _ in 0..3 {
        // First, polls without work.
        worker.turn().await;
        let id = application.start("chain", json!(null)).await;
        worker.work_until_ended(&id).await;
    }
}

/// This worker also polls for tasks. That poll must not block it either, although no task is registered.
async fn a_worker_of_workflows_only(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.register("flows", &["order"], &[]).await;
    let worker = Serial { client, workflows: id.clone(), tasks: id };
    let application = Plain::of(&server);
    for _ in 0..3 {
        let started = application.start("order", json!(null)).await;
        let work = async {
            loop {
                assert!(worker.poll_task().await.is_none());
                if let Some(execution) = worker.poll_workflow().await {
                    return execution.id;
                }
            }
        };
        let id = tokio::time::timeout(DEADLINE, work).await.expect("its polls block it");
        assert_eq!(id, started);
        worker.client.complete(&id, json!(1)).await;
    }
}

/// Under two ids, on one connection.
async fn a_worker_that_registers_each_half_by_itself(server: TestServer) {
    let client = Plain::of(&server);
    let workflows = client.register("flows", &["chain"], &[]).await;
    let tasks = client.register("tasks", &[], &["step"]).await;
    let worker = Serial { client, workflows, tasks };
    worker.turn().await;
    let id = Plain::of(&server).start("chain", json!(null)).await;
    worker.work_until_ended(&id).await;
}

async fn its_own_calls_are_not_held_up(server: TestServer) {
    let worker = Serial::new(&server).await;
    for _ in 0..3 {
        worker.turn().await;
        // The call is on the worker's own connection, between two polls.
        let id = worker.client.start("chain", json!(null)).await;
        worker.work_until_ended(&id).await;
    }
}

/// Once two polls have overlapped, each is held as long as it asks.
async fn a_concurrent_client_is_held_as_long_as_it_asks(server: TestServer) {
    let worker = Serial::new(&server).await;
    // Both polls are held because they overlap. First there is no work, then work for both.
    let started = tokio::join!(
        async { worker.poll_workflow().await.expect("it is held until there is work").id },
        async { worker.poll_task().await.expect("it is held until there is work").task_execution_id },
        async {
            waiting_polls(&server, 2).await;
            // Longer than a poll of an unknown client is held.
            assert!(Plain::of(&server).poll_workflow_as("nobody", "empty", 1).await.is_none());
            waiting_polls(&server, 2).await;
            let application = Plain::of(&server);
            let id = application.start("chain", json!(null)).await;
            let task_id = application.submit_task("step").await;
            (id, task_id)
        },
    );
    let (workflow, task, (started, submitted)) = started;
    assert_eq!((workflow, task), (started, submitted));
}

async fn waiting_polls(server: &TestServer, count: usize) {
    let waiting = async {
        while server.server.api().service().pollers() < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_wait_is_configured() {
    for database in [Database::Sqlite, Database::Postgres] {
        let server = TestServer::start_with(database, |config| config.grpc.max_poll_wait_ms = 10).await;
        let worker = Serial::new(&server).await;
        // The polls overlap, and still end.
        for _ in 0..3 {
            let (workflow, task) = tokio::join!(worker.poll_workflow(), worker.poll_task());
            assert!(workflow.is_none() && task.is_none());
        }
    }
}
