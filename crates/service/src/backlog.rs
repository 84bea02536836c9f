//! Requests that wait for a batch. Tenants take turns, so that nobody waits behind another tenant's thousands; each tenant's
//! own requests keep their order.

use std::collections::VecDeque;

use flovyn_engine::ids::TenantId;
use rustc_hash::FxHashMap;

use crate::job::{Job, claim_of};

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// What each tenant waits for. A tenant without requests is not in here.
    lines: FxHashMap<TenantId, VecDeque<Job>>,
    /// Those tenants, by whose turn it is.
    turns: VecDeque<TenantId>,
    /// The room of a line that has ended, for the next one: mostly there is one tenant, who comes and goes.
    spare: VecDeque<Job>,
    waiting: Waiting,
}

/// How much waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) requests: usize,
    /// About as many as they change, but for claims.
    pub(crate) rows: usize,
    /// About as many as claims change if they find all they ask for.
    pub(crate) claimed_rows: usize,
}

impl Waiting {
    pub(crate) fn of<'a>(jobs: impl Iterator<Item = &'a Job>) -> Self {
        let mut sum = Self::default();
        jobs.for_each(|job| sum.add(job));
        sum
    }

    fn add(&mut self, job: &Job) {
        self.requests += 1;
        *self.rows_of(job) += job.request.rows();
    }

    fn remove(&mut self, job: &Job) {
        self.requests -= 1;
        *self.rows_of(job) -= job.request.rows();
    }

    fn rows_of(&mut self, job: &Job) -> &mut usize {
        match claim_of(&job.request) {
            Some(_) => &mut self.claimed_rows,
            None => &mut self.rows,
        }
    }
}

impl Backlog {
    pub(crate) fn len(&self) -> usize {
        self.waiting.requests
    }

    pub(crate) fn waiting(&self) -> Waiting {
        self.waiting
    }

    /// How many tenants wait.
    pub(crate) fn tenants(&self) -> usize {
        self.turns.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn push_back(&mut self, job: Job) {
        let tenant_id = job.request.tenant_id;
        let (line, is_new) = self.line(&job);
        line.push_back(job);
        if is_new {
            self.turns.push_back(tenant_id);
        }
    }

    /// Puts a request before all others of its tenant. A tenant that had none is the next.
    pub(crate) fn push_front(&mut self, job: Job) {
        let tenant_id = job.request.tenant_id;
        let (line, is_new) = self.line(&job);
        line.push_front(job);
        if is_new {
            self.turns.push_front(tenant_id);
        }
    }

    /// The line of a tenant who is about to get one more request, and whether he had none.
    fn line(&mut self, job: &Job) -> (&mut VecDeque<Job>, bool) {
        self.waiting.add(job);
        let spare = &mut self.spare;
        let line = self.lines.entry(job.request.tenant_id).or_insert_with(|| std::mem::take(spare));
        let is_new = line.is_empty();
        (line, is_new)
    }

    /// The request whose turn it is.
    pub(crate) fn front(&self) -> Option<&Job> {
        self.lines.get(self.turns.front()?)?.front()
    }

    /// Takes that request; then it is the next tenant's turn.
    pub(crate) fn pop_front(&mut self) -> Option<Job> {
        let tenant_id = self.turns.pop_front()?;
        let line = self.lines.get_mut(&tenant_id)?;
        let job = line.pop_front()?;
        self.waiting.remove(&job);
        match line.is_empty() {
            true => self.spare = self.lines.remove(&tenant_id).unwrap_or_default(),
            false => self.turns.push_back(tenant_id),
        }
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use flovyn_engine::Request;
    use flovyn_engine::request::PauseQueue;
    use uuid::Uuid;

    use super::*;
    use crate::job::Asker;

    /// A request that is known by its seed.
    fn job(tenant: u128, seed: u64) -> Job {
        let op = PauseQueue { queue: "main".into() };
        Job::new(Request::new(Uuid::from_u128(tenant), seed, op), Asker::None)
    }

    fn order(mut backlog: Backlog) -> Vec<(u128, u64)> {
        let front = |backlog: &Backlog| backlog.front().map(|job| job.request.seed);
        let mut order = Vec::new();
        while let Some(next) = front(&backlog) {
            let job = backlog.pop_front().unwrap();
            assert_eq!(job.request.seed, next, "what was seen is what is taken");
            order.push((job.request.tenant_id.as_u128(), job.request.seed));
        }
        assert_eq!(
            (backlog.waiting(), backlog.turns.len(), backlog.lines.len()),
            (Waiting::default(), 0, 0),
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
        assert_eq!(backlog.len(), 6);
        assert_eq!(order(backlog), [(1, 1), (2, 4), (3, 5), (1, 2), (2, 6), (1, 3)]);
    }

    #[test]
    fn turns_go_on_where_the_last_batch_ended() {
        let mut backlog = Backlog::default();
        for seed in 1..=4 {
            backlog.push_back(job(1, seed));
        }
        assert_eq!(backlog.pop_front().unwrap().request.seed, 1);
        backlog.push_back(job(2, 5));
        assert_eq!(backlog.pop_front().unwrap().request.seed, 2);
        assert_eq!(backlog.pop_front().unwrap().request.seed, 5);
        assert_eq!(order(backlog), [(1, 3), (1, 4)]);
    }

    #[test]
    fn what_was_put_off_comes_before_its_tenants_other_requests() {
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
