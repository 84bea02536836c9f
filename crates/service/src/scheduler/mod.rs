//! Decides when a batch begins, what goes into it, where it runs, and in which order batches are answered.
//!
//! The scheduler is pure: it has no runtime, no store, no lock, and no clock except the `now` of each event. The
//! executor in `batcher.rs` reports [`Event`]s and carries out the [`Action`]s that [`Event::Turn`] returns.
//! [`Policy`] has the differences between databases, and [`Queued`] the facts about requests. docs/batching.md
//! explains the whole.

mod backlog;
mod claim_turns;
mod events;
mod first_steps;
mod overlap;
mod pace;
mod pick;
mod policy;
#[cfg(test)]
mod tests;
mod tricks;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use backlog::{Backlog, Load};
pub(crate) use events::{
    Action, BatchId, Begin, ClaimFacts, Ended, Event, FirstStep, Kind, Order, Queued, Runs,
};
use first_steps::FirstSteps;
use overlap::Overlap;
use pace::Pace;
pub use policy::SideBySideFrom;
pub(crate) use policy::{Elsewhere, InProcess, MAX_IN_FLIGHT, Policy};
pub use tricks::Tricks;

/// After a batch of at least this many requests, the scheduler gathers the next requests of the same callers before
/// the next batch.
pub(crate) const MANY: usize = 8;
/// The most turns for which requests are gathered.
const MAX_GATHERING_TURNS: usize = 8;
/// If at least this many requests wait, gathering more saves nothing. The next batch begins, and the last batch is
/// answered while the next one is being committed.
const ENOUGH: usize = 64;
/// The most requests in the backlog; further requests stay in the channel.
pub(crate) const QUEUE: usize = 16_384;
/// How long the release of a claim waits after it has failed.
pub(crate) const RELEASE_AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Scheduler<J> {
    policy: Box<dyn Policy>,
    /// The waiting requests. Those that the last batch deferred come first, then those that did not fit into it.
    backlog: Backlog<J>,
    pace: Pace,
    overlap: Overlap,
    first_steps: FirstSteps<J>,
    /// Releases that will be tried again, and when.
    later: VecDeque<(Instant, J)>,
    /// The batches beside the loop, in the order in which they began. `true`: another batch was in flight at that
    /// time.
    beside: Vec<(BatchId, bool)>,
    /// The batch in the loop.
    here: Option<BatchId>,
    /// The number of batches that wait for locked rows.
    alone: usize,
    last_id: BatchId,
    /// Whether the last batch in the loop waits for [`Action::Answer`].
    unanswered: bool,
    /// The number of requests in the last batch.
    last_batch: usize,
    /// The turns that are left for gathering requests, and the number of waiting requests at the last of these turns.
    gathering: (usize, usize),
    /// The number of turns for which the loop still stays awake for a first step.
    awake: usize,
    stopping: bool,
    drained: bool,
}

impl<J: Queued> Scheduler<J> {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Self {
        Self {
            backlog: Backlog::default(),
            pace: Pace::new(policy.adapts_pace()),
            overlap: Overlap::default(),
            first_steps: FirstSteps::new(policy.first_step_within()),
            later: VecDeque::new(),
            beside: Vec::new(),
            here: None,
            alone: 0,
            last_id: 0,
            unanswered: false,
            last_batch: 0,
            gathering: (MAX_GATHERING_TURNS, 0),
            awake: 0,
            stopping: false,
            drained: false,
            policy,
        }
    }

    /// Records an event. For [`Event::Turn`], returns the next actions.
    pub(crate) fn on(&mut self, event: Event<J>, now: Instant) -> Vec<Action<J>> {
        match event {
            Event::Arrived(job) => self.backlog.push_back(job),
            Event::Requeued(jobs) => self.requeue(jobs),
            Event::Written { requests, took } => {
                (self.here, self.unanswered) = (None, true);
                if let Some(took) = took {
                    self.pace.took(requests, took, now);
                }
            }
            Event::Notified(starts) => {
                self.here = None;
                self.awake = self.policy.stays_awake_for();
                self.first_steps.hold(starts, now);
            }
            Event::Ended(batch, ended) => self.ended(batch, ended, now),
            Event::Stopping => self.stopping = true,
            Event::Drained => self.drained = true,
            Event::Turn => return self.turn(now),
        }
        Vec::new()
    }

    /// Whether the backlog accepts more requests.
    pub(crate) fn has_room(&self) -> bool {
        self.backlog.load().requests < QUEUE
    }

    fn turn(&mut self, now: Instant) -> Vec<Action<J>> {
        self.requeue_due(now);
        let waiting = self.backlog.load().requests;
        if self.unanswered && (waiting < ENOUGH || !self.beside.is_empty()) {
            self.unanswered = false;
            return vec![Action::Answer];
        }
        if self.awake > 0 && waiting == 0 && self.first_steps.may_still_come(now) {
            // A first step is expected soon. Waking a sleeping thread for it would take longer than the step.
            self.awake -= 1;
            return vec![Action::Yield];
        }
        if self.may_begin(now) {
            return if self.gathers() { vec![Action::Yield] } else { self.begin(now) };
        }
        let nothing_in_flight = self.beside.is_empty() && self.alone == 0;
        if self.drained && waiting == 0 && nothing_in_flight && self.later.is_empty() {
            return vec![Action::Finish];
        }
        let later = self.later.front().map(|(at, _)| *at);
        vec![Action::Wait { until: self.first_steps.until().into_iter().chain(later).min() }]
    }

