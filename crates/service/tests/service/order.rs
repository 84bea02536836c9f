//! When and in which order work is handed out: delays, priorities, paused queues.

use flovyn_engine::request::*;
use flovyn_engine::state::*;

use crate::common::{
    BEGIN_MS, Place, QUEUE, Server, answered, complete, many, on_each_store, schedule_task, signal, suspend,
    task, tasks, workflow, workflows,
};

async fn claimed_tasks(server: &Server) -> Vec<String> {
    let claimed = server.claim(many(tasks("work"), 100)).await;
    claimed.tasks.iter().map(|item| String::from_utf8_lossy(&item.task.input).into_owned()).collect()
}

fn named(name: i64, change: impl FnOnce(&mut TaskSpec)) -> TaskSpec {
    let mut spec = TaskSpec { input: crate::common::json(&name.to_string()), ..task("work") };
    change(&mut spec);
    spec
}

async fn work_is_handed_out_in_order_of_time_and_priority(place: Place) {
    let server = place.server().await;
    let seconds_of_priority = [0, 10, -10, 5, -5];
    for (number, seconds) in seconds_of_priority.into_iter().enumerate() {
        server.create_task(named(number as i64, |spec| spec.priority_seconds = seconds)).await;
        server.start_as(StartWorkflow { priority_seconds: seconds, ..workflow("order") }).await;
        server.pass(1_000).await;
    }
    // Created later, but before work with less priority: a priority is an offset in time.
    assert_eq!(claimed_tasks(&server).await, ["2", "4", "0", "3", "1"]);
    let claimed = server.claim(many(workflows("order"), 100)).await;
    let order: Vec<i64> = claimed.workflows.iter().map(|item| item.execution.priority_seconds).collect();
    assert_eq!(order, [-10, -5, 0, 5, 10]);
}

async fn one_at_a_time_comes_in_the_same_order_as_all_at_once(place: Place) {
    let server = place.server().await;
    for number in 0..10 {
        server.create_task(named(number, |spec| spec.priority_seconds = (number * 7) % 10)).await;
    }
    let mut order = Vec::new();
    for _ in 0..10 {
        order.push(server.claim_task("work").await.task.priority_seconds);
    }
    assert_eq!(order, (0..10).collect::<Vec<_>>());
}

/// A claim for several kinds takes the oldest work of all kinds, not all work of the first kind.
async fn kinds_do_not_come_before_each_other(place: Place) {
    let server = place.server().await;
    for number in 0..6 {
        server.create_task(task(if number % 2 == 0 { "b" } else { "a" })).await;
        server.pass(1).await;
    }
    let kinds = vec![crate::common::kind("a"), crate::common::kind("b")];
    let mut types = Vec::new();
    for _ in 0..3 {
        let claimed = server.claim(Claim { kinds: kinds.clone(), ..many(tasks("a"), 2) }).await;
        types.extend(claimed.tasks.iter().map(|item| item.task.task_type.to_string()));
    }
    assert_eq!(types, ["b", "a", "b", "a", "b", "a"]);
}

async fn a_delayed_start_is_claimable_from_its_moment_on(place: Place) {
    let server = place.server().await;
    let at_ms = BEGIN_MS + 5_000;
    let start =
        StartWorkflow { scheduled_ms: Some(at_ms), execution_timeout_ms: Some(10_000), ..workflow("order") };
    let id = server.start_as(start).await.execution_id;
    let create = CreateTask { scheduled_ms: Some(at_ms), ..CreateTask::standalone(task("work")) };
    let task_id = server.create_task_as(create).await;
    let (poll, task_poll) = (server.poll(workflows("order")).await, server.poll(tasks("work")).await);
    server.pass(4_999).await;
    // An event does not make it ready earlier.
    server.must(signal(id)).await;
    assert!(server.claim(workflows("order")).await.is_empty());
    assert!(server.claim(tasks("work")).await.is_empty());
    server.check().await;
    server.pass(1).await;
    let activation = answered(poll).await.workflows.remove(0);
    assert_eq!(activation.execution.id, id);
    assert_eq!(
        activation.execution.deadline_ms,
        Some(at_ms + 10_000),
        "its time counts from when it may begin"
    );
    assert_eq!(answered(task_poll).await.tasks[0].task.id, task_id);
    server.check().await;
}

