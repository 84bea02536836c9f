//! The attempts of a task: their number, the delays between them, their time limits, and the data that the next
//! attempt receives.

use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Reply};

use crate::common::{Place, Server, TENANT, complete, fail, id, json, on_each_store, task, tasks, workflows};

const TRUE: Option<bool> = Some(true);

async fn is_ready(server: &Server) -> bool {
    !server.snapshot().await.ready.is_empty()
}

/// Lets time pass until the task can be claimed again. Returns how long that took.
async fn delay_ms(server: &Server, task_id: uuid::Uuid) -> i64 {
    let task = server.task(task_id).await;
    let now_ms = server.store().now().await.unwrap().ms;
    let delay_ms = task.not_before_ms.expect("it waits for its next attempt") - now_ms;
    server.pass(delay_ms - 1).await;
    assert!(!is_ready(server).await, "it is ready too early");
    server.pass(1).await;
    assert!(is_ready(server).await);
    delay_ms
}

async fn a_failed_attempt_is_followed_by_the_next_after_a_growing_delay(place: Place) {
    let server = place.server().await;
    let retry = Some(RetryPolicy { initial_ms: 1_000, factor: 3.0, cap_ms: 5_000 });
    let task_id = server.create_task(TaskSpec { max_retries: Some(5), retry, ..task("work") }).await;
    for (low, high) in [(800, 1_200), (2_400, 3_600), (5_000, 5_000), (5_000, 5_000)] {
        server.must(fail(&server.claim_task("work").await)).await;
        let delay = delay_ms(&server, task_id).await;
        assert!((low..=high).contains(&delay), "{delay} ms is not from {low} to {high}");
    }
    server.must(fail(&server.claim_task("work").await)).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Failed);
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Failed; 5]);
    server.check().await;
}

async fn a_task_runs_as_often_as_its_policy_says(place: Place) {
    let server = place.server().await;
    for (max_retries, runs) in [(Some(0), 1), (Some(1), 1), (Some(2), 2), (None, 3)] {
        let task_id = server.create_task(TaskSpec { max_retries, ..task("work") }).await;
        for run in 1..=runs {
            let delivery = server.claim_task("work").await;
            assert_eq!(delivery.task.execution_count, run);
            server.must(fail(&delivery)).await;
            server.pass(60_000).await;
        }
        assert_eq!(server.task(task_id).await.status, TaskStatus::Failed, "{max_retries:?}");
        assert!(server.claim(tasks("work")).await.is_empty());
    }
    server.check().await;
}

async fn the_worker_may_choose_the_delay_or_end_it(place: Place) {
    let server = place.server().await;
    let task_id = server.create_task(task("work")).await;
    let delivery = server.claim_task("work").await;
    server.must(FailTask { next_delay_ms: Some(123_456), ..fail(&delivery) }).await;
    assert_eq!(delay_ms(&server, task_id).await, 123_456);
    let delivery = server.claim_task("work").await;
    server.must(FailTask { next_delay_ms: Some(0), ..fail(&delivery) }).await;
    let delivery = server.claim_task("work").await;
    assert_eq!(delivery.task.execution_count, 3, "at once");

    let task_id = server.create_task(task("other")).await;
    let delivery = server.claim_task("other").await;
    let reply = server.must(FailTask { non_retryable: true, ..fail(&delivery) }).await;
    assert_eq!(reply, Reply::TaskReported { status: TaskStatus::Failed, repeated: false });
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Failed]);
    server.check().await;
}

async fn a_task_that_nobody_starts_in_time_fails(place: Place) {
    let server = place.server().await;
    let spec = TaskSpec { schedule_to_start_ms: Some(1_000), ..task("work") };
    let command = Command::ScheduleTask { task_id: id(1), spec: spec.clone() };
    let execution_id = server.suspended("order", vec![command]).await;
    server.pass(999).await;
    assert_eq!(server.task(id(1)).await.status, TaskStatus::Pending);
    server.pass(1).await;
    let row = server.task(id(1)).await;
    assert_eq!((row.status, row.error.as_deref()), (TaskStatus::Failed, Some("schedule-to-start timeout")));
    assert_eq!(server.count(execution_id, EventKind::TaskFailed).await, 1);
    // This limit counts only until the first attempt begins.
    let task_id = server.create_task(spec).await;
    let delivery = server.claim_task("work").await;
    server.must(FailTask { next_delay_ms: Some(5_000), ..fail(&delivery) }).await;
    server.pass(4_000).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Pending);
    server.check().await;
}

