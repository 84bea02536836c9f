//! Workers that die, hang or send nothing: their work is claimed again, and what they send later has no effect.

use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Reply};

use crate::common::{
    Place, Server, complete, fail, finish, id, many, of_session, on_each_store, on_postgres, plain, register,
    schedule_task, submit, suspend, task, tasks, workflows,
};

/// Short enough to expire while a database's clock runs.
fn short() -> Limits {
    Limits { session_lease_ms: 50, ..Limits::default() }
}

async fn worker(server: &Server, name: &str, session: bool) -> uuid::Uuid {
    match server.must(register(name, session, Vec::new())).await {
        Reply::Registered { worker_id } => worker_id,
        other => panic!("{other:?}"),
    }
}

async fn a_worker_that_wakes_up_after_its_lease_is_refused_and_the_second_one_stands(place: Place) {
    let first_server = place.server_with(short()).await;
    let second_server = place.server_with(short()).await;
    let execution_id = first_server.start("order").await;
    let task_id = first_server.create_task(task("work")).await;
    let stalled = first_server.claim_workflow("order").await;
    let stalled_task = first_server.claim_task("work").await;
    first_server.pass(50).await;
    assert_eq!(first_server.status(execution_id).await, ExecutionStatus::Pending);

    let second = second_server.claim_workflow("order").await;
    let second_task = second_server.claim_task("work").await;
    let before = first_server.snapshot().await;
    for server in [&first_server, &second_server] {
        server.refused(finish(&stalled), Code::StaleClaim).await;
        server
            .refused(submit(&stalled, vec![schedule_task(id(1), "x")], Outcome::Suspended), Code::StaleClaim)
            .await;
        server.refused(complete(&stalled_task), Code::StaleClaim).await;
        server.refused(fail(&stalled_task), Code::StaleClaim).await;
        let token = Some(stalled_task.token);
        server.refused(HeartbeatTask { task_id, token, details: None }, Code::StaleClaim).await;
        assert_eq!(server.stats().figures().stale_claims, 5);
    }
    assert!(first_server.snapshot().await == before, "a stale claim changes nothing");
    second_server.must(complete(&second_task)).await;
    second_server.must(finish(&second)).await;
    first_server.check().await;
    assert_eq!(first_server.status(execution_id).await, ExecutionStatus::Completed);
    assert_eq!(first_server.attempts(task_id).await, [AttemptStatus::Timeout, AttemptStatus::Completed]);
}

async fn tasks_and_workflows_of_a_dead_session_come_back_when_its_lease_ends_and_not_before(place: Place) {
    let server = place.server().await;
    let lease_ms = server.limits().session_lease_ms;
    let session = worker(&server, "w", true).await;
    let execution_id = server.suspended("order", vec![schedule_task(id(1), "work")]).await;
    let other = server.start("other").await;
    server.claim(of_session(workflows("other"), session)).await;
    server.claim(of_session(tasks("work"), session)).await;
    server.pass(lease_ms - 1).await;
    assert_eq!(server.status(other).await, ExecutionStatus::Running);
    assert_eq!(server.task(id(1)).await.status, TaskStatus::Running);
    server.pass(1).await;
    assert_eq!(server.status(other).await, ExecutionStatus::Pending);
    assert_eq!(
        server.task(id(1)).await.status,
        TaskStatus::Pending,
        "it must be ready immediately after the lease"
    );
    assert_eq!(server.attempts(id(1)).await, [AttemptStatus::Timeout]);
    assert_eq!(
        server.count(execution_id, EventKind::TaskFailed).await,
        0,
        "an attempt was lost, not the task"
    );
    server.check().await;
}

async fn the_heartbeats_of_a_session_keep_all_its_claims_alive(place: Place) {
    let server = place.server().await;
    let lease_ms = server.limits().session_lease_ms;
    let session = worker(&server, "w", true).await;
    let execution_id = server.start("order").await;
    let task_id = server.create_task(task("work")).await;
    let activation = server.claim(of_session(workflows("order"), session)).await.workflows.remove(0);
    let delivery = server.claim(of_session(tasks("work"), session)).await.tasks.remove(0);
    for _ in 0..6 {
        server.pass(lease_ms * 2 / 3).await;
        server.must(HeartbeatWorker { worker_id: session }).await;
    }
    assert_eq!(server.task(task_id).await.execution_count, 1);
    server.check().await;
    server.must(suspend(&activation)).await;
    server.must(complete(&delivery)).await;
    assert_eq!(server.status(execution_id).await, ExecutionStatus::Waiting);
}

