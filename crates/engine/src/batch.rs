//! A batch: requests decided in order on one working set, so that later ones see the effect of earlier ones.
//!
//! A batch does no I/O: it names the rows to load, receives them, and ends with row changes and one answer per
//! request.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::audit;
use crate::code::{Code, Refusal};
use crate::ids::{ExecutionId, Ids, Now, TenantId};
use crate::limits::Limits;
use crate::note::Note;
use crate::reply::Reply;
use crate::request::Request;
use crate::rules::{self, Work};
use crate::state::Ready;
use crate::working_set::{Loaded, Mark, Mutations, Needs, Scan, Wants, WorkingSet};

/// The most loads of one batch. Requests that still miss rows after that are deferred to the next batch.
const MAX_ROUNDS: usize = 16;

/// What the batch needs next.
#[derive(Debug)]
pub enum BatchStep {
    Load(Arc<Wants>),
    /// Every request is decided or deferred.
    Decided,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Decided {
    Reply(Reply),
    Refused(Refusal),
    /// A row that the request needs is locked elsewhere. The request goes to the head of the next batch.
    Deferred,
}

#[derive(Debug)]
pub struct Batch {
    requests: Vec<Arc<Request>>,
    /// For each request, the refusal if the request itself is malformed.
    faults: Vec<Option<Refusal>>,
    decided: Vec<Decided>,
    set: WorkingSet,
    limits: Arc<Limits>,
    now: Option<Now>,
    /// Executions of deferred requests: later requests for the same execution must wait too, so that they do not
    /// overtake.
    deferred: BTreeSet<(TenantId, ExecutionId)>,
    asked: Arc<Wants>,
    rounds: usize,
    notes: Vec<Note>,
}

enum Readiness {
    Ready,
    Missing(Vec<(TenantId, ExecutionId)>),
    Blocked(Vec<(TenantId, ExecutionId)>),
}

impl Batch {
    pub fn new(requests: Vec<Arc<Request>>, limits: Arc<Limits>) -> Self {
        let (requests, faults): (Vec<_>, Vec<_>) =
            requests.into_iter().map(|request| examine(request, &limits)).unzip();
        let decided = Vec::with_capacity(requests.len());
        Self {
            requests,
            faults,
            decided,
            set: WorkingSet::default(),
            limits,
            now: None,
            deferred: BTreeSet::new(),
            asked: Arc::default(),
            rounds: 0,
            notes: Vec::new(),
        }
    }

    /// Appends a request: a claim that takes work which this same batch made ready.
    pub fn push(&mut self, request: Arc<Request>) {
        let (request, fault) = examine(request, &self.limits);
        self.faults.push(fault);
        self.requests.push(request);
    }

    /// Continues with the loaded rows. The first call passes `None` and always returns a load, because a load also
    /// brings the time.
    pub fn advance(&mut self, loaded: Option<Loaded>) -> BatchStep {
        if let Some(loaded) = loaded {
            self.now = Some(loaded.now);
            let asked = std::mem::take(&mut self.asked);
            self.set.supply(&asked, loaded);
        }
        let Some(now) = self.now else { return self.ask() };
        while self.decided.len() < self.requests.len() {
            if let Some(refusal) = self.faults[self.decided.len()].take() {
                let report = self.requests[self.decided.len()].op.report();
                debug_assert!(
                    report.is_none_or(|report| refusal.code.refuses().contains(&report)),
                    "{refusal}"
                );
                self.decided.push(Decided::Refused(refusal));
                continue;
            }
            let request = self.requests[self.decided.len()].clone();
            match self.readiness(&request, &mut Wants::default()) {
                Readiness::Ready => {
                    let decided = self.decide(&request, now);
                    self.decided.push(decided);
                }
                Readiness::Blocked(executions) => {
                    self.deferred.extend(executions);
                    self.decided.push(Decided::Deferred);
                }
                Readiness::Missing(_) if self.rounds < MAX_ROUNDS => return self.ask(),
                Readiness::Missing(executions) => {
                    self.deferred.extend(executions);
                    self.decided.push(Decided::Deferred);
                }
            }
        }
        BatchStep::Decided
    }

    /// Requests the rows that all undecided requests miss, in one load for the whole batch.
    fn ask(&mut self) -> BatchStep {
        let mut wants = Wants::default();
        if self.rounds == 0 {
            // There is nearly always no paused queue. Loading them at the start saves a direct hand-off a further
            // load.
            wants.scans.insert(Scan::PausedQueues);
        }
        rules::needs_pool(&mut Needs::new(&self.set, &mut wants, &self.deferred));
        let undecided = self.decided.len()..;
        for (request, fault) in self.requests[undecided.clone()].iter().zip(&self.faults[undecided]) {
            if fault.is_none() {
                self.readiness(request, &mut wants);
            }
        }
        self.rounds += 1;
        self.asked = Arc::new(wants);
        BatchStep::Load(self.asked.clone())
    }

