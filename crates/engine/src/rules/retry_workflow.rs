//! Retrying a failed execution: a new execution with the same input, linked to the failed one.

use crate::code::{Code, Refusal};
use crate::ids::{Payload, TenantId};
use crate::lifecycle::{execution, key, quota};
use crate::limits::Limits;
use crate::reply::Reply;
use crate::request::{RetryWorkflow, StartWorkflow};
use crate::rules::start_workflow;
use crate::rules::{Rule, Work};
use crate::state::{Event, ExecutionStatus};
use crate::working_set::{Needs, Scan};

impl Rule for RetryWorkflow {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        start_workflow::check_key(self.key.as_ref(), limits)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.execution((tenant_id, self.execution_id));
        needs.row::<Event>((tenant_id, self.execution_id, 1));
        needs.scan(Scan::Labels { tenant_id, execution_id: self.execution_id });
        quota::needs_start(needs, tenant_id);
        if let Some(key) = &self.key {
            key::needs_work_key(needs, tenant_id, key);
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let failed = execution::find(work, self.execution_id)?;
        if !matches!(failed.status, ExecutionStatus::Failed | ExecutionStatus::Cancelled) {
            let message = format!("execution {} is {}", failed.id, failed.status);
            return Err(Refusal::new(Code::ExecutionNotFailed, message));
        }
        let first = work.set.events.get(&(work.tenant_id, failed.id, 1));
        let input = first.and_then(|event| event.payload.clone()).unwrap_or(Payload::from_static(b"null"));
        let mut labels: Vec<_> = work
            .set
            .labels
            .current()
            .filter(|label| label.tenant_id == work.tenant_id && label.execution_id == failed.id)
            .map(|label| (label.name.clone(), label.value.clone()))
            .collect();
        labels.sort_unstable();
        let request = StartWorkflow { key: self.key.clone(), ..start_workflow::like(&failed, input, labels) };
        start_workflow::start(work, &request, Some(failed.id)).map(Reply::Started)
    }
}
