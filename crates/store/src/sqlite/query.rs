//! The reads of the port, each in the transaction of one reader.

use std::collections::{BTreeMap, BTreeSet};

use flovyn_engine::event::TaskPayloads;
use flovyn_engine::for_each_table;
use flovyn_engine::ids::{ExecutionId, Payload, TaskId, TenantId, Text, WorkerId};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use uuid::Uuid;

use super::codec::{limit, pair, rows};
use super::error::store_error;
use super::scan::{OPEN_PROMISES, OPEN_TIMERS, PROMISES, owned};
use crate::port::{LoggedEvent, QueueDepth, StoreResult};
use crate::record::{Record, lane_values};
use crate::value::{Field, Value};

pub(super) const DUE_PAGE: &str = "WHERE clock = ?1 AND due_ms <= ?2 \
     ORDER BY clock, due_ms, tenant_id, class, id, name LIMIT ?3";
pub(super) const DUE_NEXT: &str = "SELECT min(due_ms) FROM due WHERE clock = ?1";
pub(super) const EXECUTION_FINISHED: &str = "SELECT id FROM workflow_execution INDEXED BY execution_by_finished \
     WHERE tenant_id = ?1 AND finished_ms < ?2 AND purging = 0 ORDER BY finished_ms, id LIMIT ?3";
pub(super) const TASK_FINISHED: &str = "SELECT id FROM task_execution INDEXED BY task_by_finished \
     WHERE tenant_id = ?1 AND finished_ms < ?2 AND execution_id IS NULL AND purging = 0 \
     ORDER BY finished_ms, id LIMIT ?3";
pub(super) const LANE_HAS_WORK: &str = "SELECT EXISTS (SELECT 1 FROM ready WHERE tenant_id = ?1 AND class = ?2 \
     AND queue = ?3 AND kind = ?4 AND kind_version = ?5)";
pub(super) const QUEUE_DEPTH: &str = "SELECT count(*) FROM (SELECT 1 FROM ready WHERE tenant_id = ?1 \
     AND class = ?2 AND queue = ?3 LIMIT ?4)";
pub(super) const TASK_PAGE: &str = "INDEXED BY task_of_execution WHERE tenant_id = ?1 AND execution_id = ?2 \
     AND id > ?3 AND purging = 0 ORDER BY id LIMIT ?4";
pub(super) const OPEN_TASK_PAGE: &str = "INDEXED BY task_of_execution WHERE tenant_id = ?1 AND execution_id = ?2 \
     AND id > ?3 AND purging = 0 AND status IN (?5, ?6) ORDER BY id LIMIT ?4";

macro_rules! define {
    ($($field:ident: $row:ident,)*) => {
        pub(super) fn snapshot(conn: &Connection) -> StoreResult<Snapshot> {
            Ok(Snapshot { $($field: table(conn)?,)* })
        }
    };
}
for_each_table!(define);

fn table<R: Record>(conn: &Connection) -> StoreResult<Vec<R>> {
    let key: Vec<&str> = R::COLUMNS[..R::KEY_COLUMNS].iter().map(|column| column.name).collect();
    rows(conn, &format!("ORDER BY {}", key.join(", ")), &[])
}