async fn a_session_whose_heartbeats_stop_loses_its_claims(place: Place) {
    let server = place.server().await;
    let lease_ms = server.limits().session_lease_ms;
    let session = worker(&server, "w", true).await;
    let task_id = server.create_task(task("work")).await;
    server.claim(of_session(tasks("work"), session)).await;
    server.pass(lease_ms / 2).await;
    server.must(HeartbeatWorker { worker_id: session }).await;
    server.pass(lease_ms - 1).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Running);
    server.pass(1).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Pending);
}

async fn a_heartbeat_of_the_task_keeps_its_claim_alive(place: Place) {
    let server = place.server().await;
    let lease_ms = server.limits().session_lease_ms;
    let task_id = server.create_task(task("work")).await;
    let delivery = server.claim_task("work").await;
    for _ in 0..4 {
        server.pass(lease_ms - 1).await;
        server.must(HeartbeatTask { task_id, token: Some(delivery.token), details: None }).await;
    }
    assert_eq!(server.task(task_id).await.status, TaskStatus::Running);
    server.pass(lease_ms).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Pending);
}

async fn a_registered_plain_worker_that_keeps_silent_loses_its_tasks(place: Place) {
    let server = place.server().await;
    let (silence_ms, lease_ms) = (server.limits().worker_silence_ms, server.limits().task_lease_ms);
    assert!(silence_ms < lease_ms);
    let session = worker(&server, "plain", false).await;
    let task_id = server.create_task(task("work")).await;
    server.claim(of_session(plain(tasks("work")), session)).await;
    server.pass(silence_ms - 1).await;
    server.must(HeartbeatWorker { worker_id: session }).await;
    server.pass(silence_ms - 1).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Running);
    server.pass(1).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Pending);
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Timeout]);
}

/// A worker without heartbeats may be busy with the task, or its client may not support heartbeats.
async fn a_worker_that_has_sent_no_heartbeat_keeps_its_tasks_for_their_whole_lease(place: Place) {
    let server = place.server().await;
    let lease_ms = server.limits().task_lease_ms;
    let session = worker(&server, "plain", false).await;
    let task_id = server.create_task(task("work")).await;
    let delivery = server.claim(of_session(plain(tasks("work")), session)).await.tasks.remove(0);
    server.pass(130_000).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Running);
    server.pass(lease_ms - 130_001).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Running);
    // It sends a heartbeat after all. From now on, silence means that it has gone.
    server.must(HeartbeatWorker { worker_id: session }).await;
    server.must(ExtendTask { task_id, token: delivery.token }).await;
    server.must(worker_again(session)).await;
    let other = server.create_task(task("work")).await;
    server.claim(of_session(plain(tasks("work")), session)).await;
    server.pass(lease_ms / 2).await;
    // It has registered again and has sent no heartbeat since.
    assert_eq!(server.task(other).await.status, TaskStatus::Running);
    server.must(HeartbeatWorker { worker_id: session }).await;
    server.pass(server.limits().worker_silence_ms - 1).await;
    assert_eq!(server.task(other).await.status, TaskStatus::Running);
    server.pass(1).await;
    assert_eq!(server.task(other).await.status, TaskStatus::Pending);
    server.check().await;
}

fn worker_again(id: uuid::Uuid) -> RegisterWorker {
    RegisterWorker { id: Some(id), ..register("plain", false, Vec::new()) }
}

