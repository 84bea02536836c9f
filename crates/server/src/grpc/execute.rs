//! `Execute`: many starts on one connection, and their results as they arrive.
//!
//! The starts of one frame share a commit. Outcomes come from the batches that end executions, so the database is not
//! read for them. The exception is a database that other processes write to: there, executions that stay open are read.

use std::pin::pin;
use std::time::Duration;

use axum::http::HeaderMap;
use flovyn_auth::AuthError;
use flovyn_engine::ids::ExecutionId;
use flovyn_engine::reply::Started;
use flovyn_engine::{Code, Reply};
use flovyn_proto::v1;
use flovyn_proto::v1::execute_item::What;
use flovyn_service::{Ended, Follower, Outcome, Starter};
use futures::StreamExt;
use futures::future::join_all;
use prost::Message;
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tonic::{Status, Streaming};

use super::MAX_MESSAGE_BYTES;
use super::call::Call;
use super::client::own_tenant;
use super::convert;
use super::executions;
use super::status::{ERROR_CODE, may_repeat, not_allowed, not_read, refuse, refused, unexpected};

/// The most executions that one connection may follow.
const MAX_OPEN: usize = 10_000;
/// Frames of starts in flight. At the limit, the next frame is read when one is done.
const FRAMES_IN_FLIGHT: usize = 32;
/// The most results in one frame, and the most executions per database read.
const MAX_RESULTS: usize = 500;
/// The overhead of a result in a frame, and of a frame around its results, in bytes.
const ITEM_OVERHEAD: usize = 8;
const ROOM: usize = 1 << 10;
/// How often executions that stay open are read, on a database that other processes write to. Commits of other
/// processes do not notify this one.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the credential is checked again.
const CREDENTIAL_EVERY: Duration = Duration::from_secs(15);

pub(super) type Outbound = mpsc::Sender<Result<v1::ExecuteReply, Status>>;

/// An application's connection.
pub(super) struct Execute {
    call: Call,
    /// The headers that authenticated the connection.
    headers: HeaderMap,
    outbound: Outbound,
    /// Executions that have not ended.
    open: FxHashMap<ExecutionId, Open>,
    /// Outcomes that arrived before the item that follows the execution.
    early: FxHashMap<ExecutionId, Outcome>,
}

/// An execution that has not ended.
#[derive(Default)]
struct Open {
    /// The caller's numbers for this execution.
    numbers: Vec<u64>,
    /// Whether the execution was already open at the last look.
    stays: bool,
}

/// The result of one item, with the caller's number.
type Item = (u64, Result<Known, Status>);

/// An execution that is followed.
struct Known {
    execution_id: ExecutionId,
    /// Set if the item asked for a start.
    started: Option<Started>,
    /// Set if the execution existed before and has already ended.
    outcome: Option<Outcome>,
}

pub(super) async fn run(
    call: Call,
    headers: HeaderMap,
    inbound: Streaming<v1::ExecuteFrame>,
    outbound: Outbound,
) {
    let follower = call.api().service().follower(call.tenant_id());
    let told = outbound.clone();
    let connection =
        Execute { call, headers, outbound, open: FxHashMap::default(), early: FxHashMap::default() };
    if let Err(status) = connection.serve(inbound, follower).await {
        // The caller is informed of the reason, if it is still connected.
        let _ = told.send(Err(status)).await;
    }
}

impl Execute {
    async fn serve(
        mut self,
        mut inbound: Streaming<v1::ExecuteFrame>,
        mut follower: Follower,
    ) -> Result<(), Status> {
        let (api, outbound) = (self.call.api().clone(), self.outbound.clone());
        let (mut drains, mut closed) = (pin!(api.drains()), pin!(outbound.closed()));
        let mut in_flight: JoinSet<Vec<Item>> = JoinSet::new();
        let shared = self.call.api().service().store().is_shared();
        let mut looks: JoinSet<Looked> = JoinSet::new();
        let mut look = ticks(LOOK_EVERY);
        let mut look_at_credential = ticks(CREDENTIAL_EVERY);
        let mut more = true;
        while more || !in_flight.is_empty() || !self.open.is_empty() {
            tokio::select! {
                frame = inbound.next(), if more && in_flight.len() < FRAMES_IN_FLIGHT => match frame {
                    Some(Ok(frame)) => {
                        in_flight.spawn(self.carry_out(frame, &mut follower)?);
                    }
                    // The caller has sent everything and waits for the remaining results.
                    None => more = false,
                    Some(Err(status)) => return Err(status),
                },
                Some(items) = in_flight.join_next() => {
                    let items = items.map_err(|_| refuse(Code::Internal, "cannot process an item"))?;
                    self.send_known(items, &mut follower).await?;
                    if in_flight.is_empty() {
                        // These outcomes were already sent, because a look found them before their commit arrived here.
                        self.early.clear();
                    }
                }
                ended = follower.next() => self.send_ended(ended, &mut follower).await?,
                _ = look.tick(), if shared && looks.is_empty() => {
                    looks.spawn(look_at(self.call.clone(), self.those_that_stay()));
                }
                Some(looked) = looks.join_next() => {
                    let looked = looked.map_err(|_| refuse(Code::Internal, "cannot read executions"))?;
                    if !looked.rest.is_empty() {
                        looks.spawn(look_at(self.call.clone(), looked.rest));
                    }
                    self.send_found(looked.found, &mut follower).await?;
                }
                _ = look_at_credential.tick() => self.may_stay().await?,
                () = &mut drains => return Err(refuse(Code::ShuttingDown, "the server is stopping")),
                () = &mut closed => return Ok(()),
            }
        }
        Ok(())
    }

