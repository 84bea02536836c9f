//! Pollers that wait for work, in memory, by lane. Transport-free: a poller is a claim and a channel.
//!
//! Ready work wakes as many pollers as there is work, never all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::Request;
use flovyn_engine::ids::{TenantId, Text, WorkerId};
use flovyn_engine::request::{Claim, Op};
use flovyn_engine::state::{Lane, Ready, WorkClass};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::job::{Asker, Job, PollAsker, claim_of};
use crate::under_way::{BatchesUnderWay, UnderWay};

/// Lanes that are remembered as empty.
const MAX_EMPTY: usize = 10_000;

/// Numbers pollers in the order they came.
type PollerId = u64;

#[derive(Debug)]
pub(crate) struct Poller {
    pub(crate) request: Arc<Request>,
    pub(crate) asker: PollAsker,
    lanes: Vec<Lane>,
}

impl Poller {
    /// Nothing: it does not ask for work.
    pub(crate) fn new(request: Arc<Request>, asker: PollAsker) -> Option<Self> {
        let lanes = claim_of(&request)?.lanes(request.tenant_id);
        Some(Self { request, asker, lanes })
    }

    pub(crate) fn into_job(self) -> Job {
        Job { request: self.request, asker: Asker::Poll(self.asker), misses: 0 }
    }

    /// A claim of any kind searches these lanes, which are known to have work.
    fn searching(self, lanes: Vec<&Lane>) -> Job {
        Self { request: widened(self.request.clone(), lanes), ..self }.into_job()
    }
}

#[derive(Debug, Default)]
struct Waiting {
    next_id: PollerId,
    pollers: FxHashMap<PollerId, Poller>,
    lanes: FxHashMap<Lane, BTreeSet<PollerId>>,
    sessions: FxHashMap<(WorkerId, WorkClass), BTreeSet<PollerId>>,
    /// Lanes in which a claim has found nothing, and nothing has been left since.
    empty: FxHashSet<Lane>,
    closed: bool,
}

/// All pollers of this process.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    waiting: Arc<Mutex<Waiting>>,
    batches: BatchesUnderWay,
    /// Whether all work is made ready by this process, so that it knows which lanes are empty.
    alone: bool,
}

/// Work for one poller out of what a batch made ready.
#[derive(Debug)]
pub(crate) struct HandOff {
    pub(crate) poller: Poller,
    /// The claim, narrowed to the items that are meant for it.
    pub(crate) request: Arc<Request>,
}

impl Dispatch {
    pub(crate) fn new(alone: bool) -> Self {
        Self { waiting: Arc::default(), batches: BatchesUnderWay::default(), alone }
    }

    /// Held for look-ups only, never across an await; a panic leaves the maps whole.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch begins; it is under way until what this returns is dropped.
    pub(crate) fn batch_begins(&self) -> UnderWay {
        self.batches.begin()
    }

    pub(crate) fn park(&self, request: Arc<Request>, asker: PollAsker) {
        if let Some(poller) = Poller::new(request, asker) {
            self.lock().insert(poller);
        }
    }

    /// Parks a poller that was in a batch and got nothing there. Hands it back if another batch has left something for it
    /// meanwhile: it has to search again.
    pub(crate) fn park_after(&self, batch: &UnderWay, poller: Poller) -> Option<Job> {
        if poller.asker.is_gone() {
            return None;
        }
        // With the lock of those who wait: whoever leaves something from here on sees this one.
        let mut waiting = self.lock();
        let missed = batch.missed(&poller.lanes);
        if !missed.is_empty() {
            return Some(poller.searching(missed.iter().collect()));
        }
        waiting.insert(poller);
        None
    }

    /// Parks a poller that need not search, since nothing would be found. Whatever is being decided at this moment is brought
    /// to it when it is answered. Hands a poller back that has to search.
    pub(crate) fn park_at_once(
        &self,
        request: Arc<Request>,
        asker: PollAsker,
    ) -> Result<(), (Arc<Request>, PollAsker)> {
        let Some(claim) = claim_of(&request).filter(|claim| self.alone && !claim.is_any()) else {
            return Err((request, asker));
        };
        let lanes = claim.lanes(request.tenant_id);
        let mut waiting = self.lock();
        if waiting.closed || !lanes.iter().all(|lane| waiting.empty.contains(lane)) {
            return Err((request, asker));
        }
        waiting.insert(Poller { request, asker, lanes });
        Ok(())
    }

    /// A claim of this batch has searched all its lanes and found nothing. Where another batch has left something since, this says
    /// nothing.
    pub(crate) fn found_nothing(&self, batch: &UnderWay, request: &Request) {
        let Some(claim) = claim_of(request).filter(|claim| claim.only.is_none()) else { return };
        let lanes = claim.lanes(request.tenant_id);
        // With the lock of those who wait: whoever leaves something from here on takes it back.
        let mut waiting = self.lock();
        if self.alone && waiting.empty.len() < MAX_EMPTY && batch.missed(&lanes).is_empty() {
            waiting.empty.extend(lanes);
        }
    }

    /// From here on, whoever asks has to search.
    pub(crate) fn forget_empty(&self) {
        self.lock().empty.clear();
    }

