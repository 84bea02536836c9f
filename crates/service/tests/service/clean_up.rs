//! Clean-up after a cancel request. It may continue as long as it makes progress; a run that ignores the request is
//! force-stopped.

use flovyn_engine::Limits;
use flovyn_engine::reply::Activation;
use flovyn_engine::request::*;
use flovyn_engine::state::*;
use flovyn_engine::why::Waiting;
use uuid::Uuid;

use crate::common::{
    BEGIN_MS, Place, Server, TENANT, cancel, child, complete, create_promise, finish, id, on_each_store,
    on_postgres, schedule_task, signal, start_timer, submit, suspend, workflow,
};

const MINUTE_MS: i64 = 60_000;
/// A short step of time, for stores whose clock runs by itself.
const STEP_MS: i64 = 100;
const IGNORED: &str = "force-stopped: no clean-up for 60 s after the cancel request";
const FAILED: &str = "force-stopped: its activations failed after the cancel request, the last with PANIC";

/// The answer of a worker whose workflow has received the request. `waits`: for a task, timer or child of its
/// clean-up.
fn cleans(activation: &Activation, commands: Vec<Command>, waits: bool) -> SubmitActivation {
    let clean_up = Some(CleanUp { waits, grace_ms: None });
    SubmitActivation { clean_up, ..submit(activation, commands, Outcome::Suspended) }
}

fn ends(activation: &Activation) -> SubmitActivation {
    submit(activation, Vec::new(), Outcome::Cancelled { reason: "as asked".into() })
}

/// An execution that was asked to cancel, and the activation that delivers the request.
async fn asked(server: &Server, start: StartWorkflow) -> (Uuid, Activation) {
    let kind = start.kind.clone();
    let id = server.start_as(start).await.execution_id;
    server.must(suspend(&server.claim_workflow(&kind).await)).await;
    server.must(cancel(id)).await;
    (id, server.claim_workflow(&kind).await)
}

async fn undo(server: &Server, task: &str) {
    server.must(complete(&server.claim_task(task).await)).await;
}

async fn last_text(server: &Server, id: Uuid) -> String {
    server.events(id).await.pop().unwrap().text.unwrap_or_default().to_string()
}

async fn clean_up_runs_all_its_steps_however_long_it_takes(place: Place) {
    let server = place.server_with(Limits { cancel_grace_ms: STEP_MS, ..Limits::default() }).await;
    let (execution_id, first) = asked(&server, workflow("order")).await;
    server.must(cleans(&first, vec![schedule_task(id(1), "refund")], true)).await;
    assert_eq!(
        server.why_execution(TENANT, execution_id).await.unwrap().unwrap()[0],
        Waiting::CleanUp { until_ms: None, left_ms: None }
    );
    server.pass(7 * STEP_MS).await;
    undo(&server, "refund").await;
    // No worker claims it for a while. That does not count against it.
    server.pass(3 * STEP_MS).await;
    let second = server.claim_workflow("order").await;
    server.must(cleans(&second, vec![start_timer("pause", 5 * STEP_MS)], true)).await;
    server.pass(5 * STEP_MS).await;
    let third = server.claim_workflow("order").await;
    server.must(cleans(&third, vec![schedule_task(id(2), "release")], true)).await;
    server.pass(9 * STEP_MS).await;
    undo(&server, "release").await;
    server.must(ends(&server.claim_workflow("order").await)).await;
    assert_eq!(server.status(execution_id).await, ExecutionStatus::Cancelled);
    assert_eq!(last_text(&server, execution_id).await, "as asked");
    assert_eq!(server.count(execution_id, EventKind::TaskCompleted).await, 2, "both undos ran");
    server.check().await;
}

