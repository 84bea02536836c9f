//! Upkeep of a server: deletion, retention, expired keys, and executions held back for another build.

use flovyn_engine::Code;
use flovyn_engine::reply::Activation;
use flovyn_engine::request::*;
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_service::Caller;
use flovyn_service::loops::{self, KeyLoop, RetentionLoop, WakeLoop};

use crate::common::{
    Place, Server, TENANT, complete, create_promise, fail, finish, id, json, key_spec, keyed, kind, many,
    on_each_store, on_postgres, schedule_task, signal, start_timer, submit, task, tasks, terminate, workflow,
    workflows,
};

/// The names of tables that have rows, except the table of tenants.
fn tables_with_rows(snapshot: &Snapshot) -> Vec<&'static str> {
    macro_rules! count {
        ($($field:ident: $row:ident,)*) => { [$((stringify!($field), snapshot.$field.len()),)*] };
    }
    let counts = flovyn_engine::for_each_table!(count);
    counts.iter().filter(|(name, rows)| *rows > 0 && *name != "tenants").map(|(name, _)| *name).collect()
}

async fn deleting_an_execution_with_much_in_it_removes_every_row(place: Place) {
    let server = place.server().await;
    const TASKS: u128 = 450;
    let start = StartWorkflow {
        labels: vec![("env".into(), "test".into())],
        key: key_spec("key"),
        execution_timeout_ms: Some(600_000),
        ..workflow("order")
    };
    let execution_id = server.start_as(start).await.execution_id;
    let mut commands: Vec<Command> = (0..TASKS).map(|number| schedule_task(id(number), "work")).collect();
    let promise =
        Command::CreatePromise { name: "p".into(), timeout_ms: Some(60_000), key: key_spec("promise") };
    commands.extend([
        start_timer("later", 60_000),
        promise,
        create_promise("open"),
        Command::SetState { name: "state".into(), value: json("1") },
        Command::ScheduleTask {
            task_id: id(1_000),
            spec: TaskSpec { key: key_spec("task"), ..task("left") },
        },
    ]);
    let activation = server.claim_workflow("order").await;
    server.must(submit(&activation, commands, Outcome::Suspended)).await;
    let deliveries = server.claim(many(tasks("work"), TASKS as usize)).await.tasks;
    let (task_id, token) = (deliveries[0].task.id, Some(deliveries[0].token));
    for number in 0..250 {
        let message = number.to_string().into();
        server.must(AppendLogLine { task_id, token, level: LogLevel::Info, message }).await;
    }
    server.must(SetTaskState { task_id, token, name: "s".into(), value: json("1") }).await;
    let calls = deliveries.iter().map(|delivery| server.ask(complete(delivery)));
    for answer in futures::future::join_all(calls).await {
        answer.unwrap();
    }
    server.refused(DeleteWorkflow { execution_id }, Code::ExecutionNotFinished).await;
    server.must(terminate(execution_id)).await;
    assert!(server.snapshot().await.events.len() > 400);
    // Immediately after its end, when its items have not been closed yet.
    server.must(DeleteWorkflow { execution_id }).await;
    assert!(
        server.store().execution_get(TENANT, execution_id).await.unwrap().is_none(),
        "it is still visible"
    );
    server.refused(signal(execution_id), Code::ExecutionNotFound).await;
    server.refused(DeleteWorkflow { execution_id }, Code::ExecutionNotFound).await;
    server.check().await;
    server.settle().await;
    let snapshot = server.check().await;
    assert_eq!(tables_with_rows(&snapshot), Vec::<&str>::new());
}

