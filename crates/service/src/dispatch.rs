//! Dispatch of ready work to waiting pollers. A poller is a claim and a channel; this module knows no transport.
//!
//! Ready work wakes only as many pollers as there is work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::Request;
use flovyn_engine::ids::{TenantId, Text, WorkerId};
use flovyn_engine::state::{Lane, Ready, WorkClass};

use crate::in_flight::{BatchesInFlight, InFlight};
use crate::job::{Job, PollAsker, claim_of};
use crate::onlookers::{Onlooker, Onlookers};
use crate::pollers::{Poller, PollerId, Pollers, narrowed};

/// The most lanes that are remembered as empty.
const MAX_EMPTY: usize = 10_000;

/// All pollers of this process.
#[derive(Debug, Clone)]
pub(crate) struct Dispatch {
    pollers: Arc<Mutex<Pollers>>,
    batches: BatchesInFlight,
    /// Whether lanes are remembered as empty. True only if this process makes all work ready.
    knows_empty: bool,
}

/// Work for one poller, from the work that a batch made ready.
#[derive(Debug)]
pub(crate) struct HandOff {
    pub(crate) poller: Poller,
    /// The claim, narrowed to the items for this poller.
    pub(crate) request: Arc<Request>,
}

impl Dispatch {
    pub(crate) fn new(knows_empty: bool) -> Self {
        Self { pollers: Arc::default(), batches: BatchesInFlight::default(), knows_empty }
    }

    /// The lock is held for look-ups only, never across an await. A panic leaves the maps consistent.
    fn lock(&self) -> MutexGuard<'_, Pollers> {
        self.pollers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a batch. It is in flight until the returned guard is dropped.
    pub(crate) fn batch_begins(&self) -> InFlight {
        self.batches.begin()
    }

    pub(crate) fn park(&self, request: Arc<Request>, asker: PollAsker) {
        if let Some(poller) = Poller::new(request, asker) {
            self.lock().insert(poller);
        }
    }

    /// Parks a poller whose claim was in a batch and found nothing. Returns it as a job if another batch has left work
    /// for it meanwhile: the poller must search again.
    pub(crate) fn park_after(&self, batch: &InFlight, poller: Poller) -> Option<Job> {
        if poller.asker.is_gone() {
            return None;
        }
        // This runs under the lock of the pollers, so that a batch that leaves work later sees this poller.
        let mut pollers = self.lock();
        let missed = batch.missed(&poller.lanes);
        if !missed.is_empty() {
            return Some(poller.searching(missed.iter().collect()));
        }
        pollers.insert(poller);
        None
    }

    /// Parks a poller without a search, because its lanes are known to be empty. A batch that is being decided now
    /// wakes it when the batch is answered. Returns the poller as an error if it has to search.
    pub(crate) fn park_at_once(
        &self,
        request: Arc<Request>,
        asker: PollAsker,
    ) -> Result<(), (Arc<Request>, PollAsker)> {
        let Some(claim) =
            claim_of(&request).filter(|claim| self.knows_empty && !claim.is_any() && !claim.held_back)
        else {
            return Err((request, asker));
        };
        let lanes = claim.lanes(request.tenant_id);
        let mut pollers = self.lock();
        if pollers.closed || !lanes.iter().all(|lane| pollers.empty.contains(lane)) {
            return Err((request, asker));
        }
        let lanes = claim.awaited_lanes(request.tenant_id);
        pollers.insert(Poller { request, asker, lanes });
        Ok(())
    }

    /// A claim of this batch has searched all its lanes and found nothing. The lanes are remembered as empty, unless
    /// another batch has left work there since.
    pub(crate) fn found_nothing(&self, batch: &InFlight, request: &Request) {
        let Some(claim) = claim_of(request).filter(|claim| claim.only.is_none()) else { return };
        let mut lanes = claim.lanes(request.tenant_id);
        // Work that is held back from one build may be open to another build.
        lanes.retain(|lane| lane.class != WorkClass::HeldBack);
        // This runs under the lock of the pollers: a batch that leaves work later removes the mark again.
        let mut pollers = self.lock();
        if self.knows_empty && pollers.empty.len() < MAX_EMPTY && batch.missed(&lanes).is_empty() {
            pollers.empty.extend(lanes);
        }
    }

    /// After this call every poll searches.
    pub(crate) fn forget_empty(&self) {
        self.lock().empty.clear();
    }

