//! Counting executions against their tenant's quota: at the start, and again at the end.
//!
//! A request locks the quota's row last, always after executions, so that two requests never wait for each other.

use crate::code::{Code, Exceeded, Refusal};
use crate::ids::TenantId;
use crate::rules::Work;
use crate::state::{Execution, Quota, next_month_ms};
use crate::working_set::Needs;

/// Loads the quota that a start counts against. Most tenants have none, and a read without a lock shows that.
pub(crate) fn needs_start(needs: &mut Needs<'_>, tenant_id: TenantId) {
    if needs.peek::<Quota>((tenant_id,)).is_some() {
        needs.row::<Quota>((tenant_id,));
    }
}

/// Loads the quota that the end of this execution changes.
pub(crate) fn needs_end(needs: &mut Needs<'_>, execution: &Execution) {
    if execution.counted && !execution.status.is_terminal() {
        needs.row::<Quota>((execution.tenant_id,));
    }
}

/// Counts a start, or refuses it. `false`: the tenant has no quota, and its executions are not counted.
pub(crate) fn count_start(work: &mut Work<'_>) -> Result<bool, Refusal> {
    let Some(mut quota) = work.set.quotas.get(&(work.tenant_id,)).cloned() else { return Ok(false) };
    let now_ms = work.now.ms;
    let (runs, open) = (quota.runs_at(now_ms), quota.open_workflows);
    if let Some(limit) = quota.monthly_workflow_runs.filter(|limit| runs >= *limit) {
        let retry_after_seconds = (next_month_ms(now_ms) - now_ms + 999) / 1_000;
        return Err(Refusal::new(Code::MonthlyQuotaExceeded, "Monthly workflow run quota exceeded")
            .with_exceeded(Exceeded { limit, current: Some(runs), retry_after_seconds }));
    }
    if let Some(limit) = quota.concurrent_workflows.filter(|limit| open >= *limit) {
        return Err(Refusal::new(Code::ConcurrentQuotaExceeded, "Concurrent workflow quota exceeded")
            .with_exceeded(Exceeded { limit, current: Some(open), retry_after_seconds: 1 }));
    }
    quota.count_start(now_ms);
    work.set.quotas.put(quota);
    Ok(true)
}

/// Subtracts an execution that has ended from the open executions, if it was counted.
pub(crate) fn count_end(work: &mut Work<'_>, execution: &Execution) {
    if !execution.counted {
        return;
    }
    if let Some(mut quota) = work.set.quotas.get(&(execution.tenant_id,)).cloned() {
        quota.open_workflows -= 1;
        work.set.quotas.put(quota);
    }
}

/// Corrects the refusal of a bulk start. All its starts are refused together, so those that it had counted before the
/// limit was reached must not appear as current use.
pub(crate) fn of_bulk(refusal: Refusal, before: Option<&Quota>, now_ms: i64) -> Refusal {
    let current = before.map(|quota| match refusal.code {
        Code::MonthlyQuotaExceeded => quota.runs_at(now_ms),
        _ => quota.open_workflows,
    });
    Refusal { exceeded: refusal.exceeded.map(|exceeded| Exceeded { current, ..exceeded }), ..refusal }
}