async fn deleting_a_task_removes_every_row(place: Place) {
    let server = place.server().await;
    let task_id = server.create_task(TaskSpec { key: key_spec("key"), ..task("work") }).await;
    let delivery = server.claim_task("work").await;
    for number in 0..250 {
        let message = number.to_string().into();
        server
            .must(AppendLogLine { task_id, token: Some(delivery.token), level: LogLevel::Info, message })
            .await;
    }
    server
        .must(SetTaskState { task_id, token: Some(delivery.token), name: "s".into(), value: json("1") })
        .await;
    server.refused(DeleteTask { task_id }, Code::TaskNotFinished).await;
    server.must(complete(&delivery)).await;
    server.must(DeleteTask { task_id }).await;
    server.refused(CompleteTask { output: json("2"), ..complete(&delivery) }, Code::TaskNotFound).await;
    server.settle().await;
    assert_eq!(tables_with_rows(&server.check().await), Vec::<&str>::new());
}

/// A task that was created ahead of a command that never arrived still belongs to its execution.
async fn an_execution_with_a_task_that_it_never_scheduled_can_be_deleted(place: Place) {
    let server = place.server().await;
    let execution_id = server.start("order").await;
    let spec = TaskSpec { key: key_spec("key"), ..task("work") };
    server
        .create_task_as(CreateTask { execution_id: Some(execution_id), ..CreateTask::standalone(spec) })
        .await;
    server.must(terminate(execution_id)).await;
    server.settle().await;
    server.must(DeleteWorkflow { execution_id }).await;
    server.settle().await;
    assert_eq!(tables_with_rows(&server.check().await), Vec::<&str>::new());
}

async fn a_child_outlives_its_deleted_parent(place: Place) {
    let server = place.server().await;
    let command = Command::ScheduleChild(crate::common::child(id(1), "child"));
    let parent = server.suspended("parent", vec![command]).await;
    server.must(terminate(parent)).await;
    server.must(DeleteWorkflow { execution_id: parent }).await;
    server.settle().await;
    server.must(finish(&server.claim_workflow("child").await)).await;
    assert_eq!(server.status(id(1)).await, ExecutionStatus::Completed);
    server.check().await;
}

fn options() -> loops::Options {
    loops::Options::default()
}

async fn retention_deletes_what_finished_long_enough_ago_and_nothing_else(place: Place) {
    let server = place.server().await;
    let tenant =
        CreateTenant { id: Some(TENANT), slug: "acme".into(), name: "Acme".into(), retention_ms: None };
    server.must(tenant).await;
    let other = uuid::Uuid::from_u128(7 << 64);
    server.call(other, workflow("order")).await.unwrap();
    let retention = RetentionLoop::new(server.service.clone(), &options());
    for _ in 0..250 {
        server.start("order").await;
    }
    let open = server.start("open").await;
    let finished: Vec<_> = server.claim(many(workflows("order"), 250)).await.workflows;
    for answer in futures::future::join_all(finished.iter().map(|item| server.ask(finish(item)))).await {
        answer.unwrap();
    }
    let task_id = server.create_task(task("work")).await;
    server.must(complete(&server.claim_task("work").await)).await;
    let own_task = server.suspended("parent", vec![schedule_task(id(1), "own")]).await;
    server.must(complete(&server.claim_task("own").await)).await;
    server.pass(10_000).await;
    assert_eq!(retention.tick().await.unwrap(), 0, "work is kept forever by default");

    server.must(UpdateTenant { name: "Acme".into(), retention_ms: Some(20_000) }).await;
    assert_eq!(retention.tick().await.unwrap(), 0, "not yet");
    server.pass(10_001).await;
    let mut deleted = 0;
    loop {
        match retention.tick().await.unwrap() {
            0 => break,
            some => deleted += some,
        }
    }
    assert_eq!(deleted, 251, "the executions and the standalone task");
    server.settle().await;
    let snapshot = server.check().await;
    let mut left: Vec<_> = snapshot.executions.iter().map(|row| row.id).filter(|id| *id != open).collect();
    left.retain(|id| *id != own_task);
    assert_eq!(left.len(), 1, "only the other tenant's work stays: {left:?}");
    assert!(snapshot.tasks.iter().all(|row| row.id != task_id));
    assert_eq!(snapshot.tasks.len(), 1, "a task of an open workflow stays");
}