    fn may_begin(&self, now: Instant) -> bool {
        let (in_flight, load) = (self.beside.len(), self.backlog.load());
        if in_flight == 0 {
            let held_is_due = self.first_steps.is_due(now) || (self.drained && self.first_steps.is_waiting());
            return load.requests > 0 || held_is_due;
        }
        self.may_overlap(now) && self.overlap.may_begin(in_flight, self.policy.is_much(load), now)
    }

    fn may_overlap(&self, now: Instant) -> bool {
        self.policy.overlaps(self.pace.is_shared(now))
    }

    /// Whether to let more requests arrive first. After a large batch, the answered callers are about to send their
    /// next requests. They get turns as long as more requests keep arriving. There is no timer, so no request waits
    /// for others that may never come.
    fn gathers(&mut self) -> bool {
        let (turns, before) = self.gathering;
        let waiting = self.backlog.load().requests;
        // If another batch is in flight, the answered callers have already had their time.
        let may_come = self.last_batch >= MANY && self.beside.is_empty() && waiting < ENOUGH;
        let came = turns == MAX_GATHERING_TURNS || waiting > before;
        let gathers = may_come && turns > 0 && came;
        self.gathering = if gathers { (turns - 1, waiting) } else { (MAX_GATHERING_TURNS, 0) };
        gathers
    }

    fn begin(&mut self, now: Instant) -> Vec<Action<J>> {
        let picked = self.pick(now);
        let (mut jobs, mut alone) = (picked.jobs, picked.alone);
        let mut actions: Vec<_> = picked.abandoned.into_iter().map(Action::PassOn).collect();
        let held = self.first_steps.is_waiting();
        if alone && held {
            // No later request may overtake a provisional start.
            self.requeue(std::mem::take(&mut jobs));
            alone = false;
        }
        if jobs.is_empty() && !held {
            return actions;
        }
        let notify = self.backlog.load().requests == 0 && self.first_steps.may_notify(&jobs, now);
        let beside = !alone && !held && self.runs_beside(&jobs, now);
        self.first_steps.join(&mut jobs, now);
        self.overlap.begins(self.beside.len());
        self.last_batch = jobs.len();
        self.last_id += 1;
        let batch = self.last_id;
        let runs = if alone {
            self.alone += 1;
            Runs::Alone
        } else if beside {
            let before = self.beside.last().map(|(batch, _)| *batch);
            self.beside.push((batch, before.is_some()));
            let order = if self.policy.in_order() { Order::After(before) } else { Order::Any };
            if self.unanswered && self.policy.in_order() {
                // The store may finish this batch immediately, but it must not be answered before the last batch.
                actions.push(Action::Answer);
            }
            Runs::Beside { order, second: before.is_some() }
        } else {
            self.here = Some(batch);
            Runs::Here { notify }
        };
        self.unanswered = false;
        actions.push(Action::Begin(Begin { batch, jobs, runs }));
        actions
    }

    fn runs_beside(&self, jobs: &[J], now: Instant) -> bool {
        let in_flight = self.beside.len();
        let overlaps = self.may_overlap(now) || (in_flight > 0 && self.policy.in_order());
        overlaps && self.policy.runs_beside(Load::of(jobs.iter()), in_flight, self.backlog.load())
    }

    fn ended(&mut self, batch: BatchId, ended: Ended<J>, now: Instant) {
        let Ended { requeued, later, requests, in_vain, took } = ended;
        if self.here == Some(batch) {
            self.here = None;
        } else if let Some(place) = self.beside.iter().position(|(other, _)| *other == batch) {
            let (_, second) = self.beside.remove(place);
            if second && requests > 0 {
                self.overlap.second_ended(requests, in_vain, now);
            } else if let Some(took) = took {
                // A batch that shared the database with an earlier batch is not a valid measurement.
                self.pace.took(requests, took, now);
            }
        } else {
            self.alone -= 1;
        }
        self.requeue(requeued);
        self.later.extend(later.into_iter().map(|job| (now + RELEASE_AGAIN, job)));
    }

    /// Puts requests before all others of their tenants, in this order.
    fn requeue(&mut self, jobs: Vec<J>) {
        for job in jobs.into_iter().rev() {
            // A stopping server does not wait for its database to release claims: workers that reconnect to another
            // server report which claims they hold.
            if !(self.stopping && job.is_release() && job.misses() > 0) {
                self.backlog.push_front(job);
            }
        }
    }

    fn requeue_due(&mut self, now: Instant) {
        while let Some((_, job)) = self.later.pop_front_if(|(at, _)| *at <= now || self.stopping) {
            self.requeue(vec![job]);
        }
    }
}
