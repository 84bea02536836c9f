//! The worker registry: live workers, their capabilities, and when each last showed life.

use crate::check;
use crate::code::{Code, Refusal};
use crate::ids::{TenantId, Text, WorkerId, named_id};
use crate::limits::Limits;
use crate::reply::Reply;
use crate::request::{Capability, ForgetWorkers, HeartbeatWorker, RegisterWorker, SeeWorker};
use crate::rules::{Rule, Work};
use crate::state::{WorkClass, Worker, WorkerCapability};
use crate::table::{Found, Known, Row};
use crate::working_set::{Needs, Scan};

/// The id of a process that runs a worker: if it registers again, it replaces its own row only. A client that does not
/// describe its process is identified by its name.
fn process_id(tenant_id: TenantId, name: &str, host: &str, process_id: &str) -> WorkerId {
    match host.is_empty() && process_id.is_empty() {
        true => named_id(tenant_id, name),
        // No text has U+0000.
        false => named_id(tenant_id, &format!("{name}\0{host}\0{process_id}")),
    }
}

/// The live processes among the workers of one name: those that have shown life shortly before the newest of them did.
/// So a process that has gone is dropped, but after an outage of the server none is. Sessions on the stream are left
/// out, because they do not poll.
pub fn live_processes(workers: Vec<Worker>, silence_ms: i64) -> Vec<Worker> {
    let polls = |worker: &Worker| worker.lease_until_ms.is_none();
    let newest_ms =
        workers.iter().filter(|worker| polls(worker)).map(|worker| worker.last_heartbeat_ms).max();
    let since_ms = newest_ms.unwrap_or_default().saturating_sub(silence_ms);
    workers.into_iter().filter(|worker| polls(worker) && worker.last_heartbeat_ms > since_ms).collect()
}

impl RegisterWorker {
    fn worker_id(&self, tenant_id: TenantId) -> WorkerId {
        self.id.unwrap_or_else(|| process_id(tenant_id, &self.name, &self.host, &self.process_id))
    }
}

impl Rule for RegisterWorker {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        let worker_id = self.worker_id(tenant_id);
        needs.row::<Worker>((tenant_id, worker_id));
        needs.scan(Scan::Capabilities { tenant_id, worker_id });
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        check::name("worker name", &self.name, work.limits)?;
        check::bulk("capabilities", self.capabilities.len().max(1), work.limits.capabilities)?;
        for text in [&self.build_id, &self.host, &self.process_id] {
            check::text("worker description", text, work.limits)?;
        }
        check::optional_name("queue", &self.queue, work.limits)?;
        for capability in &self.capabilities {
            check_capability(work, capability)?;
        }
        let (tenant_id, id) = (work.tenant_id, self.worker_id(work.tenant_id));
        check::id("worker id", id)?;
        let now_ms = work.now.lease_ms;
        let known = work.set.workers.get(&(tenant_id, id));
        let worker = Worker {
            tenant_id,
            id,
            version: known.map_or(1, |known| known.version),
            // The name is fixed: a session that reconnects keeps its name.
            name: known.map_or_else(|| self.name.clone(), |known| known.name.clone()),
            build_id: self.build_id.clone(),
            host: self.host.clone(),
            process_id: self.process_id.clone(),
            queue: self.queue.clone(),
            registered_ms: work.now.ms,
            last_heartbeat_ms: now_ms,
            heartbeats: self.session,
            lease_until_ms: self.session.then(|| now_ms.saturating_add(work.limits.session_lease_ms)),
        };
        work.set.workers.put(worker);
        for class in [WorkClass::Workflow, WorkClass::Task] {
            replace_half(work, id, class, &self.capabilities);
        }
        Ok(Reply::Registered { worker_id: id })
    }
}

fn check_capability(work: &Work<'_>, capability: &Capability) -> Result<(), Refusal> {
    check::name("kind", &capability.kind, work.limits)?;
    check::optional_version(&capability.version, work.limits)?;
    check::timeout("timeout", capability.timeout_ms, work.limits)?;
    for schema in [&capability.input_schema, &capability.output_schema].into_iter().flatten() {
        check::payload("schema", schema, work.limits)?;
    }
    if !matches!(capability.class, WorkClass::Workflow | WorkClass::Task) {
        return Err(Refusal::new(Code::InvalidName, "a capability must be for workflows or for tasks"));
    }
    Ok(())
}