async fn an_attempt_that_takes_too_long_is_ended_and_followed_by_the_next(place: Place) {
    let server = place.server().await;
    let spec = TaskSpec { start_to_close_ms: Some(1_000), max_retries: Some(2), ..task("work") };
    let task_id = server.create_task(spec).await;
    let delivery = server.claim_task("work").await;
    server.pass(999).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Running);
    server.pass(1).await;
    server.refused(complete(&delivery), Code::StaleClaim).await;
    delay_ms(&server, task_id).await;
    server.claim_task("work").await;
    server.pass(1_000).await;
    let row = server.task(task_id).await;
    assert_eq!((row.status, row.error.as_deref()), (TaskStatus::Failed, Some("start-to-close timeout")));
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Timeout; 2]);
    server.check().await;
}

async fn a_task_has_a_total_time_across_its_attempts(place: Place) {
    let server = place.server().await;
    // The total time ends while the task waits, while it runs, and before its next attempt could begin.
    let spec = || TaskSpec { total_ms: Some(10_000), max_retries: Some(10), ..task("work") };
    let waiting = server.create_task(spec()).await;
    server.must(FailTask { next_delay_ms: Some(9_500), ..fail(&server.claim_task("work").await) }).await;
    server.pass(9_500).await;
    server.claim_task("work").await;
    server.pass(499).await;
    assert_eq!(server.task(waiting).await.status, TaskStatus::Running);
    server.pass(1).await;
    let row = server.task(waiting).await;
    assert_eq!((row.status, row.error.as_deref()), (TaskStatus::Failed, Some("total timeout")));
    assert_eq!(server.attempts(waiting).await, [AttemptStatus::Failed, AttemptStatus::Timeout]);

    let unstarted = server.create_task(spec()).await;
    server.pass(10_000).await;
    assert_eq!(server.task(unstarted).await.status, TaskStatus::Failed);

    let hopeless = server.create_task(spec()).await;
    server.must(FailTask { next_delay_ms: Some(10_000), ..fail(&server.claim_task("work").await) }).await;
    assert_eq!(
        server.task(hopeless).await.status,
        TaskStatus::Failed,
        "the next attempt would begin too late"
    );
    server.check().await;
}

async fn an_attempt_that_misses_its_heartbeat_is_ended(place: Place) {
    let server = place.server().await;
    let task_id = server.create_task(TaskSpec { heartbeat_ms: Some(1_000), ..task("work") }).await;
    let delivery = server.claim_task("work").await;
    let beat = || HeartbeatTask { task_id, token: Some(delivery.token), details: Some(json("{\"page\":7}")) };
    for _ in 0..5 {
        server.pass(999).await;
        server.must(beat()).await;
    }
    assert_eq!(server.task(task_id).await.status, TaskStatus::Running);
    server.pass(1_000).await;
    let row = server.task(task_id).await;
    assert_eq!((row.status, row.error.as_deref()), (TaskStatus::Pending, Some("heartbeat timeout")));
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Timeout]);
    server.refused(beat(), Code::StaleClaim).await;
    delay_ms(&server, task_id).await;
    let next = server.claim_task("work").await;
    assert_eq!(
        next.task.heartbeat_details.as_deref(),
        Some(&b"{\"page\":7}"[..]),
        "the next one goes on from there"
    );
    server.check().await;
}

/// Frequent heartbeats are answered from memory; the latest details must still reach the next attempt.
async fn the_details_of_the_last_heartbeat_reach_the_next_attempt(place: Place) {
    let server = place.server().await;
    let task_id = server.create_task(task("work")).await;
    let delivery = server.claim_task("work").await;
    for page in 0..10 {
        let details = Some(json(&page.to_string()));
        let heartbeat = HeartbeatTask { task_id, token: Some(delivery.token), details };
        assert!(!server.heartbeat(TENANT, heartbeat).await.unwrap());
    }
    assert!(server.stats().figures().commits < 8, "most of them cost nothing");
    server.must(FailTask { next_delay_ms: Some(0), ..fail(&delivery) }).await;
    let next = server.claim_task("work").await;
    assert_eq!(next.task.heartbeat_details.as_deref(), Some(&b"9"[..]));
}

