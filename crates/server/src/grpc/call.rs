//! One call: the caller, its tenant, and how the call reaches the service.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use flovyn_auth::{Principal, Role, TenantScope};
use flovyn_engine::ids::{TaskId, WorkerId, canonical_id, named_id};
use flovyn_engine::reply::Claimed;
use flovyn_engine::request::{Actor, Claim, ExtendTask, Op, Peer};
use flovyn_engine::state::{Lane, WorkClass};
use flovyn_engine::{Code, Reply};
use flovyn_service::Caller;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};
use uuid::Uuid;

use super::connection::{Connection, Held};
use super::status::{not_allowed, not_read, refuse, refused};
use super::vouched::VouchedClaim;
use crate::actor::actor;
use crate::api::Api;
use crate::trace::is_traceparent;

/// Metadata in which a caller with several tenants names one, by slug or id, if the message has no field for it.
const TENANT: &str = "flovyn-tenant";
/// Metadata in which a worker without claim tokens may give its name or id, as in its polls.
const WORKER: &str = "flovyn-worker";

/// The kind of caller that a call requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// A worker of the tenant.
    Worker,
    /// Any caller of the tenant who may read.
    Viewer,
    /// Any caller of the tenant who may act.
    Operator,
}

/// An authenticated call. The scope in it is the only source of tenant ids.
#[derive(Debug, Clone)]
pub(super) struct Call {
    api: Api,
    scope: TenantScope,
    /// The caller's name in the audit log. `None`: nothing is audited, because a worker acts as a worker.
    actor: Option<Arc<Actor>>,
    /// Fingerprint of the credential.
    credential: i64,
    /// The name or id that the worker claims to have, not verified.
    worker: Option<flovyn_engine::ids::Text>,
    /// The client's connection. `None` on a stream, whose messages have claim tokens.
    connection: Option<Arc<Connection>>,
    pub(super) traceparent: Option<flovyn_engine::ids::Text>,
}

