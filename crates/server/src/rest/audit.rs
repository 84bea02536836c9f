//! The audit log: who changed what. For administrators.

use axum::Json;
use flovyn_auth::Role;
use flovyn_engine::state::{AuditEntry, SmallEnum};
use flovyn_store::AuditFilter;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::access::Caller;
use super::error::RestError;
use super::extract::Query;
use super::filter::{one_of, sought};
use super::names::{AuditAction, CredentialKind};
use super::page::{next, page};
use super::times::iso;

// A mistyped filter would be ignored and show everything, so unknown parameters are refused.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// The subject of a JWT, the name of an API key, or the id of a worker token.
    actor: Option<String>,
    #[param(value_type = Option<AuditAction>)]
    action: Option<String>,
    /// The id of the changed resource, or the name of a queue.
    target: Option<String>,
    /// Default 50.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuditList {
    entries: Vec<AuditEntryInfo>,
    limit: usize,
    /// Present only if there may be more entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// A change that a caller made.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
pub(super) struct AuditEntryInfo {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "date-time")]
    time: String,
    actor: AuditActor,
    #[schema(value_type = AuditAction)]
    action: &'static str,
    /// The id of the changed resource, or the name of a queue.
    target: String,
    /// More data, depending on the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    details: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AuditActor {
    /// The subject of a JWT, the name of an API key, or the id of a worker token.
    subject: String,
    #[schema(value_type = CredentialKind)]
    credential: &'static str,
}

impl From<&AuditEntry> for AuditEntryInfo {
    fn from(row: &AuditEntry) -> Self {
        Self {
            id: row.id.to_string(),
            time: iso(row.time_ms),
            actor: AuditActor { subject: row.actor.to_string(), credential: row.credential.name() },
            action: row.action.name(),
            target: row.target.to_string(),
            details: row.details.as_deref().and_then(|text| RawValue::from_string(text.to_owned()).ok()),
        }
    }
}

/// List the audit log
///
/// Who changed what, newest first. Requires the role `admin`. Entries must match all given filters.
#[utoipa::path(
    get,
    path = "/audit",
    operation_id = "listAudit",
    tag = "Audit",
    params(AuditQuery),
    responses((status = 200, description = "A page of the audit log", body = AuditList)),
)]
pub(super) async fn list(
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<Json<AuditList>, RestError> {
    caller.must_be(Role::Admin)?;
    let page = page(query.limit, None, query.cursor.as_deref())?;
    let filter = AuditFilter {
        actor: sought("actor", query.actor)?,
        action: one_of("action", query.action.as_deref())?,
        target: sought("target", query.target)?,
    };
    let rows = caller.store().audit_list(caller.tenant_id(), &filter, page).await?;
    Ok(Json(AuditList {
        next_cursor: next(&rows, page, |row| (row.time_ms, row.id)),
        entries: rows.iter().map(AuditEntryInfo::from).collect(),
        limit: page.limit,
    }))
}
