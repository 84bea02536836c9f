//! One key means one execution: on every path, and for concurrent requests.

use std::collections::BTreeSet;

use flovyn_engine::reply::Started;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Limits, Refusal, Reply};

use crate::common::{
    Place, Server, at_once, cancel, complete, dealt, fail, finish, key_spec, keyed, on_each_store,
    on_postgres, task, tasks, terminate, workflow,
};

fn keyed_task(task_type: &str, key: &str) -> TaskSpec {
    TaskSpec { key: key_spec(key), ..task(task_type) }
}

async fn create(server: &Server, spec: TaskSpec) -> (uuid::Uuid, bool) {
    match server.must(CreateTask::standalone(spec)).await {
        Reply::TaskCreated(created) => (created.task_id, created.key_new),
        other => panic!("{other:?}"),
    }
}

async fn a_key_that_was_never_seen_starts_and_one_that_was_does_not(place: Place) {
    let server = place.server().await;
    let first = server.start_as(keyed("order", "key")).await;
    assert_eq!((first.key_used, first.key_new), (true, true));
    for _ in 0..2 {
        let again = server.start_as(keyed("order", "key")).await;
        assert_eq!(again, Started { key_new: false, ..first.clone() });
    }
    let without = server.start_as(workflow("order")).await;
    assert_eq!((without.key_used, without.key_new), (false, true));
    assert_ne!(without.execution_id, first.execution_id);
    let (first_task, new) = create(&server, keyed_task("mail", "task")).await;
    assert!(new);
    assert_eq!(create(&server, keyed_task("mail", "task")).await, (first_task, false));
    server.check().await;
}

async fn a_key_whose_time_is_over_starts_anew_though_nobody_has_cleaned_it(place: Place) {
    let server = place.server_with(Limits { ttl_min_ms: 1, ..Limits::default() }).await;
    let short = |kind: &str| StartWorkflow {
        key: Some(KeySpec { name: "key".into(), ttl_ms: Some(100) }),
        ..workflow(kind)
    };
    let first = server.start_as(short("order")).await;
    server.pass(100).await;
    assert_eq!(server.snapshot().await.keys.len(), 1, "the expired key still exists");
    // The expired key can be taken for another kind, and for a task.
    let second = server.start_as(short("invoice")).await;
    assert!(second.key_new && second.execution_id != first.execution_id);
    server.pass(100).await;
    let (_, new) = create(&server, keyed_task("mail", "key")).await;
    assert!(new);
    // When the first holder ends, it must not free a key that it no longer holds.
    server.must(terminate(first.execution_id)).await;
    server.refused(keyed("order", "key"), Code::KeyConflict).await;
    server.check().await;
}

async fn a_key_of_work_that_failed_or_was_cancelled_is_free(place: Place) {
    let server = place.server().await;
    let first = server.start_as(keyed("order", "key")).await.execution_id;
    let activation = server.claim_workflow("order").await;
    let failed = Outcome::Failed { error: "no".into(), failure: Failure::default(), stack_trace: None };
    server.must(crate::common::submit(&activation, Vec::new(), failed)).await;
    let second = server.start_as(keyed("order", "key")).await;
    assert!(second.key_new && second.execution_id != first);
    server.must(cancel(second.execution_id)).await;
    assert_eq!(server.status(second.execution_id).await, ExecutionStatus::Cancelled);
    let third = server.start_as(keyed("order", "key")).await;
    assert!(third.key_new && third.execution_id != second.execution_id);

    let (first, _) = create(&server, keyed_task("mail", "task")).await;
    let delivery = server.claim_task("mail").await;
    server.must(FailTask { non_retryable: true, ..fail(&delivery) }).await;
    let (second, new) = create(&server, keyed_task("mail", "task")).await;
    assert!(new && second != first);
    server.must(CancelTask { task_id: second, cooperative: false }).await;
    let (third, new) = create(&server, keyed_task("mail", "task")).await;
    assert!(new && third != second);
    server.check().await;
}

