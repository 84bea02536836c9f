//! How executions end: cancelled, terminated or timed out, with children and with open items.

use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Reply};

use crate::common::{
    Place, Server, cancel, child, complete, create_promise, finish, id, json, key_spec, many, on_each_store,
    plain, schedule_task, signal, start_timer, submit, suspend, task, tasks, terminate, workflow, workflows,
};

const CHILDREN: u128 = 450;

async fn last_event(server: &Server, id: uuid::Uuid) -> Event {
    server.events(id).await.pop().unwrap()
}

async fn a_workflow_that_understands_is_asked_to_stop_and_cleans_up(place: Place) {
    let server = place.server().await;
    let id = server.suspended("order", Vec::new()).await;
    let reply = server.must(cancel(id)).await;
    assert_eq!(reply, Reply::Cancelled { status: ExecutionStatus::Pending });
    server.must(cancel(id)).await;
    assert_eq!(server.count(id, EventKind::CancellationRequested).await, 1, "asked once");
    let activation = server.claim_workflow("order").await;
    let commands = vec![Command::RecordOperation { name: "clean up".into(), result: json("1") }];
    server.must(submit(&activation, commands, Outcome::Cancelled { reason: "as asked".into() })).await;
    assert_eq!(server.status(id).await, ExecutionStatus::Cancelled);
    server.check().await;
}

async fn a_workflow_that_does_not_end_within_the_grace_time_is_ended(place: Place) {
    let server = place.server().await;
    let grace_ms = server.limits().cancel_grace_ms;
    let waiting = server.suspended("waiting", Vec::new()).await;
    let start = StartWorkflow { cancel_grace_ms: Some(grace_ms), ..workflow("running") };
    let running = server.start_as(start).await.execution_id;
    server.must(suspend(&server.claim_workflow("running").await)).await;
    server.must(cancel(waiting)).await;
    server.must(cancel(running)).await;
    for kind in ["waiting", "running"] {
        server.must(suspend(&server.claim_workflow(kind).await)).await;
    }
    server.pass(grace_ms - 10).await;
    server.must(signal(running)).await;
    let late = server.claim_workflow("running").await;
    server.pass(9).await;
    for id in [waiting, running] {
        assert!(!server.status(id).await.is_terminal(), "it was stopped before its grace ended");
    }
    server.pass(1).await;
    for id in [waiting, running] {
        assert_eq!(server.status(id).await, ExecutionStatus::Cancelled);
    }
    server.refused(finish(&late), Code::StaleClaim).await;
    server.check().await;
}

async fn a_workflow_that_nobody_would_tell_is_cancelled_at_once(place: Place) {
    let server = place.server().await;
    let unstarted = server.start("order").await;
    assert_eq!(server.must(cancel(unstarted)).await, Reply::Cancelled { status: ExecutionStatus::Cancelled });
    assert!(server.claim(workflows("order")).await.is_empty());
    let running = server.start("order").await;
    let activation = server.claim(plain(workflows("order"))).await.workflows.remove(0);
    assert_eq!(server.must(cancel(running)).await, Reply::Cancelled { status: ExecutionStatus::Cancelled });
    server.refused(finish(&activation), Code::StaleClaim).await;
    server.refused(cancel(running), Code::ExecutionFinished).await;
    server.check().await;
}

async fn a_claim_that_was_given_back_leaves_a_workflow_that_never_ran(place: Place) {
    let server = place.server().await;
    let id = server.start("order").await;
    let activation = server.claim_workflow("order").await;
    server.must(ReleaseWorkflowClaim { execution_id: id, token: activation.token }).await;
    assert_eq!(
        server.must(cancel(id)).await,
        Reply::Cancelled { status: ExecutionStatus::Cancelled },
        "there is nothing to clean up"
    );
}

async fn terminate_ends_at_once_whoever_runs_it(place: Place) {
    let server = place.server().await;
    let id = server.start("order").await;
    let activation = server.claim_workflow("order").await;
    server.must(terminate(id)).await;
    assert_eq!(server.status(id).await, ExecutionStatus::Cancelled);
    server.refused(finish(&activation), Code::StaleClaim).await;
    server.check().await;
}

