//! A model of the executor: it carries out the scheduler's actions in any order that the rules allow, and panics if
//! the scheduler breaks one of its promises.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// The most batches that may begin without a waiting tenant.
const MAX_PASSED_OVER: usize = 8;

struct Flying {
    batch: BatchId,
    jobs: Vec<Fake>,
    runs: Runs,
}

pub(super) struct Model {
    pub(super) desk: Desk,
    pub(super) dice: Dice,
    in_order: bool,
    /// Requests that wait for a batch, and their number by tenant. Failed releases wait on purpose and are not
    /// counted.
    waiting: BTreeSet<u64>,
    of_tenant: BTreeMap<TenantId, usize>,
    tenants: u128,
    /// How many of ten events are floods of requests, besides the scheduler's own turns.
    floods: usize,
    flying: Vec<Flying>,
    /// The batch in the loop that is done and not answered.
    unanswered: Option<Flying>,
    /// Batches that were answered, except those with [`Runs::Alone`].
    answered: BTreeSet<BatchId>,
    last_answered: BatchId,
    /// The provisional starts.
    held: Vec<u64>,
    executions: u128,
    passed_over: BTreeMap<TenantId, usize>,
    pub(super) second_batches: usize,
    pub(super) notified: usize,
    /// Failed releases: a service that stops may drop them.
    failed_releases: BTreeSet<u64>,
}

impl Model {
    pub(super) fn new(policy: impl Policy + 'static, seed: u64) -> Self {
        Self {
            in_order: policy.in_order(),
            desk: Desk::new(policy),
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            waiting: BTreeSet::new(),
            of_tenant: BTreeMap::new(),
            tenants: if seed.is_multiple_of(2) { 1 } else { 2 + u128::from(seed % 3) },
            floods: usize::from(seed.is_multiple_of(3)),
            flying: Vec::new(),
            unanswered: None,
            answered: BTreeSet::new(),
            last_answered: 0,
            held: Vec::new(),
            executions: 0,
            passed_over: BTreeMap::new(),
            second_batches: 0,
            notified: 0,
            failed_releases: BTreeSet::new(),
        }
    }

    /// An event happens, or it is the scheduler's turn.
    pub(super) fn step(&mut self) {
        match self.dice.below(10) {
            happens if happens < self.floods => self.many_arrive(),
            0..3 => self.one_arrives(),
            3 => self.desk.now += Duration::from_micros(self.dice.below(6_000) as u64),
            4 | 5 => self.a_batch_ends(),
            _ => drop(self.turn()),
        }
    }

    /// The service stops: everything that was accepted must be carried out.
    pub(super) fn stop(mut self) -> Self {
        self.desk.tell(Event::Stopping);
        self.desk.tell(Event::Drained);
        for _ in 0..10_000 {
            if self.turn() {
                self.waiting.retain(|id| !self.failed_releases.contains(id));
                assert!(self.waiting.is_empty(), "forgotten: {:?}", self.waiting);
                assert!(self.flying.is_empty() && self.unanswered.is_none() && self.held.is_empty());
                return self;
            }
            self.a_batch_ends();
            self.desk.now += Duration::from_millis(1);
        }
        panic!("it never finishes");
    }

    fn many_arrive(&mut self) {
        let (count, several) = (self.dice.below(700), self.dice.one_in(3));
        let tenant = self.dice.below(4) as u128 % self.tenants;
        for number in 0..count as u128 {
            self.arrive(fake(1 + if several { number % self.tenants } else { tenant }));
        }
    }

    fn one_arrives(&mut self) {
        let tenant = fake(1 + self.dice.below(4) as u128 % self.tenants);
        let max = 1 + self.dice.below(250);
        let job = match self.dice.below(6) {
            0 => claim(Some(self.dice.below(2) as u128), max),
            1 => Fake { is_abandoned: true, ..claim(None, max) },
            2 | 3 => start(["quick", "slow"][self.dice.below(2)]),
            4 => Fake { is_release: true, ..tenant },
            _ => tenant,
        };
        self.arrive(job);
        let has_step = !self.held.is_empty() && self.dice.one_in(2);
        if has_step {
            let made = if self.dice.one_in(3) { FirstStep::Released } else { FirstStep::Made };
            self.arrive(step(self.executions, made));
        }
    }

    fn arrive(&mut self, job: Fake) {
        if self.desk.scheduler.has_room() {
            let id = self.desk.arrive([job.clone()])[0];
            self.waits(&Fake { id, ..job });
        }
    }

    /// `true`: the scheduler has finished.
    fn turn(&mut self) -> bool {
        for action in self.desk.turn() {
            match action {
                Action::Answer => self.answer_last(),
                Action::Begin(begin) => self.begin(begin),
                Action::PassOn(job) => {
                    assert!(job.is_abandoned && self.waits_no_more(&job));
                }
                Action::Yield => {}
                Action::Wait { until } => {
                    let idle = self.flying.is_empty() && self.held.is_empty() && until.is_none();
                    let mut waiting = self.waiting.iter().filter(|id| !self.failed_releases.contains(id));
                    assert!(!idle || waiting.next().is_none(), "forgotten: {:?}", self.waiting);
                    assert!(self.held.is_empty() || until.is_some());
                }
                Action::Finish => return true,
            }
        }
        false
    }