async fn the_audit_log_is_kept_for_its_time(place: Place) {
    let server = place.server().await;
    let kept = loops::Options { audit_kept: std::time::Duration::from_millis(20_000), ..options() };
    let retention = RetentionLoop::new(server.service.clone(), &kept);
    let actor = std::sync::Arc::new(Actor::new("somebody", CredentialKind::Jwt));
    let tenants = [TENANT, uuid::Uuid::from_u128(7 << 64)];
    let pause = async |number: usize| {
        let queue = PauseQueue { queue: format!("queue-{number}").into() };
        let caller = Caller { actor: Some(actor.clone()), ..tenants[number % 2].into() };
        server.service.call(caller, queue).await.unwrap();
    };
    for number in 0..450 {
        pause(number).await;
    }
    server.pass(10_000).await;
    pause(450).await;
    assert_eq!(retention.tick().await.unwrap(), 0, "not yet");
    server.pass(10_001).await;
    assert_eq!(retention.tick().await.unwrap(), 450, "page by page, for all tenants");
    let left = server.check().await.audit;
    assert_eq!(left.iter().map(|row| &*row.target).collect::<Vec<_>>(), ["queue-450"]);
}

async fn expired_keys_are_removed_and_live_ones_stay(place: Place) {
    let server = place.server().await;
    let cleaner = KeyLoop::new(server.service.clone(), &options());
    for number in 0..30 {
        server.start_as(keyed("order", &format!("short-{number}"))).await;
    }
    server.pass(5_000).await;
    server.start_as(keyed("order", "later")).await;
    assert_eq!(cleaner.tick().await.unwrap(), 0);
    server.pass(5_000).await;
    assert_eq!(cleaner.tick().await.unwrap(), 30);
    assert_eq!(cleaner.tick().await.unwrap(), 0);
    let keys = server.snapshot().await.keys;
    assert_eq!(keys.iter().map(|row| row.name.to_string()).collect::<Vec<_>>(), ["later"]);
    server.check().await;
}

async fn fail_activation(server: &Server, kind: &str, build: &str) -> uuid::Uuid {
    let activation = server.claim_workflow(kind).await;
    let outcome = Outcome::ActivationFailed { code: "DETERMINISM".into(), message: "changed".into() };
    let build_id = Some(build.into());
    server.must(SubmitActivation { build_id, ..submit(&activation, Vec::new(), outcome) }).await;
    activation.execution.id
}

async fn an_activation_that_fails_is_tried_again_after_a_doubling_delay_that_events_do_not_shorten(
    place: Place,
) {
    let server = place.server().await;
    let (first_ms, cap_ms) =
        (server.limits().activation_backoff_ms, server.limits().activation_backoff_max_ms);
    let execution_id = server.start("order").await;
    let mut expected_ms = first_ms;
    for _ in 0..12 {
        fail_activation(&server, "order", "build-1").await;
        server.must(signal(execution_id)).await;
        server.pass(expected_ms - 1).await;
        assert!(server.claim(workflows("order")).await.is_empty(), "it is ready before {expected_ms} ms");
        server.check().await;
        server.pass(1).await;
        expected_ms = (expected_ms * 2).min(cap_ms);
    }
    // The workflow has not failed, and a success resets the failures.
    let activation = server.claim_workflow("order").await;
    server.must(submit(&activation, Vec::new(), Outcome::Suspended)).await;
    let row = server.execution(execution_id).await;
    assert_eq!((row.activation_failures, row.failure_code), (0, None));
    server.check().await;
}

/// A claim that also takes held-back work, by a worker of this build.
fn of_build(build: &str, claim: Claim) -> Claim {
    let claimer = Claimer { build: Some(build.into()), ..claim.claimer.clone() };
    Claim { claimer, held_back: true, ..claim }
}