    /// Executes all items of a frame together, so that they share a commit.
    fn carry_out(
        &self,
        frame: v1::ExecuteFrame,
        follower: &mut Follower,
    ) -> Result<impl Future<Output = Vec<Item>> + use<>, Status> {
        if self.open.len() + frame.items.len() > MAX_OPEN {
            let what = format!(
                "a connection follows up to {MAX_OPEN} executions: use several connections, or wait for results"
            );
            return Err(refuse(Code::Overloaded, what));
        }
        let items: Vec<_> = frame
            .items
            .into_iter()
            .map(|item| {
                if let Some(What::WorkflowExecutionId(id)) = &item.what
                    && let Ok(id) = convert::id("workflow_execution_id", id)
                {
                    follower.add(id);
                }
                one(self.call.clone(), follower.starter(), item)
            })
            .collect();
        Ok(join_all(items))
    }

    async fn send_known(&mut self, items: Vec<Item>, follower: &mut Follower) -> Result<(), Status> {
        let mut reply = v1::ExecuteReply::default();
        for (number, known) in items {
            match known {
                Ok(Known { execution_id, started, outcome }) => {
                    if let Some(started) = started {
                        reply.started.push(v1::ExecuteStarted {
                            r#ref: number,
                            workflow_execution_id: execution_id.to_string(),
                            idempotency_key_new: started.key_new,
                        });
                    }
                    if outcome.is_some() {
                        follower.forget(execution_id);
                    }
                    match outcome.or_else(|| self.early.remove(&execution_id)) {
                        Some(outcome) => reply.ended.push(ended(number, outcome)),
                        None => self.open.entry(execution_id).or_default().numbers.push(number),
                    }
                }
                Err(status) => reply.refused.push(refusal(number, &status)),
            }
        }
        self.send(reply).await
    }

    async fn send_ended(&mut self, first: Ended, follower: &mut Follower) -> Result<(), Status> {
        let mut reply = v1::ExecuteReply::default();
        let mut next = Some(first);
        while let Some(Ended { execution_id, outcome }) = next {
            match self.open.remove(&execution_id) {
                Some(open) => open.tell(outcome, &mut reply),
                None => drop(self.early.insert(execution_id, outcome)),
            }
            next = if reply.ended.len() < MAX_RESULTS { follower.try_next() } else { None };
        }
        self.send(reply).await
    }

    async fn send(&self, reply: v1::ExecuteReply) -> Result<(), Status> {
        for part in in_parts(reply) {
            // The loop notices if the caller has disconnected.
            let _ = self.outbound.send(Ok(part)).await;
        }
        Ok(())
    }

    /// Executions that were already open at the last look. Nearly all others end by a commit of this process before the
    /// next look.
    fn those_that_stay(&mut self) -> Vec<ExecutionId> {
        let stays =
            |(id, open): (&ExecutionId, &mut Open)| std::mem::replace(&mut open.stays, true).then_some(*id);
        self.open.iter_mut().filter_map(stays).collect()
    }

    async fn send_found(&mut self, found: Outcomes, follower: &mut Follower) -> Result<(), Status> {
        let mut reply = v1::ExecuteReply::default();
        for (id, outcome) in found {
            // The outcome may have been sent in the meantime.
            if let Some(open) = self.open.remove(&id) {
                open.numbers.iter().for_each(|_| follower.forget(id));
                open.tell(outcome, &mut reply);
            }
        }
        self.send(reply).await
    }

    /// Checks the credential again: a connection must not outlive its credential.
    async fn may_stay(&self) -> Result<(), Status> {
        match self.call.api().authenticate(&self.headers).await {
            Ok(_) | Err(AuthError::Unavailable) => Ok(()),
            Err(error) => Err(not_allowed(error)),
        }
    }
}

impl Open {
    fn tell(self, outcome: Outcome, reply: &mut v1::ExecuteReply) {
        reply.ended.extend(self.numbers.into_iter().map(|number| ended(number, outcome.clone())));
    }
}

