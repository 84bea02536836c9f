//! A tenant's quota: set by an operator; and the tokens of its rate limit, taken by server processes.

use crate::code::{Code, Refusal};
use crate::ids::TenantId;
use crate::limits::{Limits, QUOTA_MAX, RATE_MAX};
use crate::reply::Reply;
use crate::request::{SetQuota, TakeRequests};
use crate::rules::{Rule, Work};
use crate::state::{Quota, Tenant};
use crate::working_set::Needs;

/// A process receives this fraction of a second's requests at a time, and at least one. So processes rarely ask, and
/// few requests lie unused with an idle process.
const PART_OF_SECOND: i64 = 10;

impl Rule for SetQuota {
    fn check(&self, _limits: &Limits) -> Result<(), Refusal> {
        within("monthly workflow runs", self.monthly_workflow_runs, 0, QUOTA_MAX)?;
        within("concurrent workflows", self.concurrent_workflows, 0, QUOTA_MAX)?;
        within("requests per second", self.requests_per_second, 1, RATE_MAX)?;
        within("burst", self.burst, 1, RATE_MAX)?;
        if self.burst.is_some() && self.requests_per_second.is_none() {
            return Err(Refusal::new(Code::InvalidValue, "burst is given without requests per second"));
        }
        Ok(())
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.peek::<Tenant>((tenant_id,));
        needs.row::<Quota>((tenant_id,));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        if work.set.tenants.get(&(work.tenant_id,)).is_none() {
            return Err(Refusal::new(Code::TenantNotFound, format!("tenant {} not found", work.tenant_id)));
        }
        let before = work.set.quotas.get(&(work.tenant_id,)).cloned();
        let mut quota = before.unwrap_or_else(|| Quota::unlimited(work.tenant_id));
        let now_ms = work.now.lease_ms;
        let had_bucket = quota.requests_per_second.is_some();
        quota.refill(now_ms);
        quota.monthly_workflow_runs = self.monthly_workflow_runs;
        quota.concurrent_workflows = self.concurrent_workflows;
        quota.requests_per_second = self.requests_per_second;
        quota.burst = self.burst;
        if had_bucket {
            // The bucket must not hold more than its new size.
            quota.refill(now_ms);
        } else {
            quota.fill(now_ms);
        }
        work.set.quotas.put(quota.clone());
        Ok(Reply::Quota(quota))
    }
}

fn within(what: &str, value: Option<i64>, least: i64, most: i64) -> Result<(), Refusal> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(Refusal::new(Code::InvalidValue, format!("{what} must be from {least} to {most}, or unset")))
        }
        _ => Ok(()),
    }
}

impl Rule for TakeRequests {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.row::<Quota>((tenant_id,));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let quota = work.set.quotas.get(&(work.tenant_id,)).cloned();
        let limited = quota.and_then(|quota| Some((quota.requests_per_second?, quota)));
        let Some((limit, mut quota)) = limited else { return Ok(Reply::RequestsUnlimited) };
        let most = self.most.clamp(1, (limit / PART_OF_SECOND).max(1));
        // Real time, also on a virtual clock: the rate limit protects the server's real capacity.
        let taken = quota.take(most, work.now.lease_ms);
        if taken.granted > 0 {
            work.set.quotas.put(quota);
        }
        Ok(Reply::RequestsTaken { limit, taken })
    }
}
