//! Answers the callers of a batch: first those that receive work or outcomes, then all others.

use flovyn_engine::request::Op;
use flovyn_engine::{Code, Decided, Reply, Request};

use crate::driver::Summary;
use crate::follow::Outcome;
use crate::in_flight::InFlight;
use crate::job::{self, Asker, Job};
use crate::pollers::Poller;
use crate::provisional::{self, Takers};
use crate::scheduler::MANY;
use crate::service::Shared;
use crate::stats::Stats;
use crate::watch::Subject;

/// A decided batch. It is durable unless `takers` is set.
pub(crate) struct Committed {
    pub(crate) decided: Vec<Decided>,
    pub(crate) handed: Vec<Poller>,
    pub(crate) summary: Summary,
    /// The workers that receive the started executions before the start is written. `None`: the batch is durable.
    pub(crate) takers: Option<Takers>,
    pub(crate) in_flight: InFlight,
}

impl Shared {
    pub(crate) fn answer_all(&self, mut jobs: Vec<Job>, mut committed: Committed) -> Vec<Job> {
        let mut requeued = self.hand_over(&mut jobs, &mut committed);
        requeued.extend(self.answer(jobs, committed));
        requeued
    }

    /// Sends work to pollers and outcomes to followers: both can continue with them. Returns requests for the next
    /// batch.
    pub(crate) fn hand_over(&self, jobs: &mut [Job], committed: &mut Committed) -> Vec<Job> {
        let Committed { decided, handed, summary, in_flight, .. } = committed;
        self.tails.add(std::mem::take(&mut summary.events));
        for decided in &mut *decided {
            if let Decided::Reply(Reply::Claimed(claimed)) = decided {
                self.tails.complete(&mut claimed.workflows);
            }
        }
        if summary.rows > 0 {
            Stats::add(&self.stats.commits, 1);
            Stats::add(&self.stats.rows, summary.rows);
        }
        Stats::add(&self.stats.requests, decided.len());
        let for_pollers = decided.split_off(jobs.len());
        // The batch did not see a poller that began to wait after it was decided, and a poller that is searching in
        // another batch may have missed its work. This happens before any caller is answered, because callers may ask
        // for work that their answer names.
        let mut requeued = self.dispatch.left_ready(&summary.left_ready);
        self.follow(jobs, decided);
        self.push(handed.drain(..), for_pollers, in_flight, &mut requeued);
        let ended = std::mem::take(&mut summary.ended);
        if jobs.len() < MANY && !ended.is_empty() {
            answer_started(jobs, decided, &ended);
        }
        self.followers.tell(ended);
        requeued
    }

    /// Sends work that is started but not written yet. No other caller is answered.
    pub(crate) fn hand_over_first(
        &self,
        starts: usize,
        mut decided: Vec<Decided>,
        handed: Vec<Poller>,
        in_flight: &InFlight,
    ) -> Vec<Job> {
        for decided in &mut decided {
            if let Decided::Reply(Reply::Claimed(claimed)) = decided {
                claimed.workflows.iter_mut().for_each(|activation| activation.provisional = true);
            }
        }
        let (for_pollers, mut requeued) = (decided.split_off(starts), Vec::new());
        self.push(handed, for_pollers, in_flight, &mut requeued);
        requeued
    }

    /// Follows new executions before a worker can have received them, so that no end is missed.
    fn follow(&self, jobs: &mut [Job], decided: &[Decided]) {
        for (job, decided) in jobs.iter_mut().zip(decided) {
            let Decided::Reply(Reply::Started(started)) = decided else { continue };
            job.asker = match std::mem::replace(&mut job.asker, Asker::None) {
                Asker::Start(sender, follower) => {
                    self.followers.add((job.request.tenant_id, started.execution_id), follower);
                    Asker::Call(sender)
                }
                asker => asker,
            };
        }
    }

    fn push(
        &self,
        handed: impl IntoIterator<Item = Poller>,
        decided: Vec<Decided>,
        in_flight: &InFlight,
        requeued: &mut Vec<Job>,
    ) {
        for (poller, decided) in handed.into_iter().zip(decided) {
            self.answer_job(poller.into_job(), decided, in_flight, requeued);
        }
    }

    /// Answers the other callers, after [`Self::hand_over`]. Returns requests for the next batch.
    pub(crate) fn answer(&self, jobs: Vec<Job>, committed: Committed) -> Vec<Job> {
        let Committed { decided, summary, in_flight, .. } = committed;
        let mut requeued = Vec::new();
        for (job, decided) in jobs.into_iter().zip(decided) {
            if let Decided::Reply(Reply::Claimed(claimed)) = &decided {
                if claimed.is_empty() && !claimed.cleared {
                    self.dispatch.found_nothing(&in_flight, &job.request);
                }
                requeued.extend(self.wake_next(&job.request, claimed.len()));
            }
            self.answer_job(job, decided, &in_flight, &mut requeued);
        }
        self.after_commit(summary);
        requeued
    }

