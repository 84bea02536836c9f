//! Requests that wait for a batch. Tenants take turns, so that no tenant waits behind thousands of another tenant's
//! requests. Each tenant's own requests keep their order.

use std::collections::VecDeque;

use flovyn_engine::ids::TenantId;
use rustc_hash::FxHashMap;

use super::Queued;

#[derive(Debug)]
pub(super) struct Backlog<J> {
    /// The requests of each tenant. A tenant without requests has no entry.
    queues: FxHashMap<TenantId, VecDeque<J>>,
    /// The tenants that have requests; the first tenant is the next in turn.
    turns: VecDeque<TenantId>,
    /// The memory of a queue that has become empty, for the next queue: usually there is one tenant, whose queue often
    /// becomes empty.
    spare: VecDeque<J>,
    load: Load,
}

/// The size of the backlog or of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) requests: usize,
    /// Estimated rows that they change, claims excluded.
    pub(crate) rows: usize,
    /// Estimated rows that the claims change if they find as much work as they ask for.
    pub(crate) claimed_rows: usize,
}

impl Load {
    pub(super) fn of<'a, J: Queued + 'a>(jobs: impl Iterator<Item = &'a J>) -> Self {
        let mut load = Self::default();
        jobs.for_each(|job| load.add(job));
        load
    }

    fn add(&mut self, job: &impl Queued) {
        self.requests += 1;
        *self.rows_of(job) += job.rows();
    }

    fn remove(&mut self, job: &impl Queued) {
        self.requests -= 1;
        *self.rows_of(job) -= job.rows();
    }

    fn rows_of(&mut self, job: &impl Queued) -> &mut usize {
        match job.claim() {
            Some(_) => &mut self.claimed_rows,
            None => &mut self.rows,
        }
    }
}

impl<J> Default for Backlog<J> {
    fn default() -> Self {
        let (turns, spare, load) = (VecDeque::new(), VecDeque::new(), Load::default());
        Self { queues: FxHashMap::default(), turns, spare, load }
    }
}

impl<J: Queued> Backlog<J> {
    pub(super) fn load(&self) -> Load {
        self.load
    }

    /// The number of tenants with waiting requests.
    pub(super) fn tenants(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn push_back(&mut self, job: J) {
        let tenant_id = job.tenant();
        let (queue, is_new) = self.queue_for(&job);
        queue.push_back(job);
        if is_new {
            self.turns.push_back(tenant_id);
        }
    }

    /// Puts a request before all others of its tenant. A tenant that had no requests is next in turn.
    pub(super) fn push_front(&mut self, job: J) {
        let tenant_id = job.tenant();
        let (queue, is_new) = self.queue_for(&job);
        queue.push_front(job);
        if is_new {
            self.turns.push_front(tenant_id);
        }
    }

    /// The queue for a request that is about to be added, and whether that queue is empty.
    fn queue_for(&mut self, job: &J) -> (&mut VecDeque<J>, bool) {
        self.load.add(job);
        let spare = &mut self.spare;
        let queue = self.queues.entry(job.tenant()).or_insert_with(|| std::mem::take(spare));
        let is_new = queue.is_empty();
        (queue, is_new)
    }

    /// The request whose turn it is.
    pub(super) fn front(&self) -> Option<&J> {
        self.queues.get(self.turns.front()?)?.front()
    }

    /// Takes the request whose turn it is. Then it is the next tenant's turn.
    pub(super) fn pop_front(&mut self) -> Option<J> {
        let tenant_id = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&tenant_id)?;
        let job = queue.pop_front()?;
        self.load.remove(&job);
        match queue.is_empty() {
            true => self.spare = self.queues.remove(&tenant_id).unwrap_or_default(),
            false => self.turns.push_back(tenant_id),
        }
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Fake, fake};
    use super::*;

    fn job(tenant: u128, id: u64) -> Fake {
        Fake { id, ..fake(tenant) }
    }

    fn order(mut backlog: Backlog<Fake>) -> Vec<(u128, u64)> {
        let front = |backlog: &Backlog<Fake>| backlog.front().map(|job| job.id);
        let mut order = Vec::new();
        while let Some(next) = front(&backlog) {
            let job = backlog.pop_front().unwrap();
            assert_eq!(job.id, next, "what was seen is what is taken");
            order.push((job.tenant.as_u128(), job.id));
        }
        assert_eq!(
            (backlog.load(), backlog.turns.len(), backlog.queues.len()),
            (Load::default(), 0, 0),
            "nothing stays behind"
        );
        order
    }

    #[test]
    fn tenants_take_turns_and_each_keeps_its_order() {
        let mut backlog = Backlog::default();
        for (tenant, seed) in [(1, 1), (1, 2), (1, 3), (2, 4), (3, 5), (2, 6)] {
            backlog.push_back(job(tenant, seed));
        }
        assert_eq!(backlog.load().requests, 6);
        assert_eq!(order(backlog), [(1, 1), (2, 4), (3, 5), (1, 2), (2, 6), (1, 3)]);
    }

    #[test]
    fn turns_go_on_where_the_last_batch_ended() {
        let mut backlog = Backlog::default();
        for seed in 1..=4 {
            backlog.push_back(job(1, seed));
        }
        assert_eq!(backlog.pop_front().unwrap().id, 1);
        backlog.push_back(job(2, 5));
        assert_eq!(backlog.pop_front().unwrap().id, 2);
        assert_eq!(backlog.pop_front().unwrap().id, 5);
        assert_eq!(order(backlog), [(1, 3), (1, 4)]);
    }

    #[test]
    fn what_was_deferred_comes_before_its_tenants_other_requests() {
        let mut backlog = Backlog::default();
        for (tenant, seed) in [(1, 3), (1, 4)] {
            backlog.push_back(job(tenant, seed));
        }
        for (tenant, seed) in [(2, 5), (1, 2), (1, 1)] {
            backlog.push_front(job(tenant, seed));
        }
        assert_eq!(order(backlog), [(2, 5), (1, 1), (1, 2), (1, 3), (1, 4)]);
    }
}