    fn begin(&mut self, begin: Begin<Fake>) {
        let Begin { batch, jobs, runs } = begin;
        assert!(!jobs.is_empty());
        let beside = self.flying.iter().filter(|other| other.runs != Runs::Alone).count();
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            let head: Vec<u64> = jobs.iter().take(held.len()).map(|job| job.id).collect();
            assert_eq!(head, held, "a batch overtakes a provisional start");
            assert!(
                matches!(runs, Runs::Here { .. }) && beside == 0,
                "a batch begins beside a provisional start"
            );
        }
        for job in &jobs {
            assert!(self.waits_no_more(job) || held.contains(&job.id), "{job:?} is in two batches");
        }
        self.tenants_take_turns(&jobs);
        let flying = Flying { batch, jobs, runs };
        match runs {
            Runs::Here { notify } => {
                assert!(!notify || beside == 0, "a provisional start beside another batch");
                self.answer_last();
                self.here_ends(flying, notify);
            }
            Runs::Beside { second, .. } => {
                assert_eq!(second, beside > 0);
                assert!(beside < MAX_IN_FLIGHT);
                self.second_batches += usize::from(second);
                self.flying.push(flying);
                if self.dice.one_in(2) {
                    // A store may finish the batch immediately.
                    self.a_batch_ends();
                }
                self.answer_last();
            }
            Runs::Alone => {
                assert!(flying.jobs.len() == 1 && flying.jobs[0].misses >= 5);
                self.flying.push(flying);
                self.answer_last();
            }
        }
    }

    fn waits(&mut self, job: &Fake) {
        self.waiting.insert(job.id);
        if !self.failed_releases.contains(&job.id) {
            *self.of_tenant.entry(job.tenant).or_default() += 1;
        }
    }

    /// `false`: the request was not waiting.
    fn waits_no_more(&mut self, job: &Fake) -> bool {
        if !self.failed_releases.contains(&job.id) && self.waiting.contains(&job.id) {
            *self.of_tenant.entry(job.tenant).or_default() -= 1;
        }
        self.waiting.remove(&job.id)
    }

    fn tenants_take_turns(&mut self, jobs: &[Fake]) {
        for (tenant, _) in self.of_tenant.iter().filter(|(_, waiting)| **waiting > 0) {
            let passed_over = self.passed_over.entry(*tenant).or_default();
            *passed_over = if jobs.iter().any(|job| job.tenant == *tenant) { 0 } else { *passed_over + 1 };
            assert!(*passed_over <= MAX_PASSED_OVER, "tenant {tenant} starves");
        }
    }

    /// The loop waits for this batch: nothing else happens before it ends.
    fn here_ends(&mut self, flying: Flying, notify: bool) {
        let requests = flying.jobs.len();
        if notify && !self.dice.one_in(3) {
            self.notified += 1;
            self.executions += 1;
            self.held = flying.jobs.iter().map(|job| job.id).collect();
            let execution = Uuid::from_u128(self.executions);
            let starts = flying.jobs.into_iter().map(|job| (execution, job)).collect();
            self.desk.tell(Event::Notified(starts));
            if self.floods > 0 && self.dice.one_in(2) {
                self.many_arrive();
            }
        } else if self.dice.one_in(20) {
            let ended = self.ended(&flying);
            self.answered(&flying);
            self.desk.ends(flying.batch, ended);
        } else {
            let took = Duration::from_micros(self.dice.below(20_000) as u64);
            let took = (!self.dice.one_in(4)).then_some(took);
            self.desk.tell(Event::Written { requests, took });
            self.unanswered = Some(flying);
        }
    }

    fn answer_last(&mut self) {
        if let Some(flying) = self.unanswered.take() {
            self.answered(&flying);
            let ended = self.ended(&flying);
            self.desk.tell(Event::Requeued(ended.requeued));
        }
    }

    /// Ends one of the batches that the rules allow to end.
    fn a_batch_ends(&mut self) {
        let may_end = |flying: &Flying| match flying.runs {
            Runs::Beside { order: Order::After(Some(before)), .. } => self.answered.contains(&before),
            _ => true,
        };
        let places: Vec<usize> =
            (0..self.flying.len()).filter(|place| may_end(&self.flying[*place])).collect();
        if places.is_empty() {
            return;
        }
        let flying = self.flying.remove(places[self.dice.below(places.len())]);
        if flying.runs != Runs::Alone {
            self.answered(&flying);
        }
        let ended = self.ended(&flying);
        self.desk.ends(flying.batch, ended);
    }

    fn answered(&mut self, flying: &Flying) {
        assert!(
            !self.in_order || flying.batch > self.last_answered,
            "batch {} is answered after {}",
            flying.batch,
            self.last_answered
        );
        self.last_answered = flying.batch.max(self.last_answered);
        self.answered.insert(flying.batch);
    }

    /// Some requests of the batch have to go into another batch.
    fn ended(&mut self, flying: &Flying) -> Ended<Fake> {
        let mut ended = Ended { requests: flying.jobs.len(), ..Ended::default() };
        let rate = [2, 20, 1_000][self.dice.below(3)];
        for job in &flying.jobs {
            // A request that waited for its rows has received them.
            if flying.runs == Runs::Alone || !self.dice.one_in(rate) {
                continue;
            }
            let again = Fake { misses: job.misses + 1, ..job.clone() };
            if job.is_release && self.dice.one_in(2) {
                ended.later.push(again.clone());
            } else {
                ended.requeued.push(again.clone());
            }
            if job.is_release {
                self.failed_releases.insert(job.id);
            }
            self.waits(job);
        }
        ended.in_vain = ended.requeued.len();
        ended.took = self.dice.one_in(2).then(|| Duration::from_micros(self.dice.below(20_000) as u64));
        ended
    }
}
