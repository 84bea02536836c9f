//! The index of waiting pollers, in memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use flovyn_engine::Request;
use flovyn_engine::ids::{Text, WorkerId};
use flovyn_engine::may_try;
use flovyn_engine::request::Claim;
use flovyn_engine::state::{Lane, Ready, WorkClass};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::job::{Asker, Job, PollAsker, claim_of};
use crate::onlookers::Onlookers;

/// The number of a poller, in order of arrival.
pub(crate) type PollerId = u64;

#[derive(Debug)]
pub(crate) struct Poller {
    pub(crate) request: Arc<Request>,
    pub(crate) asker: PollAsker,
    pub(crate) lanes: Vec<Lane>,
}

impl Poller {
    /// `None`: the request is not a claim.
    pub(crate) fn new(request: Arc<Request>, asker: PollAsker) -> Option<Self> {
        let lanes = claim_of(&request)?.awaited_lanes(request.tenant_id);
        Some(Self { request, asker, lanes })
    }

    pub(crate) fn into_job(self) -> Job {
        Job { request: self.request, asker: Asker::Poll(self.asker), misses: 0 }
    }

    /// A job that searches for work, because these lanes are known to have work.
    pub(crate) fn searching(self, lanes: Vec<&Lane>) -> Job {
        let held_back = lanes.iter().any(|lane| lane.class == WorkClass::HeldBack);
        let request = widened(self.request.clone(), lanes);
        Self { request: with_held_back(request, held_back), ..self }.into_job()
    }

    fn build(&self) -> Option<&Text> {
        claim_of(&self.request)?.claimer.build.as_ref()
    }
}

/// The waiting pollers, by lane and by session.
#[derive(Debug, Default)]
pub(crate) struct Pollers {
    pub(crate) next_id: PollerId,
    pub(crate) all: FxHashMap<PollerId, Poller>,
    pub(crate) lanes: FxHashMap<Lane, BTreeSet<PollerId>>,
    sessions: FxHashMap<(WorkerId, WorkClass), BTreeSet<PollerId>>,
    /// Lanes in which a claim has found nothing, and in which no work has been left since.
    pub(crate) empty: FxHashSet<Lane>,
    pub(crate) onlookers: Onlookers,
    pub(crate) closed: bool,
}