async fn a_failed_task_can_be_tried_again_by_hand(place: Place) {
    let server = place.server().await;
    let task_id =
        server.create_task(TaskSpec { max_retries: Some(2), total_ms: Some(300_000), ..task("work") }).await;
    for _ in 0..2 {
        server.must(fail(&server.claim_task("work").await)).await;
        server.pass(60_000).await;
    }
    assert_eq!(server.task(task_id).await.status, TaskStatus::Failed);
    server.pass(600_000).await;
    server.must(RetryTask { task_id }).await;
    let delivery = server.claim_task("work").await;
    assert_eq!(delivery.task.execution_count, 3, "attempts go on counting");
    server.must(fail(&delivery)).await;
    server.pass(60_000).await;
    server.must(complete(&server.claim_task("work").await)).await;
    let failed = AttemptStatus::Failed;
    assert_eq!(server.attempts(task_id).await, [failed, failed, failed, AttemptStatus::Completed]);
    server.check().await;
}

async fn a_pending_task_is_cancelled_at_once_and_a_running_one_is_asked(place: Place) {
    let server = place.server().await;
    let pending = server.create_task(task("work")).await;
    server.must(CancelTask { task_id: pending, cooperative: false }).await;
    assert_eq!(server.task(pending).await.status, TaskStatus::Cancelled);
    assert!(server.claim(tasks("work")).await.is_empty());
    server.refused(CancelTask { task_id: pending, cooperative: true }, Code::TaskNotPending).await;

    let running = server.create_task(task("work")).await;
    let delivery = server.claim_task("work").await;
    server.refused(CancelTask { task_id: running, cooperative: false }, Code::TaskNotPending).await;
    server.must(CancelTask { task_id: running, cooperative: true }).await;
    let beat = HeartbeatTask { task_id: running, token: Some(delivery.token), details: None };
    assert_eq!(server.heartbeat(TENANT, beat.clone()).await.ok(), TRUE);
    assert_eq!(server.heartbeat(TENANT, beat).await.ok(), TRUE, "asked every time, not answered from memory");
    server.must(fail(&delivery)).await;
    assert_eq!(server.task(running).await.status, TaskStatus::Cancelled, "it stopped as it was asked to");
    assert_eq!(server.attempts(running).await, [AttemptStatus::Cancelled]);
    // A task that finishes in spite of the request counts as finished.
    let stubborn = server.create_task(task("work")).await;
    let delivery = server.claim_task("work").await;
    server.must(CancelTask { task_id: stubborn, cooperative: true }).await;
    server.must(complete(&delivery)).await;
    assert_eq!(server.task(stubborn).await.status, TaskStatus::Completed);
    server.check().await;
}

/// A cancel request stays in force if the worker that should have received it dies.
async fn a_task_asked_to_stop_is_not_started_again_when_its_worker_dies(place: Place) {
    let server = place.server().await;
    let command = Command::ScheduleTask { task_id: id(1), spec: task("work") };
    let execution_id = server.suspended("order", vec![command]).await;
    let alone = server.create_task(TaskSpec { start_to_close_ms: Some(1_000), ..task("other") }).await;
    server.claim_task("work").await;
    server.claim_task("other").await;
    server.must(CancelTask { task_id: id(1), cooperative: true }).await;
    server.must(CancelTask { task_id: alone, cooperative: true }).await;
    server.pass(1_000).await;
    assert_eq!(server.task(alone).await.status, TaskStatus::Cancelled, "after its timeout");
    server.pass(server.limits().session_lease_ms).await;
    assert_eq!(server.task(id(1)).await.status, TaskStatus::Cancelled, "after its lease");
    assert!(server.claim(tasks("work")).await.is_empty());
    assert_eq!(
        server.count(execution_id, EventKind::TaskFailed).await,
        1,
        "its workflow receives the failure"
    );
    assert_eq!(server.claim(workflows("order")).await.len(), 1);
    server.check().await;
}