    fn answer_job(&self, mut job: Job, decided: Decided, in_flight: &InFlight, requeued: &mut Vec<Job>) {
        let result = match decided {
            Decided::Deferred => {
                Stats::add(&self.stats.deferred, 1);
                job.misses += 1;
                if job.request.provisional.is_some() {
                    // A later request may be decided before this one. Then the execution that the worker received does
                    // not exist.
                    job.request = provisional::anew(&job.request, self.seed());
                }
                requeued.push(job);
                return;
            }
            Decided::Reply(reply) => {
                self.note_repeated(&job.request, &reply);
                Ok(reply)
            }
            Decided::Refused(refusal) => {
                match refusal.code {
                    Code::Internal => tracing::error!(%refusal, "internal error in a rule: please report it"),
                    Code::StaleClaim => {
                        Stats::add(&self.stats.stale_claims, 1);
                        tracing::info!(%refusal, "refused: the claim has ended");
                    }
                    _ => {}
                }
                Err(refusal)
            }
        };
        match job.asker {
            Asker::Call(sender) | Asker::Start(sender, _) => {
                if let (Op::ResumeQueue(op), Ok(_)) = (&job.request.op, &result) {
                    requeued.extend(self.dispatch.queue_resumed(job.request.tenant_id, &op.queue));
                }
                drop(sender.send(result));
            }
            Asker::Poll(poll) => match result {
                Ok(Reply::Claimed(claimed)) if claimed.is_empty() && poll.may_wait() => {
                    // The claim found nothing. Batches that are decided from now on see this poller if they make work
                    // ready. Batches that were decided meanwhile wake it when they are answered. If they have been
                    // answered already, the poller searches again.
                    let Some(poller) = Poller::new(job.request, poll) else { return };
                    // Another batch of this process may have locked work and not taken it. Or this claim cleared away
                    // ready rows that hid others.
                    let again = claimed.cleared || (claimed.passed_over && in_flight.had_company());
                    requeued.extend(match again {
                        true => Some(poller.into_job()),
                        false => self.dispatch.park_after(in_flight, poller),
                    });
                }
                Ok(Reply::Claimed(claimed)) => {
                    if let Err(Ok(claimed)) = poll.sender.send(Ok(claimed)) {
                        Stats::add(&self.stats.given_back, claimed.len());
                        requeued.extend(job::releases(job.request.tenant_id, &claimed));
                    }
                }
                Ok(_) => {}
                Err(refusal) => drop(poll.sender.send(Err(refusal))),
            },
            Asker::None => {}
        }
    }

    /// A repeated report is acknowledged again but has no effect.
    fn note_repeated(&self, request: &Request, reply: &Reply) {
        if let Reply::Submitted { repeated: true, .. } | Reply::TaskReported { repeated: true, .. } = reply {
            Stats::add(&self.stats.repeated_reports, 1);
            tracing::info!(tenant = %request.tenant_id, what = request.op.name(), "accepted before: acknowledged, without effect");
        }
    }

    /// If a claim found as much as it could take, there is probably more: the next poller searches too.
    fn wake_next(&self, request: &Request, found: usize) -> Vec<Job> {
        match job::claim_of(request) {
            Some(claim) if claim.only.is_none() && found >= claim.max => {
                self.dispatch.left_ready(&claim.lanes(request.tenant_id))
            }
            _ => Vec::new(),
        }
    }

    fn after_commit(&self, mut summary: Summary) {
        match summary.watched {
            true => self.watchers.tell(&summary.changed),
            // A watcher that began while this batch was committed may have read the state before it.
            false => self.watchers.tell_all(),
        }
        for cancel in &summary.cancelled {
            // If this process has no session, there is no receiver.
            let _ = self.cancels.send(*cancel);
        }
        self.soon.committed(std::mem::take(&mut summary.due));
        if self.hints && !summary.left_ready.is_empty() {
            self.store.hint_ready(&summary.left_ready);
        }
    }
}

/// Answers the starts whose executions have already ended: the caller must receive the start before the end.
fn answer_started(jobs: &mut [Job], decided: &[Decided], ended: &[(Subject, Outcome)]) {
    for (job, decided) in jobs.iter_mut().zip(decided) {
        let Decided::Reply(reply @ Reply::Started(started)) = decided else { continue };
        let subject = (job.request.tenant_id, started.execution_id);
        if !ended.iter().any(|(other, _)| *other == subject) {
            continue;
        }
        match std::mem::replace(&mut job.asker, Asker::None) {
            Asker::Call(sender) => drop(sender.send(Ok(reply.clone()))),
            asker => job.asker = asker,
        }
    }
}