/// It waits for external events. Each step that it takes gives it another minute; without a step, it gets no more
/// time.
async fn a_run_that_ignores_the_request_is_force_stopped_and_progress_puts_that_off(place: Place) {
    let server = place.server().await;
    let (ignores, first) = asked(&server, workflow("ignores")).await;
    server.must(cleans(&first, Vec::new(), false)).await;
    let (signalled, first) = asked(&server, workflow("signalled")).await;
    server.must(cleans(&first, vec![create_promise("approval")], false)).await;
    let why = async |id| server.why_execution(TENANT, id).await.unwrap().unwrap().remove(0);
    let until_ms = Some(BEGIN_MS + MINUTE_MS);
    assert_eq!(why(ignores).await, Waiting::CleanUp { until_ms, left_ms: None });
    server.pass(MINUTE_MS / 2).await;
    for id in [ignores, signalled] {
        server.must(signal(id)).await;
    }
    // The worker says that the workflow waits for its work, but there is none.
    server.must(cleans(&server.claim_workflow("ignores").await, Vec::new(), true)).await;
    let step = Command::RecordOperation { name: "note".into(), result: "1".into() };
    server.must(cleans(&server.claim_workflow("signalled").await, vec![step], false)).await;
    server.pass(MINUTE_MS / 2 - 1).await;
    assert!(!server.status(ignores).await.is_terminal(), "it was stopped too early");
    server.pass(1).await;
    assert_eq!(last_text(&server, ignores).await, IGNORED);
    assert!(!server.status(signalled).await.is_terminal(), "it made progress half a minute ago");
    server.pass(MINUTE_MS / 2).await;
    assert_eq!(server.status(signalled).await, ExecutionStatus::Cancelled);
    server.check().await;
}

/// A grace in the start counts from the first activation after the request, whatever the run does. If the start has none, the grace of the
/// workflow's definition counts.
async fn a_grace_of_its_own_is_all_the_time_there_is(place: Place) {
    let server = place.server().await;
    let start = |kind: &str, ms| StartWorkflow { cancel_grace_ms: ms, ..workflow(kind) };
    let says = |activation: &Activation, ms, number, waits| {
        let clean_up = Some(CleanUp { waits, grace_ms: ms });
        SubmitActivation { clean_up, ..cleans(activation, vec![schedule_task(id(number), "undo")], true) }
    };
    let (short, first) = asked(&server, start("short", Some(10_000))).await;
    server.must(says(&first, Some(5 * MINUTE_MS), 1, true)).await;
    let (defined, first) = asked(&server, start("defined", None)).await;
    server.must(says(&first, Some(20_000), 2, true)).await;
    let (long, first) = asked(&server, start("long", Some(10 * MINUTE_MS))).await;
    server.must(says(&first, None, 3, false)).await;
    server.pass(9_999).await;
    assert!(!server.status(short).await.is_terminal());
    server.pass(1).await;
    assert_eq!(last_text(&server, short).await, "force-stopped: clean-up did not end within 10 s");
    server.pass(10_000).await;
    assert_eq!(server.status(defined).await, ExecutionStatus::Cancelled);
    server.pass(9 * MINUTE_MS).await;
    assert!(!server.status(long).await.is_terminal(), "it keeps its ten minutes, even if it is idle");
    server.pass(MINUTE_MS).await;
    assert_eq!(server.status(long).await, ExecutionStatus::Cancelled);
    // Without a grace, the workflow is not asked at all.
    let none = server.start_as(start("none", Some(0))).await.execution_id;
    server.must(suspend(&server.claim_workflow("none").await)).await;
    server.must(cancel(none)).await;
    assert_eq!(server.status(none).await, ExecutionStatus::Cancelled);
    server.settle().await;
    server.check().await;
}

/// The worker dies during the clean-up. The next worker continues it.
async fn clean_up_outlives_its_worker(place: Place) {
    let server = place.server().await;
    let (execution_id, first) = asked(&server, workflow("order")).await;
    server.must(cleans(&first, vec![schedule_task(id(1), "refund")], true)).await;
    undo(&server, "refund").await;
    server.claim_workflow("order").await;
    server.pass(10 * MINUTE_MS).await;
    assert_eq!(server.status(execution_id).await, ExecutionStatus::Pending, "its lease is over");
    server.must(ends(&server.claim_workflow("order").await)).await;
    assert_eq!(last_text(&server, execution_id).await, "as asked");
    server.check().await;
}

