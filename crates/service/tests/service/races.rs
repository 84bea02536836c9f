//! Concurrent requests for one row, in one process and in two: exactly one has an effect.

use flovyn_engine::reply::Fired;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::{Code, Op, Refusal, Reply};

use crate::common::{
    Place, Server, at_once, cancel, child, complete, create_promise, dealt, finish, id, json, many,
    on_each_store, on_postgres, schedule_task, signal, start_timer, submit, suspend, tasks, workflow,
    workflows,
};

const ROUNDS: usize = 8;
const RIVALS: usize = 5;

fn accepted(answers: &[Result<Reply, Refusal>]) -> usize {
    answers.iter().filter(|answer| answer.is_ok()).count()
}

async fn five_loops_that_fire_one_timer_fire_it_once(place: Place) {
    let servers = place.servers(2).await;
    for _ in 0..ROUNDS {
        let id = servers[0].suspended("order", vec![start_timer("now", 0)]).await;
        let rows = servers[0].snapshot().await.due;
        let due = rows.into_iter().find(|row| row.id == id && row.class == DueClass::Timer).unwrap();
        let answers = at_once(dealt(&servers, vec![FireDue { due }; RIVALS])).await;
        let acted =
            |answer: &&Result<Reply, Refusal>| matches!(answer, Ok(Reply::Fired(Fired::Acted { .. })));
        assert_eq!(answers.iter().filter(acted).count(), 1, "{answers:?}");
        assert_eq!(accepted(&answers), RIVALS, "the others find that it has gone, which is not an error");
        assert_eq!(servers[0].count(id, EventKind::TimerFired).await, 1);
        servers[0].must(suspend(&servers[0].claim_workflow("order").await)).await;
    }
    servers[0].check().await;
}

async fn five_who_answer_one_promise_answer_it_once(place: Place) {
    let servers = place.servers(2).await;
    for _ in 0..ROUNDS {
        let id = servers[0].suspended("order", vec![create_promise("p")]).await;
        let promise =
            servers[0].snapshot().await.promises.into_iter().find(|row| row.execution_id == id).unwrap();
        let answer = |number: usize| AnswerPromise {
            promise: PromiseRef::Id(promise.id),
            answer: match number % 2 {
                0 => Answer::Resolve(json("1")),
                _ => Answer::Reject("no".into()),
            },
        };
        let answers = at_once(dealt(&servers, (0..RIVALS).map(answer))).await;
        assert_eq!(accepted(&answers), 1, "{answers:?}");
        for refusal in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            assert_eq!(refusal.code, Code::PromiseClosed, "{refusal}");
        }
        let resolved = servers[0].count(id, EventKind::PromiseResolved).await;
        assert_eq!(resolved + servers[0].count(id, EventKind::PromiseRejected).await, 1);
        servers[0].must(suspend(&servers[0].claim_workflow("order").await)).await;
    }
    servers[0].check().await;
}

async fn five_reports_of_one_attempt_count_once(place: Place) {
    let servers = place.servers(2).await;
    for round in 0..ROUNDS {
        let task_id = id(round as u128);
        let execution_id = servers[0].suspended("order", vec![schedule_task(task_id, "work")]).await;
        let delivery = servers[0].claim_task("work").await;
        let answers = at_once(dealt(&servers, vec![complete(&delivery); RIVALS])).await;
        let first = |answer: &&Result<Reply, Refusal>| {
            matches!(answer, Ok(Reply::TaskReported { repeated: false, .. }))
        };
        assert_eq!(answers.iter().filter(first).count(), 1, "{answers:?}");
        assert_eq!(accepted(&answers), RIVALS, "a repeated report is acknowledged");
        assert_eq!(servers[0].count(execution_id, EventKind::TaskCompleted).await, 1);
        servers[0].must(suspend(&servers[0].claim_workflow("order").await)).await;
    }
    servers[0].check().await;
}

