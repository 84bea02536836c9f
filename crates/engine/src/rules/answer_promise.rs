//! Resolving and rejecting a promise from outside, by id or by its key. The first answer wins.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{PromiseId, TenantId};
use crate::lifecycle::{alarm, execution, key};
use crate::limits::Limits;
use crate::reply::Reply;
use crate::request::{Answer, AnswerPromise, PromiseRef};
use crate::rules::{Rule, Work};
use crate::state::{DueClass, IdempotencyKey, KeySpace, Promise, PromiseStatus};
use crate::working_set::Needs;

impl Rule for AnswerPromise {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        match &self.promise {
            PromiseRef::Id(_) => Ok(()),
            PromiseRef::Key(name) => check::name("promise key", name, limits),
        }
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        let id = match &self.promise {
            PromiseRef::Id(id) => Some(*id),
            PromiseRef::Key(name) => needs
                .row::<IdempotencyKey>((tenant_id, KeySpace::Promise, name.clone()))
                .map(|row| row.holder_id),
        };
        if let Some(promise) = id.and_then(|id| needs.row::<Promise>((tenant_id, id))) {
            needs.execution((tenant_id, promise.execution_id));
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let data = match &self.answer {
            Answer::Resolve(value) => {
                let value = check::payload("value", value, work.limits)?;
                EventData::new(EventKind::PromiseResolved).payload(value)
            }
            Answer::Reject(error) => {
                check::text("error", error, work.limits)?;
                EventData::new(EventKind::PromiseRejected).text(error.clone())
            }
        };
        let promise = find(work, &self.promise)?;
        let mut execution = execution::find_open(work, promise.execution_id)?;
        if promise.status != PromiseStatus::Open {
            let message = format!("promise {} is already {}", promise.id, promise.status);
            return Err(Refusal::new(Code::PromiseClosed, message));
        }
        let status = match &self.answer {
            Answer::Resolve(_) => PromiseStatus::Resolved,
            Answer::Reject(_) => PromiseStatus::Rejected,
        };
        let data = data.subject(promise.id).name(promise.name.clone());
        close(work, promise, status);
        execution.open_promises -= 1;
        execution::append_external(work, &mut execution, data);
        work.set.executions.put(execution);
        Ok(Reply::Done)
    }
}

fn find(work: &Work<'_>, promise: &PromiseRef) -> Result<Promise, Refusal> {
    let (id, shown): (Option<PromiseId>, String) = match promise {
        PromiseRef::Id(id) => (Some(*id), id.to_string()),
        PromiseRef::Key(name) => (
            key::holder(work, KeySpace::Promise, name).map(|row| row.holder_id),
            format!("with key '{name}'"),
        ),
    };
    id.and_then(|id| work.set.promises.get(&(work.tenant_id, id)).cloned())
        .ok_or_else(|| Refusal::new(Code::PromiseNotFound, format!("promise {shown} not found")))
}

/// Closes the promise's row and its timeout. The caller updates the execution's count and writes the event.
pub(crate) fn close(work: &mut Work<'_>, mut promise: Promise, status: PromiseStatus) {
    alarm::clear(work, DueClass::PromiseTimeout, (promise.tenant_id, promise.id), promise.deadline_ms);
    promise.status = status;
    work.set.promises.put(promise);
}
