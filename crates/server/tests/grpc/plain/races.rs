//! Events that arrive between claim and suspend. The client does not report what it has seen, so the server must know.

use serde_json::json;
use uuid::Uuid;

use super::client::{Plain, kinds};
use super::commands::{COMPLETED, complete, operation, schedule};
use crate::common::{TestServer, on_both};

on_both!(
    a_signal_while_claimed,
    a_task_completed_while_claimed,
    a_task_completed_before_the_submit_returns,
    all_tasks_completed_at_once,
    many_signals_around_suspends,
);

async fn a_signal_while_claimed(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("sum", json!(null)).await;
    client.claim(&id).await;
    client.signal(&id, "add", json!(1)).await.unwrap();
    // A reader of the history is not the worker, so this must not count as "seen".
    client.events(&id).await;
    client.suspend(&id, vec![operation("draw", json!(4))]).await;
    let events = client.claim(&id).await;
    // The signal arrived before the batch, and keeps its position.
    assert_eq!(kinds(&events), ["WORKFLOW_STARTED", "SIGNAL_RECEIVED", "OPERATION_COMPLETED"]);
    client.suspend(&id, vec![]).await;
    client.assert_no_workflow().await;
}

async fn a_task_completed_while_claimed(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let (one, two) = (Uuid::new_v4(), Uuid::new_v4());
    client.suspend(&id, [one, two].map(|task| schedule(task, "charge", json!(1))).to_vec()).await;
    client.poll_task().await;
    client.poll_task().await;
    client.complete_task(one, json!(1)).await.unwrap();
    client.claim(&id).await;
    client.complete_task(two, json!(2)).await.unwrap();
    client.suspend(&id, vec![]).await;
    let events = client.claim(&id).await;
    assert_eq!(kinds(&events[3..]), ["TASK_COMPLETED", "TASK_COMPLETED"]);
    client.suspend_again(&id).await;
    client.assert_no_workflow().await;
}

/// Pollers wait for the task while it is scheduled: the scheduling event comes first, and the wake-up is not lost.
async fn a_task_completed_before_the_submit_returns(server: TestServer) {
    let client = Plain::of(&server);
    for round in 0..10 {
        let id = client.start("order", json!(null)).await;
        client.claim(&id).await;
        let task_id = Uuid::new_v4();
        let worker = tokio::spawn({
            let client = client.clone();
            async move {
                let task = client.poll_task().await;
                let events = client.events(&task.workflow_execution_id).await;
                client.complete_task(task.task_execution_id, json!(round)).await.unwrap();
                events
            }
        });
        client.suspend(&id, vec![schedule(task_id, "charge", json!(1))]).await;
        let seen_by_worker = worker.await.unwrap();
        assert_eq!(kinds(&seen_by_worker), ["WORKFLOW_STARTED", "TASK_SCHEDULED"]);
        let events = client.claim(&id).await;
        assert_eq!(kinds(&events), ["WORKFLOW_STARTED", "TASK_SCHEDULED", "TASK_COMPLETED"]);
        client.complete(&id, json!(round)).await;
    }
}

async fn all_tasks_completed_at_once(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("fan-out", json!(null)).await;
    client.claim(&id).await;
    let tasks: Vec<Uuid> = (0..20).map(|_| Uuid::new_v4()).collect();
    client.suspend(&id, tasks.iter().map(|task| schedule(*task, "part", json!(1))).collect()).await;
    for _ in &tasks {
        client.poll_task().await;
    }
    let reports = tasks.iter().map(|task| client.complete_task(task, json!(1)));
    for report in futures::future::join_all(reports).await {
        report.unwrap();
    }
    // `events` checks that the numbers have no gap.
    let events = client.events(&id).await;
    let completed = |task: &Uuid| {
        let of_task = |data: &serde_json::Value| data["taskExecutionId"] == json!(task.to_string());
        events.iter().filter(|event| event.kind == "TASK_COMPLETED" && of_task(&event.data)).count()
    };
    assert!(tasks.iter().all(|task| completed(task) == 1), "{events:?}");
    client.claim(&id).await;
    client.complete(&id, json!(null)).await;
}

/// A worker that suspends after each batch of signals, while signals keep arriving. If it is parked, it has seen all of
/// them.
async fn many_signals_around_suspends(server: TestServer) {
    const SIGNALS: usize = 60;
    let client = Plain::of(&server);
    let id = client.start("sum", json!(null)).await;
    let sender = tokio::spawn({
        let (client, id) = (client.clone(), id.clone());
        async move {
            for number in 0..SIGNALS {
                client.signal(&id, "add", json!(number)).await.unwrap();
            }
        }
    });
    loop {
        let events = client.claim(&id).await;
        let deferred = events.iter().filter(|event| event.kind == "WORKFLOW_SUSPENDED").count();
        if events.len() - deferred <= SIGNALS {
            client.suspend(&id, vec![]).await;
            continue;
        }
        // The last signal may have arrived after the claim and before the history was read. Then the end is deferred.
        match client.submit(&id, vec![complete(json!(null))], COMPLETED).await {
            Ok(()) => break,
            Err(refused) => assert_eq!(refused.metadata().get("flovyn-error-code").unwrap(), "FLV0063"),
        }
    }
    sender.await.unwrap();
}
