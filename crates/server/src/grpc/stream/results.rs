//! Results that a worker sends. Each is executed as a request of its own, and acknowledged when it is durable.

use std::sync::Arc;
use std::time::Duration;

use flovyn_engine::ids::Text;
use flovyn_engine::request::{
    Claimer, Continuation, FailTask, Failure, HeartbeatTask, ReleaseTaskClaim, ReleaseWorkflowClaim,
};
use flovyn_engine::state::{ExecutionStatus, TaskStatus};
use flovyn_engine::{Code, Op, Reply};
use flovyn_proto::v1;
use flovyn_proto::v1::task_result::Result as TaskOutcome;
use futures::future::join_all;
use tonic::Status;
use uuid::Uuid;

use super::super::call::Call;
use super::super::commands::submission;
use super::super::convert::id;
use super::super::status::{ERROR_CODE, may_repeat, not_read, refuse, refused};
use super::super::task_execution::{completion, failure};
use super::sessions::{Held, Holdings};

/// How many results are awaited as one group. `join_all` polls a small group as a whole and tracks the futures of a
/// larger one separately, which does not pay because most are answered at the same moment.
const GROUP: usize = 30;

/// Executes all results of a frame together, so that they share a commit.
pub(super) async fn settle(
    call: &Call,
    holdings: &Arc<Holdings>,
    activations: Vec<v1::ActivationResult>,
    tasks: Vec<v1::TaskResult>,
    claimer: &Claimer,
    build: &Text,
) -> Vec<v1::ResultAck> {
    let activations = activations.into_iter().map(|result| (result.r#ref, activation(result, build)));
    let tasks = tasks.into_iter().map(|result| (result.r#ref, task(call, result, claimer)));
    let mut all = activations.chain(tasks).map(|(number, op)| one(call, holdings, number, op)).peekable();
    let mut groups = Vec::new();
    while all.peek().is_some() {
        groups.push(join_all(all.by_ref().take(GROUP)));
    }
    join_all(groups).await.into_iter().flatten().collect()
}

/// The id and the token that a result is about, and its request.
type Settled = Result<(Uuid, Option<i64>, Op), Status>;

fn activation(result: v1::ActivationResult, build: &Text) -> Settled {
    if let Some(claim) = result.give_back {
        let execution_id = id("give_back.id", &claim.id)?;
        let release = ReleaseWorkflowClaim { execution_id, token: claim.claim_token };
        return Ok((execution_id, Some(claim.claim_token), release.into()));
    }
    let missing = || refuse(Code::InvalidCommand, "an activation result has no content");
    // The build is set so that after a refusal the execution waits for a worker of another build, or for its delay to
    // end.
    let known = |build_id: &mut Option<Text>| {
        if build_id.is_none() && !build.is_empty() {
            *build_id = Some(build.clone());
        }
    };
    match submission(result.submit.ok_or_else(missing)?) {
        Ok(mut submit) => {
            known(&mut submit.build_id);
            Ok((submit.execution_id, submit.token, submit.into()))
        }
        Err(unread) => {
            let (id, token, mut op) = unread.about()?;
            if let Op::RefuseActivation(op) = &mut op {
                known(&mut op.build_id);
            }
            Ok((id, token, op))
        }
    }
}

fn task(call: &Call, result: v1::TaskResult, claimer: &Claimer) -> Settled {
    match result.result {
        Some(TaskOutcome::Complete(message)) => {
            let mut complete = completion(message)?;
            complete.next = result.next.and_then(|next| continuation(call, next, claimer));
            Ok((complete.task_id, complete.token, complete.into()))
        }
        Some(TaskOutcome::Fail(message)) => {
            let fail = failure(message)?;
            Ok((fail.task_id, fail.token, fail.into()))
        }
        None => Err(refuse(Code::InvalidCommand, "a task result has no content")),
    }
}

/// The next step of a workflow. If the step is invalid, the task's success is still accepted: the workflow's own
/// activation will report the error.
fn continuation(
    call: &Call,
    next: v1::SubmitWorkflowCommandsRequest,
    claimer: &Claimer,
) -> Option<Box<Continuation>> {
    let step = Op::from(submission(next).ok()?);
    step.check(call.api().service().limits()).ok()?;
    let Op::SubmitActivation(step) = step else { return None };
    Some(Box::new(Continuation { claimer: claimer.clone(), step }))
}

async fn one(call: &Call, holdings: &Holdings, number: u64, settled: Settled) -> v1::ResultAck {
    let mut ack = v1::ResultAck { r#ref: number, ..v1::ResultAck::default() };
    let result = match settled {
        Ok((id, token, op)) => {
            let result = call.run(op).await;
            // Accepted or permanently refused: either way the worker is done with it.
            if result.as_ref().err().is_none_or(|status| !may_repeat(status)) {
                holdings.remove(id, token);
            }
            result
        }
        Err(status) => Err(status),
    };
    match result {
        Ok(reply) => {
            ack.continued = matches!(reply, Reply::Continued { .. });
            ack.repeated_result = matches!(
                reply,
                Reply::Submitted { repeated: true, .. } | Reply::TaskReported { repeated: true, .. }
            );
        }
        Err(status) => {
            (ack.code, ack.message) = told(&status);
            ack.retryable = may_repeat(&status);
        }
    }
    ack
}

/// Executes heartbeats of tasks. Returns the tasks that should stop, and the heartbeats that were refused.
pub(super) async fn heartbeats(
    call: &Call,
    messages: Vec<v1::TaskHeartbeat>,
) -> (Vec<v1::CancelNotice>, Vec<v1::HeartbeatRefused>) {
    let answers = join_all(messages.into_iter().map(|message| heartbeat(call, message))).await;
    let (mut cancels, mut refused) = (Vec::new(), Vec::new());
    for answer in answers.into_iter().flatten() {
        match answer {
            Ok(cancel) => cancels.push(cancel),
            Err(refusal) => refused.push(refusal),
        }
    }
    (cancels, refused)
}

/// Executes one heartbeat. `None`: the task continues.
async fn heartbeat(
    call: &Call,
    message: v1::TaskHeartbeat,
) -> Option<Result<v1::CancelNotice, v1::HeartbeatRefused>> {
    let (named, token) = (message.task_execution_id, message.claim_token);
    let status = match id("task_execution_id", &named) {
        Err(status) => status,
        Ok(task_id) => {
            let heartbeat = HeartbeatTask { task_id, token: Some(token), details: message.details };
            match call.api().service().heartbeat(call.tenant_id(), heartbeat).await {
                Ok(false) => return None,
                Ok(true) => return Some(Ok(notice(task_id, token))),
                // The claim has ended, so the worker should stop.
                Err(refusal) if matches!(refusal.code, Code::StaleClaim | Code::TaskNotFound) => {
                    return Some(Ok(notice(task_id, token)));
                }
                Err(refusal) => refused(refusal),
            }
        }
    };
    // The worker sends another heartbeat soon.
    if may_repeat(&status) {
        return None;
    }
    let (code, message) = told(&status);
    Some(Err(v1::HeartbeatRefused { task_execution_id: named, claim_token: token, code, message }))
}

/// The code and the message of a refusal.
fn told(status: &Status) -> (String, String) {
    let code = status.metadata().get(ERROR_CODE).and_then(|value| value.to_str().ok());
    (code.unwrap_or("FLV0090").to_owned(), status.message().to_owned())
}

pub(super) fn notice(task_id: Uuid, token: i64) -> v1::CancelNotice {
    v1::CancelNotice { task_execution_id: task_id.to_string(), claim_token: token }
}

/// Why claims are released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The worker is lost without a goodbye. The task itself may have killed it.
    Lost,
    /// The worker stops in an orderly way and has finished the work that it began. It has not begun the rest.
    Goodbye,
}

/// The pauses between tries to release a claim double from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const MAX_RELEASES: usize = 5_000;

/// Releases claims of a worker that is gone. A workflow is requeued. A task is requeued after a goodbye; otherwise its
/// attempt was delivered and counts, and the next attempt may begin at once.
pub(super) async fn release(call: &Call, held: Vec<(Uuid, Held)>, why: Why) {
    let one = |(id, held): (Uuid, Held)| async move {
        let op: Op = match held.is_task {
            false => ReleaseWorkflowClaim { execution_id: id, token: held.token }.into(),
            true if why == Why::Goodbye => ReleaseTaskClaim { task_id: id, token: held.token }.into(),
            true => FailTask {
                task_id: id,
                token: Some(held.token),
                error: "the worker's connection was lost".into(),
                failure: Failure::default(),
                non_retryable: false,
                next_delay_ms: Some(0),
            }
            .into(),
        };
        if let Err(status) = call.run(op.clone()).await {
            tracing::debug!(%id, %status, "a claim was not released");
            if !is_settled(&status) {
                tokio::spawn(release_later(call.clone(), op));
            }
        }
    };
    join_all(held.into_iter().map(one)).await;
}

/// Whether a refused release needs no repetition, because the claim has ended in another way.
fn is_settled(status: &Status) -> bool {
    matches!(status.code(), tonic::Code::FailedPrecondition | tonic::Code::NotFound)
}

/// Tries again to release a claim, for example until the database is back. The lease alone would not end the claim: if
/// the session has come back, its heartbeats renew the lease.
async fn release_later(call: Call, op: Op) {
    let mut pause = FIRST_PAUSE;
    for _ in 0..MAX_RELEASES {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = call.api().drains() => return,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        match call.run(op.clone()).await {
            Err(status) if !is_settled(&status) => {}
            Ok(_) | Err(_) => return,
        }
    }
    tracing::warn!("a claim was not released, although it was tried for hours");
}

/// The claim that a worker says it holds. `None` if the session does not hold it any more.
pub(super) async fn holder(call: &Call, session: Uuid, id: Uuid, token: i64) -> Result<Option<Held>, Status> {
    let store = call.api().service().store();
    if let Some(row) = store.task_get(call.tenant_id(), id).await.map_err(not_read)? {
        let own = row.status == TaskStatus::Running && row.epoch == token && row.session == Some(session);
        return Ok(own.then_some(Held { token, is_task: true }));
    }
    let row = store.execution_get(call.tenant_id(), id).await.map_err(not_read)?;
    let own = row.is_some_and(|row| {
        row.status == ExecutionStatus::Running && row.epoch == token && row.session == Some(session)
    });
    Ok(own.then_some(Held { token, is_task: false }))
}
