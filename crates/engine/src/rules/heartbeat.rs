//! A heartbeat of a running task: it renews the claim, and the answer says whether the task should stop.

use crate::check;
use crate::code::Refusal;
use crate::ids::TenantId;
use crate::lifecycle::task;
use crate::limits::Limits;
use crate::reply::Reply;
use crate::request::HeartbeatTask;
use crate::rules::{Rule, Work};
use crate::state::{Execution, Task};
use crate::table::Known;
use crate::working_set::Needs;

impl Rule for HeartbeatTask {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        let details = self.details.as_ref().map(|details| check::payload("details", details, limits));
        details.transpose().map(|_| ())
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        let task = needs.row::<Task>((tenant_id, self.task_id));
        if let Some(execution_id) = task.and_then(|task| task.execution_id) {
            needs.glance::<Execution>((tenant_id, execution_id));
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let details = self
            .details
            .as_ref()
            .map(|details| check::payload("details", details, work.limits))
            .transpose()?;
        let mut row = task::find_claimed(work, self.task_id, self.token)?;
        let cancel_requested = row.cancel_requested || owner_is_ending(work, &row);
        row.last_heartbeat_ms = Some(work.now.ms);
        if details.is_some() {
            row.heartbeat_details = details;
        }
        let renewed_ms = work.now.lease_ms.saturating_add(work.limits.session_lease_ms);
        row.lease_until_ms = row.lease_until_ms.max(Some(renewed_ms));
        task::arm(work, &mut row);
        // A third of the tightest limit, so that two heartbeats may get lost.
        let tightest_ms = row.heartbeat_ms.unwrap_or(i64::MAX).min(work.limits.session_lease_ms);
        work.set.tasks.put(row);
        Ok(Reply::Heartbeat { cancel_requested, next_within_ms: tightest_ms / 3 })
    }
}

fn owner_is_ending(work: &Work<'_>, task: &Task) -> bool {
    let Some(execution_id) = task.execution_id else { return false };
    match work.set.executions.known(&(task.tenant_id, execution_id), false) {
        Known::Row(owner) => owner.status.is_terminal(),
        Known::Absent => true,
        Known::Busy | Known::No => false,
    }
}
