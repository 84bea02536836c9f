//! Effects of tasks on the log of their workflow: each end is logged once, and no effect is visible before its cause.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use flovyn_engine::Reply;
use flovyn_engine::request::{Command, Outcome};
use flovyn_engine::state::*;

use crate::common::{
    Place, Server, TENANT, at_once, complete, dealt, id, many, on_each_store, on_postgres, schedule_task,
    submit, tasks,
};

fn task_commands(first: u128, count: u128) -> Vec<Command> {
    (first..first + count).map(|number| schedule_task(id(number), "work")).collect()
}

async fn tasks_of_one_workflow_completed_at_once_are_all_in_its_log(place: Place) {
    const TASKS: usize = 200;
    let servers = place.servers(2).await;
    let server = &servers[0];
    let execution_id = server.suspended("order", task_commands(1, TASKS as u128)).await;
    let deliveries = server.claim(many(tasks("work"), TASKS)).await.tasks;
    assert_eq!(deliveries.len(), TASKS);
    for answer in at_once(dealt(&servers, deliveries.iter().map(complete))).await {
        assert!(matches!(answer, Ok(Reply::TaskReported { repeated: false, .. })), "{answer:?}");
    }
    server.check().await;
    let events = server.events(execution_id).await;
    let ended = events.iter().filter(|event| event.kind == EventKind::TaskCompleted);
    let ended: BTreeSet<_> = ended.map(|event| event.subject).collect();
    assert_eq!(ended.len(), TASKS, "every task once");
    let sequences: Vec<i64> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=1 + 2 * TASKS as i64).collect::<Vec<_>>(), "start, schedules, ends; no gap");
}

/// Claims as fast as possible. Every claimed task must already be in the log.
async fn poll_tightly(server: Server, taken: &AtomicUsize, all: usize) {
    while taken.load(Ordering::SeqCst) < all {
        let claimed = server.claim(many(tasks("work"), 3)).await;
        for delivery in &claimed.tasks {
            taken.fetch_add(1, Ordering::SeqCst);
            let execution_id = delivery.task.execution_id.expect("it has a workflow");
            let events = server.events(execution_id).await;
            let scheduled = events.iter().any(|event| {
                event.kind == EventKind::TaskScheduled && event.subject == Some(delivery.task.id)
            });
            assert!(scheduled, "task {} runs, and its workflow has not scheduled it", delivery.task.id);
        }
    }
}

/// Every task that is listed must be found in a log that is read later.
async fn read_tightly(server: Server, executions: &[uuid::Uuid], taken: &AtomicUsize, all: usize) {
    while taken.load(Ordering::SeqCst) < all {
        for execution_id in executions {
            let tasks =
                server.store().execution_tasks(TENANT, *execution_id, false, None, 100).await.unwrap();
            let events = server.events(*execution_id).await;
            for task in tasks {
                let scheduled = events.iter().any(|event| event.subject == Some(task.id));
                assert!(scheduled, "task {} is listed, and not in the log", task.id);
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn no_task_is_seen_before_its_schedule_is_in_the_log(place: Place) {
    const WORKFLOWS: usize = 30;
    const EACH: usize = 4;
    let servers = place.servers(2).await;
    let mut activations = Vec::new();
    for _ in 0..WORKFLOWS {
        servers[0].start("order").await;
        activations.push(servers[0].claim_workflow("order").await);
    }
    let executions: Vec<_> = activations.iter().map(|activation| activation.execution.id).collect();
    let taken = AtomicUsize::new(0);
    let submits = async {
        for (number, activation) in activations.iter().enumerate() {
            let commands = task_commands((number * EACH) as u128, EACH as u128);
            servers[0].must(submit(activation, commands, Outcome::Suspended)).await;
        }
    };
    tokio::join!(
        submits,
        poll_tightly(servers[0].clone(), &taken, WORKFLOWS * EACH),
        poll_tightly(servers[1].clone(), &taken, WORKFLOWS * EACH),
        read_tightly(servers[1].clone(), &executions, &taken, WORKFLOWS * EACH),
    );
    assert_eq!(taken.load(Ordering::SeqCst), WORKFLOWS * EACH, "each task is handed out once");
    servers[0].check().await;
}

on_each_store!(
    tasks_of_one_workflow_completed_at_once_are_all_in_its_log,
    no_task_is_seen_before_its_schedule_is_in_the_log,
);
on_postgres!(
    tasks_of_one_workflow_completed_at_once_are_all_in_its_log,
    no_task_is_seen_before_its_schedule_is_in_the_log,
);