/// Waiting for a worker, for a paused queue or for corrected code is not ignoring the request.
async fn time_without_a_worker_does_not_count(place: Place) {
    let server = place.server().await;
    let first_reason = async |id| server.why_execution(TENANT, id).await.unwrap().unwrap().remove(0);
    let fails = || Outcome::ActivationFailed { code: "PANIC".into(), message: "no".into() };
    let mut found = Vec::new();
    for kind in ["unclaimed", "held-back", "own-grace"] {
        let cancel_grace_ms = (kind == "own-grace").then_some(10_000);
        let start = StartWorkflow { cancel_grace_ms, ..workflow(kind) };
        let id = server.start_as(start).await.execution_id;
        server.must(suspend(&server.claim_workflow(kind).await)).await;
        server.must(cancel(id)).await;
        found.push((kind, id));
    }
    let left_ms = Some(MINUTE_MS);
    assert_eq!(first_reason(found[0].1).await, Waiting::CleanUp { until_ms: None, left_ms });
    server.must(submit(&server.claim_workflow("held-back").await, Vec::new(), fails())).await;
    server.pass(30 * MINUTE_MS).await;
    for (kind, id) in found {
        let activation = server.claim_workflow(kind).await;
        server.must(cleans(&activation, vec![create_promise(kind)], false)).await;
        assert_eq!(server.status(id).await, ExecutionStatus::Waiting, "{kind}");
        assert!(matches!(first_reason(id).await, Waiting::CleanUp { until_ms: Some(_), left_ms: None }));
        server.pass(MINUTE_MS).await;
        assert_eq!(server.status(id).await, ExecutionStatus::Cancelled, "{kind}");
    }
    server.settle().await;
    server.check().await;
}

/// A step inside an activation takes longer than the limit, while the claim holds.
async fn a_long_step_is_not_cut_off(place: Place) {
    let server = place.server_with(Limits { cancel_grace_ms: STEP_MS, ..Limits::default() }).await;
    let (execution_id, first) = asked(&server, workflow("order")).await;
    server.pass(20 * STEP_MS).await;
    server.must(cleans(&first, vec![schedule_task(id(1), "refund")], true)).await;
    undo(&server, "refund").await;
    let second = server.claim_workflow("order").await;
    server.pass(20 * STEP_MS).await;
    server.must(ends(&second)).await;
    assert_eq!(last_text(&server, execution_id).await, "as asked");
    server.check().await;
}

/// Whether clean-up has begun or not: ten failed activations in a row are the end, and fewer are not.
async fn clean_up_whose_activations_only_fail_is_force_stopped(place: Place) {
    let server = place.server().await;
    let fails = || Outcome::ActivationFailed { code: "PANIC".into(), message: "no".into() };
    let (broken, first) = asked(&server, workflow("broken")).await;
    server.must(submit(&first, Vec::new(), fails())).await;
    let (begun, first) = asked(&server, workflow("begun")).await;
    server.must(cleans(&first, vec![schedule_task(id(1), "refund")], true)).await;
    undo(&server, "refund").await;
    server.must(submit(&server.claim_workflow("begun").await, Vec::new(), fails())).await;
    for (kind, id) in [("broken", broken), ("begun", begun)] {
        for _ in 2..=10 {
            server.pass(10 * MINUTE_MS).await;
            assert!(!server.status(id).await.is_terminal());
            server.must(submit(&server.claim_workflow(kind).await, Vec::new(), fails())).await;
        }
        server.pass(1).await;
        assert_eq!(last_text(&server, id).await, FAILED);
    }
    server.check().await;
}