async fn an_execution_that_takes_too_long_fails(place: Place) {
    let server = place.server().await;
    let start = StartWorkflow { execution_timeout_ms: Some(10_000), ..workflow("order") };
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(server.start_as(start.clone()).await.execution_id);
    }
    // One waits, one runs, one has never run.
    let claimed = server.claim(many(workflows("order"), 2)).await.workflows;
    server.must(suspend(&claimed[0])).await;
    server.pass(9_999).await;
    assert!(!server.status(ids[0]).await.is_terminal());
    server.pass(1).await;
    for id in ids {
        assert_eq!(server.status(id).await, ExecutionStatus::Failed);
        assert_eq!(last_event(&server, id).await.name.as_deref(), Some("TIMEOUT"));
    }
    server.refused(finish(&claimed[1]), Code::StaleClaim).await;
    server.check().await;
}

async fn a_cancel_reaches_all_children_and_theirs_page_by_page(place: Place) {
    let server = place.server().await;
    let commands = (0..CHILDREN).map(|number| Command::ScheduleChild(child(id(number), "child")));
    let parent = server.suspended("parent", commands.collect()).await;
    // One of them has a child, one has finished, and one is asked to cancel and cleans up.
    let claimed = server.claim(many(workflows("child"), 3)).await.workflows;
    let grandchild = Command::ScheduleChild(child(id(1_000), "grandchild"));
    server.must(submit(&claimed[0], vec![grandchild], Outcome::Suspended)).await;
    server.must(finish(&claimed[1])).await;
    server.must(suspend(&claimed[2])).await;
    server.must(cancel(parent)).await;
    server.settle().await;
    let snapshot = server.check().await;
    let open: Vec<_> = snapshot
        .executions
        .iter()
        .filter(|row| !row.status.is_terminal())
        .map(|row| (row.id, row.cancel_requested_ms.is_some()))
        .collect();
    let mut asked = vec![(parent, true), (claimed[0].execution.id, true), (claimed[2].execution.id, true)];
    asked.sort_unstable();
    assert_eq!(open, asked, "only a workflow that can clean up is asked; the others are cancelled");
    let grandchild = snapshot.executions.iter().find(|row| row.id == id(1_000)).unwrap();
    assert_eq!(grandchild.status, ExecutionStatus::Cancelled);
    // They ignore the request.
    let parents = server.claim(many(workflows("parent"), 1)).await.workflows;
    for activation in parents.iter().chain(&server.claim(many(workflows("child"), 2)).await.workflows) {
        server.must(suspend(activation)).await;
    }
    server.pass(server.limits().cancel_grace_ms).await;
    server.settle().await;
    let snapshot = server.check().await;
    assert!(snapshot.executions.iter().all(|row| row.status.is_terminal()));
    let kind = |kind: EventKind| snapshot.events.iter().filter(|event| event.kind == kind).count();
    assert_eq!(kind(EventKind::ChildCompleted), 1);
    assert!(snapshot.due.is_empty(), "nothing is left to do: {:?}", snapshot.due);
}

async fn a_cancel_without_cascade_leaves_children_alone(place: Place) {
    let server = place.server().await;
    let parent = server.suspended("parent", vec![Command::ScheduleChild(child(id(1), "child"))]).await;
    server.must(CancelWorkflow { cascade: false, ..cancel(parent) }).await;
    server.fire_due().await;
    assert_eq!(server.status(id(1)).await, ExecutionStatus::Pending);
    // Its result reaches the parent only if the parent is still open.
    server.must(finish(&server.claim_workflow("child").await)).await;
    assert_eq!(server.count(parent, EventKind::ChildCompleted).await, 1);
    server.check().await;
}

