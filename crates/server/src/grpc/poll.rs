//! Long polls of the public protocol: which kinds a worker may receive, and the release of work that cannot be
//! delivered. `holds` decides how long a poll is held.

use std::time::{Duration, Instant};

use flovyn_engine::ids::{Text, canonical_id};
use flovyn_engine::reply::Claimed;
use flovyn_engine::request::{Claim, ClaimKind, Claimer};
use flovyn_engine::state::{Lane, WorkClass, Worker, WorkerCapability};
use flovyn_engine::{Code, Limits, live_processes, longest_timeout};
use tonic::Status;

use super::call::Call;
use super::connection::Held;
use super::convert::{can_be_sought, non_empty, queue};
use super::holds::SHORTEST;
use super::status::{not_read, refuse};

/// The longest wait of one poll.
const MAX_WAIT_SECONDS: i64 = 300;
/// The most kinds of a queue that a poll considers if its worker has registered none.
const UNREGISTERED_KINDS: usize = 100;

/// The parts of a poll that both classes of work share.
#[derive(Debug)]
pub(super) struct Poll<'a> {
    pub(super) class: WorkClass,
    pub(super) worker: &'a str,
    pub(super) queue: &'a str,
    pub(super) kinds: &'a [String],
    pub(super) timeout_seconds: i64,
}

/// Claimed work that is being delivered to a client. If it is dropped before it is sent, the claim is released and no
/// attempt counts.
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

    /// Marks the work as sent, so that it is not released.
    pub(super) fn sent(mut self) -> Claimed {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        self.call.api().service().release_claims(self.call.tenant_id(), &self.claimed);
    }
}

/// Waits for one item of work.
pub(super) async fn wait<'a>(call: &'a Call, poll: Poll<'_>) -> Result<Delivery<'a>, Status> {
    if !(0..=MAX_WAIT_SECONDS).contains(&poll.timeout_seconds) {
        let message = format!("timeout_seconds must be from 0 to {MAX_WAIT_SECONDS}");
        return Err(refuse(Code::InvalidDuration, message));
    }
    can_be_sought("queue", poll.queue)?;
    let asked = Duration::from_secs(poll.timeout_seconds.unsigned_abs());
    let until = Instant::now() + asked.min(call.api().max_poll_wait());
    let claim = claim(call, &poll).await?;
    let lanes = || claim.as_ref().map_or_else(Vec::new, |claim| claim.lanes(call.tenant_id()));
    let held = call.hold(poll.class, lanes);
    tokio::select! {
        delivery = deliver(call, claim, held, until) => delivery,
        never = call.keeps_showing_life() => match never {},
    }
}

/// Holds a poll until there is work or until the time `until`.
async fn deliver(
    call: &Call,
    claim: Option<Claim>,
    held: Option<Held>,
    until: Instant,
) -> Result<Delivery<'_>, Status> {
    let Some(held) = held else {
        let claimed = hold(call, claim, until, std::future::pending()).await?;
        return Ok(Delivery::new(call, claimed));
    };
    // If the client disconnects while work is claimed, the drop of the delivery releases it.
    let mut delivery = Delivery::new(call, Claimed::default());
    loop {
        let Some(at_most) = held.at_most() else {
            delivery.claimed = hold(call, claim, until, std::future::pending()).await?;
            break;
        };
        let part = until.min(Instant::now() + at_most);
        delivery.claimed = hold(call, claim.clone(), part, work_beside(call, &held, at_most)).await?;
        if !delivery.claimed.is_empty() || part == until || call.api().is_draining() || !held.was_held() {
            break;
        }
    }
    held.answer(delivery.claimed.len());
    call.takes(&delivery.claimed);
    Ok(delivery)
}

/// Waits for work until the time `until`, or until `cut` completes. If `claim` is `None`, the worker has registered but
/// runs nothing of this class. Its poll waits as well, so that the worker does not poll in a busy loop.
async fn hold(
    call: &Call,
    claim: Option<Claim>,
    until: Instant,
    cut: impl Future<Output = ()>,
) -> Result<Claimed, Status> {
    let Some(claim) = claim else {
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => {}
            () = cut => {}
            () = call.api().drains() => {}
        }
        return Ok(Claimed::default());
    };
    call.poll(claim, until.saturating_duration_since(Instant::now()), cut).await
}