impl Pollers {
    /// After the service has stopped, the poller is dropped instead, and its caller sees that the channel is closed.
    pub(crate) fn insert(&mut self, poller: Poller) {
        if self.closed {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        for lane in &poller.lanes {
            self.lanes.entry(lane.clone()).or_default().insert(id);
        }
        if let Some(key) = session_key(&poller) {
            self.sessions.entry(key).or_default().insert(id);
        }
        poller.asker.wait.parked.store(true, Ordering::SeqCst);
        self.all.insert(id, poller);
    }

    /// A poller of the preferred session while it has room, else the poller that has waited longest. `None`: no poller
    /// waits. Removes pollers that have gone.
    pub(crate) fn choose(&mut self, lane: &Lane, preferred: Option<WorkerId>) -> Option<PollerId> {
        let class = if lane.class == WorkClass::LargeWorkflow { WorkClass::Workflow } else { lane.class };
        let of_session = preferred.and_then(|session| self.sessions.get(&(session, class)));
        let sticky = of_session
            .into_iter()
            .flatten()
            .find(|id| self.lanes.get(lane).is_some_and(|ids| ids.contains(id)))
            .copied();
        if let Some(id) = sticky
            && self.is_there(id)
        {
            return Some(id);
        }
        let any = lane.of_any_kind();
        loop {
            let first = |lane| self.lanes.get(lane).and_then(BTreeSet::first).copied();
            let id = first(lane).into_iter().chain(first(&any)).min()?;
            if self.is_there(id) {
                return Some(id);
            }
            self.remove(id);
        }
    }

    /// The poller that has waited longest among those whose build may take held-back work. `None`: there is no such
    /// poller.
    pub(crate) fn choose_build(&self, lane: &Lane, failed: Option<&Text>) -> Option<PollerId> {
        let may_try = |id: &PollerId| may_try(failed, self.all.get(id).and_then(Poller::build));
        let mut ids = self.lanes.get(lane)?.iter().copied();
        ids.find(|id| self.is_there(*id) && may_try(id))
    }

    /// For each build, the poller that has waited longest. Only the rows show which build may take held-back work.
    pub(crate) fn one_of_each_build(&self, lane: &Lane) -> Vec<PollerId> {
        let mut seen: FxHashSet<Option<&Text>> = FxHashSet::default();
        let ids = self.lanes.get(lane).into_iter().flatten().copied();
        ids.filter(|id| self.is_there(*id) && seen.insert(self.all.get(id).and_then(Poller::build))).collect()
    }

    fn is_there(&self, id: PollerId) -> bool {
        self.all.get(&id).is_some_and(|poller| !poller.asker.is_gone())
    }

    pub(crate) fn max_of(&self, id: PollerId) -> usize {
        self.all.get(&id).and_then(|poller| claim_of(&poller.request)).map_or(0, |claim| claim.max)
    }

    /// Removes a poller that is full from the lanes, so that the next item goes to another poller.
    pub(crate) fn hide(&mut self, id: PollerId) {
        let Some(poller) = self.all.get(&id) else { return };
        for lane in &poller.lanes {
            if let Some(ids) = self.lanes.get_mut(lane) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.lanes.remove(lane);
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, id: PollerId) -> Option<Poller> {
        self.hide(id);
        let poller = self.all.remove(&id)?;
        poller.asker.wait.parked.store(false, Ordering::SeqCst);
        if let Some(key) = session_key(&poller)
            && let Some(ids) = self.sessions.get_mut(&key)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.sessions.remove(&key);
            }
        }
        Some(poller)
    }

    /// The lanes of all pollers and onlookers, each once.
    pub(crate) fn all_lanes(&self) -> impl Iterator<Item = &Lane> {
        let looked_at = self.onlookers.lanes().filter(|lane| !self.lanes.contains_key(lane));
        self.lanes.keys().chain(looked_at)
    }

    pub(crate) fn drop_gone(&mut self) {
        let gone: Vec<PollerId> =
            self.all.iter().filter(|(_, poller)| poller.asker.is_gone()).map(|(id, _)| *id).collect();
        for id in gone {
            self.remove(id);
        }
    }
}

fn session_key(poller: &Poller) -> Option<(WorkerId, WorkClass)> {
    let claim = claim_of(&poller.request)?;
    Some((claim.claimer.session?, claim.class))
}

/// The poller's claim, restricted to these items. `None` if the request is not a claim.
pub(crate) fn narrowed(request: &Request, items: &[&Ready]) -> Option<Arc<Request>> {
    let mut claim = claim_of(request)?.clone();
    if claim.is_any() {
        claim = items.iter().fold(claim, |claim, item| claim.with_lane(&item.lane));
    }
    claim.held_back = items.iter().any(|item| item.lane.class == WorkClass::HeldBack);
    claim.max = items.len().min(claim.max);
    claim.only = Some(items.iter().map(|item| item.place()).collect());
    Some(Arc::new(request.with(claim)))
}

/// The same claim, with or without a search for held-back work.
fn with_held_back(request: Arc<Request>, held_back: bool) -> Arc<Request> {
    match claim_of(&request).filter(|claim| claim.held_back != held_back) {
        Some(claim) => Arc::new(request.with(Claim { held_back, ..claim.clone() })),
        None => request,
    }
}

/// Narrows a claim of any kind to the lanes that are known to have work.
fn widened(request: Arc<Request>, lanes: Vec<&Lane>) -> Arc<Request> {
    match claim_of(&request).filter(|claim| claim.is_any()) {
        Some(claim) => {
            let claim = lanes.into_iter().fold(claim.clone(), Claim::with_lane);
            Arc::new(request.with(claim))
        }
        None => request,
    }
}