async fn what_a_task_keeps_between_its_attempts_is_there(place: Place) {
    let server = place.server().await;
    let task_id = server.create_task(task("work")).await;
    let delivery = server.claim_task("work").await;
    let token = Some(delivery.token);
    let set =
        |name: &str, value: &str| SetTaskState { task_id, token, name: name.into(), value: json(value) };
    server.must(set("a", "1")).await;
    server.must(set("b", "2")).await;
    server.must(set("a", "3")).await;
    server.must(FailTask { next_delay_ms: Some(0), ..fail(&delivery) }).await;
    let token = Some(server.claim_task("work").await.token);
    let names = vec!["a".into(), "b".into()];
    assert_eq!(server.must(ListTaskState { task_id }).await, Reply::TaskStateKeys { names });
    let value = |text: &str| Reply::TaskState { value: Some(json(text)) };
    assert_eq!(server.must(GetTaskState { task_id, name: "a".into() }).await, value("3"));
    server.must(ClearTaskState { task_id, token, name: "a".into() }).await;
    assert_eq!(
        server.must(GetTaskState { task_id, name: "a".into() }).await,
        Reply::TaskState { value: None }
    );
    server.must(ClearAllTaskState { task_id, token }).await;
    assert_eq!(server.must(ListTaskState { task_id }).await, Reply::TaskStateKeys { names: Vec::new() });
}

async fn progress_and_log_lines_are_written_by_and_by_in_order(place: Place) {
    let server = place.server().await;
    let task_id = server.create_task(task("work")).await;
    let token = Some(server.claim_task("work").await.token);
    for number in 1..=50 {
        let progress = f64::from(number) / 100.0;
        server.report(TENANT, ReportProgress { task_id, token, progress, details: None }).unwrap();
        let message = number.to_string().into();
        server.report(TENANT, AppendLogLine { task_id, token, level: LogLevel::Info, message }).unwrap();
    }
    server.stop().await;
    assert!((server.task(task_id).await.progress - 0.5).abs() < f64::EPSILON, "the last one counts");
    let lines = server.store().task_log_page(TENANT, task_id, 0, 100).await.unwrap();
    let messages: Vec<String> = lines.iter().map(|line| line.message.to_string()).collect();
    assert_eq!(messages, (1..=50).map(|number| number.to_string()).collect::<Vec<_>>());
}

/// A task that was created ahead of its command and cancelled before the command arrived.
async fn a_task_cancelled_before_its_workflow_scheduled_it_stays_cancelled(place: Place) {
    let server = place.server().await;
    let execution_id = server.start("order").await;
    let ahead = CreateTask { execution_id: Some(execution_id), ..CreateTask::standalone(task("work")) };
    let task_id = server.create_task_as(ahead).await;
    assert!(server.claim(tasks("work")).await.is_empty(), "not before it is in the log");
    server.must(CancelTask { task_id, cooperative: false }).await;
    let activation = server.claim_workflow("order").await;
    let command = Command::ScheduleTask { task_id, spec: task("work") };
    server.must(crate::common::submit(&activation, vec![command], Outcome::Suspended)).await;
    assert!(server.claim(tasks("work")).await.is_empty(), "a cancelled task is not run");
    assert_eq!(server.task(task_id).await.status, TaskStatus::Cancelled);
    assert_eq!(
        server.count(execution_id, EventKind::TaskFailed).await,
        1,
        "and its workflow does not wait for it"
    );
    server.check().await;
}

on_each_store!(
    a_failed_attempt_is_followed_by_the_next_after_a_growing_delay,
    a_task_runs_as_often_as_its_policy_says,
    the_worker_may_choose_the_delay_or_end_it,
    a_task_that_nobody_starts_in_time_fails,
    an_attempt_that_takes_too_long_is_ended_and_followed_by_the_next,
    a_task_has_a_total_time_across_its_attempts,
    an_attempt_that_misses_its_heartbeat_is_ended,
    the_details_of_the_last_heartbeat_reach_the_next_attempt,
    a_failed_task_can_be_tried_again_by_hand,
    a_pending_task_is_cancelled_at_once_and_a_running_one_is_asked,
    a_task_asked_to_stop_is_not_started_again_when_its_worker_dies,
    what_a_task_keeps_between_its_attempts_is_there,
    progress_and_log_lines_are_written_by_and_by_in_order,
    a_task_cancelled_before_its_workflow_scheduled_it_stays_cancelled,
);
