//! Databases that refuse, conflict or do not answer: only the failing request is affected, and nothing happens twice.

use std::sync::{Arc, Mutex};

use flovyn_engine::request::*;
use flovyn_engine::state::ExecutionStatus;
use flovyn_engine::{Code, Limits, Op, Refusal, Reply};
use flovyn_service::{Options, Service, loops};

use crate::common::{
    Fault, Faulty, Place, Server, TENANT, UNSTORABLE, answered, at_once, complete, dealt, json,
    on_each_store, on_postgres, submit, task, tasks, until, workflow,
};

async fn faulty(place: &Place) -> (Arc<Faulty>, Server) {
    let store = Faulty::new(place.store().await);
    (store.clone(), place.server_on(store, Limits::default()))
}

/// Sends all requests so that they are decided in one batch.
async fn in_one_batch(store: &Faulty, server: &Server, ops: Vec<Op>) -> Vec<Result<Reply, Refusal>> {
    store.hold();
    let first = server.clone();
    let first = tokio::spawn(async move { first.claim(tasks("nothing")).await });
    until("a batch is in flight", || store.waiting() == 1).await;
    // These requests wait for that batch, and become the next batch.
    let mut calls: Vec<_> = ops.into_iter().map(|op| Box::pin(server.call(TENANT, op))).collect();
    for call in &mut calls {
        assert!(futures::poll!(call).is_pending());
    }
    store.release();
    first.await.unwrap();
    futures::future::join_all(calls).await
}

fn unstorable() -> StartWorkflow {
    StartWorkflow { input: json(UNSTORABLE), ..workflow("bad") }
}

#[track_caller]
fn codes(answers: &[Result<Reply, Refusal>]) -> Vec<Option<Code>> {
    answers.iter().map(|answer| answer.as_ref().err().map(|refusal| refusal.code)).collect()
}

async fn of_a_batch_that_the_database_refuses_only_the_guilty_fail(place: Place) {
    let (store, server) = faulty(&place).await;
    for guilty in [vec![0], vec![63], vec![17], vec![3, 4, 40], (0..64).collect()] {
        let before = server.snapshot().await.executions.len();
        let ops = (0..64).map(|place| match guilty.contains(&place) {
            true => unstorable().into(),
            false => workflow("good").into(),
        });
        let answers = codes(&in_one_batch(&store, &server, ops.collect()).await);
        for (place, code) in answers.iter().enumerate() {
            assert_eq!(
                *code,
                guilty.contains(&place).then_some(Code::StoreRefused),
                "request {place} of {guilty:?}"
            );
        }
        assert_eq!(
            server.snapshot().await.executions.len(),
            before + 64 - guilty.len(),
            "each good one once"
        );
    }
    assert!(server.stats().figures().bisections > 0);
    server.check().await;
}

/// The worker that reported it would hold its claim for its whole lifetime.
async fn a_report_that_the_database_refuses_ends_its_claim(place: Place) {
    let (store, server) = faulty(&place).await;
    let execution_id = server.start("order").await;
    let activation = server.claim_workflow("order").await;
    let command = Command::RecordOperation { name: "read".into(), result: json(UNSTORABLE) };
    let report = submit(&activation, vec![command], Outcome::Suspended);
    // The report is in a batch with other requests, and is the only one that is refused.
    let mut ops: Vec<Op> = (0..20).map(|_| workflow("good").into()).collect();
    ops.insert(7, report.into());
    let answers = in_one_batch(&store, &server, ops).await;
    let refused: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].code, Code::StoreRefused);
    assert!(refused[0].message.contains("refusal 1 of 5"), "{}", refused[0]);
    let row = server.execution(execution_id).await;
    assert_eq!((row.status, row.failure_code.as_deref()), (ExecutionStatus::Pending, Some("FLV0074")));
    assert!(row.failure_message.is_some());
    server.check().await;
}