async fn polls_and_reports_of_a_worker_with_heartbeats_are_signs_of_life_too(place: Place) {
    let server = place.server().await;
    let silence_ms = server.limits().worker_silence_ms;
    let session = worker(&server, "plain", false).await;
    let task_id = server.create_task(task("work")).await;
    server.claim(of_session(plain(tasks("work")), session)).await;
    server.must(HeartbeatWorker { worker_id: session }).await;
    for _ in 0..3 {
        server.pass(silence_ms - 1).await;
        server.must(SeeWorker { worker_id: session }).await;
    }
    assert_eq!(server.task(task_id).await.status, TaskStatus::Running);
    server.pass(silence_ms).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Pending);
    // Only heartbeats keep a session alive.
    let stream = worker(&server, "stream", true).await;
    let lease_ms = server.limits().session_lease_ms;
    server.claim(of_session(tasks("work"), stream)).await;
    server.pass(lease_ms - 1).await;
    server.must(SeeWorker { worker_id: stream }).await;
    server.pass(1).await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Pending);
}

async fn a_claim_is_extended_while_its_client_shows_life_and_ends_soon_after(place: Place) {
    let server = place.server().await;
    let (silence_ms, lease_ms) = (server.limits().worker_silence_ms, server.limits().task_lease_ms);
    let by_default = server.create_task(task("default")).await;
    let by_itself = server.create_task(TaskSpec { start_to_close_ms: Some(7_000), ..task("own") }).await;
    let by_worker = server.create_task(task("registered")).await;
    let session = worker(&server, "plain", false).await;
    let mut tokens = Vec::new();
    for (kind, id) in [("default", by_default), ("own", by_itself), ("registered", by_worker)] {
        let mut claim = of_session(plain(tasks(kind)), session);
        if kind == "registered" {
            // Several processes have registered it under one name: the claim names none of them.
            claim.claimer.session = None;
            claim.kinds[0].timeout_ms = Some(400_000);
        }
        let delivery = server.claim(claim).await.tasks.remove(0);
        assert_eq!(delivery.extensible, kind == "default", "a timeout stands: {kind}");
        if delivery.extensible {
            tokens.push((id, delivery.token));
        }
    }
    let extend = async || {
        for (task_id, token) in tokens.clone() {
            server.must(ExtendTask { task_id, token }).await;
        }
    };
    extend().await;
    server.pass(7_000).await;
    assert_eq!(server.task(by_itself).await.status, TaskStatus::Pending, "its own timeout stands");
    server.pass(lease_ms - 7_000 - 1).await;
    // The claim is extended when its remaining time is shorter than the allowed silence.
    for _ in 0..5 {
        extend().await;
        server.pass(silence_ms - 1).await;
        assert_eq!(server.task(by_default).await.status, TaskStatus::Running);
    }
    assert_eq!(server.task(by_worker).await.status, TaskStatus::Pending, "the worker's own timeout stands");
    server.pass(1).await;
    assert_eq!(server.task(by_default).await.status, TaskStatus::Pending);
    assert_eq!(server.attempts(by_default).await, [AttemptStatus::Timeout]);
    // The token of another claim extends nothing.
    server.claim(of_session(plain(tasks("default")), session)).await;
    let (task_id, token) = tokens[0];
    let reply = server.must(ExtendTask { task_id, token }).await;
    assert!(matches!(reply, Reply::Extended { held: false }), "{reply:?}");
    server.check().await;
}

async fn a_plain_worker_that_nobody_knows_keeps_its_claims_for_their_whole_lease(place: Place) {
    let server = place.server().await;
    let (task_ms, workflow_ms) = (server.limits().task_lease_ms, server.limits().workflow_lease_ms);
    let by_default = server.create_task(task("default")).await;
    let by_itself = server.create_task(TaskSpec { start_to_close_ms: Some(7_000), ..task("own") }).await;
    let by_worker = server.create_task(task("registered")).await;
    let execution_id = server.start("order").await;
    server.claim(plain(tasks("default"))).await;
    server.claim(plain(tasks("own"))).await;
    let mut claim = plain(tasks("registered"));
    claim.kinds[0].timeout_ms = Some(8_000);
    server.claim(claim).await;
    server.claim(plain(workflows("order"))).await;
    let mut passed = 0;
    for (ends_ms, id) in [(7_000, by_itself), (8_000, by_worker), (task_ms, by_default)] {
        server.pass(ends_ms - 1 - passed).await;
        assert_eq!(server.task(id).await.execution_count, 1);
        assert_eq!(server.task(id).await.status, TaskStatus::Running, "{ends_ms}");
        server.pass(1).await;
        assert_eq!(server.task(id).await.status, TaskStatus::Pending, "{ends_ms}");
        passed = ends_ms;
        if passed < workflow_ms {
            assert_eq!(server.status(execution_id).await, ExecutionStatus::Running);
        }
    }
    assert_eq!(server.status(execution_id).await, ExecutionStatus::Pending);
    server.check().await;
}