/// The row that the values select. `None` if it does not exist.
pub(super) fn one<R: Record>(conn: &Connection, tail: &str, values: &[Value<'_>]) -> StoreResult<Option<R>> {
    Ok(rows(conn, tail, values)?.into_iter().next())
}

pub(super) fn due_page(
    conn: &Connection,
    clock: ClockKind,
    until_ms: i64,
    wanted: usize,
) -> StoreResult<Vec<Due>> {
    rows(conn, DUE_PAGE, &[clock.value(), Value::Int(until_ms), limit(wanted)])
}

pub(super) fn due_next(conn: &Connection, clock: ClockKind) -> StoreResult<Option<i64>> {
    let mut statement = conn.prepare_cached(DUE_NEXT).map_err(store_error)?;
    statement.query_row([clock.value()], |row| row.get(0)).map_err(store_error)
}

/// Ids of executions or tasks that finished before a time, by the given statement.
pub(super) fn finished(
    conn: &Connection,
    sql: &str,
    tenant: TenantId,
    before_ms: i64,
    wanted: usize,
) -> StoreResult<Vec<Uuid>> {
    let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
    let values = params![tenant.value(), before_ms, limit(wanted)];
    let ids = statement.query_map(values, |row| row.get(0).map(Uuid::from_bytes)).map_err(store_error)?;
    ids.collect::<rusqlite::Result<Vec<Uuid>>>().map_err(store_error)
}

pub(super) fn lanes_with_work(conn: &Connection, lanes: Vec<Lane>) -> StoreResult<Vec<Lane>> {
    let mut statement = conn.prepare_cached(LANE_HAS_WORK).map_err(store_error)?;
    let mut found = Vec::new();
    for lane in lanes {
        let mut values = Vec::with_capacity(5);
        lane_values(&lane, &mut values);
        let has_work: bool =
            statement.query_row(params_from_iter(values), |row| row.get(0)).map_err(store_error)?;
        if has_work {
            found.push(lane);
        }
    }
    Ok(found)
}

const LANE_COLUMNS: [&str; 5] = ["tenant_id", "class", "queue", "kind", "kind_version"];

/// Selects the first row whose leading columns have the given values. If `beyond`, the last of these columns must be
/// greater instead. The columns are compared one by one: for `(kind, kind_version) > (?, ?)` SQLite would walk all
/// rows that are equal.
pub(super) fn first_ready_tail(columns: usize, beyond: bool) -> String {
    let condition = |(index, column): (usize, &&str)| {
        let sign = if beyond && index + 1 == columns { ">" } else { "=" };
        format!("{column} {sign} ?{}", index + 1)
    };
    let conditions: Vec<String> = LANE_COLUMNS[..columns].iter().enumerate().map(condition).collect();
    let order = LANE_COLUMNS.join(", ");
    format!("WHERE {} ORDER BY {order}, sort_ms, id LIMIT 1", conditions.join(" AND "))
}

fn first_ready(conn: &Connection, values: &[Value<'_>], beyond: bool) -> StoreResult<Option<Ready>> {
    one(conn, &first_ready_tail(values.len(), beyond), values)
}

/// The first row of the next lane that shares at least `kept` leading columns with this lane. The rows in between are
/// skipped at no cost.
fn next_lane(conn: &Connection, lane: &Lane, kept: usize) -> StoreResult<Option<Ready>> {
    let mut values = Vec::with_capacity(LANE_COLUMNS.len());
    lane_values(lane, &mut values);
    for columns in (kept + 1..=values.len()).rev() {
        let found = first_ready(conn, &values[..columns], true)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

pub(super) fn lanes_of_queue(
    conn: &Connection,
    tenant: TenantId,
    class: WorkClass,
    queue: &str,
    wanted: usize,
) -> StoreResult<Vec<Lane>> {
    let mut lanes: Vec<Lane> = Vec::new();
    let mut next = first_ready(conn, &[tenant.value(), class.value(), Value::Text(queue)], false)?;
    while let Some(row) = next.filter(|_| lanes.len() < wanted) {
        next = next_lane(conn, &row.lane, 3)?;
        lanes.push(row.lane);
    }
    Ok(lanes)
}

/// Goes from lane to lane. The first row of a lane is its oldest. Counting stops at the limit.
pub(super) fn queue_depths(conn: &Connection, tenant: TenantId, up_to: i64) -> StoreResult<Vec<QueueDepth>> {
    let mut depths: Vec<QueueDepth> = Vec::new();
    let mut next = first_ready(conn, &[tenant.value()], false)?;
    while let Some(row) = next {
        match depths.last_mut() {
            Some(depth) if depth.class == row.lane.class && depth.queue == row.lane.queue => {
                depth.oldest_sort_ms = depth.oldest_sort_ms.min(Some(row.sort_ms));
            }
            _ => depths.push(QueueDepth {
                queue: row.lane.queue.clone(),
                class: row.lane.class,
                ready: queue_depth(conn, &row.lane, up_to)?,
                oldest_sort_ms: Some(row.sort_ms),
            }),
        }
        next = next_lane(conn, &row.lane, 1)?;
    }
    Ok(depths)
}

fn queue_depth(conn: &Connection, lane: &Lane, up_to: i64) -> StoreResult<i64> {
    let mut statement = conn.prepare_cached(QUEUE_DEPTH).map_err(store_error)?;
    let values = params![lane.tenant_id.value(), lane.class.value(), lane.queue.value(), up_to];
    statement.query_row(values, |row| row.get(0)).map_err(store_error)
}

pub(super) fn worker_list(
    conn: &Connection,
    tenant: TenantId,
) -> StoreResult<Vec<(Worker, Vec<WorkerCapability>)>> {
    let workers: Vec<Worker> = rows(conn, "WHERE tenant_id = ?1 ORDER BY id", &[tenant.value()])?;
    let with_capabilities = |worker: Worker| Ok((owned(conn, tenant, worker.id, usize::MAX)?, worker));
    let found = workers.into_iter().map(with_capabilities);
    found.map(|pair| pair.map(|(capabilities, worker)| (worker, capabilities))).collect()
}

pub(super) fn worker_get(
    conn: &Connection,
    tenant: TenantId,
    id: WorkerId,
) -> StoreResult<Option<(Worker, Vec<WorkerCapability>)>> {
    let found: Vec<Worker> = rows(conn, "WHERE tenant_id = ?1 AND id = ?2", &[tenant.value(), id.value()])?;
    let Some(worker) = found.into_iter().next() else { return Ok(None) };
    Ok(Some((worker, owned(conn, tenant, id, usize::MAX)?)))
}

pub(super) fn execution_ends(
    conn: &Connection,
    tenant: TenantId,
    ids: &BTreeSet<ExecutionId>,
) -> StoreResult<Vec<Event>> {
    let tail = "WHERE tenant_id = ?1 AND execution_id = ?2 AND sequence = (SELECT last_sequence \
        FROM workflow_execution WHERE tenant_id = ?1 AND id = ?2 AND finished_ms IS NOT NULL AND purging = 0)";
    let end = |id: &ExecutionId| rows::<Event>(conn, tail, &pair(tenant, *id));
    Ok(ids.iter().map(end).collect::<StoreResult<Vec<_>>>()?.into_iter().flatten().collect())
}

pub(super) fn event_page(
    conn: &Connection,
    tenant: TenantId,
    execution: ExecutionId,
    after: i64,
    wanted: usize,
) -> StoreResult<Vec<LoggedEvent>> {
    let tail = "WHERE tenant_id = ?1 AND execution_id = ?2 AND sequence > ?3 ORDER BY sequence LIMIT ?4";
    let values = [tenant.value(), execution.value(), Value::Int(after), limit(wanted)];
    let events: Vec<Event> = rows(conn, tail, &values)?;
    // A task's start and end are often on the same page, so each task is read once.
    let tasks: BTreeSet<TaskId> = events.iter().filter_map(Event::task_needed).collect();
    let mut payloads: BTreeMap<TaskId, TaskPayloads> = BTreeMap::new();
    for task in tasks {
        payloads.extend(task_payloads(conn, tenant, task)?.map(|found| (task, found)));
    }
    let with_task = |event: Event| {
        let task = event.task_needed().and_then(|task| payloads.get(&task).cloned());
        LoggedEvent { event, task }
    };
    Ok(events.into_iter().map(with_task).collect())
}

fn task_payloads(conn: &Connection, tenant: TenantId, task: TaskId) -> StoreResult<Option<TaskPayloads>> {
    let sql = "SELECT input, output, error, failure FROM task_execution WHERE tenant_id = ?1 AND id = ?2";
    let mut statement = conn.prepare_cached(sql).map_err(store_error)?;
    let found = statement.query_row(pair(tenant, task), |row| {
        let input: Vec<u8> = row.get(0)?;
        let output: Option<Vec<u8>> = row.get(1)?;
        let error: Option<String> = row.get(2)?;
        let failure: Option<Vec<u8>> = row.get(3)?;
        Ok(TaskPayloads {
            input: Some(Payload::from(input)),
            output: output.map(Payload::from),
            error: error.map(Text::from),
            failure: failure.map(Payload::from),
        })
    });
    found.optional().map_err(store_error)
}

pub(super) fn timer_list(
    conn: &Connection,
    tenant: TenantId,
    execution: ExecutionId,
    open_only: bool,
    wanted: usize,
) -> StoreResult<Vec<Timer>> {
    if !open_only {
        return owned(conn, tenant, execution, wanted);
    }
    let values = [tenant.value(), execution.value(), limit(wanted), TimerStatus::Open.value()];
    rows(conn, OPEN_TIMERS, &values)
}

pub(super) fn promise_list(
    conn: &Connection,
    tenant: TenantId,
    execution: ExecutionId,
    open_only: bool,
    wanted: usize,
) -> StoreResult<Vec<Promise>> {
    let values = [tenant.value(), execution.value(), limit(wanted), PromiseStatus::Open.value()];
    if open_only { rows(conn, OPEN_PROMISES, &values) } else { rows(conn, PROMISES, &values[..3]) }
}

pub(super) fn execution_tasks(
    conn: &Connection,
    tenant: TenantId,
    execution: ExecutionId,
    open_only: bool,
    after: Option<TaskId>,
    wanted: usize,
) -> StoreResult<Vec<Task>> {
    let after = after.as_ref().map_or(Value::Bytes(&[]), Field::value);
    let [pending, running] = [TaskStatus::Pending.value(), TaskStatus::Running.value()];
    let values = [tenant.value(), execution.value(), after, limit(wanted), pending, running];
    if open_only { rows(conn, OPEN_TASK_PAGE, &values) } else { rows(conn, TASK_PAGE, &values[..4]) }
}