/// Later requests see the effects of earlier ones, even if the batch is halved meanwhile.
async fn order_is_kept_when_a_refused_batch_is_cut(place: Place) {
    let (store, server) = faulty(&place).await;
    let execution_id = server.start("order").await;
    let mut ops: Vec<Op> = (0..20)
        .map(|number| {
            SignalWorkflow { execution_id, name: "n".into(), value: json(&number.to_string()) }.into()
        })
        .collect();
    ops.insert(7, unstorable().into());
    in_one_batch(&store, &server, ops).await;
    let events = server.events(execution_id).await;
    let values: Vec<String> = events[1..]
        .iter()
        .map(|event| String::from_utf8_lossy(event.payload.as_deref().unwrap()).into_owned())
        .collect();
    assert_eq!(values, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
}

/// On every store the limits refuse this request first, so no other request is affected.
async fn a_nul_in_one_request_harms_no_other(place: Place) {
    let servers = place.servers(2).await;
    let nul = || "a\0b".into();
    let bad: Vec<Op> = vec![
        StartWorkflow { kind: nul(), ..workflow("x") }.into(),
        crate::common::keyed("x", "a\0b").into(),
        CreateTask::standalone(TaskSpec { task_type: nul(), ..task("x") }).into(),
        CreateTask::standalone(TaskSpec { key: crate::common::key_spec("a\0b"), ..task("x") }).into(),
        PauseQueue { queue: nul() }.into(),
        Claim { queue: nul(), ..tasks("x") }.into(),
        CreateTenant { id: None, slug: nul(), name: "n".into(), retention_ms: None }.into(),
    ];
    for op in bad {
        let mut ops: Vec<Op> = (0..20).map(|_| workflow("good").into()).collect();
        ops.insert(10, op.clone());
        let answers = codes(&at_once(dealt(&servers, ops)).await);
        assert_eq!(answers[10], Some(Code::InvalidText), "{op:?}");
        assert_eq!(answers.iter().flatten().count(), 1, "{op:?}: {answers:?}");
    }
    for server in &servers {
        assert_eq!(server.stats().figures().bisections, 0, "the database never saw it");
    }
    servers[0].check().await;
}

async fn a_conflict_is_decided_again_and_nothing_is_doubled(place: Place) {
    let (store, server) = faulty(&place).await;
    for conflicts in 1..=5 {
        let before = server.snapshot().await.executions.len();
        store.next(&vec![Fault::Conflict; conflicts]);
        server.must(workflow("order")).await;
        assert_eq!(server.snapshot().await.executions.len(), before + 1, "after {conflicts} conflicts");
    }
    // A whole batch is decided again immediately and need not be halved.
    let before = server.snapshot().await.executions.len();
    store.next(&[Fault::Conflict]);
    let answers = in_one_batch(&store, &server, vec![workflow("order").into(); 30]).await;
    assert!(codes(&answers).iter().all(Option::is_none));
    assert_eq!(server.check().await.executions.len(), before + 30);
}

async fn a_conflict_that_never_ends_is_told_and_leaves_nothing(place: Place) {
    let (store, server) = faulty(&place).await;
    store.next(&[Fault::Conflict; 100]);
    server.refused(workflow("order"), Code::CommitConflict).await;
    assert!(server.snapshot().await.executions.is_empty());
}

async fn an_unknown_outcome_is_told_and_never_tried_again(place: Place) {
    let (store, server) = faulty(&place).await;
    store.next(&[Fault::LostBefore]);
    server.refused(workflow("order"), Code::OutcomeUnknown).await;
    assert!(server.snapshot().await.executions.is_empty());
    store.next(&[Fault::LostAfter]);
    server.refused(workflow("order"), Code::OutcomeUnknown).await;
    assert_eq!(server.snapshot().await.executions.len(), 1, "it was written once");
    store.next(&[Fault::LostAfter]);
    let answers = in_one_batch(&store, &server, vec![workflow("order").into(); 10]).await;
    assert_eq!(codes(&answers), [Some(Code::OutcomeUnknown); 10]);
    assert_eq!(server.check().await.executions.len(), 11);
}

/// The outcome may also become unknown when a batch is decided for the second time.
async fn an_unknown_outcome_after_a_conflict_is_never_tried_again(place: Place) {
    let (store, server) = faulty(&place).await;
    for conflicts in [1, 2, 5] {
        let before = server.snapshot().await.executions.len();
        store.next(&vec![Fault::Conflict; conflicts]);
        store.next(&[Fault::LostAfter]);
        server.refused(workflow("order"), Code::OutcomeUnknown).await;
        assert_eq!(server.snapshot().await.executions.len(), before + 1, "after {conflicts} conflicts");
    }
    let before = server.snapshot().await.executions.len();
    store.next(&[Fault::Conflict, Fault::LostAfter]);
    let answers = in_one_batch(&store, &server, vec![workflow("order").into(); 4]).await;
    assert_eq!(codes(&answers), [Some(Code::OutcomeUnknown); 4]);
    assert_eq!(server.snapshot().await.executions.len(), before + 4, "each once");
}

async fn a_database_that_is_away_is_told_and_is_used_again_when_it_is_back(place: Place) {
    let (store, server) = faulty(&place).await;
    store.next(&[Fault::Unavailable]);
    server.refused(workflow("order"), Code::StoreUnavailable).await;
    store.next(&[Fault::Conflict, Fault::Unavailable]);
    server.refused(workflow("order"), Code::StoreUnavailable).await;
    server.must(workflow("order")).await;
    assert_eq!(server.check().await.executions.len(), 1);
}

async fn a_database_that_cannot_be_trusted_stops_the_service_once(place: Place) {
    let fatal = [(Fault::Fatal, Code::StoreUnavailable), (Fault::Damaged, Code::DatabaseDamaged)];
    for (conflicts, (fault, code)) in (0..3).flat_map(|conflicts| fatal.map(|fatal| (conflicts, fatal))) {
        let mut faults = vec![Fault::Conflict; conflicts];
        faults.push(fault);
        let store = Faulty::new(place.store().await);
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = told.clone();
        let service = Service::start(
            store.clone(),
            Options {
                on_fatal: Box::new(move |what| heard.lock().unwrap().push(what.to_owned())),
                loops: loops::Options { enabled: false, ..loops::Options::default() },
                ..Options::default()
            },
        );
        store.next(&faults);
        let refusal = service.call(TENANT, workflow("order")).await.unwrap_err();
        assert_eq!(refusal.code, code, "{faults:?}");
        assert!(service.has_failed(), "{faults:?}");
        assert_eq!(told.lock().unwrap().len(), 1, "{faults:?}: the process is stopped once");
        let refusal = service.call(TENANT, workflow("order")).await.unwrap_err();
        assert_eq!(refusal.code, Code::ShuttingDown, "{faults:?}: nothing more is accepted");
    }
}

async fn a_poller_is_not_lost_with_the_batch_that_would_have_served_it(place: Place) {
    for fault in [Fault::Unavailable, Fault::LostBefore, Fault::Conflict] {
        let store = Faulty::new(place.store().await);
        let server = place.server_on(store.clone(), Limits::default());
        let poll = server.poll(tasks("work")).await;
        store.next(&[fault]);
        let first = server.ask(CreateTask::standalone(task("work"))).await;
        if fault != Fault::Conflict {
            assert!(first.is_err() && !poll.is_finished());
            assert_eq!(server.pollers(), 1, "the poller must wait again after {fault:?}");
            server.create_task(task("work")).await;
        }
        let claimed = answered(poll).await;
        server.must(complete(&claimed.tasks[0])).await;
        server.check().await;
    }
}

/// The work was handed over in a commit with an unknown outcome. A living session would keep it forever, so the claim
/// is released.
async fn work_handed_over_in_an_unknown_commit_is_given_back(place: Place) {
    // Whatever the outcome of the first attempts to release it.
    for tries in
        [&[][..], &[Fault::LostBefore], &[Fault::LostAfter], &[Fault::Unavailable, Fault::LostBefore]]
    {
        let (store, server) = faulty(&place).await;
        let poll = server.poll(tasks("work")).await;
        store.next(&[Fault::LostAfter]);
        store.next(tries);
        server.refused(CreateTask::standalone(task("work")), Code::OutcomeUnknown).await;
        let claimed = answered(poll).await;
        assert_eq!(
            claimed.tasks[0].task.execution_count, 1,
            "the attempt that was never delivered does not count"
        );
        assert!(claimed.tasks[0].token > 1, "it is a new claim");
        server.must(complete(&claimed.tasks[0])).await;
        server.check().await;
    }
}

on_each_store!(
    of_a_batch_that_the_database_refuses_only_the_guilty_fail,
    a_report_that_the_database_refuses_ends_its_claim,
    order_is_kept_when_a_refused_batch_is_cut,
    a_nul_in_one_request_harms_no_other,
    a_conflict_is_decided_again_and_nothing_is_doubled,
    a_conflict_that_never_ends_is_told_and_leaves_nothing,
    an_unknown_outcome_is_told_and_never_tried_again,
    an_unknown_outcome_after_a_conflict_is_never_tried_again,
    a_database_that_is_away_is_told_and_is_used_again_when_it_is_back,
    a_database_that_cannot_be_trusted_stops_the_service_once,
    a_poller_is_not_lost_with_the_batch_that_would_have_served_it,
    work_handed_over_in_an_unknown_commit_is_given_back,
);
on_postgres!(a_nul_in_one_request_harms_no_other);