async fn one_task_is_given_to_one_of_many_who_ask_at_once(place: Place) {
    let servers = place.servers(2).await;
    for _ in 0..ROUNDS {
        servers[0].create_task(crate::common::task("work")).await;
        let answers = at_once(dealt(&servers, vec![tasks("work"); RIVALS])).await;
        let given: usize = answers
            .into_iter()
            .map(|answer| match answer {
                Ok(Reply::Claimed(claimed)) => claimed.len(),
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!(given, 1);
    }
    servers[0].check().await;
}

/// Whichever request is first, the child ends once and its parent receives one event.
async fn a_child_that_finishes_while_its_parent_is_cancelled_ends_once(place: Place) {
    let servers = place.servers(2).await;
    for round in 0..ROUNDS {
        let child_id = id(round as u128);
        let parent =
            servers[0].suspended("parent", vec![Command::ScheduleChild(child(child_id, "child"))]).await;
        let activation = servers[0].claim_workflow("child").await;
        let ops: Vec<Op> = vec![cancel(parent).into(), finish(&activation).into(), cancel(child_id).into()];
        let answers = at_once(dealt(&servers, ops)).await;
        assert!(answers[0].is_ok(), "{answers:?}");
        servers[1].fire_due().await;
        let ends = servers[0].events(child_id).await.iter().filter(|event| event.kind.is_terminal()).count();
        // A child that was asked to cancel first, and has not received the request, is still open.
        assert!(ends <= 1);
        if ends == 1 {
            let told = servers[0].count(parent, EventKind::ChildCompleted).await
                + servers[0].count(parent, EventKind::ChildFailed).await;
            assert_eq!(told, 1);
        }
        servers[0].check().await;
        // Both end here, so that they do not disturb the next round.
        for id in [parent, child_id] {
            let _ = servers[0].ask(crate::common::terminate(id)).await;
        }
    }
}

/// A child locks its parent when it ends. At the same time, the parent asks this child to cancel.
async fn crossing_updates_of_parents_and_children_neither_deadlock_nor_fail(place: Place) {
    const PAIRS: usize = 200;
    let servers = place.servers(2).await;
    let server = &servers[0];
    server.must(StartWorkflows { items: vec![workflow("parent"); PAIRS] }).await;
    let parents = server.claim(many(workflows("parent"), PAIRS)).await.workflows;
    let children = parents.iter().enumerate().map(|(number, activation)| {
        let command = Command::ScheduleChild(child(id(number as u128), "child"));
        submit(activation, vec![command], Outcome::Suspended)
    });
    all_accepted(at_once(dealt(&servers, children)).await);
    let children = server.claim(many(workflows("child"), PAIRS)).await.workflows;
    let signals = parents.iter().map(|activation| signal(activation.execution.id));
    all_accepted(at_once(dealt(&servers, signals)).await);
    let parents = server.claim(many(workflows("parent"), PAIRS)).await.workflows;
    assert_eq!((parents.len(), children.len()), (PAIRS, PAIRS));

    let ends = children.iter().map(|activation| (&servers[0], Op::from(finish(activation))));
    let requests = parents.iter().map(|activation| {
        let child_id = server_child(&children, activation.execution.id);
        let command = Command::RequestCancelChild { child_id, reason: "not needed".into() };
        (&servers[1], Op::from(submit(activation, vec![command], Outcome::Suspended)))
    });
    let ops: Vec<(&Server, Op)> = ends.zip(requests).flat_map(|(end, request)| [end, request]).collect();
    let (answers, (), ()) = tokio::join!(at_once(ops), servers[0].fire_due(), servers[1].fire_due());
    all_accepted(answers);
    servers[0].fire_due().await;
    let snapshot = server.check().await;
    for row in snapshot.executions.iter().filter(|row| &*row.kind == "child") {
        assert_eq!(
            row.status,
            ExecutionStatus::Completed,
            "its result came first, or the request never reached it"
        );
    }
    let told = snapshot.events.iter().filter(|event| event.kind == EventKind::ChildCompleted).count();
    assert_eq!(told, PAIRS);
}

fn server_child(children: &[flovyn_engine::reply::Activation], parent_id: uuid::Uuid) -> uuid::Uuid {
    children.iter().find(|child| child.execution.parent_id == Some(parent_id)).unwrap().execution.id
}

#[track_caller]
fn all_accepted(answers: Vec<Result<Reply, Refusal>>) {
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

on_each_store!(
    five_loops_that_fire_one_timer_fire_it_once,
    five_who_answer_one_promise_answer_it_once,
    five_reports_of_one_attempt_count_once,
    one_task_is_given_to_one_of_many_who_ask_at_once,
    a_child_that_finishes_while_its_parent_is_cancelled_ends_once,
    crossing_updates_of_parents_and_children_neither_deadlock_nor_fail,
);
on_postgres!(
    five_loops_that_fire_one_timer_fire_it_once,
    five_who_answer_one_promise_answer_it_once,
    five_reports_of_one_attempt_count_once,
    one_task_is_given_to_one_of_many_who_ask_at_once,
    a_child_that_finishes_while_its_parent_is_cancelled_ends_once,
    crossing_updates_of_parents_and_children_neither_deadlock_nor_fail,
);
