//! Task ids that clients choose, in whole workflows and in batches.

use serde_json::json;
use uuid::Uuid;

use super::client::{Plain, event, kinds};
use super::commands::{SUSPENDED, promise, schedule, timer};
use crate::common::{TestServer, on_both};

on_both!(full_workflow, parallel_tasks_in_one_batch, the_same_batch_sent_twice, a_mixed_batch);

/// The whole life of a task, and a workflow that continues with its result.
async fn full_workflow(server: TestServer) {
    let client = Plain::of(&server);
    client.register("flows", &["order"], &[]).await;
    client.register("tasks", &[], &["reserve", "charge"]).await;
    let id = client.start("order", json!({"item": "book"})).await;
    let mut input = json!({"item": "book"});
    for kind in ["reserve", "charge"] {
        assert_eq!(client.poll_workflow_as("flows", "default", 20).await.unwrap().id, id);
        let task_id = Uuid::new_v4();
        client.suspend(&id, vec![schedule(task_id, kind, input.clone())]).await;
        let task = client.poll_task_as("tasks", "default", 20).await.unwrap();
        assert_eq!((task.task_execution_id, task.kind.as_str()), (task_id.to_string(), kind));
        let output = json!({"after": kind, "got": input});
        client.complete_task(task_id, output.clone()).await.unwrap();
        let last = client.events(&id).await.pop();
        assert_eq!(
            last,
            Some(event("TASK_COMPLETED", json!({"taskExecutionId": task_id.to_string(), "output": output})))
        );
        input = output;
    }
    assert_eq!(client.poll_workflow_as("flows", "default", 20).await.unwrap().id, id);
    client.complete(&id, input.clone()).await;
    assert_eq!(client.events(&id).await.pop(), Some(event("WORKFLOW_COMPLETED", json!({"output": input}))));
}

async fn parallel_tasks_in_one_batch(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("fan-out", json!(null)).await;
    client.claim(&id).await;
    let tasks: Vec<Uuid> = (0..5).map(|_| Uuid::new_v4()).collect();
    let commands = (1..).zip(&tasks).map(|(number, task)| schedule(*task, "part", json!(number)));
    client.suspend(&id, commands.collect()).await;
    let events = client.events(&id).await;
    let order: Vec<_> = events[1..].iter().map(|event| event.data["taskExecutionId"].clone()).collect();
    let mut wanted: Vec<String> = tasks.iter().map(Uuid::to_string).collect();
    assert_eq!(json!(order), json!(wanted));

    let mut delivered = Vec::new();
    for _ in &tasks {
        delivered.push(client.poll_task().await.task_execution_id);
    }
    client.assert_no_task().await;
    // In reverse: results need not arrive in the order of the commands.
    for (index, task) in tasks.iter().enumerate().rev() {
        client.complete_task(task, json!(10 * (index + 1))).await.unwrap();
    }
    let events = client.claim(&id).await;
    let outputs: Vec<_> = events[6..].iter().map(|event| event.data["output"].clone()).collect();
    assert_eq!(json!(outputs), json!([50, 40, 30, 20, 10]));
    delivered.sort();
    wanted.sort();
    assert_eq!(delivered, wanted);
}

/// Either the reply was lost, or the client had lost its history. In both cases the log does not change.
async fn the_same_batch_sent_twice(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let task_id = Uuid::new_v4();
    let batch = vec![schedule(task_id, "charge", json!(1)), timer("sleep-1", 86_400_000)];
    client.submit(&id, batch.clone(), SUSPENDED).await.unwrap();
    let log = client.events(&id).await;
    client.submit(&id, batch.clone(), SUSPENDED).await.expect("the same batch is answered alike");
    assert_eq!(client.events(&id).await, log);
    assert_eq!(client.poll_task().await.task_execution_id, task_id.to_string());
    client.assert_no_task().await;

    client.complete_task(task_id, json!(1)).await.unwrap();
    let log = client.claim(&id).await;
    client.submit(&id, batch, SUSPENDED).await.unwrap();
    assert_eq!(client.claim(&id).await, log);
    client.assert_no_task().await;
    client.complete(&id, json!(1)).await;
}

async fn a_mixed_batch(server: TestServer) {
    let client = Plain::of(&server);
    let id = client.start("order", json!(null)).await;
    client.claim(&id).await;
    let task_id = Uuid::new_v4();
    let batch =
        vec![schedule(task_id, "charge", json!(1)), timer("sleep-1", 86_400_000), promise("approval", None)];
    client.suspend(&id, batch).await;
    assert_eq!(
        kinds(&client.events(&id).await),
        ["WORKFLOW_STARTED", "TASK_SCHEDULED", "TIMER_STARTED", "PROMISE_CREATED"]
    );
    let waiting = client.query(&id, "__waiting").await;
    let mut open: Vec<&str> =
        waiting.as_array().unwrap().iter().filter_map(|item| item["kind"].as_str()).collect();
    open.sort_unstable();
    assert_eq!(open, ["PROMISE", "TASK", "TIMER"]);
    client.poll_task().await;
    client.complete_task(task_id, json!(1)).await.unwrap();
    assert_eq!(client.claim(&id).await.last().unwrap().kind, "TASK_COMPLETED");
}
