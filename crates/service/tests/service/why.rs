//! Work that does not run has a reason: one case for each possible answer.

use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::why::Waiting;

use crate::common::{
    BEGIN_MS, Place, QUEUE, Server, TENANT, capability, child, complete, create_promise, fail, finish, id,
    json, many, on_each_store, register, schedule_task, start_timer, submit, suspend, task, terminate,
    workflow, workflows,
};

async fn why(server: &Server, id: uuid::Uuid) -> Vec<Waiting> {
    server.why_execution(TENANT, id).await.unwrap().expect("the execution is there")
}

async fn why_task(server: &Server, id: uuid::Uuid) -> Waiting {
    server.why_task(TENANT, id).await.unwrap().expect("the task is there")
}

fn queue() -> flovyn_engine::ids::Text {
    QUEUE.into()
}

async fn work_in_line_says_whether_somebody_can_do_it(place: Place) {
    let server = place.server().await;
    let start = StartWorkflow { workflow_version: Some("2.0".into()), ..workflow("order") };
    let versioned = server.start_as(start).await.execution_id;
    let any = server.start("order").await;
    let task_id = server.create_task(task("mail")).await;
    let nobody = |version: Option<&str>| Waiting::NoWorker {
        queue: queue(),
        kind: "order".into(),
        version: version.map(Into::into),
    };
    assert_eq!(why(&server, any).await, [nobody(None)]);
    assert_eq!(why(&server, versioned).await, [nobody(Some("2.0"))]);
    let no_mail = Waiting::NoWorker { queue: queue(), kind: "mail".into(), version: None };
    assert_eq!(why_task(&server, task_id).await, no_mail);

    let capabilities = vec![
        capability(WorkClass::Workflow, "order", Some("1.0")),
        capability(WorkClass::Task, "mail", None),
    ];
    server.must(register("one", true, capabilities.clone())).await;
    server.must(register("two", false, capabilities)).await;
    let free = Waiting::FreeWorker { queue: queue(), workers: 2 };
    assert_eq!(why(&server, any).await, std::slice::from_ref(&free));
    assert_eq!(why(&server, versioned).await, [nobody(Some("2.0"))], "the workers have another version");
    assert_eq!(why_task(&server, task_id).await, free);
    // Workers that have not sent a sign of life for long are not counted.
    server.pass(server.limits().session_lease_ms).await;
    assert_eq!(why(&server, any).await, [Waiting::FreeWorker { queue: queue(), workers: 1 }]);
    server.pass(server.limits().worker_silence_ms).await;
    assert_eq!(why(&server, any).await, [nobody(None)]);

    server.must(PauseQueue { queue: queue() }).await;
    assert_eq!(why(&server, any).await, [Waiting::QueuePaused { queue: queue() }]);
    assert_eq!(why_task(&server, task_id).await, Waiting::QueuePaused { queue: queue() });
}

async fn delayed_and_held_back_work_says_until_when(place: Place) {
    let server = place.server().await;
    let until_ms = BEGIN_MS + 5_000;
    let delayed = server.start_as(StartWorkflow { scheduled_ms: Some(until_ms), ..workflow("order") }).await;
    assert_eq!(why(&server, delayed.execution_id).await, [Waiting::DelayedStart { until_ms }]);
    let create = CreateTask { scheduled_ms: Some(until_ms), ..CreateTask::standalone(task("mail")) };
    let delayed = server.create_task_as(create).await;
    assert_eq!(why_task(&server, delayed).await, Waiting::DelayedStart { until_ms });

    let held = server.start("held").await;
    let outcome = Outcome::ActivationFailed { code: "PANIC".into(), message: "at line 7".into() };
    server.must(submit(&server.claim_workflow("held").await, Vec::new(), outcome)).await;
    let backoff = Waiting::ActivationBackoff {
        code: "PANIC".into(),
        message: "at line 7".into(),
        failures: 1,
        builds: vec!["build-1".into()],
        refusals: None,
        until_ms: BEGIN_MS + server.limits().activation_backoff_ms,
    };
    assert_eq!(why(&server, held).await, [backoff]);

    let retried = server.create_task(task("retried")).await;
    let delivery = server.claim_task("retried").await;
    server.must(FailTask { next_delay_ms: Some(7_000), ..fail(&delivery) }).await;
    let delay = Waiting::RetryDelay { attempt: 1, error: Some("no luck".into()), until_ms: BEGIN_MS + 7_000 };
    assert_eq!(why_task(&server, retried).await, delay);
}