async fn a_moment_that_has_passed_delays_nothing_and_counts_for_the_order(place: Place) {
    let server = place.server().await;
    server.create_task(named(1, |_| {})).await;
    let early =
        CreateTask { scheduled_ms: Some(BEGIN_MS - 5_000), ..CreateTask::standalone(named(2, |_| {})) };
    server.create_task_as(early).await;
    assert_eq!(claimed_tasks(&server).await, ["2", "1"]);
}

async fn nothing_of_a_paused_queue_is_handed_out_and_nothing_is_lost(place: Place) {
    let server = place.server().await;
    server.create_task(task("work")).await;
    server.start("order").await;
    server.must(PauseQueue { queue: QUEUE.into() }).await;
    server.must(PauseQueue { queue: QUEUE.into() }).await;
    assert!(server.claim(tasks("work")).await.is_empty());
    assert!(server.claim(workflows("order")).await.is_empty());
    // Other queues are not affected.
    let elsewhere = TaskSpec { queue: Some("elsewhere".into()), ..task("work") };
    server.create_task(elsewhere).await;
    assert_eq!(server.claim(Claim { queue: "elsewhere".into(), ..tasks("work") }).await.len(), 1);
    server.check().await;
    server.must(ResumeQueue { queue: QUEUE.into() }).await;
    server.must(ResumeQueue { queue: QUEUE.into() }).await;
    server.must(complete(&server.claim_task("work").await)).await;
    server.must(suspend(&server.claim_workflow("order").await)).await;
    server.check().await;
}

/// Work that a worker has claimed may end; the work that follows from it waits.
async fn a_pause_does_not_touch_what_is_running(place: Place) {
    let server = place.server().await;
    let command = schedule_task(crate::common::id(1), "work");
    let id = server.suspended("order", vec![command]).await;
    let delivery = server.claim_task("work").await;
    server.must(PauseQueue { queue: QUEUE.into() }).await;
    server.must(complete(&delivery)).await;
    assert_eq!(server.status(id).await, ExecutionStatus::Pending);
    assert!(server.claim(workflows("order")).await.is_empty());
    server.must(ResumeQueue { queue: QUEUE.into() }).await;
    assert_eq!(server.claim_workflow("order").await.execution.id, id);
}

/// Its history does not fit into one reply. It must not block later work for plain clients.
async fn a_workflow_with_a_large_history_blocks_nobody_and_waits_for_the_stream(place: Place) {
    let limits = flovyn_engine::Limits { unary_history_bytes: 1_000, ..Default::default() };
    let server = place.server_with(limits).await;
    let value = crate::common::json(&format!("\"{}\"", "x".repeat(2_000)));
    let mut large_ids = Vec::new();
    for _ in 0..20 {
        let execution_id = server.start("order").await;
        server.must(SignalWorkflow { execution_id, name: "much".into(), value: value.clone() }).await;
        large_ids.push(execution_id);
    }
    server.pass(1_000).await;
    let small = server.start("order").await;
    let plain = crate::common::plain(workflows("order"));
    let claimed = server.claim(plain.clone()).await;
    assert_eq!(claimed.workflows.iter().map(|item| item.execution.id).collect::<Vec<_>>(), [small]);
    assert!(server.claim(plain).await.is_empty());
    let claimed = server.claim(many(workflows("order"), 100)).await;
    assert_eq!(claimed.len(), large_ids.len());
    server.check().await;
}

on_each_store!(
    work_is_handed_out_in_order_of_time_and_priority,
    one_at_a_time_comes_in_the_same_order_as_all_at_once,
    kinds_do_not_come_before_each_other,
    a_delayed_start_is_claimable_from_its_moment_on,
    a_moment_that_has_passed_delays_nothing_and_counts_for_the_order,
    nothing_of_a_paused_queue_is_handed_out_and_nothing_is_lost,
    a_pause_does_not_touch_what_is_running,
    a_workflow_with_a_large_history_blocks_nobody_and_waits_for_the_stream,
);