async fn the_execution_timeout_and_terminate_end_clean_up(place: Place) {
    let server = place.server().await;
    let timed = StartWorkflow { execution_timeout_ms: Some(5 * MINUTE_MS), ..workflow("timed") };
    let (timed, first) = asked(&server, timed).await;
    server.must(cleans(&first, vec![schedule_task(id(1), "refund")], true)).await;
    let (stopped, first) = asked(&server, workflow("stopped")).await;
    server.must(cleans(&first, vec![schedule_task(id(2), "refund")], true)).await;
    server.must(crate::common::terminate(stopped)).await;
    assert_eq!(server.status(stopped).await, ExecutionStatus::Cancelled);
    server.pass(5 * MINUTE_MS - 1).await;
    assert!(!server.status(timed).await.is_terminal());
    server.pass(1).await;
    assert_eq!(server.status(timed).await, ExecutionStatus::Failed);
    server.settle().await;
    server.check().await;
}

/// The request is passed on to the existing children, each with its own grace. A child that the clean-up starts is not
/// cancelled, not even within the same millisecond, and the clean-up waits for it.
async fn a_request_reaches_the_children_and_not_those_of_the_clean_up(place: Place) {
    let server = place.server().await;
    let old = ScheduleChild { cancel_grace_ms: Some(5_000), ..child(id(1), "old") };
    let parent = server.suspended("parent", vec![Command::ScheduleChild(old)]).await;
    server.must(suspend(&server.claim_workflow("old").await)).await;
    server.must(CancelWorkflow { cascade: true, ..cancel(parent) }).await;
    let activation = server.claim_workflow("parent").await;
    let undo = Command::ScheduleChild(child(id(2), "undo"));
    server.must(cleans(&activation, vec![undo], true)).await;
    server.settle().await;
    server.must(cleans(&server.claim_workflow("old").await, Vec::new(), false)).await;
    let old = server.execution(id(1)).await;
    assert_eq!(old.clean_up_until_ms, old.cancel_requested_ms.map(|asked| asked + 5_000));
    assert!(old.clean_up_until_ms.is_some());
    assert_eq!(server.execution(id(2)).await.cancel_requested_ms, None);
    server.pass(5_000).await;
    assert_eq!(server.status(id(1)).await, ExecutionStatus::Cancelled);
    let activation = server.claim_workflow("parent").await;
    server.must(cleans(&activation, Vec::new(), true)).await;
    server.pass(10 * MINUTE_MS).await;
    server.must(finish(&server.claim_workflow("undo").await)).await;
    server.must(ends(&server.claim_workflow("parent").await)).await;
    assert_eq!(server.count(parent, EventKind::ChildCompleted).await, 1);
    assert_eq!(last_text(&server, parent).await, "as asked");
    server.check().await;
}

/// The history has no room for the clean-up. The run ends nevertheless: as often as its activations may be refused.
async fn a_run_with_a_full_history_ends(place: Place) {
    let limits = Limits { history_events: 12, ..Limits::default() };
    let server = place.server_with(limits).await;
    let (execution_id, mut activation) = asked(&server, workflow("order")).await;
    for left in (0..5).rev() {
        let timers = (0..9).map(|number| start_timer(&number.to_string(), MINUTE_MS)).collect();
        server.refused(cleans(&activation, timers, true), flovyn_engine::Code::HistoryFull).await;
        if left > 0 {
            server.pass(MINUTE_MS).await;
            activation = server.claim_workflow("order").await;
        }
    }
    assert_eq!(server.status(execution_id).await, ExecutionStatus::Failed);
    server.check().await;
}

on_each_store!(
    clean_up_runs_all_its_steps_however_long_it_takes,
    a_run_that_ignores_the_request_is_force_stopped_and_progress_puts_that_off,
    a_grace_of_its_own_is_all_the_time_there_is,
    clean_up_outlives_its_worker,
    time_without_a_worker_does_not_count,
    a_long_step_is_not_cut_off,
    clean_up_whose_activations_only_fail_is_force_stopped,
    the_execution_timeout_and_terminate_end_clean_up,
    a_request_reaches_the_children_and_not_those_of_the_clean_up,
    a_run_with_a_full_history_ends,
);

on_postgres!(clean_up_runs_all_its_steps_however_long_it_takes);
