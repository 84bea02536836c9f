//! Tenants.

use axum::Json;
use axum::http::StatusCode;
use flovyn_engine::request::CreateTenant;
use flovyn_engine::{Reply, state};
use flovyn_rest_types::Tenant;
use serde::Deserialize;
use utoipa::ToSchema;

use super::access::{Caller, ServerAdmin};
use super::body::read;
use super::error::{RestError, unexpected};
use super::extract::Body;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TenantRequest {
    /// Lower-case letters, digits and hyphens.
    slug: String,
    /// The display name. Default: the slug.
    name: Option<String>,
    /// How long finished work is kept. Default: forever.
    #[serde(alias = "retention_ms")]
    retention_ms: Option<i64>,
}

pub(super) fn tenant(row: &state::Tenant) -> Tenant {
    Tenant {
        id: row.id.to_string(),
        slug: row.slug.to_string(),
        name: row.name.to_string(),
        created_ms: row.created_ms,
        retention_ms: row.retention_ms,
    }
}

/// Create a tenant
///
/// Requires the role `server-admin`.
#[utoipa::path(
    post,
    path = "/api/tenants",
    operation_id = "createTenant",
    tag = "Tenants",
    request_body = TenantRequest,
    responses((status = 201, description = "The new tenant", body = Tenant)),
)]
pub(super) async fn create(
    admin: ServerAdmin,
    Body(body): Body,
) -> Result<(StatusCode, Json<Tenant>), RestError> {
    let request: TenantRequest = read(&body)?;
    let name = request.name.unwrap_or_else(|| request.slug.clone()).into();
    let create =
        CreateTenant { id: None, slug: request.slug.into(), name, retention_ms: request.retention_ms };
    match admin.run(create).await? {
        Reply::Tenant(row) => Ok((StatusCode::CREATED, Json(tenant(&row)))),
        _ => Err(unexpected()),
    }
}

/// Get a tenant
#[utoipa::path(
    get,
    path = "",
    operation_id = "getTenant",
    tag = "Tenants",
    responses((status = 200, description = "The tenant", body = Tenant)),
)]
pub(super) async fn get(caller: Caller) -> Result<Json<Tenant>, RestError> {
    let row = caller.store().tenant_get(caller.tenant_id()).await?.ok_or_else(unexpected)?;
    Ok(Json(tenant(&row)))
}
