//! The caller of a request and its tenant. The error is the same for another caller's tenant and for one that does not
//! exist.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use flovyn_auth::{Principal, Role, TenantScope};
use flovyn_engine::ids::{TenantId, Text};
use flovyn_engine::request::{Actor, Op};
use flovyn_engine::{Code, Reply};
use flovyn_store::Store;
use std::sync::Arc;
use uuid::Uuid;

use super::error::{RestError, no_such_path_at};
use crate::actor::actor;
use crate::api::Api;

/// An authenticated caller that acts for one tenant.
#[derive(Debug)]
pub(super) struct Caller {
    api: Api,
    scope: TenantScope,
    role: Role,
    actor: Arc<Actor>,
    slug: Text,
    pub(super) traceparent: Option<Text>,
}

impl Caller {
    /// Refuses callers whose role is lower.
    pub(super) fn must_be(&self, role: Role) -> Result<(), RestError> {
        if self.role >= role {
            return Ok(());
        }
        Err(RestError::forbidden(format!("this requires the role {}", role.name())))
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    pub(super) fn tenant_id(&self) -> TenantId {
        self.scope.tenant_id()
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        self.api.service().store()
    }

    pub(super) async fn run(&self, op: impl Into<Op>) -> Result<Reply, RestError> {
        Ok(self.api.service().call(acting(&self.actor, self.tenant_id()), op).await?)
    }

    /// The path of a resource of this tenant.
    pub(super) fn link(&self, rest: &str) -> String {
        format!("/api/tenants/{}/{rest}", self.slug)
    }
}

impl FromRequestParts<Api> for Caller {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, RestError> {
        let Unmetered(caller) = Unmetered::from_request_parts(parts, api).await?;
        api.admit(caller.tenant_id()).await?;
        Ok(caller)
    }
}

/// A caller whose request does not count towards the tenant's requests per second. An administrator who sets that limit
/// must not be locked out by it.
#[derive(Debug)]
pub(super) struct Unmetered(pub(super) Caller);

impl FromRequestParts<Api> for Unmetered {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, RestError> {
        let principal = person(api, parts).await?;
        let path = RawPathParams::from_request_parts(parts, api).await;
        // The path is not valid UTF-8.
        let path = path.map_err(|_| no_such_path_at(parts.uri.path()))?;
        let named = path.iter().find(|(name, _)| *name == "tenant").map_or("", |(_, value)| value);
        let missing = || RestError::new(Code::TenantNotFound, format!("Tenant '{named}' not found"));
        let tenant = api.tenant(named).await?.ok_or_else(missing)?;
        let scope = principal.scope_for(tenant.id, &tenant.slug).ok_or_else(missing)?;
        let traceparent = parts.headers.get("traceparent").and_then(|value| value.to_str().ok());
        let traceparent = traceparent.filter(|text| crate::trace::is_traceparent(text)).map(Into::into);
        let (role, actor) = (principal.role(), actor(&principal));
        Ok(Self(Caller { api: api.clone(), scope, role, actor, slug: tenant.slug, traceparent }))
    }
}

/// A caller that the audit log names.
fn acting(actor: &Arc<Actor>, tenant_id: TenantId) -> flovyn_service::Caller {
    flovyn_service::Caller { actor: Some(actor.clone()), ..tenant_id.into() }
}

/// A caller that may create tenants.
#[derive(Debug)]
pub(super) struct ServerAdmin {
    api: Api,
    actor: Arc<Actor>,
}

impl ServerAdmin {
    /// Executes a request for a tenant that is being created and has no scope yet.
    pub(super) async fn run(&self, op: impl Into<Op>) -> Result<Reply, RestError> {
        Ok(self.api.service().call(acting(&self.actor, Uuid::nil()), op).await?)
    }
}

impl FromRequestParts<Api> for ServerAdmin {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, RestError> {
        let principal = person(api, parts).await?;
        match principal.role() {
            Role::ServerAdmin => Ok(Self { api: api.clone(), actor: actor(&principal) }),
            _ => Err(RestError::forbidden("this requires the role server-admin")),
        }
    }
}

/// Authenticates a person. Worker tokens are refused, because they are for gRPC only.
pub(super) async fn person(api: &Api, parts: &Parts) -> Result<Principal, RestError> {
    match api.authenticate(&parts.headers).await? {
        Principal::Worker { .. } => Err(RestError::unauthenticated()),
        principal => Ok(principal),
    }
}
