//! Searches of a batch. Each uses an index and has a limit.

use flovyn_engine::ids::{ExecutionId, TaskId, TenantId};
use flovyn_engine::state::*;
use flovyn_engine::{Loaded, Scan};
use rusqlite::Connection;
use uuid::Uuid;

use super::codec::{limit, pair, rows};
use crate::port::StoreResult;
use crate::record::Record;
use crate::value::{Field, Value};

pub(super) const CHILDREN: &str =
    "INDEXED BY execution_child WHERE tenant_id = ?1 AND parent_id = ?2 AND id > ?3 ORDER BY id LIMIT ?4";
pub(super) const OPEN_TASKS: &str = "INDEXED BY task_of_execution WHERE tenant_id = ?1 AND execution_id = ?2 \
     AND status IN (?4, ?5) ORDER BY id LIMIT ?3";
pub(super) const OPEN_TIMERS: &str =
    "WHERE tenant_id = ?1 AND execution_id = ?2 AND status = ?4 ORDER BY name LIMIT ?3";
pub(super) const OPEN_PROMISES: &str = "INDEXED BY promise_of_execution WHERE tenant_id = ?1 \
     AND execution_id = ?2 AND status = ?4 ORDER BY id LIMIT ?3";
/// Reads the whole table, which has one row per worker. This search is rare.
const SILENT_WORKERS: &str = "WHERE last_heartbeat_ms < ?1 ORDER BY tenant_id, id LIMIT ?2";
pub(super) const NEWEST_WITH_KEY: &str = "INDEXED BY execution_by_key WHERE tenant_id = ?1 \
     AND idempotency_key = ?2 AND purging = 0 ORDER BY created_ms DESC, id DESC LIMIT ?3";
pub(super) const EXPIRED_KEYS: &str = "INDEXED BY key_by_expiry WHERE expires_ms <= ?1 \
     ORDER BY expires_ms, tenant_id, space, name LIMIT ?2";
pub(super) const AUDIT_BEFORE: &str =
    "INDEXED BY audit_by_time WHERE time_ms < ?1 ORDER BY time_ms, tenant_id, id LIMIT ?2";
pub(super) const TASKS: &str =
    "INDEXED BY task_of_execution WHERE tenant_id = ?1 AND execution_id = ?2 ORDER BY id LIMIT ?3";
pub(super) const PROMISES: &str =
    "INDEXED BY promise_of_execution WHERE tenant_id = ?1 AND execution_id = ?2 ORDER BY id LIMIT ?3";

pub(super) fn load_scan(conn: &Connection, scan: &Scan, loaded: &mut Loaded) -> StoreResult<()> {
    match scan {
        Scan::PausedQueues => loaded.queues.extend(rows(conn, "ORDER BY tenant_id, name", &[])?),
        Scan::TenantBySlug { slug } => {
            loaded.tenants.extend(rows(conn, "WHERE slug = ?1", &[Value::Text(slug)])?);
        }
        Scan::Children { tenant_id, parent_id, after, limit: wanted } => {
            let after = after.as_ref().map_or(Value::Bytes(&[]), Field::value);
            let values = [tenant_id.value(), parent_id.value(), after, limit(*wanted)];
            loaded.executions.extend(rows(conn, CHILDREN, &values)?);
        }
        Scan::OpenTasks { tenant_id, execution_id, limit: wanted } => {
            let [pending, running] = [TaskStatus::Pending.value(), TaskStatus::Running.value()];
            let values = [tenant_id.value(), execution_id.value(), limit(*wanted), pending, running];
            loaded.tasks.extend(rows(conn, OPEN_TASKS, &values)?);
        }
        Scan::OpenTimers { tenant_id, execution_id, limit: wanted } => {
            let open = TimerStatus::Open.value();
            let values = [tenant_id.value(), execution_id.value(), limit(*wanted), open];
            loaded.timers.extend(rows(conn, OPEN_TIMERS, &values)?);
        }
        Scan::OpenPromises { tenant_id, execution_id, limit: wanted } => {
            let open = PromiseStatus::Open.value();
            let values = [tenant_id.value(), execution_id.value(), limit(*wanted), open];
            loaded.promises.extend(rows(conn, OPEN_PROMISES, &values)?);
        }
        Scan::Labels { tenant_id, execution_id } => {
            loaded.labels.extend(owned(conn, *tenant_id, *execution_id, usize::MAX)?);
        }
        Scan::TaskStateKeys { tenant_id, task_id, limit } => {
            loaded.task_states.extend(owned(conn, *tenant_id, *task_id, *limit)?);
        }
        Scan::Capabilities { tenant_id, worker_id } => {
            loaded.capabilities.extend(owned(conn, *tenant_id, *worker_id, usize::MAX)?);
        }
        Scan::SilentWorkers { before_ms, limit: wanted } => {
            loaded.workers.extend(rows(conn, SILENT_WORKERS, &[Value::Int(*before_ms), limit(*wanted)])?);
        }
        Scan::NewestWithKey { tenant_id, name } => {
            let values = [tenant_id.value(), name.value(), limit(1)];
            loaded.executions.extend(rows(conn, NEWEST_WITH_KEY, &values)?);
        }
        Scan::ExpiredKeys { until_ms, limit: wanted } => {
            loaded.keys.extend(rows(conn, EXPIRED_KEYS, &[Value::Int(*until_ms), limit(*wanted)])?);
        }
        Scan::AuditBefore { before_ms, limit: wanted } => {
            loaded.audit.extend(rows(conn, AUDIT_BEFORE, &[Value::Int(*before_ms), limit(*wanted)])?);
        }
        Scan::Belongings { tenant_id, execution_id, limit } => {
            load_belongings(conn, *tenant_id, *execution_id, *limit, loaded)?;
        }
        Scan::TaskBelongings { tenant_id, task_id, limit } => {
            load_task_belongings(conn, *tenant_id, &[*task_id], *limit, loaded)?;
        }
    }
    Ok(())
}