async fn a_key_of_work_that_completed_is_kept(place: Place) {
    let server = place.server().await;
    let first = server.start_as(keyed("order", "key")).await.execution_id;
    server.must(finish(&server.claim_workflow("order").await)).await;
    let again = server.start_as(keyed("order", "key")).await;
    assert_eq!((again.execution_id, again.key_new, again.status), (first, false, ExecutionStatus::Completed));
    let (first, _) = create(&server, keyed_task("mail", "task")).await;
    server.must(complete(&server.claim_task("mail").await)).await;
    assert_eq!(create(&server, keyed_task("mail", "task")).await, (first, false));
    server.check().await;
}

async fn a_key_that_belongs_to_other_work_is_a_conflict(place: Place) {
    let server = place.server().await;
    server.start_as(keyed("order", "key")).await;
    create(&server, keyed_task("mail", "task")).await;
    let before = server.snapshot().await;
    server.refused(keyed("invoice", "key"), Code::KeyConflict).await;
    server.refused(keyed("order", "task"), Code::KeyConflict).await;
    server.refused(CreateTask::standalone(keyed_task("mail", "key")), Code::KeyConflict).await;
    server.refused(CreateTask::standalone(keyed_task("resize", "task")), Code::KeyConflict).await;
    assert!(server.snapshot().await == before);
}

async fn a_key_of_another_tenant_is_another_key(place: Place) {
    let server = place.server().await;
    let first = server.start_as(keyed("order", "key")).await;
    let other = uuid::Uuid::from_u128(7 << 64);
    match server.call(other, keyed("invoice", "key")).await {
        Ok(Reply::Started(started)) => assert!(started.key_new && started.execution_id != first.execution_id),
        answer => panic!("{answer:?}"),
    }
}

fn distinct(answers: &[Result<Reply, Refusal>]) -> (BTreeSet<uuid::Uuid>, usize) {
    let mut new = 0;
    let ids = answers.iter().map(|answer| match answer {
        Ok(Reply::Started(started)) => (started.execution_id, started.key_new),
        Ok(Reply::TaskCreated(created)) => (created.task_id, created.key_new),
        Ok(Reply::Signalled { execution_id, created, .. }) => (*execution_id, *created),
        other => panic!("{other:?}"),
    });
    let ids = ids.inspect(|(_, is_new)| new += usize::from(*is_new)).map(|(id, _)| id).collect();
    (ids, new)
}

async fn fifty_starts_with_one_key_at_once_make_one_execution(place: Place) {
    let servers = place.servers(2).await;
    for round in 0..5 {
        let key = format!("key-{round}");
        let (ids, new) = distinct(&at_once(dealt(&servers, vec![keyed("order", &key); 50])).await);
        assert_eq!((ids.len(), new), (1, 1));
        let spec = CreateTask::standalone(keyed_task("mail", &format!("task-{round}")));
        let (ids, new) = distinct(&at_once(dealt(&servers, vec![spec; 50])).await);
        assert_eq!((ids.len(), new), (1, 1));
    }
    let snapshot = servers[0].check().await;
    assert_eq!((snapshot.executions.len(), snapshot.tasks.len()), (5, 5));
}

async fn fifty_starts_at_once_with_a_key_whose_time_is_over_make_one_more(place: Place) {
    let limits = Limits { ttl_min_ms: 1, ..Limits::default() };
    let servers = [place.server_with(limits.clone()).await, place.server_with(limits).await];
    let key = Some(KeySpec { name: "key".into(), ttl_ms: Some(50) });
    servers[0].start_as(StartWorkflow { key, ..workflow("order") }).await;
    servers[0].pass(50).await;
    let (ids, new) = distinct(&at_once(dealt(&servers, vec![keyed("order", "key"); 50])).await);
    assert_eq!((ids.len(), new), (1, 1));
    assert_eq!(servers[0].check().await.executions.len(), 2);
}

