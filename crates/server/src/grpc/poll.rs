//! Long polls of the public protocol: which kinds a worker may get, and giving back what cannot be delivered.

use std::time::Duration;

use flovyn_engine::Code;
use flovyn_engine::ids::{Text, named_id};
use flovyn_engine::reply::Claimed;
use flovyn_engine::request::{Claim, ClaimKind, Claimer};
use flovyn_engine::state::{Lane, WorkClass, WorkerCapability};
use tonic::Status;
use uuid::Uuid;

use super::call::Call;
use super::convert::{can_be_sought, queue};
use super::status::{not_read, refuse};

/// Longest wait of one poll.
const MAX_WAIT_SECONDS: i64 = 300;
/// Kinds of a queue that a worker which registered none is shown at a time.
const UNREGISTERED_KINDS: usize = 100;

/// A poll as both kinds of work have it.
#[derive(Debug)]
pub(super) struct Poll<'a> {
    pub(super) class: WorkClass,
    pub(super) worker: &'a str,
    pub(super) queue: &'a str,
    pub(super) kinds: &'a [String],
    pub(super) timeout_seconds: i64,
}

/// Work on its way to a client: dropped before it is sent off, it is given back and no attempt counts.
#[derive(Debug)]
pub(super) struct Delivery<'a> {
    call: &'a Call,
    claimed: Claimed,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(call: &'a Call, claimed: Claimed) -> Self {
        Self { call, claimed }
    }

    pub(super) fn claimed(&self) -> &Claimed {
        &self.claimed
    }

    pub(super) fn call(&self) -> &'a Call {
        self.call
    }

    /// It goes out now.
    pub(super) fn sent(mut self) -> Claimed {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        self.call.api().service().give_back(self.call.tenant_id(), &self.claimed);
    }
}

/// Waits for one item of work.
pub(super) async fn wait<'a>(call: &'a Call, poll: Poll<'_>) -> Result<Delivery<'a>, Status> {
    if !(0..=MAX_WAIT_SECONDS).contains(&poll.timeout_seconds) {
        let message = format!("timeout_seconds is from 0 to {MAX_WAIT_SECONDS}");
        return Err(refuse(Code::InvalidDuration, message));
    }
    can_be_sought("queue", poll.queue)?;
    let wait = Duration::from_secs(poll.timeout_seconds.unsigned_abs());
    let claimed = match claim(call, &poll).await? {
        Some(claim) => call.poll(claim, wait).await?,
        // A worker that registered, but nothing of this class: it is told so by silence, not by busy answers.
        None => {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = call.api().drains() => {}
            }
            Claimed::default()
        }
    };
    Ok(Delivery::new(call, claimed))
}

async fn claim(call: &Call, poll: &Poll<'_>) -> Result<Option<Claim>, Status> {
    let tenant_id = call.tenant_id();
    let store = call.api().service().store();
    let worker_id = Uuid::try_parse(poll.worker).unwrap_or_else(|_| named_id(tenant_id, poll.worker));
    let registered = store.worker_get(tenant_id, worker_id).await.map_err(not_read)?;
    let known = registered.as_ref().map_or(&[][..], |(_, capabilities)| capabilities);
    let own = known.iter().filter(|capability| capability.class == poll.class);
    let mut kinds = kinds_of(own, poll.kinds);
    let queue = queue(poll.queue);
    if kinds.is_empty() && registered.is_some() {
        return Ok(None);
    }
    let mut claim = Claim {
        class: poll.class,
        claimer: Claimer {
            worker: registered.as_ref().map_or_else(|| poll.worker.into(), |(worker, _)| worker.name.clone()),
            session: registered.as_ref().map(|(worker, _)| worker.id),
            plain: true,
            cooperative: false,
        },
        queue: queue.clone(),
        kinds: Vec::new(),
        max: 1,
        only: None,
        provisional: false,
    };
    if kinds.is_empty() {
        kinds.push(ClaimKind::any());
        let lanes = store.lanes_of_queue(tenant_id, poll.class, &queue, UNREGISTERED_KINDS);
        let lanes: Vec<Lane> = lanes.await.map_err(not_read)?;
        claim = lanes.iter().fold(claim, Claim::with_lane);
    }
    claim.kinds.extend(kinds);
    Ok(Some(claim))
}

/// The registered kinds; of these only the ones asked for, if any are. A kind that was asked for and not registered
/// is the worker's own affair.
fn kinds_of<'a>(own: impl Iterator<Item = &'a WorkerCapability>, asked: &[String]) -> Vec<ClaimKind> {
    let mut kinds: Vec<ClaimKind> = asked
        .iter()
        .map(|kind| ClaimKind { kind: kind.as_str().into(), versions: Vec::new(), timeout_ms: None })
        .collect();
    for capability in own {
        let index = kinds.iter().position(|kind| kind.kind == capability.kind);
        let index = match index {
            Some(index) => index,
            None if asked.is_empty() => {
                let kind: Text = capability.kind.clone();
                kinds.push(ClaimKind { kind, versions: Vec::new(), timeout_ms: None });
                kinds.len() - 1
            }
            None => continue,
        };
        kinds[index].timeout_ms = capability.timeout_ms;
        if !capability.kind_version.is_empty() {
            kinds[index].versions.push(capability.kind_version.clone());
        }
    }
    kinds
}
