//! One file per request: what it needs to know, and what it does.

mod act_by_key;
mod answer_promise;
mod cancel_task;
mod cancel_workflow;
pub(crate) mod claim;
mod clean_audit;
mod clean_idempotency_keys;
mod complete_task;
mod continuation;
mod create_task;
mod delete;
mod extend_task;
mod fail_task;
mod fire_due;
mod follow_up;
mod give_back;
mod heartbeat;
mod look_for_orphans;
mod mend;
mod queue;
mod quota;
mod refused;
mod release_held_back;
mod retry_task;
mod retry_workflow;
mod signal;
mod start_workflow;
mod submit;
mod submit_command;
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
    /// Refuses what is wrong with the request itself, before anything is looked up by the names in it.
    fn check(&self, _limits: &Limits) -> Result<(), Refusal> {
        Ok(())
    }

    /// Names rows and scans until nothing is missing. Called again whenever more has been loaded.
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>);

    /// Decides. A refusal takes back whatever was written.
    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal>;
}

/// What a rule works on.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) tenant_id: TenantId,
    /// The client behind the request.
    pub(crate) peer: Option<&'a Peer>,
    pub(crate) set: &'a mut WorkingSet,
    pub(crate) now: Now,
    pub(crate) limits: &'a Limits,
    pub(crate) ids: Ids,
    /// The refusal that follows has an effect of its own, which is kept.
    pub(crate) keep_on_refusal: bool,
    pub(crate) notes: &'a mut Vec<Note>,
}

impl Work<'_> {
    /// Does something that may be refused, or fail, without the rest of the request: then it leaves no trace.
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
