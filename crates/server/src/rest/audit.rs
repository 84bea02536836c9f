//! The audit log: who changed what. For administrators.

use axum::Json;
use flovyn_auth::Role;
use flovyn_engine::state::{self, SmallEnum};
use flovyn_rest_types::{Audit, AuditActor, AuditEntry};
use flovyn_store::AuditFilter;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::IntoParams;

use super::access::Caller;
use super::error::RestError;
use super::extract::Query;
use super::filter::{one_of, sought};
use super::names::AuditAction;
use super::page::{next, page};

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

fn entry(row: &state::AuditEntry) -> AuditEntry {
    AuditEntry {
        id: row.id.to_string(),
        time_ms: row.time_ms,
        actor: AuditActor { subject: row.actor.to_string(), credential: row.credential.name().to_owned() },
        action: row.action.name().to_owned(),
        target: row.target.to_string(),
        details: row.details.as_deref().and_then(|text| RawValue::from_string(text.to_owned()).ok()),
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
    responses((status = 200, description = "A page of the audit log", body = Audit)),
)]
pub(super) async fn list(caller: Caller, Query(query): Query<AuditQuery>) -> Result<Json<Audit>, RestError> {
    caller.must_be(Role::Admin)?;
    let page = page(query.limit, None, query.cursor.as_deref())?;
    let filter = AuditFilter {
        actor: sought("actor", query.actor)?,
        action: one_of("action", query.action.as_deref())?,
        target: sought("target", query.target)?,
    };
    let rows = caller.store().audit_list(caller.tenant_id(), &filter, page).await?;
    Ok(Json(Audit {
        next_cursor: next(&rows, page, |row| (row.time_ms, row.id)),
        entries: rows.iter().map(entry).collect(),
        limit: page.limit,
    }))
}
