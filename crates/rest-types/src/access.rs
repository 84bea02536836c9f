//! The caller, tenants, worker tokens and the audit log.

use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use crate::openapi;
use crate::{Document, moment};

/// The caller.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = MeResponse))]
pub struct Me {
    /// The subject of a JWT or the name of an API key.
    pub subject: String,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, schema_with = openapi::credential_kind))]
    pub credential: String,
    /// `viewer`, `operator`, `admin` or `server-admin`.
    pub role: String,
    /// The tenants that the caller may act for, up to 100.
    pub tenants: Vec<Tenant>,
    /// Whether the caller may act for every tenant, including tenants that are not shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_tenants: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TenantResponse))]
pub struct Tenant {
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub id: String,
    pub slug: String,
    pub name: String,
    #[serde(rename = "createdAt", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub created_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkerTokenList, bound = ""))]
pub struct WorkerTokens<T = WorkerToken> {
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<WorkerToken>))]
    pub worker_tokens: Vec<T>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = WorkerTokenResponse))]
pub struct WorkerToken {
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub id: String,
    pub name: String,
    /// The token itself. Present only in the answer that creates it; it cannot be shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(rename = "createdAt", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub created_ms: i64,
    #[serde(
        rename = "expiresAt",
        default,
        with = "moment::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = "date-time"))]
    pub expires_ms: Option<i64>,
    #[serde(
        rename = "revokedAt",
        default,
        with = "moment::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = "date-time"))]
    pub revoked_ms: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AuditList))]
pub struct Audit {
    pub entries: Vec<AuditEntry>,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub limit: usize,
    /// Present only if there may be more entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A change that a caller made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required, format = "uuid"))]
    pub id: String,
    #[serde(rename = "time", with = "moment")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = "date-time"))]
    pub time_ms: i64,
    pub actor: AuditActor,
    #[cfg_attr(feature = "openapi", schema(schema_with = openapi::audit_action))]
    pub action: String,
    /// The id of the changed resource, or the name of a queue.
    pub target: String,
    /// More data, depending on the action.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value, required = false))]
    pub details: Option<Document>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditActor {
    /// The subject of a JWT, the name of an API key, or the id of a worker token.
    pub subject: String,
    #[cfg_attr(feature = "openapi", schema(schema_with = openapi::credential_kind))]
    pub credential: String,
}