async fn what_runs_names_its_worker_and_what_has_finished_waits_for_nothing(place: Place) {
    let server = place.server().await;
    let execution_id = server.start("order").await;
    let task_id = server.create_task(task("mail")).await;
    let activation = server.claim_workflow("order").await;
    let delivery = server.claim_task("mail").await;
    let running = Waiting::Running { worker: Some("stream".into()), since_ms: Some(BEGIN_MS) };
    assert_eq!(why(&server, execution_id).await, std::slice::from_ref(&running));
    assert_eq!(why_task(&server, task_id).await, running);
    server.must(finish(&activation)).await;
    server.must(complete(&delivery)).await;
    assert_eq!(why(&server, execution_id).await, [Waiting::Nothing]);
    assert_eq!(why_task(&server, task_id).await, Waiting::Nothing);
    let nobody = id(999);
    assert!(server.why_execution(TENANT, nobody).await.unwrap().is_none());
    assert!(server.why_task(TENANT, nobody).await.unwrap().is_none());
}

async fn a_workflow_that_waits_names_everything_it_has_open(place: Place) {
    let server = place.server().await;
    let late = Command::CreatePromise { name: "late".into(), timeout_ms: Some(60_000), key: None };
    let commands = vec![
        schedule_task(id(1), "mail"),
        schedule_task(id(2), "done"),
        start_timer("later", 9_000),
        create_promise("answer"),
        late,
        Command::ScheduleChild(child(id(10), "child")),
        Command::ScheduleChild(child(id(11), "gone")),
    ];
    let execution_id = server.suspended("order", commands).await;
    server.must(complete(&server.claim_task("done").await)).await;
    server.must(terminate(id(11))).await;
    server.must(suspend(&server.claim_workflow("order").await)).await;
    let promises = server.store().promise_list(TENANT, execution_id, true, 10).await.unwrap();
    let mut expected = vec![
        Waiting::Task { id: id(1), task_type: "mail".into(), status: TaskStatus::Pending },
        Waiting::Timer { name: "later".into(), fire_ms: BEGIN_MS + 9_000 },
        Waiting::Child { id: id(10), name: "child".into(), status: ExecutionStatus::Pending },
    ];
    expected.extend(promises.iter().map(|row| Waiting::Promise {
        id: row.id,
        name: row.name.clone(),
        deadline_ms: row.deadline_ms,
    }));
    let found = why(&server, execution_id).await;
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for item in expected {
        assert!(found.contains(&item), "{item:?} is not among {found:?}");
    }
    let idle = server.suspended("idle", Vec::new()).await;
    assert_eq!(why(&server, idle).await, [Waiting::Signal], "only a signal can move it");
}

async fn a_task_made_ahead_of_its_command_says_so(place: Place) {
    let server = place.server().await;
    let execution_id = server.start("order").await;
    let ahead = CreateTask { execution_id: Some(execution_id), ..CreateTask::standalone(task("mail")) };
    let task_id = server.create_task_as(ahead).await;
    assert_eq!(why_task(&server, task_id).await, Waiting::Announcement { execution_id });
}

/// Finished children must not hide the child that is open.
async fn the_one_open_child_among_many_is_named(place: Place) {
    let server = place.server().await;
    let commands = (1..=150).map(|number| Command::ScheduleChild(child(id(number), "child"))).collect();
    let parent = server.suspended("parent", commands).await;
    let children = server.claim(many(workflows("child"), 150)).await.workflows;
    let ends = children.iter().filter(|item| item.execution.id != id(1)).map(|item| server.ask(finish(item)));
    for answer in futures::future::join_all(ends).await {
        answer.unwrap();
    }
    server.must(suspend(&server.claim_workflow("parent").await)).await;
    let open = Waiting::Child { id: id(1), name: "child".into(), status: ExecutionStatus::Running };
    assert_eq!(why(&server, parent).await, [open]);
}

async fn a_history_too_large_for_the_workers_that_are_there_is_named(place: Place) {
    let limits = flovyn_engine::Limits { unary_history_bytes: 1_000, ..Default::default() };
    let server = place.server_with(limits).await;
    let execution_id = server.start("order").await;
    let value = json(&format!("\"{}\"", "x".repeat(2_000)));
    server.must(SignalWorkflow { execution_id, name: "much".into(), value }).await;
    let able = || vec![capability(WorkClass::Workflow, "order", None)];
    server.must(register("plain", false, able())).await;
    let needs_stream = Waiting::NoStreamWorker { queue: queue(), kind: "order".into() };
    assert_eq!(why(&server, execution_id).await, [needs_stream]);
    server.must(register("stream", true, able())).await;
    assert_eq!(why(&server, execution_id).await, [Waiting::FreeWorker { queue: queue(), workers: 1 }]);
}

on_each_store!(
    work_in_line_says_whether_somebody_can_do_it,
    delayed_and_held_back_work_says_until_when,
    what_runs_names_its_worker_and_what_has_finished_waits_for_nothing,
    a_workflow_that_waits_names_everything_it_has_open,
    a_task_made_ahead_of_its_command_says_so,
    the_one_open_child_among_many_is_named,
    a_history_too_large_for_the_workers_that_are_there_is_named,
);