async fn another_build_takes_what_other_builds_failed_on(place: Place) {
    let server = place.server().await;
    let mut failed_on_one = Vec::new();
    for (kind, build) in [("order", "build-1"), ("order", "build-2"), ("invoice", "build-1")] {
        for _ in 0..3 {
            server.start(kind).await;
            let id = fail_activation(&server, kind, build).await;
            if build == "build-1" {
                failed_on_one.push(id);
            }
        }
    }
    let kinds = [kind("order"), kind("invoice")].to_vec();
    let both = |max| Claim { kinds: kinds.clone(), ..many(workflows("order"), max) };
    assert!(server.claim(both(10)).await.is_empty(), "a worker that names no build waits");
    let some = server.claim(of_build("build-2", both(4))).await.workflows;
    assert_eq!(some.len(), 4, "no more than asked for");
    let others = server.claim(of_build("build-2", both(10))).await.workflows;
    assert!(
        server.claim(of_build("build-2", both(10))).await.is_empty(),
        "it received work that it has failed on itself"
    );
    let mut ids: Vec<_> = some.iter().chain(&others).map(|item| item.execution.id).collect();
    ids.sort_unstable();
    failed_on_one.sort_unstable();
    assert_eq!(ids, failed_on_one);
    server.check().await;
}

/// The executions that this build failed on are first in the lane. They must not hide the executions behind them that
/// other builds failed on.
async fn a_build_finds_what_others_failed_on_behind_what_it_failed_on_itself(place: Place) {
    let server = place.server().await;
    for number in 0..20 {
        server.start("order").await;
        fail_activation(&server, "order", if number < 19 { "build-2" } else { "build-1" }).await;
    }
    assert_eq!(server.claim(of_build("build-2", many(workflows("order"), 2))).await.len(), 1);
}

/// Both the old and the new build wait when an activation fails. Only the new build receives the execution, in the same
/// commit. If its claim ends without an answer, the execution is held back from the old build as before.
async fn a_waiting_worker_of_another_build_is_handed_it_at_once(place: Place) {
    let server = place.server().await;
    let waits = |build: &str| {
        let claim = workflows("order");
        let claimer = Claimer { build: Some(build.into()), ..claim.claimer.clone() };
        Claim { claimer, ..claim }
    };
    let execution_id = server.start("order").await;
    let activation = server.claim_workflow("order").await;
    let old = server.poll(waits("old")).await;
    let new = server.poll(waits("new")).await;
    let fails = |activation: &Activation, build: &str| SubmitActivation {
        build_id: Some(build.into()),
        ..submit(
            activation,
            Vec::new(),
            Outcome::ActivationFailed { code: "DETERMINISM".into(), message: "changed".into() },
        )
    };
    server.must(fails(&activation, "old")).await;
    let taken = new.await.unwrap().unwrap().workflows.remove(0);
    assert_eq!(taken.execution.id, execution_id);
    // The new build cannot keep it. It is held back from the old build again until the delay is over.
    server.must(ReleaseWorkflowClaim { execution_id, token: taken.token }).await;
    server.check().await;
    assert!(!old.is_finished());
    let taken = server.claim(of_build("new", workflows("order"))).await.workflows.remove(0);
    // Both builds have failed on it now, so neither may receive it before the delay is over.
    server.must(fails(&taken, "new")).await;
    for build in ["old", "new"] {
        assert!(server.claim(of_build(build, workflows("order"))).await.is_empty(), "{build}");
    }
    assert!(!old.is_finished());
    let third = server.claim(of_build("third", workflows("order"))).await.workflows.remove(0);
    server.must(submit(&third, Vec::new(), Outcome::Suspended)).await;
    let row = server.execution(execution_id).await;
    assert_eq!((row.failure_build, row.not_before_ms, row.activation_failures), (None, None, 0));
    server.check().await;
}