    fn readiness(&self, request: &Request, wants: &mut Wants) -> Readiness {
        let mut needs = Needs::new(&self.set, wants, &self.deferred);
        request.op.rule().needs(request.tenant_id, &mut needs);
        if needs.blocked {
            Readiness::Blocked(needs.executions)
        } else if needs.missing {
            Readiness::Missing(needs.executions)
        } else {
            Readiness::Ready
        }
    }

    fn decide(&mut self, request: &Request, now: Now) -> Decided {
        let decided = self.decide_rule(request, now);
        if let (Decided::Refused(refusal), Some(report)) = (&decided, request.op.report()) {
            debug_assert!(refusal.code.refuses().contains(&report), "{} refuses {report:?}", refusal.code);
        }
        decided
    }

    fn decide_rule(&mut self, request: &Request, now: Now) -> Decided {
        let noted = self.notes.len();
        let mut work = Work {
            tenant_id: request.tenant_id,
            peer: request.peer.as_deref(),
            set: &mut self.set,
            now: request.provisional.as_ref().map_or(now, |provisional| provisional.at),
            limits: &self.limits,
            ids: Ids::new(request.seed),
            keep_on_refusal: false,
            notes: &mut self.notes,
        };
        let rule = request.op.rule();
        // A panic in one rule must not affect the other requests, so the writes of that request are undone.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let reply = rule.decide(&mut work)?;
            if let Some(provisional) = &request.provisional {
                rules::take_started(&mut work, &provisional.taker, &reply);
            }
            if let Some(actor) = &request.actor {
                audit::record(&mut work, &request.op, actor, &reply);
            }
            Ok(reply)
        }));
        let keep_on_refusal = work.keep_on_refusal;
        match outcome {
            Ok(Ok(reply)) => {
                self.set.keep();
                Decided::Reply(reply)
            }
            Ok(Err(refusal)) => {
                if keep_on_refusal {
                    self.set.keep();
                } else {
                    self.undo(noted);
                }
                Decided::Refused(refusal)
            }
            Err(panic) => {
                self.undo(noted);
                let what = panic_message(panic.as_ref());
                Decided::Refused(Refusal::new(
                    Code::Internal,
                    format!("{} failed: {what}", request.op.name()),
                ))
            }
        }
    }

    /// Undoes the current request, and drops its notes: only the first `noted` notes stay.
    fn undo(&mut self, noted: usize) {
        self.set.undo_to(&Mark::default());
        self.notes.truncate(noted);
    }

    /// Takes the notes, to be counted once the batch is durable.
    pub fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    /// Takes the net row changes of all requests. To be called once every request is decided.
    pub fn take_mutations(&mut self) -> Mutations {
        self.set.take_mutations()
    }

    /// Work that this batch made ready and that no claim in the batch has taken, in order of work.
    pub fn made_ready(&self) -> Vec<Ready> {
        let mut rows: Vec<Ready> = self.set.ready.inserted().cloned().collect();
        rows.sort_unstable_by(|a, b| (&a.lane, a.sort_ms, a.id).cmp(&(&b.lane, b.sort_ms, b.id)));
        rows
    }

    /// The session that ran the execution last. `None`: no session, or the batch has not loaded the execution.
    pub fn last_session(&self, tenant_id: TenantId, id: ExecutionId) -> Option<uuid::Uuid> {
        match self.set.executions.known(&(tenant_id, id), false) {
            crate::table::Known::Row(execution) => execution.session,
            _ => None,
        }
    }

    /// The builds that have failed on the execution. `None`: no build is known, or the batch has not loaded the
    /// execution.
    pub fn failed_builds(&self, tenant_id: TenantId, id: ExecutionId) -> Option<&crate::ids::Text> {
        match self.set.executions.known(&(tenant_id, id), false) {
            crate::table::Known::Row(execution) => execution.failure_build.as_ref(),
            _ => None,
        }
    }

    /// The answers, one for each request, in order.
    pub fn into_decided(self) -> Vec<Decided> {
        self.decided
    }

    pub fn decided(&self) -> &[Decided] {
        &self.decided
    }

    /// The time used for all decisions. `None` before the first load.
    pub fn now(&self) -> Option<Now> {
        self.now
    }
}

/// Checks a request. If a worker's report is malformed, it is replaced by the request that ends its claim
/// ([`Op::instead`]), which loads nothing by the names in the report. Any other malformed request keeps its refusal
/// as the answer.
fn examine(request: Arc<Request>, limits: &Limits) -> (Arc<Request>, Option<Refusal>) {
    let Err(refusal) = request.op.check(limits) else { return (request, None) };
    match request.op.instead(&refusal) {
        Some(op) => (Arc::new(Request { op, ..Request::clone(&request) }), None),
        None => (request, Some(refusal)),
    }
}

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic".to_owned())
}
