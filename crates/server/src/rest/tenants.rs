//! Tenants.

use axum::Json;
use axum::http::StatusCode;
use flovyn_engine::Reply;
use flovyn_engine::request::CreateTenant;
use flovyn_engine::state::Tenant;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::access::{Caller, ServerAdmin};
use super::body::read;
use super::error::RestError;
use super::extract::Body;
use super::times::iso;
use super::trigger::unexpected;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TenantRequest {
    slug: String,
    name: Option<String>,
    #[serde(alias = "retention_ms")]
    retention_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TenantResponse {
    id: String,
    slug: String,
    name: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_ms: Option<i64>,
}

impl From<&Tenant> for TenantResponse {
    fn from(row: &Tenant) -> Self {
        Self {
            id: row.id.to_string(),
            slug: row.slug.to_string(),
            name: row.name.to_string(),
            created_at: iso(row.created_ms),
            retention_ms: row.retention_ms,
        }
    }
}

pub(super) async fn create(
    admin: ServerAdmin,
    Body(body): Body,
) -> Result<(StatusCode, Json<TenantResponse>), RestError> {
    let request: TenantRequest = read(&body)?;
    let name = request.name.unwrap_or_else(|| request.slug.clone()).into();
    let create =
        CreateTenant { id: None, slug: request.slug.into(), name, retention_ms: request.retention_ms };
    // A tenant that is being made has no scope yet: only a server's administrator comes here.
    match admin.api.service().call(Uuid::nil(), create).await? {
        Reply::Tenant(row) => Ok((StatusCode::CREATED, Json(TenantResponse::from(&row)))),
        _ => Err(unexpected()),
    }
}

pub(super) async fn get(caller: Caller) -> Json<TenantResponse> {
    Json(TenantResponse::from(&caller.tenant))
}