impl Call {
    /// Authenticates a caller. `named` is the tenant in the message; empty if the message names none.
    pub(super) async fn begin<T>(
        api: &Api,
        request: &Request<T>,
        needs: Needs,
        named: &str,
    ) -> Result<Self, Status> {
        let call = Self::from_metadata(api, request.metadata(), needs, named).await?;
        let connection = Connection::of(request.extensions());
        // Workers read as well, so only a caller that acts counts as an application.
        if let Some(connection) = connection.as_ref().filter(|_| needs == Needs::Operator) {
            connection.calls();
        }
        let call = Self { connection, ..call };
        if needs == Needs::Worker {
            call.shows_life();
        }
        Ok(call)
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
        let worker = metadata.get(WORKER).and_then(|value| value.to_str().ok()).map(Into::into);
        let credential = fingerprint(&principal);
        Ok(Self { api: api.clone(), scope, actor, credential, worker, connection: None, traceparent })
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    pub(super) fn tenant_id(&self) -> Uuid {
        self.scope.tenant_id()
    }

    /// Counts a call that starts something towards the tenant's requests per second. Refuses it if the limit is
    /// reached.
    pub(super) async fn admit(&self) -> Result<(), Status> {
        self.api.admit(self.tenant_id()).await.map_err(refused)
    }

    /// Executes a request. When it returns, the effect is durable.
    pub(super) async fn run(&self, op: impl Into<Op>) -> Result<Reply, Status> {
        let caller = Caller { actor: self.actor.clone(), ..self.tenant_id().into() };
        self.api.service().call(caller, op).await.map_err(refused)
    }

    /// Executes a request that reports the result of a claim.
    pub(super) async fn result(&self, class: WorkClass, op: impl Into<Op>) -> Result<Reply, Status> {
        if let Some(connection) = &self.connection {
            connection.reports();
        }
        self.report(class, op).await
    }

    /// Executes a request of the holder of a claim.
    pub(super) async fn report(&self, class: WorkClass, op: impl Into<Op>) -> Result<Reply, Status> {
        self.api.service().call(self.reporter(class), op).await.map_err(refused)
    }

    /// The caller as a worker that claims work of this class and reports on it.
    pub(super) fn reporter(&self, class: WorkClass) -> Caller {
        Caller { peer: Some(Arc::new(self.peer(class))), ..self.tenant_id().into() }
    }

    pub(super) fn peer(&self, class: WorkClass) -> Peer {
        Peer {
            credential: Some(self.credential),
            connection: self.connection.as_ref().and_then(|connection| connection.reporter(class)),
            worker: self.worker.clone(),
        }
    }

    /// Records that a process has registered on the caller's connection.
    pub(super) fn registers(&self, name: &str, id: WorkerId) {
        if let Some(connection) = &self.connection {
            connection.registered(name, id);
        }
    }

    /// The process that registered under this name on the caller's connection. `None` if there was none or more than
    /// one.
    pub(super) fn process(&self, name: &str) -> Option<WorkerId> {
        self.connection.as_ref()?.process(name)
    }

    /// Records that a worker polls on the caller's connection. `id` is the id of its registration, if it has one.
    pub(super) fn polls(&self, class: WorkClass, worker: &str, id: Option<WorkerId>) {
        if let Some(connection) = &self.connection {
            connection.polled(class, worker, id);
        }
        if let Some(id) = id {
            self.sees(id);
        }
    }

    /// Records a sign of life of a worker.
    pub(super) fn sees(&self, id: WorkerId) {
        self.api.service().see_worker(self.tenant_id(), id);
    }

    /// Shows signs of life while a poll is held: pings tell whether the client is still there.
    pub(super) async fn keeps_showing_life(&self) -> Infallible {
        let every = (self.extension() / 3).max(Duration::from_millis(10));
        loop {
            tokio::time::sleep(every).await;
            self.shows_life();
        }
    }

    /// Renews the workers that poll on the caller's connection and the claims of tasks that were claimed there: any
    /// message of a worker is a sign of life.
    fn shows_life(&self) {
        let Some(connection) = &self.connection else { return };
        let service = self.api.service();
        connection.workers().for_each(|id| self.sees(id));
        for (claim, until) in connection.shows_life(self.extension()) {
            let (service, connection) = (service.clone(), connection.clone());
            tokio::spawn(async move {
                let VouchedClaim { tenant_id, task_id, token } = claim;
                match service.call(tenant_id, ExtendTask { task_id, token }).await {
                    Ok(Reply::Extended { held: true }) => {}
                    Ok(_) => connection.ended(task_id),
                    // The database may be away: the client still works on the task.
                    Err(_) => connection.not_extended(task_id, until),
                }
            });
        }
    }

    /// Records that the caller receives tasks. Later calls on this connection renew their claims.
    pub(super) fn takes(&self, claimed: &Claimed) {
        let Some(connection) = &self.connection else { return };
        let lease = milliseconds(self.api.service().limits().task_lease_ms);
        for delivery in claimed.tasks.iter().filter(|delivery| delivery.extensible) {
            let (tenant_id, task_id, token) = (delivery.task.tenant_id, delivery.task.id, delivery.token);
            connection.took(VouchedClaim { tenant_id, task_id, token }, lease, self.extension());
        }
    }

    /// Records that the end of a task was reported.
    pub(super) fn ends(&self, task_id: TaskId) {
        if let Some(connection) = &self.connection {
            connection.ended(task_id);
        }
    }

    fn extension(&self) -> Duration {
        milliseconds(self.api.service().limits().task_extension_ms())
    }

    /// Registers a held poll on its connection. `None` if the call has no connection.
    pub(super) fn hold(&self, class: WorkClass, lanes: impl FnOnce() -> Vec<Lane>) -> Option<Held> {
        self.connection.clone().map(|connection| connection.hold(class, lanes))
    }

    /// Claims work and waits for it until `cut` completes. Returns early with nothing when the server is about to stop.
    pub(super) async fn poll(
        &self,
        claim: Claim,
        wait: Duration,
        cut: impl Future<Output = ()>,
    ) -> Result<Claimed, Status> {
        let caller = self.reporter(claim.class);
        tokio::select! {
            claimed = self.api.service().poll_until(caller, claim, wait, cut) => claimed.map_err(refused),
            () = self.api.drains() => Ok(Claimed::default()),
        }
    }
}

fn milliseconds(ms: i64) -> Duration {
    Duration::from_millis(ms.max(0).unsigned_abs())
}

/// A number that identifies the credential. It does not change while the credential exists.
fn fingerprint(principal: &Principal) -> i64 {
    let id = match principal {
        Principal::Worker { token_id, .. } => *token_id,
        Principal::User { subject, .. } => named_id(Uuid::nil(), subject),
    };
    let (high, low) = id.as_u64_pair();
    i64::from_ne_bytes((high ^ low).to_ne_bytes())
}

/// The tenant of a call. A worker has exactly one; a caller with several tenants must name one.
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
            format!("the credential is not limited to one tenant: name the tenant in '{TENANT}'"),
        ));
    }
    // The common case needs no database read.
    if let Some(scope) = principal.only_scope()
        && canonical_id(named).is_some_and(|id| id == scope.tenant_id())
    {
        return Ok(scope);
    }
    named_scope(api, principal, named).await
}

/// The scope for a named tenant. The error is the same for a tenant that does not exist and for one of other callers.
async fn named_scope(api: &Api, principal: &Principal, named: &str) -> Result<TenantScope, Status> {
    let tenant = api.tenant(named).await.map_err(not_read)?;
    let scope = tenant.and_then(|tenant| principal.scope_for(tenant.id, &tenant.slug));
    scope.ok_or_else(|| refuse(Code::PermissionDenied, not_its_tenant(named)))
}

/// The error for a tenant that the caller may not use: it quotes the name and says how to configure clients.
fn not_its_tenant(named: &str) -> String {
    let what = match canonical_id(named) {
        Some(id) if id.is_nil() => {
            "the nil UUID, which some clients send when they are configured with a slug,".to_owned()
        }
        Some(id) => format!("the tenant {id}, which"),
        None => {
            format!("'{}', which is not a UUID and", named.escape_default().take(100).collect::<String>())
        }
    };
    format!(
        "the request names {what} is not the credential's tenant: clients of the public protocol are configured with the \
         tenant's UUID, which `flovyn dev` and `flovyn tenant show` print (tenant_id in .flovyn/credentials.json, id in \
         GET /api/tenants/SLUG)"
    )
}