/// Splits a reply into messages that fit. None of them is empty.
fn in_parts(mut reply: v1::ExecuteReply) -> Vec<v1::ExecuteReply> {
    let results = std::mem::take(&mut reply.ended);
    let (mut bytes, mut part, mut parts) = (reply.encoded_len(), reply, Vec::new());
    for result in results {
        let size = result.encoded_len() + ITEM_OVERHEAD;
        bytes += size;
        if bytes > MAX_MESSAGE_BYTES - ROOM {
            parts.push(std::mem::take(&mut part));
            bytes = size;
        }
        part.ended.push(result);
    }
    parts.push(part);
    parts.retain(|part| *part != v1::ExecuteReply::default());
    parts
}

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

async fn one(call: Call, starter: Starter, item: v1::ExecuteItem) -> Item {
    let known = match item.what {
        Some(What::Start(start)) => start_one(&call, &starter, start).await,
        Some(What::WorkflowExecutionId(id)) => find(&call, &id).await,
        None => Err(refuse(Code::InvalidCommand, "an item has no content")),
    };
    (item.r#ref, known)
}

async fn start_one(call: &Call, starter: &Starter, start: v1::StartWorkflowRequest) -> Result<Known, Status> {
    own_tenant(call, &start.org_id)?;
    call.admit().await?;
    let start = convert::start(start, call.traceparent.clone())?;
    let started = match starter.start(start).await.map_err(refused)? {
        Reply::Started(started) => started,
        other => return Err(unexpected(&other)),
    };
    let execution_id = started.execution_id;
    let outcome = if started.key_new { None } else { outcome(call, execution_id).await? };
    Ok(Known { execution_id, started: Some(started), outcome })
}

async fn find(call: &Call, id: &str) -> Result<Known, Status> {
    let execution_id = convert::id("workflow_execution_id", id)?;
    executions::find(call, execution_id).await?;
    Ok(Known { execution_id, started: None, outcome: outcome(call, execution_id).await? })
}

type Outcomes = Vec<(ExecutionId, Outcome)>;

struct Looked {
    found: Outcomes,
    /// The executions to read next.
    rest: Vec<ExecutionId>,
}

/// Reads the first executions of the list.
async fn look_at(call: Call, mut ids: Vec<ExecutionId>) -> Looked {
    let rest = ids.split_off(ids.len().min(MAX_RESULTS));
    let found = if ids.is_empty() { Ok(Outcomes::new()) } else { outcomes(&call, &ids).await };
    // If the read fails, these executions are read again at the next look.
    found.map_or_else(|_| Looked { found: Outcomes::new(), rest: Vec::new() }, |found| Looked { found, rest })
}

/// The outcomes of those executions that have ended.
async fn outcomes(call: &Call, ids: &[ExecutionId]) -> Result<Outcomes, Status> {
    let ends = call.api().service().store().execution_ends(call.tenant_id(), ids).await.map_err(not_read)?;
    Ok(ends.iter().filter_map(|event| Some((event.execution_id, Outcome::of(event)?))).collect())
}

async fn outcome(call: &Call, id: ExecutionId) -> Result<Option<Outcome>, Status> {
    Ok(outcomes(call, &[id]).await?.pop().map(|(_, outcome)| outcome))
}

fn ended(number: u64, outcome: Outcome) -> v1::ExecuteEnded {
    let mut ended = v1::ExecuteEnded { r#ref: number, ..v1::ExecuteEnded::default() };
    let status = match outcome {
        Outcome::Completed(output) => {
            ended.output = Some(output);
            "COMPLETED"
        }
        Outcome::Failed(error, failure) => {
            ended.error = Some(error.to_string());
            (ended.failure_type, ended.failure_details) = convert::failure_fields(failure);
            "FAILED"
        }
        Outcome::Cancelled(reason) => {
            ended.error = Some(reason.to_string());
            "CANCELLED"
        }
    };
    ended.status = status.to_owned();
    ended
}

fn refusal(number: u64, status: &Status) -> v1::ExecuteRefused {
    let code = status.metadata().get(ERROR_CODE).and_then(|value| value.to_str().ok());
    v1::ExecuteRefused {
        r#ref: number,
        code: code.unwrap_or("FLV0090").to_owned(),
        message: status.message().to_owned(),
        retryable: may_repeat(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_go_in_messages_that_fit() {
        let result = |number| ended(number, Outcome::Completed(vec![b'1'; 1_500_000].into()));
        let started = vec![v1::ExecuteStarted::default(); 3];
        let reply = v1::ExecuteReply { started, ended: (0..7).map(result).collect(), ..Default::default() };
        let parts = in_parts(reply);
        assert!(parts.iter().all(|part| part.encoded_len() <= MAX_MESSAGE_BYTES));
        let numbers: Vec<Vec<u64>> =
            parts.iter().map(|part| part.ended.iter().map(|ended| ended.r#ref).collect()).collect();
        assert_eq!(numbers, [vec![0, 1], vec![2, 3], vec![4, 5], vec![6]]);
        assert_eq!(parts.iter().map(|part| part.started.len()).collect::<Vec<_>>(), [3, 0, 0, 0]);
        assert!(in_parts(v1::ExecuteReply::default()).is_empty());
    }
}
