//! P7: the number of open executions in a quota is right, and its bucket is not over its size.

use std::collections::BTreeMap;

use super::{Promised, Subject, View};
use crate::ids::TenantId;
use crate::snapshot::Snapshot;

/// The number of open executions of each tenant that count against its quota.
pub(super) fn count_open(snapshot: &Snapshot) -> BTreeMap<TenantId, i64> {
    let mut open: BTreeMap<TenantId, i64> = BTreeMap::new();
    for row in snapshot.executions.iter().filter(|row| row.counted && !row.status.is_terminal()) {
        *open.entry(row.tenant_id).or_default() += 1;
    }
    open
}

/// `open`: the number of counted open executions of each tenant in the view.
pub(super) fn check(view: &mut View<'_>, open: &BTreeMap<TenantId, i64>) {
    for quota in &view.subjects.quotas {
        let tenant_id = quota.tenant_id;
        let counted = open.get(&tenant_id).copied().unwrap_or(0);
        if counted != quota.open_workflows {
            let message = format!(
                "the quota of tenant {tenant_id} counts {} open workflows, but {counted} are open",
                quota.open_workflows
            );
            view.report(Promised::P7, tenant_id, Subject::Quota, message);
        }
        let full = quota.burst_or_default().unwrap_or(0).saturating_mul(1_000);
        if quota.requests_per_second.is_some() && !(0..=full).contains(&quota.bucket) {
            let message = format!("the bucket of tenant {tenant_id} holds {} of {full}", quota.bucket);
            view.report(Promised::P7, tenant_id, Subject::Quota, message);
        }
    }
    for (tenant_id, counted) in count_open(view.subjects) {
        if !view.quota_tenants.contains(&tenant_id) {
            let message = format!("tenant {tenant_id} has {counted} counted workflows and no quota");
            view.report(Promised::P7, tenant_id, Subject::Quota, message);
        }
    }
}