/// Replaces the capabilities of one class. A class that the request does not mention keeps its capabilities, because
/// clients may register workflows and tasks separately, over one connection or several, and after an error only one of
/// both again. If such a registration cleared the other class, that half would get no work and would not notice. The
/// price: a process that comes back with the same name, host and process id and has lost a class keeps its old kinds.
fn replace_half(work: &mut Work<'_>, worker_id: WorkerId, class: WorkClass, capabilities: &[Capability]) {
    let mentioned: Vec<_> = capabilities.iter().filter(|capability| capability.class == class).collect();
    if mentioned.is_empty() {
        return;
    }
    let old: Vec<_> = work
        .set
        .capabilities
        .current()
        .filter(|row| row.tenant_id == work.tenant_id && row.worker_id == worker_id && row.class == class)
        .map(Row::key)
        .collect();
    for key in old {
        work.set.capabilities.delete(&key);
    }
    for capability in mentioned {
        let row = WorkerCapability {
            tenant_id: work.tenant_id,
            worker_id,
            class,
            kind: capability.kind.clone(),
            kind_version: capability.version.clone().unwrap_or_else(Text::default),
            timeout_ms: capability.timeout_ms,
            input_schema: capability.input_schema.clone(),
            output_schema: capability.output_schema.clone(),
        };
        // The scan has loaded all capabilities, so a key that is still unknown is absent.
        if matches!(work.set.capabilities.known(&row.key(), false), Known::No) {
            work.set.capabilities.supply(row.key(), Found::Absent, true);
        }
        work.set.capabilities.put(row);
    }
}

impl Rule for ForgetWorkers {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::bulk("workers", self.max, limits.bulk_items)
    }

    fn needs(&self, _tenant_id: TenantId, needs: &mut Needs<'_>) {
        if !needs.scan(Scan::SilentWorkers { before_ms: self.before_ms, limit: self.max }) {
            return;
        }
        for worker in needs.set().workers.current().filter(|worker| worker.last_heartbeat_ms < self.before_ms)
        {
            needs.candidate::<Worker>(worker.key());
            needs.scan(Scan::Capabilities { tenant_id: worker.tenant_id, worker_id: worker.id });
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let silent = |worker: &&Worker| worker.last_heartbeat_ms < self.before_ms;
        let forgotten: Vec<_> = work
            .set
            .workers
            .current()
            .filter(silent)
            .map(Row::key)
            // A worker whose row is locked is showing life just now.
            .filter(|key| matches!(work.set.workers.known(key, true), Known::Row(_)))
            .collect();
        for key in &forgotten {
            let own = |row: &&WorkerCapability| (row.tenant_id, row.worker_id) == *key;
            let capabilities: Vec<_> = work.set.capabilities.current().filter(own).map(Row::key).collect();
            for capability in capabilities {
                work.set.capabilities.delete(&capability);
            }
            work.set.workers.delete(key);
        }
        Ok(Reply::Cleaned { count: forgotten.len() })
    }
}

impl Rule for HeartbeatWorker {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.row::<Worker>((tenant_id, self.worker_id));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut worker = find(work, self.worker_id)?;
        worker.last_heartbeat_ms = work.now.lease_ms;
        worker.heartbeats = true;
        if worker.lease_until_ms.is_some() {
            worker.lease_until_ms = Some(work.now.lease_ms.saturating_add(work.limits.session_lease_ms));
        }
        work.set.workers.put(worker);
        Ok(Reply::Done)
    }
}

impl Rule for SeeWorker {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.row::<Worker>((tenant_id, self.worker_id));
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut worker = find(work, self.worker_id)?;
        // Only heartbeats keep a session alive.
        if worker.lease_until_ms.is_none() {
            worker.last_heartbeat_ms = work.now.lease_ms;
            work.set.workers.put(worker);
        }
        Ok(Reply::Done)
    }
}

fn find(work: &Work<'_>, worker_id: WorkerId) -> Result<Worker, Refusal> {
    let unknown = || Refusal::new(Code::WorkerNotFound, format!("worker {worker_id} is not registered"));
    work.set.workers.get(&(work.tenant_id, worker_id)).cloned().ok_or_else(unknown)
}