/// Completes when there is work for the client's polls of the other class, which may be blocked until this poll is
/// answered.
async fn work_beside(call: &Call, held: &Held, at_most: Duration) {
    let lanes = held.lanes_beside();
    if at_most <= SHORTEST || lanes.is_empty() {
        return std::future::pending().await;
    }
    let service = call.api().service();
    // Subscribe before checking, so that work that becomes ready in between is noticed.
    let onlooker = service.look_on(lanes.clone());
    match service.has_work(lanes).await {
        // Another worker may be about to claim the work, or its queue is paused.
        Ok(true) => tokio::time::sleep(held.yields_after()).await,
        Ok(false) => onlooker.sees_work().await,
        Err(error) => {
            tracing::warn!(%error, "cannot check whether a poll's client has other work");
            tokio::time::sleep(SHORTEST).await;
        }
    }
}

/// Registered workers with their capabilities.
type Registered = Vec<(Worker, Vec<WorkerCapability>)>;

/// The registrations of the worker behind a poll. An id selects one process. A name selects the process that registered
/// on this connection, or else all live processes with that name.
async fn registered(call: &Call, worker: &str) -> Result<Registered, Status> {
    let (tenant_id, store) = (call.tenant_id(), call.api().service().store());
    let id = canonical_id(worker).or_else(|| call.process(worker));
    if let Some(id) = id
        && let Some(found) = store.worker_get(tenant_id, id).await.map_err(not_read)?
    {
        return Ok(vec![found]);
    }
    // Not every database can search for U+0000, and no worker name contains it.
    if worker.contains('\0') {
        return Ok(Vec::new());
    }
    let named = store.workers_named(tenant_id, worker).await.map_err(not_read)?;
    let mut found = Vec::new();
    for process in live_processes(named, call.api().service().limits().worker_silence_ms) {
        found.extend(store.worker_get(tenant_id, process.id).await.map_err(not_read)?);
    }
    Ok(found)
}

async fn claim(call: &Call, poll: &Poll<'_>) -> Result<Option<Claim>, Status> {
    let tenant_id = call.tenant_id();
    let store = call.api().service().store();
    let registered = registered(call, poll.worker).await?;
    // If there are several processes, the poll does not say which one it comes from.
    let only = match &registered[..] {
        [(worker, _)] => Some(worker),
        _ => None,
    };
    call.polls(poll.class, poll.worker, only.map(|worker| worker.id));
    if only.is_none() {
        // Any of them may be the sender. A live process must not lose its kinds because its polls do not name it.
        registered.iter().for_each(|(worker, _)| call.sees(worker.id));
    }
    let known = registered.iter().flat_map(|(_, capabilities)| capabilities);
    let own: Vec<_> = known.filter(|capability| capability.class == poll.class).collect();
    let mut kinds = kinds_of(&own, poll.kinds, call.api().service().limits());
    let queue = queue(poll.queue);
    if kinds.is_empty() && !registered.is_empty() {
        return Ok(None);
    }
    let mut claim = Claim {
        class: poll.class,
        claimer: Claimer {
            worker: only.map_or_else(|| poll.worker.into(), |worker| worker.name.clone()),
            session: only.map(|worker| worker.id),
            plain: true,
            cooperative: false,
            build: only.and_then(|worker| non_empty(&worker.build_id)),
        },
        queue: queue.clone(),
        kinds: Vec::new(),
        max: 1,
        only: None,
        provisional: false,
        // Each poll is a single claim, so it must find everything that its worker may take.
        held_back: only.is_some(),
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

/// The registered kinds, limited to the kinds that the poll asks for, if it names any. A kind that is asked for but not
/// registered is kept.
fn kinds_of(own: &[&WorkerCapability], asked: &[String], limits: &Limits) -> Vec<ClaimKind> {
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
        let version = &capability.kind_version;
        if !version.is_empty() && !kinds[index].versions.contains(version) {
            kinds[index].versions.push(capability.kind_version.clone());
        }
    }
    for kind in &mut kinds {
        let registered = own.iter().filter(|capability| capability.kind == kind.kind);
        kind.timeout_ms = longest_timeout(registered.map(|capability| capability.timeout_ms), limits);
    }
    kinds
}