    /// Chooses pollers for ready work and takes them out of the index. `prefers` returns the session that ran an item
    /// last, and `failed` the builds that have failed on it.
    pub(crate) fn assign<'a>(
        &self,
        ready: &[Ready],
        prefers: impl Fn(&Ready) -> Option<WorkerId>,
        failed: impl Fn(&Ready) -> Option<&'a Text>,
    ) -> Vec<HandOff> {
        let mut pollers = self.lock();
        if pollers.all.is_empty() {
            return Vec::new();
        }
        let mut chosen: Vec<(PollerId, Vec<&Ready>, usize)> = Vec::new();
        for item in ready {
            let poller = match item.lane.class {
                WorkClass::HeldBack => pollers.choose_build(&item.lane, failed(item)),
                _ => pollers.choose(&item.lane, prefers(item)),
            };
            if let Some(id) = poller {
                let max = pollers.max_of(id);
                match chosen.iter_mut().find(|(other, _, _)| *other == id) {
                    Some((_, items, _)) => items.push(item),
                    None => chosen.push((id, vec![item], max)),
                }
                let full = chosen.iter().any(|(other, items, max)| *other == id && items.len() >= *max);
                if full {
                    pollers.hide(id);
                }
            }
        }
        chosen
            .into_iter()
            .filter_map(|(id, items, _)| {
                let poller = pollers.remove(id)?;
                let request = narrowed(&poller.request, &items)?;
                Some(HandOff { poller, request })
            })
            .collect()
    }

    /// A durable batch has left ready work in these lanes. Takes out pollers that began to wait since the batch was
    /// decided, so that they search for the work.
    pub(crate) fn left_ready(&self, lanes: &[Lane]) -> Vec<Job> {
        self.batches.leaves(lanes);
        self.take_one_of_each(lanes)
    }

    /// A queue was resumed: its pollers search.
    pub(crate) fn queue_resumed(&self, tenant_id: TenantId, queue: &Text) -> Vec<Job> {
        self.forget_empty();
        self.batches.resumes(tenant_id, queue);
        self.take_one_of_each(&self.lanes_of_queue(tenant_id, queue))
    }

    /// Registers an onlooker, which is notified of ready work in these lanes if no poller takes it.
    pub(crate) fn look_on(&self, lanes: Vec<Lane>) -> Onlooker {
        self.lock().onlookers.add(self.clone(), lanes)
    }

    pub(crate) fn with_onlookers(&self, act: impl FnOnce(&mut Onlookers)) {
        act(&mut self.lock().onlookers);
    }

    /// Takes out one poller of each lane, to search for work that another process made ready. If no poller waits, an
    /// onlooker is notified.
    pub(crate) fn take_one_of_each(&self, lanes: &[Lane]) -> Vec<Job> {
        let mut pollers = self.lock();
        let mut found: BTreeMap<PollerId, Vec<&Lane>> = BTreeMap::new();
        for lane in lanes {
            pollers.empty.remove(lane);
            let woken = match lane.class {
                WorkClass::HeldBack => pollers.one_of_each_build(lane),
                _ => pollers.choose(lane, None).into_iter().collect(),
            };
            if woken.is_empty() {
                pollers.onlookers.tell_one(lane);
            }
            for id in woken {
                found.entry(id).or_default().push(lane);
            }
        }
        found
            .into_iter()
            .filter_map(|(id, lanes)| pollers.remove(id).map(|poller| (poller, lanes)))
            .map(|(poller, lanes)| poller.searching(lanes))
            .collect()
    }

    /// The lanes of all pollers and onlookers.
    pub(crate) fn lanes(&self) -> Vec<Lane> {
        let mut pollers = self.lock();
        pollers.drop_gone();
        pollers.all_lanes().cloned().collect()
    }

    /// The lanes of all pollers and onlookers in one queue.
    pub(crate) fn lanes_of_queue(&self, tenant_id: TenantId, queue: &str) -> Vec<Lane> {
        let own = |lane: &&Lane| lane.tenant_id == tenant_id && &*lane.queue == queue;
        self.lock().all_lanes().filter(own).cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().all.len()
    }

    /// Takes out all pollers, to answer them when the server stops.
    pub(crate) fn drain(&self) -> Vec<Poller> {
        let mut pollers = self.lock();
        let all = std::mem::take(&mut *pollers);
        pollers.next_id = all.next_id;
        pollers.closed = true;
        pollers.onlookers = all.onlookers;
        all.all.into_values().collect()
    }
}