/// Attempts count when they are delivered, so a task that always kills its worker is eventually failed.
async fn a_task_that_always_kills_its_worker_fails_after_its_attempts(place: Place) {
    let server = place.server().await;
    let spec = TaskSpec { max_retries: Some(3), ..task("deadly") };
    let command = Command::ScheduleTask { task_id: id(1), spec };
    let execution_id = server.suspended("order", vec![command]).await;
    for attempt in 1..=3 {
        let delivery = server.claim_task("deadly").await;
        assert_eq!(delivery.task.execution_count, attempt);
        server.pass(server.limits().session_lease_ms).await;
    }
    assert!(server.claim(tasks("deadly")).await.is_empty(), "a fourth attempt is handed out");
    assert_eq!(server.task(id(1)).await.status, TaskStatus::Failed);
    assert_eq!(server.attempts(id(1)).await, [AttemptStatus::Timeout; 3]);
    assert_eq!(
        server.count(execution_id, EventKind::TaskFailed).await,
        1,
        "its workflow receives the failure"
    );
    server.check().await;
}

/// A restart of a server requeues nothing: only leases decide.
async fn a_server_that_restarts_takes_no_claim_away(place: Place) {
    let server = place.server().await;
    let task_id = server.create_task(TaskSpec { max_retries: Some(1), ..task("long") }).await;
    let execution_id = server.start("order").await;
    let delivery = server.claim_task("long").await;
    let activation = server.claim_workflow("order").await;
    server.stop().await;
    let server = place.server().await;
    server.fire_due().await;
    assert_eq!(server.task(task_id).await.status, TaskStatus::Running);
    server.must(complete(&delivery)).await;
    server.must(finish(&activation)).await;
    assert_eq!(server.attempts(task_id).await, [AttemptStatus::Completed]);
    assert_eq!(server.status(execution_id).await, ExecutionStatus::Completed);
    server.check().await;
}

async fn what_many_dead_workers_held_comes_back_together(place: Place) {
    let server = place.server_with(short()).await;
    const TASKS: usize = 300;
    server.must(CreateTasks { items: vec![CreateTask::standalone(task("work")); TASKS] }).await;
    assert_eq!(server.claim(many(tasks("work"), TASKS)).await.len(), TASKS);
    server.pass(50).await;
    assert_eq!(server.claim(many(tasks("work"), TASKS)).await.len(), TASKS);
    server.check().await;
}

on_each_store!(
    a_worker_that_wakes_up_after_its_lease_is_refused_and_the_second_one_stands,
    tasks_and_workflows_of_a_dead_session_come_back_when_its_lease_ends_and_not_before,
    the_heartbeats_of_a_session_keep_all_its_claims_alive,
    a_session_whose_heartbeats_stop_loses_its_claims,
    a_heartbeat_of_the_task_keeps_its_claim_alive,
    a_registered_plain_worker_that_keeps_silent_loses_its_tasks,
    a_worker_that_has_sent_no_heartbeat_keeps_its_tasks_for_their_whole_lease,
    polls_and_reports_of_a_worker_with_heartbeats_are_signs_of_life_too,
    a_claim_is_extended_while_its_client_shows_life_and_ends_soon_after,
    a_plain_worker_that_nobody_knows_keeps_its_claims_for_their_whole_lease,
    a_task_that_always_kills_its_worker_fails_after_its_attempts,
    a_server_that_restarts_takes_no_claim_away,
    what_many_dead_workers_held_comes_back_together,
);
on_postgres!(
    a_worker_that_wakes_up_after_its_lease_is_refused_and_the_second_one_stands,
    a_server_that_restarts_takes_no_claim_away,
    what_many_dead_workers_held_comes_back_together,
);