/// Rows whose key begins with a tenant and an owner, in key order.
pub(super) fn owned<R: Record>(
    conn: &Connection,
    tenant: TenantId,
    owner: Uuid,
    wanted: usize,
) -> StoreResult<Vec<R>> {
    let [tenant, owner] = pair(tenant, owner);
    rows(conn, &owned_tail::<R>(), &[tenant, owner, limit(wanted)])
}

pub(super) fn owned_tail<R: Record>() -> String {
    let [tenant, owner] = [R::COLUMNS[0].name, R::COLUMNS[1].name];
    let key: Vec<&str> = R::COLUMNS[..R::KEY_COLUMNS].iter().map(|column| column.name).collect();
    format!("WHERE {tenant} = ?1 AND {owner} = ?2 ORDER BY {} LIMIT ?3", key.join(", "))
}

fn load_belongings(
    conn: &Connection,
    tenant: TenantId,
    execution: ExecutionId,
    wanted: usize,
    loaded: &mut Loaded,
) -> StoreResult<()> {
    loaded.events.extend(owned(conn, tenant, execution, wanted)?);
    loaded.labels.extend(owned(conn, tenant, execution, wanted)?);
    loaded.states.extend(owned(conn, tenant, execution, wanted)?);
    loaded.timers.extend(owned(conn, tenant, execution, wanted)?);
    let values = [tenant.value(), execution.value(), limit(wanted)];
    loaded.promises.extend(rows(conn, PROMISES, &values)?);
    let tasks: Vec<Task> = rows(conn, TASKS, &values)?;
    let ids: Vec<TaskId> = tasks.iter().map(|task| task.id).collect();
    loaded.tasks.extend(tasks);
    load_task_belongings(conn, tenant, &ids, wanted, loaded)
}

fn load_task_belongings(
    conn: &Connection,
    tenant: TenantId,
    tasks: &[TaskId],
    wanted: usize,
    loaded: &mut Loaded,
) -> StoreResult<()> {
    loaded.attempts.extend(owned_by_all(conn, tenant, tasks, wanted)?);
    loaded.task_states.extend(owned_by_all(conn, tenant, tasks, wanted)?);
    loaded.task_logs.extend(owned_by_all(conn, tenant, tasks, wanted)?);
    Ok(())
}

/// The first rows of all these owners together, up to the limit.
fn owned_by_all<R: Record>(
    conn: &Connection,
    tenant: TenantId,
    owners: &[Uuid],
    wanted: usize,
) -> StoreResult<Vec<R>> {
    let mut found = Vec::new();
    for owner in owners {
        if found.len() == wanted {
            break;
        }
        found.extend(owned(conn, tenant, *owner, wanted - found.len())?);
    }
    Ok(found)
}
