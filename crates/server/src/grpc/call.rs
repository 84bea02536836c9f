//! One call: who makes it, for which tenant, and how it reaches the service.

use std::sync::Arc;
use std::time::Duration;

use flovyn_auth::{Principal, Role, TenantScope};
use flovyn_engine::reply::Claimed;
use flovyn_engine::request::{Actor, Claim, Op};
use flovyn_engine::state::Tenant;
use flovyn_engine::{Code, Reply};
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};
use uuid::Uuid;

use super::status::{not_allowed, not_read, refuse, refused};
use crate::actor::actor;
use crate::api::Api;
use crate::trace::is_traceparent;

/// Metadata in which a caller who may act for several tenants names one, by slug or id, where the message cannot.
const TENANT: &str = "flovyn-tenant";

/// What a call needs the caller to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// A worker of the tenant.
    Worker,
    /// Anybody of the tenant who may read.
    Viewer,
    /// Anybody of the tenant who may act.
    Operator,
}

/// An authenticated call. The scope in it is the only source of tenant ids.
#[derive(Debug, Clone)]
pub(super) struct Call {
    api: Api,
    scope: TenantScope,
    /// What workers do as workers is not audited.
    actor: Option<Arc<Actor>>,
    pub(super) traceparent: Option<flovyn_engine::ids::Text>,
}

impl Call {
    /// Lets a caller in. `named`: the tenant that the message names, if it names one.
    pub(super) async fn begin<T>(
        api: &Api,
        request: &Request<T>,
        needs: Needs,
        named: &str,
    ) -> Result<Self, Status> {
        Self::from_metadata(api, request.metadata(), needs, named).await
    }

    pub(super) async fn from_metadata(
        api: &Api,
        metadata: &MetadataMap,
        needs: Needs,
        named: &str,
    ) -> Result<Self, Status> {
        let principal = api.authenticate(metadata.as_ref()).await.map_err(not_allowed)?;
        let may = match needs {
            Needs::Worker => matches!(principal, Principal::Worker { .. }),
            Needs::Viewer => principal.role() >= Role::Viewer,
            Needs::Operator => principal.role() >= Role::Operator,
        };
        if !may {
            return Err(refuse(Code::PermissionDenied, "this credential may not do this"));
        }
        let scope = match metadata.get(TENANT).map(|value| value.to_str().unwrap_or("\0")) {
            None => scope(api, &principal, named).await?,
            Some(beside) => {
                let scope_beside = scope(api, &principal, beside).await?;
                if !named.is_empty() && scope(api, &principal, named).await? != scope_beside {
                    let message = format!("the message and '{TENANT}' name different tenants");
                    return Err(refuse(Code::PermissionDenied, message));
                }
                scope_beside
            }
        };
        let traceparent = metadata.get("traceparent").and_then(|value| value.to_str().ok());
        let traceparent = traceparent.filter(|text| is_traceparent(text)).map(Into::into);
        let actor = (needs == Needs::Operator).then(|| actor(&principal));
        Ok(Self { api: api.clone(), scope, actor, traceparent })
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    pub(super) fn tenant_id(&self) -> Uuid {
        self.scope.tenant_id()
    }

    /// Lets in a call that counts towards the tenant's requests per second: one that starts something.
    pub(super) async fn admit(&self) -> Result<(), Status> {
        self.api.admit(self.tenant_id()).await.map_err(refused)
    }

    /// Carries out a request: when it returns, the effect is durable.
    pub(super) async fn run(&self, op: impl Into<Op>) -> Result<Reply, Status> {
        let called = self.api.service().call_as(self.actor.clone(), self.tenant_id(), op);
        called.await.map_err(refused)
    }

    /// Claims work, waiting for it; ends early when the server is about to stop.
    pub(super) async fn poll(&self, claim: Claim, wait: Duration) -> Result<Claimed, Status> {
        tokio::select! {
            claimed = self.api.service().poll(self.tenant_id(), claim, wait) => claimed.map_err(refused),
            () = self.api.drains() => Ok(Claimed::default()),
        }
    }
}

/// A worker's tenant is its own; whoever may act for several names one.
async fn scope(api: &Api, principal: &Principal, named: &str) -> Result<TenantScope, Status> {
    if named.is_empty() {
        if let Some(scope) = principal.only_scope() {
            return Ok(scope);
        }
        if let [only] = principal.named_tenants() {
            return named_scope(api, principal, only).await;
        }
        return Err(refuse(
            Code::PermissionDenied,
            format!(
                "the credential is not for exactly one tenant and none was named: name one in '{TENANT}'"
            ),
        ));
    }
    // The common case needs no look at the database.
    if let Some(scope) = principal.only_scope()
        && Uuid::try_parse(named).is_ok_and(|id| id == scope.tenant_id())
    {
        return Ok(scope);
    }
    named_scope(api, principal, named).await
}

/// A tenant that does not exist and one that is not the caller's look the same.
async fn named_scope(api: &Api, principal: &Principal, named: &str) -> Result<TenantScope, Status> {
    let store = api.service().store();
    let tenant: Option<Tenant> = match Uuid::try_parse(named) {
        Ok(id) => store.tenant_get(id).await.map_err(not_read)?,
        // No slug has U+0000, and not every database can look for it.
        Err(_) if named.contains('\0') => None,
        Err(_) => store.tenant_by_slug(named).await.map_err(not_read)?,
    };
    let scope = tenant.and_then(|tenant| principal.scope_for(&tenant));
    scope.ok_or_else(|| refuse(Code::PermissionDenied, "the tenant named is not the credential's"))
}
