//! P7: what a quota counts as open is what is open, and its bucket holds what a bucket can hold.

use std::collections::BTreeMap;

use super::{Promised, View};
use crate::ids::TenantId;
use crate::state::Quota;

pub(super) fn check(view: &mut View<'_>) {
    let mut open: BTreeMap<TenantId, i64> = BTreeMap::new();
    for row in view.executions.values().filter(|row| row.counted && !row.status.is_terminal()) {
        *open.entry(row.tenant_id).or_default() += 1;
    }
    let quotas: Vec<&Quota> = view.snapshot.quotas.iter().collect();
    for quota in quotas {
        let counted = open.remove(&quota.tenant_id).unwrap_or(0);
        if counted != quota.open_workflows {
            let message = format!(
                "the quota of tenant {} has {} open workflows, {counted} are",
                quota.tenant_id, quota.open_workflows
            );
            view.report(Promised::P7, message);
        }
        let full = quota.burst_or_default().unwrap_or(0).saturating_mul(1_000);
        if quota.requests_per_second.is_some() && !(0..=full).contains(&quota.bucket) {
            let message =
                format!("the bucket of tenant {} holds {} of {full}", quota.tenant_id, quota.bucket);
            view.report(Promised::P7, message);
        }
    }
    for (tenant_id, counted) in open {
        view.report(Promised::P7, format!("tenant {tenant_id} has {counted} counted workflows and no quota"));
    }
}
