//! The caller, tenants, worker tokens and the audit log.

use serde::Deserialize;

use crate::{Document, moment};

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Me {
    pub subject: String,
    pub role: String,
    pub tenants: Vec<Tenant>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    pub id: String,
    pub slug: String,
    pub name: String,
    #[serde(rename = "createdAt", with = "moment")]
    pub created_ms: i64,
    pub retention_ms: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerTokens<T = WorkerToken> {
    pub worker_tokens: Vec<T>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct WorkerToken {
    pub id: String,
    pub name: String,
    /// Only set in the answer that creates the token.
    pub token: Option<String>,
    #[serde(rename = "createdAt", with = "moment")]
    pub created_ms: i64,
    #[serde(rename = "expiresAt", default, with = "moment::optional")]
    pub expires_ms: Option<i64>,
    #[serde(rename = "revokedAt", default, with = "moment::optional")]
    pub revoked_ms: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    pub entries: Vec<AuditEntry>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct AuditEntry {
    #[serde(rename = "time", with = "moment")]
    pub time_ms: i64,
    pub actor: AuditActor,
    pub action: String,
    pub target: String,
    pub details: Option<Document>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct AuditActor {
    pub subject: String,
    pub credential: String,
}