/// A worker of another build that arrives after the failures, and waits in a process that has not seen them.
async fn the_wake_loop_sends_a_worker_of_another_build(place: Place) {
    let server = place.server().await;
    let execution_id = server.start("order").await;
    fail_activation(&server, "order", "old").await;
    let waits = |build: &str| {
        let claim = workflows("order");
        let claimer = Claimer { build: Some(build.into()), ..claim.claimer.clone() };
        Claim { claimer, ..claim }
    };
    let old = server.poll(waits("old")).await;
    let new = server.poll(waits("new")).await;
    let wake = WakeLoop::new(server.service.clone(), &loops::Options::default());
    assert_eq!(wake.tick().await.unwrap(), 2, "one of each build");
    let taken = new.await.unwrap().unwrap().workflows.remove(0);
    assert_eq!(taken.execution.id, execution_id);
    assert!(!old.is_finished());
    server.check().await;
}

async fn an_operator_releases_one_that_is_held_back(place: Place) {
    let server = place.server().await;
    server.start("order").await;
    let poll = server.poll(workflows("nothing")).await;
    let execution_id = fail_activation(&server, "order", "build-1").await;
    server.must(ReleaseHeldBack { execution_id }).await;
    assert_eq!(server.claim_workflow("order").await.execution.id, execution_id);
    server.refused(ReleaseHeldBack { execution_id }, Code::NotBackedOff).await;
    assert!(!poll.is_finished());
    server.check().await;
}

/// A row that cannot be fired must neither block other rows nor be tried without end.
async fn what_is_due_is_fired_page_by_page_until_nothing_is_left(place: Place) {
    let server = place.server().await;
    const TIMERS: usize = 1_200;
    let commands = (0..TIMERS).map(|number| start_timer(&number.to_string(), 0)).collect();
    let execution_id = server.suspended("order", commands).await;
    server.create_task(TaskSpec { schedule_to_start_ms: Some(1), ..task("late") }).await;
    server.pass(1).await;
    assert_eq!(server.count(execution_id, EventKind::TimerFired).await, TIMERS);
    let due = server.snapshot().await.due;
    assert!(
        due.iter().all(|row| row.clock == ClockKind::Lease),
        "only the alarm of an ended claim may stay: {due:?}"
    );
    assert_eq!(server.stats().figures().fired, TIMERS as u64 + 1);
    server.check().await;
}

async fn two_loops_on_one_database_fire_everything_once(place: Place) {
    let servers = place.servers(2).await;
    const TIMERS: usize = 300;
    let commands = (0..TIMERS).map(|number| start_timer(&number.to_string(), 0)).collect();
    let execution_id = servers[0].suspended("order", commands).await;
    let spec = TaskSpec { max_retries: Some(2), ..task("work") };
    let delivery = {
        servers[0].create_task(spec).await;
        servers[0].claim_task("work").await
    };
    servers[0].must(FailTask { next_delay_ms: Some(0), ..fail(&delivery) }).await;
    tokio::join!(servers[0].fire_due(), servers[1].fire_due());
    assert_eq!(servers[0].count(execution_id, EventKind::TimerFired).await, TIMERS);
    let fired = servers[0].stats().figures().fired + servers[1].stats().figures().fired;
    assert_eq!(fired, TIMERS as u64, "each was fired by one of the loops");
    servers[0].check().await;
}

on_each_store!(
    deleting_an_execution_with_much_in_it_removes_every_row,
    deleting_a_task_removes_every_row,
    an_execution_with_a_task_that_it_never_scheduled_can_be_deleted,
    a_child_outlives_its_deleted_parent,
    retention_deletes_what_finished_long_enough_ago_and_nothing_else,
    the_audit_log_is_kept_for_its_time,
    expired_keys_are_removed_and_live_ones_stay,
    an_activation_that_fails_is_tried_again_after_a_doubling_delay_that_events_do_not_shorten,
    another_build_takes_what_other_builds_failed_on,
    a_waiting_worker_of_another_build_is_handed_it_at_once,
    the_wake_loop_sends_a_worker_of_another_build,
    a_build_finds_what_others_failed_on_behind_what_it_failed_on_itself,
    an_operator_releases_one_that_is_held_back,
    what_is_due_is_fired_page_by_page_until_nothing_is_left,
    two_loops_on_one_database_fire_everything_once,
);
on_postgres!(two_loops_on_one_database_fire_everything_once);