async fn a_key_freed_while_others_ask_for_it_is_taken_once(place: Place) {
    let servers = place.servers(2).await;
    for round in 0..5 {
        let key = format!("key-{round}");
        let first = servers[0].start_as(keyed("order", &key)).await.execution_id;
        let starts = dealt(&servers, vec![keyed("order", &key); 20]);
        let (answers, _) = tokio::join!(at_once(starts), servers[1].must(terminate(first)));
        let (ids, new) = distinct(&answers);
        // Before the end the answers name the first execution, and after it all name the same new execution.
        assert!(new <= 1 && ids.len() <= 2, "{ids:?}");
        assert!(ids.iter().filter(|id| **id != first).count() == new);
    }
    servers[0].check().await;
}

async fn a_signal_with_start_finds_the_open_execution_or_starts_one(place: Place) {
    let servers = place.servers(2).await;
    let with_start = || SignalWithStart {
        start: keyed("order", "key"),
        name: "go".into(),
        value: crate::common::json("1"),
    };
    let (ids, new) = distinct(&at_once(dealt(&servers, (0..20).map(|_| with_start()))).await);
    assert_eq!((ids.len(), new), (1, 1));
    let first = *ids.first().unwrap();
    assert_eq!(servers[0].count(first, EventKind::SignalReceived).await, 20);
    // An execution that has finished cannot receive a signal, so a new one is started.
    servers[0].must(finish(&servers[0].claim_workflow("order").await)).await;
    let (ids, new) = distinct(&[servers[1].ask(with_start()).await]);
    assert!(new == 1 && !ids.contains(&first));
    let no_key = SignalWithStart { start: workflow("order"), ..with_start() };
    servers[0].refused(no_key, Code::InvalidName).await;
    servers[0].check().await;
}

async fn a_key_given_twice_in_one_bulk_makes_one(place: Place) {
    let server = place.server().await;
    let items = vec![keyed("order", "key"), workflow("order"), keyed("order", "key")];
    let Reply::StartedMany(started) = server.must(StartWorkflows { items }).await else { panic!("not many") };
    assert_eq!(started[0].execution_id, started[2].execution_id);
    assert_eq!(started.iter().map(|one| one.key_new).collect::<Vec<_>>(), [true, true, false]);
    let items = vec![CreateTask::standalone(keyed_task("mail", "task")); 2];
    server.must(CreateTasks { items }).await;
    let snapshot = server.check().await;
    assert_eq!((snapshot.executions.len(), snapshot.tasks.len()), (2, 1));
    assert_eq!(server.claim(crate::common::many(tasks("mail"), 10)).await.len(), 1);
}

/// The retried task must keep its key, so that the key does not create a second task.
async fn a_task_retried_by_hand_has_its_key_again(place: Place) {
    let server = place.server().await;
    let (task_id, _) = create(&server, keyed_task("mail", "task")).await;
    let delivery = server.claim_task("mail").await;
    server.must(FailTask { non_retryable: true, ..fail(&delivery) }).await;
    server.must(RetryTask { task_id }).await;
    assert_eq!(create(&server, keyed_task("mail", "task")).await, (task_id, false));
}

on_each_store!(
    a_key_that_was_never_seen_starts_and_one_that_was_does_not,
    a_key_whose_time_is_over_starts_anew_though_nobody_has_cleaned_it,
    a_key_of_work_that_failed_or_was_cancelled_is_free,
    a_key_of_work_that_completed_is_kept,
    a_key_that_belongs_to_other_work_is_a_conflict,
    a_key_of_another_tenant_is_another_key,
    fifty_starts_with_one_key_at_once_make_one_execution,
    fifty_starts_at_once_with_a_key_whose_time_is_over_make_one_more,
    a_key_freed_while_others_ask_for_it_is_taken_once,
    a_signal_with_start_finds_the_open_execution_or_starts_one,
    a_key_given_twice_in_one_bulk_makes_one,
    a_task_retried_by_hand_has_its_key_again,
);
on_postgres!(
    a_key_whose_time_is_over_starts_anew_though_nobody_has_cleaned_it,
    a_key_of_work_that_failed_or_was_cancelled_is_free,
    fifty_starts_with_one_key_at_once_make_one_execution,
    fifty_starts_at_once_with_a_key_whose_time_is_over_make_one_more,
    a_key_freed_while_others_ask_for_it_is_taken_once,
    a_signal_with_start_finds_the_open_execution_or_starts_one,
);