async fn what_a_finished_workflow_left_open_is_closed(place: Place) {
    let server = place.server().await;
    let keyed = TaskSpec { key: key_spec("key"), ..task("work") };
    let mut commands: Vec<Command> = (0..250).map(|number| schedule_task(id(number), "open")).collect();
    commands.extend([
        Command::ScheduleTask { task_id: id(300), spec: keyed.clone() },
        schedule_task(id(301), "running"),
        start_timer("later", 60_000),
        create_promise("p"),
        Command::CreatePromise { name: "late".into(), timeout_ms: Some(60_000), key: None },
    ]);
    server.suspended("order", commands).await;
    let running = server.claim_task("running").await;
    server.must(crate::common::signal(running.task.execution_id.unwrap())).await;
    let activation = server.claim_workflow("order").await;
    server.must(finish(&activation)).await;
    // Until they are closed, the open items cannot be claimed or completed.
    assert!(server.claim(tasks("open")).await.is_empty());
    server.refused(complete(&running), Code::ExecutionFinished).await;
    server.check().await;
    server.settle().await;
    let snapshot = server.check().await;
    assert!(snapshot.tasks.iter().all(|row| row.status == TaskStatus::Cancelled));
    assert!(snapshot.timers.iter().all(|row| row.status == TimerStatus::Cancelled));
    assert!(snapshot.promises.iter().all(|row| row.status == PromiseStatus::Abandoned));
    assert!(snapshot.due.is_empty() && snapshot.ready.is_empty(), "nothing is left to do");
    assert_eq!(server.attempts(id(301)).await, [AttemptStatus::Cancelled]);
    assert!(last_event(&server, activation.execution.id).await.kind.is_terminal(), "the end stays last");
    // The key of a task that was cancelled with its workflow can be used again.
    server.create_task(keyed).await;
    server.refused(complete(&running), Code::StaleClaim).await;
}

async fn the_parent_hears_of_every_way_a_child_can_end(place: Place) {
    let server = place.server().await;
    let timed = ScheduleChild { execution_timeout_ms: Some(1_000), ..child(id(4), "slow") };
    let commands = vec![
        Command::ScheduleChild(child(id(1), "good")),
        Command::ScheduleChild(child(id(2), "bad")),
        Command::ScheduleChild(child(id(3), "stopped")),
        Command::ScheduleChild(timed),
    ];
    let parent = server.suspended("parent", commands).await;
    server.must(finish(&server.claim_workflow("good").await)).await;
    let failed = Outcome::Failed { error: "no".into(), failure: Failure::default(), stack_trace: None };
    server.must(submit(&server.claim_workflow("bad").await, Vec::new(), failed)).await;
    server.must(terminate(id(3))).await;
    server.pass(1_000).await;
    let events = server.events(parent).await;
    let told: Vec<_> = events
        .iter()
        .filter(|event| event.origin == Origin::External && event.subject.is_some())
        .map(|event| (event.kind, event.subject.unwrap(), event.number == Some(1)))
        .collect();
    let failed = EventKind::ChildFailed;
    let expected = [
        (EventKind::ChildCompleted, id(1), false),
        (failed, id(2), false),
        (failed, id(3), true),
        (failed, id(4), false),
    ];
    assert_eq!(told, expected);
    assert_eq!(server.execution(parent).await.open_children, 0);
    server.check().await;
}

async fn a_retry_starts_a_new_linked_execution_with_the_same_input(place: Place) {
    let server = place.server().await;
    let start = StartWorkflow {
        labels: vec![("env".into(), "test".into())],
        priority_seconds: 7,
        execution_timeout_ms: Some(60_000),
        ..workflow("order")
    };
    let failed = server.start_as(start).await.execution_id;
    server.refused(RetryWorkflow { execution_id: failed, key: None }, Code::ExecutionNotFailed).await;
    server.must(terminate(failed)).await;
    let Reply::Started(started) = server.must(RetryWorkflow { execution_id: failed, key: None }).await else {
        panic!()
    };
    let row = server.execution(started.execution_id).await;
    assert_eq!((row.retry_of, row.priority_seconds), (Some(failed), 7));
    assert_eq!(row.deadline_ms.map(|at| at - row.created_ms), Some(60_000));
    let inputs =
        [server.events(failed).await[0].payload.clone(), server.events(row.id).await[0].payload.clone()];
    assert_eq!(inputs[0], inputs[1]);
    let labels = server.store().execution_labels(crate::common::TENANT, row.id).await.unwrap();
    assert_eq!(labels.len(), 1);
    server.check().await;
}

on_each_store!(
    a_workflow_that_understands_is_asked_to_stop_and_cleans_up,
    a_workflow_that_does_not_end_within_the_grace_time_is_ended,
    a_workflow_that_nobody_would_tell_is_cancelled_at_once,
    a_claim_that_was_given_back_leaves_a_workflow_that_never_ran,
    terminate_ends_at_once_whoever_runs_it,
    an_execution_that_takes_too_long_fails,
    a_cancel_reaches_all_children_and_theirs_page_by_page,
    a_cancel_without_cascade_leaves_children_alone,
    what_a_finished_workflow_left_open_is_closed,
    the_parent_hears_of_every_way_a_child_can_end,
    a_retry_starts_a_new_linked_execution_with_the_same_input,
);