    /// Chooses pollers for ready work and takes them out. `prefers` names the session that ran an item last.
    pub(crate) fn assign(
        &self,
        ready: &[Ready],
        prefers: impl Fn(&Ready) -> Option<WorkerId>,
    ) -> Vec<HandOff> {
        let mut waiting = self.lock();
        if waiting.pollers.is_empty() {
            return Vec::new();
        }
        let mut chosen: Vec<(PollerId, Vec<&Ready>, usize)> = Vec::new();
        for item in ready {
            if let Some(id) = waiting.choose(&item.lane, prefers(item)) {
                let max = waiting.max_of(id);
                match chosen.iter_mut().find(|(other, _, _)| *other == id) {
                    Some((_, items, _)) => items.push(item),
                    None => chosen.push((id, vec![item], max)),
                }
                let full = chosen.iter().any(|(other, items, max)| *other == id && items.len() >= *max);
                if full {
                    waiting.hide(id);
                }
            }
        }
        chosen
            .into_iter()
            .filter_map(|(id, items, _)| {
                let poller = waiting.remove(id)?;
                let request = narrowed(&poller.request, &items)?;
                Some(HandOff { poller, request })
            })
            .collect()
    }

    /// A batch has left ready work in these lanes, and is durable. Takes out pollers that came to wait since it was decided, to
    /// search for it.
    pub(crate) fn left_ready(&self, lanes: &[Lane]) -> Vec<Job> {
        self.batches.leaves(lanes);
        self.take_one_of_each(lanes)
    }

    /// A queue is not paused any more: whoever waits for it searches.
    pub(crate) fn queue_resumed(&self, tenant_id: TenantId, queue: &Text) -> Vec<Job> {
        self.forget_empty();
        self.batches.resumes(tenant_id, queue);
        self.take_one_of_each(&self.lanes_of_queue(tenant_id, queue))
    }

    /// Takes out one poller of each lane, to search for work that came from elsewhere.
    pub(crate) fn take_one_of_each(&self, lanes: &[Lane]) -> Vec<Job> {
        let mut waiting = self.lock();
        let mut found: BTreeMap<PollerId, Vec<&Lane>> = BTreeMap::new();
        for lane in lanes {
            waiting.empty.remove(lane);
            if let Some(id) = waiting.choose(lane, None) {
                found.entry(id).or_default().push(lane);
            }
        }
        found
            .into_iter()
            .filter_map(|(id, lanes)| waiting.remove(id).map(|poller| (poller, lanes)))
            .map(|(poller, lanes)| poller.searching(lanes))
            .collect()
    }

    /// Lanes that somebody waits for.
    pub(crate) fn lanes(&self) -> Vec<Lane> {
        let mut waiting = self.lock();
        waiting.drop_gone();
        waiting.lanes.keys().cloned().collect()
    }

    /// Lanes of one queue that somebody waits for.
    pub(crate) fn lanes_of_queue(&self, tenant_id: TenantId, queue: &str) -> Vec<Lane> {
        let own = |lane: &&Lane| lane.tenant_id == tenant_id && &*lane.queue == queue;
        self.lock().lanes.keys().filter(own).cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().pollers.len()
    }

    /// Answers every poller: the server stops.
    pub(crate) fn drain(&self) -> Vec<Poller> {
        let mut waiting = self.lock();
        let all = std::mem::take(&mut *waiting);
        waiting.next_id = all.next_id;
        waiting.closed = true;
        all.pollers.into_values().collect()
    }
}

impl Waiting {
    /// After the end nobody is woken any more: the poller is dropped, and hears of it.
    fn insert(&mut self, poller: Poller) {
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
        poller.asker.parked.store(true, Ordering::SeqCst);
        self.pollers.insert(id, poller);
    }

    /// The session that ran it last while it has room, else whoever has waited longest. Removes pollers that have
    /// gone on the way.
    fn choose(&mut self, lane: &Lane, preferred: Option<WorkerId>) -> Option<PollerId> {
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

    fn is_there(&self, id: PollerId) -> bool {
        self.pollers.get(&id).is_some_and(|poller| !poller.asker.is_gone())
    }

    fn max_of(&self, id: PollerId) -> usize {
        self.pollers.get(&id).and_then(|poller| claim_of(&poller.request)).map_or(0, |claim| claim.max)
    }

    /// Takes a poller that is full out of the lanes, so that the next item goes to another one.
    fn hide(&mut self, id: PollerId) {
        let Some(poller) = self.pollers.get(&id) else { return };
        for lane in &poller.lanes {
            if let Some(ids) = self.lanes.get_mut(lane) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.lanes.remove(lane);
                }
            }
        }
    }

    fn remove(&mut self, id: PollerId) -> Option<Poller> {
        self.hide(id);
        let poller = self.pollers.remove(&id)?;
        poller.asker.parked.store(false, Ordering::SeqCst);
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

    fn drop_gone(&mut self) {
        let gone: Vec<PollerId> =
            self.pollers.iter().filter(|(_, poller)| poller.asker.is_gone()).map(|(id, _)| *id).collect();
        for id in gone {
            self.remove(id);
        }
    }
}

fn session_key(poller: &Poller) -> Option<(WorkerId, WorkClass)> {
    let claim = claim_of(&poller.request)?;
    Some((claim.claimer.session?, claim.class))
}

/// The poller's claim, for these items only.
fn narrowed(request: &Request, items: &[&Ready]) -> Option<Arc<Request>> {
    let mut claim = claim_of(request)?.clone();
    if claim.is_any() {
        claim = items.iter().fold(claim, |claim, item| claim.with_lane(&item.lane));
    }
    claim.max = items.len().min(claim.max);
    claim.only = Some(items.iter().map(|item| item.place()).collect());
    Some(Arc::new(Request::new(request.tenant_id, request.seed, Op::Claim(claim))))
}

/// A claim of any kind searches the lanes that are known to have work.
fn widened(request: Arc<Request>, lanes: Vec<&Lane>) -> Arc<Request> {
    match claim_of(&request).filter(|claim| claim.is_any()) {
        Some(claim) => {
            let claim = lanes.into_iter().fold(claim.clone(), Claim::with_lane);
            Arc::new(Request::new(request.tenant_id, request.seed, Op::Claim(claim)))
        }
        None => request,
    }
}
