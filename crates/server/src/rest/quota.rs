//! The quota of a tenant and its use.

use axum::Json;
use flovyn_auth::Role;
use flovyn_engine::Reply;
use flovyn_engine::request::SetQuota;
use flovyn_engine::state::{Quota, next_month_ms};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::{Caller, Unmetered};
use super::body::read;
use super::error::{RestError, unexpected};
use super::extract::Body;
use super::times::iso;

/// All limits. A limit that is `null` or omitted means unlimited.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct QuotaRequest {
    #[serde(alias = "monthly_workflow_runs")]
    monthly_workflow_runs: Option<i64>,
    #[serde(alias = "concurrent_workflows")]
    concurrent_workflows: Option<i64>,
    #[serde(alias = "requests_per_second")]
    requests_per_second: Option<i64>,
    burst: Option<i64>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QuotaResponse {
    monthly_workflow_runs: Option<i64>,
    concurrent_workflows: Option<i64>,
    requests_per_second: Option<i64>,
    burst: Option<i64>,
    /// `null` if the tenant never had a quota, because nothing is counted then.
    current: Option<QuotaUse>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct QuotaUse {
    monthly_workflow_runs: i64,
    concurrent_workflows: i64,
    /// When the count of this month's runs restarts at zero.
    #[schema(format = "date-time")]
    month_ends_at: String,
}

fn response(quota: Option<&Quota>, now_ms: i64) -> QuotaResponse {
    QuotaResponse {
        monthly_workflow_runs: quota.and_then(|quota| quota.monthly_workflow_runs),
        concurrent_workflows: quota.and_then(|quota| quota.concurrent_workflows),
        requests_per_second: quota.and_then(|quota| quota.requests_per_second),
        burst: quota.and_then(Quota::burst_or_default),
        current: quota.map(|quota| QuotaUse {
            monthly_workflow_runs: quota.runs_at(now_ms),
            concurrent_workflows: quota.open_workflows,
            month_ends_at: iso(next_month_ms(now_ms)),
        }),
    }
}

/// Get the quota of a tenant
#[utoipa::path(
    get,
    path = "/quota",
    operation_id = "getQuota",
    tag = "Tenants",
    responses((status = 200, description = "The limits and their current use", body = QuotaResponse)),
)]
pub(super) async fn get(caller: Caller) -> Result<Json<QuotaResponse>, RestError> {
    let quota = caller.store().quota_get(caller.tenant_id()).await?;
    let now = caller.store().now().await?;
    Ok(Json(response(quota.as_ref(), now.ms)))
}

/// Set the quota of a tenant
///
/// Requires the role `server-admin`: the operator of the server sets limits, not the tenant.
#[utoipa::path(
    put,
    path = "/quota",
    operation_id = "setQuota",
    tag = "Tenants",
    request_body = QuotaRequest,
    responses((status = 200, description = "The new limits", body = QuotaResponse)),
)]
pub(super) async fn set(
    Unmetered(caller): Unmetered,
    Body(body): Body,
) -> Result<Json<QuotaResponse>, RestError> {
    caller.must_be(Role::ServerAdmin)?;
    let request: QuotaRequest = read(&body)?;
    let set = SetQuota {
        monthly_workflow_runs: request.monthly_workflow_runs,
        concurrent_workflows: request.concurrent_workflows,
        requests_per_second: request.requests_per_second,
        burst: request.burst,
    };
    let Reply::Quota(quota) = caller.run(set).await? else { return Err(unexpected()) };
    caller.api().rates().forget(caller.tenant_id());
    let now = caller.store().now().await?;
    Ok(Json(response(Some(&quota), now.ms)))
}
