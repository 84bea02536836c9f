//! One file per request: the rows it needs, and its decision.

mod act_by_key;
mod answer_promise;
mod cancel_task;
mod cancel_workflow;
mod check_orphans;
pub(crate) mod claim;
mod clean_audit;
mod clean_idempotency_keys;
mod commands;
mod complete_task;
mod continuation;
mod create_task;
mod delete;
mod extend_task;
mod fail_task;
mod fire_due;
mod follow_up;
mod heartbeat;
mod mend;
mod queue;
mod quota;
mod refused;
mod release_claim;
mod release_held_back;
mod retry_task;
mod retry_workflow;
mod signal;
mod start_workflow;
mod submit;
mod task_report;
mod task_state;
mod tenant;
pub(crate) mod worker;
mod worker_token;

pub(crate) use claim::{needs_pool, take_started};
pub(crate) use refused::limit as refusals_limit;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::code::{Code, Refusal};
use crate::ids::{Ids, Now, TenantId};
use crate::limits::Limits;
use crate::note::{Note, Noted};
use crate::reply::Reply;
use crate::request::Peer;
use crate::working_set::{Needs, WorkingSet};

/// A request's rule.
pub(crate) trait Rule {
    /// Refuses a malformed request, before any row is loaded by the names in it.
    fn check(&self, _limits: &Limits) -> Result<(), Refusal> {
        Ok(())
    }

    /// Requests rows and scans until nothing is missing. Called again after each load.
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>);

    /// Decides the request. If it is refused, all its writes are undone.
    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal>;
}

/// The state that a rule works on.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) tenant_id: TenantId,
    /// The client behind the request.
    pub(crate) peer: Option<&'a Peer>,
    pub(crate) set: &'a mut WorkingSet,
    pub(crate) now: Now,
    pub(crate) limits: &'a Limits,
    pub(crate) ids: Ids,
    /// Set before a refusal whose own effects must be kept.
    pub(crate) keep_on_refusal: bool,
    pub(crate) notes: &'a mut Vec<Note>,
}

impl Work<'_> {
    /// Runs a step that may be refused, or panic, while the rest of the request stays. A failed step leaves no trace.
    pub(crate) fn attempt<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let (mark, noted) = (self.set.mark(), self.notes.len());
        let outcome = catch_unwind(AssertUnwindSafe(|| act(self)))
            .unwrap_or_else(|_| Err(Refusal::new(Code::Internal, "a rule failed")));
        if outcome.is_err() {
            self.set.undo_to(&mark);
            self.notes.truncate(noted);
            self.keep_on_refusal = false;
        }
        outcome
    }

    pub(crate) fn note(&mut self, what: Noted) {
        self.notes.push(Note { tenant_id: self.tenant_id, what });
    }
}
