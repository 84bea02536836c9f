//! Worker tokens: created here and shown only once.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use flovyn_auth::{Role, hash_token, new_token};
use flovyn_engine::request::{CreateWorkerToken, RevokeWorkerToken};
use flovyn_engine::{Code, Reply, state};
use flovyn_rest_types::{WorkerToken, WorkerTokens};
use serde::Deserialize;
use utoipa::ToSchema;

use super::access::Caller;
use super::body::read;
use super::error::{RestError, unexpected};
use super::executions::id;
use super::extract::Body;
use super::times::moment;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WorkerTokenRequest {
    #[schema(min_length = 1, max_length = 255)]
    name: String,
    /// When the token expires. Default: never.
    #[serde(alias = "expires_at")]
    #[schema(format = "date-time")]
    expires_at: Option<String>,
}

fn response(row: &state::WorkerToken, token: Option<String>) -> WorkerToken {
    WorkerToken {
        id: row.id.to_string(),
        name: row.name.to_string(),
        token,
        created_ms: row.created_ms,
        expires_ms: row.expires_ms,
        revoked_ms: row.revoked_ms,
    }
}

/// Create a worker token
///
/// Requires the role `admin`. The token is shown only in this answer.
#[utoipa::path(
    post,
    path = "/worker-tokens",
    operation_id = "createWorkerToken",
    tag = "Workers",
    request_body = WorkerTokenRequest,
    responses((status = 201, description = "The new token", body = WorkerToken)),
)]
pub(super) async fn create(
    caller: Caller,
    Body(body): Body,
) -> Result<(StatusCode, Json<WorkerToken>), RestError> {
    caller.must_be(Role::Admin)?;
    let request: WorkerTokenRequest = read(&body)?;
    let expires_ms = request.expires_at.as_deref().map(|text| moment("expiresAt", text)).transpose()?;
    let token = new_token().map_err(|error| {
        tracing::error!(%error, "cannot create a token");
        RestError::new(Code::Internal, "cannot create a token")
    })?;
    let create = CreateWorkerToken { name: request.name.into(), hash: hash_token(&token), expires_ms };
    match caller.run(create).await? {
        Reply::WorkerToken(row) => Ok((StatusCode::CREATED, Json(response(&row, Some(token))))),
        _ => Err(unexpected()),
    }
}

/// List worker tokens
///
/// Requires the role `admin`. The tokens themselves are not shown.
#[utoipa::path(
    get,
    path = "/worker-tokens",
    operation_id = "listWorkerTokens",
    tag = "Workers",
    responses((status = 200, description = "The tokens, including revoked ones", body = WorkerTokens)),
)]
pub(super) async fn list(caller: Caller) -> Result<Json<WorkerTokens>, RestError> {
    caller.must_be(Role::Admin)?;
    let rows = caller.store().worker_token_list(caller.tenant_id()).await?;
    Ok(Json(WorkerTokens { worker_tokens: rows.iter().map(|row| response(row, None)).collect() }))
}

/// Revoke a worker token
///
/// Requires the role `admin`. Workers that use the token are refused at once.
#[utoipa::path(
    delete,
    path = "/worker-tokens/{workerTokenId}",
    operation_id = "revokeWorkerToken",
    tag = "Workers",
    params(("workerTokenId" = String, Path, description = "Id of the worker token")),
    responses((status = 204, description = "The token is revoked")),
)]
pub(super) async fn revoke(
    caller: Caller,
    Path((_, name)): Path<(String, String)>,
) -> Result<StatusCode, RestError> {
    caller.must_be(Role::Admin)?;
    let token_id = id(&name, Code::WorkerTokenNotFound, "Worker token")?;
    caller.run(RevokeWorkerToken { token_id }).await?;
    caller.api().worker_tokens().forget_all();
    Ok(StatusCode::NO_CONTENT)
}
