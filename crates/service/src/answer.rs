//! Who is told what of a batch, and in which order: those who can go on with it first.

use flovyn_engine::request::Op;
use flovyn_engine::{Code, Decided, Reply, Request};

use crate::batcher::MANY;
use crate::dispatch::Poller;
use crate::driver::Summary;
use crate::follow::Outcome;
use crate::job::{self, Asker, Job};
use crate::provisional::{self, Takers};
use crate::service::Shared;
use crate::stats::Stats;
use crate::under_way::UnderWay;
use crate::watch::Subject;

/// What a batch came to.
pub(crate) struct Committed {
    pub(crate) decided: Vec<Decided>,
    pub(crate) handed: Vec<Poller>,
    pub(crate) summary: Summary,
    /// Not written yet: what was started is handed over first.
    pub(crate) takers: Option<Takers>,
    pub(crate) under_way: UnderWay,
}

impl Shared {
    pub(crate) fn answer_all(&self, mut jobs: Vec<Job>, mut committed: Committed) -> Vec<Job> {
        let mut put_off = self.hand_over(&mut jobs, &mut committed);
        put_off.extend(self.answer(jobs, committed));
        put_off
    }

    /// What others wait for to go on: work for pollers, and how executions ended.
    pub(crate) fn hand_over(&self, jobs: &mut [Job], committed: &mut Committed) -> Vec<Job> {
        let Committed { decided, handed, summary, under_way, .. } = committed;
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
        // Whoever came to wait since this batch was decided was not seen by it, and whoever is searching in another batch may not
        // have seen it. Before anybody is answered: they may ask for what they have just been told of.
        let mut put_off = self.dispatch.left_ready(&summary.left_ready);
        self.follow(jobs, decided);
        self.push(handed.drain(..), for_pollers, under_way, &mut put_off);
        let ended = std::mem::take(&mut summary.ended);
        if jobs.len() < MANY && !ended.is_empty() {
            tell_started(jobs, decided, &ended);
        }
        self.followers.tell(ended);
        put_off
    }

    /// The same for what is started and not written yet. Nobody else is told anything.
    pub(crate) fn hand_over_first(
        &self,
        starts: usize,
        mut decided: Vec<Decided>,
        handed: Vec<Poller>,
        under_way: &UnderWay,
    ) -> Vec<Job> {
        for decided in &mut decided {
            if let Decided::Reply(Reply::Claimed(claimed)) = decided {
                claimed.workflows.iter_mut().for_each(|activation| activation.provisional = true);
            }
        }
        let (for_pollers, mut put_off) = (decided.split_off(starts), Vec::new());
        self.push(handed, for_pollers, under_way, &mut put_off);
        put_off
    }

    /// Before anybody can have been handed what is started: no end is missed.
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
        under_way: &UnderWay,
        put_off: &mut Vec<Job>,
    ) {
        for (poller, decided) in handed.into_iter().zip(decided) {
            self.answer_job(poller.into_job(), decided, under_way, put_off);
        }
    }

    /// Everybody else, after [`Self::hand_over`].
    pub(crate) fn answer(&self, jobs: Vec<Job>, committed: Committed) -> Vec<Job> {
        let Committed { decided, summary, under_way, .. } = committed;
        let mut put_off = Vec::new();
        for (job, decided) in jobs.into_iter().zip(decided) {
            if let Decided::Reply(Reply::Claimed(claimed)) = &decided {
                if claimed.is_empty() && !claimed.cleared {
                    self.dispatch.found_nothing(&under_way, &job.request);
                }
                put_off.extend(self.wake_next(&job.request, claimed.len()));
            }
            self.answer_job(job, decided, &under_way, &mut put_off);
        }
        self.after_commit(summary);
        put_off
    }

    fn answer_job(&self, mut job: Job, decided: Decided, under_way: &UnderWay, put_off: &mut Vec<Job>) {
        let result = match decided {
            Decided::Deferred => {
                Stats::add(&self.stats.deferred, 1);
                job.misses += 1;
                if job.request.provisional.is_some() {
                    // What follows it may be decided before it: then that was about nothing.
                    job.request = provisional::anew(&job.request, self.seed());
                }
                put_off.push(job);
                return;
            }
            Decided::Reply(reply) => {
                self.note_repeated(&job.request, &reply);
                Ok(reply)
            }
            Decided::Refused(refusal) => {
                match refusal.code {
                    Code::Internal => tracing::error!(%refusal, "a rule failed"),
                    Code::StaleClaim => {
                        Stats::add(&self.stats.stale_claims, 1);
                        tracing::info!(%refusal, "refused: its claim has ended");
                    }
                    _ => {}
                }
                Err(refusal)
            }
        };
        match job.asker {
            Asker::Call(sender) | Asker::Start(sender, _) => {
                if let (Op::ResumeQueue(op), Ok(_)) = (&job.request.op, &result) {
                    put_off.extend(self.dispatch.queue_resumed(job.request.tenant_id, &op.queue));
                }
                drop(sender.send(result));
            }
            Asker::Poll(poll) => match result {
                Ok(Reply::Claimed(claimed)) if claimed.is_empty() && poll.may_wait() => {
                    // Nothing there: every batch that is decided from now on and makes such work ready sees this poller, and one
                    // that was decided meanwhile brings it when it is answered, or has done so: then it searches again.
                    let Some(poller) = Poller::new(job.request, poll) else { return };
                    // What another batch of ours had its hands on may be left when that is over, and what it took out of the
                    // line has gone with this one.
                    let again = claimed.cleared || (claimed.passed_over && under_way.had_company());
                    put_off.extend(match again {
                        true => Some(poller.into_job()),
                        false => self.dispatch.park_after(under_way, poller),
                    });
                }
                Ok(Reply::Claimed(claimed)) => {
                    if let Err(Ok(claimed)) = poll.sender.send(Ok(claimed)) {
                        Stats::add(&self.stats.given_back, claimed.len());
                        put_off.extend(job::give_back(job.request.tenant_id, &claimed));
                    }
                }
                Ok(_) => {}
                Err(refusal) => drop(poll.sender.send(Err(refusal))),
            },
            Asker::None => {}
        }
    }

    /// A report that came twice is acknowledged twice and counts once.
    fn note_repeated(&self, request: &Request, reply: &Reply) {
        if let Reply::Submitted { repeated: true, .. } | Reply::TaskReported { repeated: true, .. } = reply {
            Stats::add(&self.stats.repeated_reports, 1);
            tracing::info!(tenant = %request.tenant_id, what = request.op.name(), "accepted before: acknowledged, without effect");
        }
    }

    /// Whoever found as much as it could take has probably not found all: the next poller searches too.
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
            // Whoever began to watch while this batch was being committed may have read what was there before it.
            false => self.watchers.tell_all(),
        }
        for cancel in &summary.cancelled {
            // Without any session here there is nobody to tell.
            let _ = self.cancels.send(*cancel);
        }
        self.soon.committed(std::mem::take(&mut summary.due));
        if self.hints && !summary.left_ready.is_empty() {
            self.store.hint_ready(&summary.left_ready);
        }
    }
}

/// Whoever hears of an end has to know what has ended.
fn tell_started(jobs: &mut [Job], decided: &[Decided], ended: &[(Subject, Outcome)]) {
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
