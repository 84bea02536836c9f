//! Reads for loops, people and workers. Each is a single statement.

use std::borrow::Cow;
use std::sync::Arc;

use flovyn_engine::event::TaskPayloads;
use flovyn_engine::ids::{ExecutionId, Payload, TaskId, TenantId, Text, WorkerId};
use flovyn_engine::snapshot::Snapshot;
use flovyn_engine::state::*;
use flovyn_engine::{Now, for_each_table};
use tokio_postgres::Row;

use crate::port::{LoggedEvent, QueueDepth, StoreError, StoreResult};
use crate::postgres::Shared;
use crate::postgres::codec::{self, Array, Parameter};
use crate::postgres::connection::Request;
use crate::postgres::lanes;
use crate::postgres::load::{CLOCK, read_clock};
use crate::postgres::sql::{LISTED, columns, key_order};
use crate::postgres::table::TableRow;
use crate::record::Record;
use crate::value::{Field, Value};

impl Shared {
    pub(super) async fn rows(&self, requests: &[Request<'_>]) -> StoreResult<Vec<Vec<Row>>> {
        let mut connection = self.readers.take().await?;
        // Not reusable until the answer has arrived. If this future is dropped earlier, a statement is still running,
        // and the next reader would have to wait for it.
        connection.set_reusable(false);
        let answers = connection.round(requests).await;
        connection.set_reusable(!matches!(answers, Err(StoreError::Unavailable(_))));
        answers
    }

    pub(super) async fn query(
        &self,
        text: impl Into<Cow<'static, str>>,
        values: Vec<Value<'_>>,
    ) -> StoreResult<Vec<Row>> {
        let parameters = values.into_iter().map(Parameter::One).collect();
        let mut answers = self.rows(&[Request::text(text, parameters)]).await?;
        Ok(answers.pop().unwrap_or_default())
    }

    /// Records of one table. `rest` is the part of the statement after the table's name, which has the alias `t`.
    pub(super) async fn records<R: Record>(&self, rest: &str, values: Vec<Value<'_>>) -> StoreResult<Vec<R>> {
        let text = format!("SELECT {} FROM {} t {rest}", columns::<R>(), R::TABLE);
        codec::read_all(&self.query(text, values).await?)
    }

    pub(super) async fn record<R: Record>(
        &self,
        rest: &str,
        values: Vec<Value<'_>>,
    ) -> StoreResult<Option<R>> {
        Ok(self.records(rest, values).await?.pop())
    }

    /// The first column of every row.
    pub(super) async fn ids(
        &self,
        text: &'static str,
        values: Vec<Value<'_>>,
    ) -> StoreResult<Vec<uuid::Uuid>> {
        self.query(text, values).await?.iter().map(|row| codec::get(row, 0)).collect()
    }
}

pub(super) async fn now(shared: &Shared) -> StoreResult<Now> {
    read_clock(&shared.query(CLOCK, Vec::new()).await?)
}

pub(super) const DUE_PAGE: &str = "WHERE t.clock = $1 AND t.due_ms <= $2 \
                                   ORDER BY t.due_ms, t.tenant_id, t.class, t.id, t.name LIMIT $3";

pub(super) async fn due_next(shared: &Shared, clock: ClockKind) -> StoreResult<Option<i64>> {
    let text = "SELECT due_ms FROM due WHERE clock = $1 ORDER BY due_ms LIMIT 1";
    let rows = shared.query(text, vec![clock.value()]).await?;
    rows.first().map(|row| codec::get(row, 0)).transpose()
}

/// One statement. If two processes ask at once, the second waits for the first one's row and then finds that the turn
/// is taken.
const TURN_TAKE: &str = "\
    WITH clock AS (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms) \
    INSERT INTO turn AS t (name, next_ms) SELECT $1, now_ms + $2 FROM clock \
    ON CONFLICT (name) DO UPDATE SET next_ms = excluded.next_ms WHERE t.next_ms <= excluded.next_ms - $2 \
    RETURNING 1";

pub(super) async fn turn_take(shared: &Shared, name: &str, every_ms: i64) -> StoreResult<bool> {
    let rows = shared.query(TURN_TAKE, vec![Value::Text(name), Value::Int(every_ms)]).await?;
    Ok(!rows.is_empty())
}

pub(super) async fn lanes_with_work(shared: &Arc<Shared>, lanes: &[Lane]) -> StoreResult<Vec<Lane>> {
    if lanes.is_empty() {
        return Ok(Vec::new());
    }
    let (_, starts) = shared.starts.begin(lanes.iter(), std::time::Instant::now());
    let parameters = lanes::parameters(lanes.iter().map(|lane| (lane, None)), &starts, false);
    let answers = shared.rows(&[Request::text(lanes::with_work_sql(), parameters)]).await?;
    let mut found = Vec::new();
    for row in answers.iter().flatten() {
        let place: i64 = codec::get(row, 0)?;
        let index = usize::try_from(place - 1).unwrap_or(usize::MAX);
        found.extend(lanes.get(index).cloned());
    }
    Ok(found)
}

/// For standalone tasks only: all other tasks have NULL in that column.
pub(super) const TASK_FINISHED: &str = "SELECT id FROM task_execution WHERE tenant_id = $1 \
    AND listed_finished_ms < $2 AND purging = 0 ORDER BY listed_finished_ms, id LIMIT $3";

/// Jumps from lane to lane by the index instead of reading every row of the queue.
pub(super) const LANES_OF_QUEUE: &str = "\
    WITH RECURSIVE lane AS (\
        (SELECT kind, kind_version FROM ready WHERE tenant_id = $1 AND class = $2 AND queue = $3 \
         ORDER BY kind, kind_version LIMIT 1) \
        UNION ALL \
        SELECT n.kind, n.kind_version FROM lane l CROSS JOIN LATERAL (\
            SELECT r.kind, r.kind_version FROM ready r WHERE r.tenant_id = $1 AND r.class = $2 AND r.queue = $3 \
            AND (r.kind, r.kind_version) > (l.kind, l.kind_version) \
            ORDER BY r.kind, r.kind_version LIMIT 1) n) \
    SELECT kind, kind_version FROM lane LIMIT $4";

pub(super) async fn lanes_of_queue(
    shared: &Shared,
    tenant_id: TenantId,
    class: WorkClass,
    queue: &str,
    limit: usize,
) -> StoreResult<Vec<Lane>> {
    let values = vec![tenant_id.value(), class.value(), Value::Text(queue), codec::limit(limit)];
    let rows = shared.query(LANES_OF_QUEUE, values).await?;
    let queue = Text::from(queue);
    let lane = |row: &Row| {
        let (kind, version): (&str, &str) = (codec::get(row, 0)?, codec::get(row, 1)?);
        Ok(Lane { tenant_id, class, queue: queue.clone(), kind: kind.into(), version: version.into() })
    };
    rows.iter().map(lane).collect()
}

/// Finds lanes by the index, as above; the first row of a lane is its oldest. Then the rows of every queue are
/// counted, up to a limit.
pub(super) const QUEUE_DEPTHS: &str = "\
    WITH RECURSIVE lane AS (\
        (SELECT class, queue, kind, kind_version, sort_ms FROM ready WHERE tenant_id = $1 \
         ORDER BY class, queue, kind, kind_version, sort_ms LIMIT 1) \
        UNION ALL \
        SELECT n.* FROM lane l CROSS JOIN LATERAL (\
            SELECT r.class, r.queue, r.kind, r.kind_version, r.sort_ms FROM ready r WHERE r.tenant_id = $1 \
            AND (r.class, r.queue, r.kind, r.kind_version) > (l.class, l.queue, l.kind, l.kind_version) \
            ORDER BY r.class, r.queue, r.kind, r.kind_version, r.sort_ms LIMIT 1) n), \
    queue AS (SELECT queue, class, min(sort_ms) AS oldest_ms FROM lane GROUP BY queue, class) \
    SELECT q.queue, q.class, c.ready, q.oldest_ms FROM queue q CROSS JOIN LATERAL (\
        SELECT count(*) AS ready FROM (SELECT 1 FROM ready r \
            WHERE r.tenant_id = $1 AND r.class = q.class AND r.queue = q.queue LIMIT $2) counted) c \
    ORDER BY q.class, q.queue";

pub(super) async fn queue_depths(
    shared: &Shared,
    tenant_id: TenantId,
    limit: i64,
) -> StoreResult<Vec<QueueDepth>> {
    let rows = shared.query(QUEUE_DEPTHS, vec![tenant_id.value(), Value::Int(limit)]).await?;
    let depth = |row: &Row| {
        let class: i16 = codec::get(row, 1)?;
        let class = WorkClass::from_number(class)
            .ok_or_else(|| StoreError::Refused(format!("{class} is not a class of work")))?;
        let queue = Text::from(codec::get::<&str>(row, 0)?);
        Ok(QueueDepth { queue, class, ready: codec::get(row, 2)?, oldest_sort_ms: codec::get(row, 3)? })
    };
    rows.iter().map(depth).collect()
}

pub(super) async fn worker_list(
    shared: &Shared,
    tenant_id: TenantId,
) -> StoreResult<Vec<(Worker, Vec<WorkerCapability>)>> {
    let all = |text: String| Request::text(text, vec![tenant_id.value().into()]);
    let requests = [all(all_of::<Worker>()), all(all_of::<WorkerCapability>())];
    let answers = shared.rows(&requests).await?;
    let [workers, capabilities] = &answers[..] else { return Ok(Vec::new()) };
    let mut listed: Vec<(Worker, Vec<WorkerCapability>)> =
        codec::read_all(workers)?.into_iter().map(|worker| (worker, Vec::new())).collect();
    for capability in codec::read_all::<WorkerCapability>(capabilities)? {
        // A worker that registered between the two statements is left for the next call.
        if let Ok(index) = listed.binary_search_by_key(&capability.worker_id, |(worker, _)| worker.id) {
            listed[index].1.push(capability);
        }
    }
    Ok(listed)
}

pub(super) async fn worker_get(
    shared: &Shared,
    tenant_id: TenantId,
    id: WorkerId,
) -> StoreResult<Option<(Worker, Vec<WorkerCapability>)>> {
    let own = |text: String| Request::text(text, vec![tenant_id.value().into(), id.value().into()]);
    let requests = [own(one_of::<Worker>("id")), own(one_of::<WorkerCapability>("worker_id"))];
    let answers = shared.rows(&requests).await?;
    let [workers, capabilities] = &answers[..] else { return Ok(None) };
    let worker = codec::read_all::<Worker>(workers)?.into_iter().next();
    let capabilities = codec::read_all(capabilities)?;
    Ok(worker.map(|worker| (worker, capabilities)))
}

fn one_of<R: Record>(id: &str) -> String {
    let (columns, order) = (columns::<R>(), key_order::<R>());
    format!("SELECT {columns} FROM {} t WHERE t.tenant_id = $1 AND t.{id} = $2 ORDER BY {order}", R::TABLE)
}

fn all_of<R: Record>() -> String {
    let (columns, order) = (columns::<R>(), key_order::<R>());
    format!("SELECT {columns} FROM {} t WHERE t.tenant_id = $1 ORDER BY {order}", R::TABLE)
}

pub(super) async fn execution_ends(
    shared: &Shared,
    tenant_id: TenantId,
    ids: &[ExecutionId],
) -> StoreResult<Vec<Event>> {
    let text = format!(
        "SELECT {} FROM workflow_execution x \
         JOIN workflow_event t ON t.tenant_id = x.tenant_id AND t.execution_id = x.id AND t.sequence = x.last_sequence \
         WHERE x.tenant_id = $1 AND x.id = ANY($2) AND x.finished_ms IS NOT NULL AND x.purging = 0 ORDER BY x.id",
        columns::<Event>()
    );
    let ids = Array::Uuid(ids.iter().copied().map(Some).collect());
    let parameters = vec![Parameter::One(tenant_id.value()), Parameter::Many(ids)];
    let answers = shared.rows(&[Request::text(text, parameters)]).await?;
    answers.iter().flatten().map(codec::read).collect()
}

/// Events, each with the payloads of the task that it is about, if they are needed to show it.
pub(super) fn event_page_sql() -> String {
    format!(
        "SELECT {}, p.id IS NOT NULL, p.input, p.output, p.error, p.failure FROM workflow_event t \
         LEFT JOIN task_execution p ON p.tenant_id = t.tenant_id AND p.id = t.subject AND t.kind = ANY($5) \
         WHERE t.tenant_id = $1 AND t.execution_id = $2 AND t.sequence > $3 ORDER BY t.sequence LIMIT $4",
        columns::<Event>()
    )
}

pub(super) async fn event_page(
    shared: &Shared,
    tenant_id: TenantId,
    id: ExecutionId,
    after: i64,
    limit: usize,
) -> StoreResult<Vec<LoggedEvent>> {
    let about_tasks = EventKind::ALL.iter().filter(|kind| kind.keys().from_task.is_some());
    let kinds = Array::Small(about_tasks.map(|kind| Some(kind.number())).collect());
    let values = [tenant_id.value(), id.value(), Value::Int(after), codec::limit(limit)];
    let parameters = values.into_iter().map(Parameter::One).chain([Parameter::Many(kinds)]).collect();
    let answers = shared.rows(&[Request::text(event_page_sql(), parameters)]).await?;
    answers.iter().flatten().map(logged_event).collect()
}

fn logged_event(row: &Row) -> StoreResult<LoggedEvent> {
    let event = codec::read(row)?;
    let first = Event::COLUMNS.len();
    let payload =
        |index| Ok::<_, StoreError>(codec::get::<Option<&[u8]>>(row, index)?.map(Payload::copy_from_slice));
    let task = match codec::get(row, first)? {
        false => None,
        true => Some(TaskPayloads {
            input: payload(first + 1)?,
            output: payload(first + 2)?,
            error: codec::get::<Option<&str>>(row, first + 3)?.map(Text::from),
            failure: payload(first + 4)?,
        }),
    };
    Ok(LoggedEvent { event, task })
}

pub(super) async fn promise_list(
    shared: &Shared,
    tenant_id: TenantId,
    id: ExecutionId,
    open_only: bool,
    limit: usize,
) -> StoreResult<Vec<Promise>> {
    let open = if open_only { " AND t.status = 0" } else { "" };
    let rest =
        format!("WHERE t.tenant_id = $1 AND t.execution_id = $2 AND t.{LISTED}{open} ORDER BY t.id LIMIT $3");
    shared.records(&rest, vec![tenant_id.value(), id.value(), codec::limit(limit)]).await
}

pub(super) async fn execution_tasks(
    shared: &Shared,
    tenant_id: TenantId,
    id: ExecutionId,
    open_only: bool,
    after: Option<TaskId>,
    limit: usize,
) -> StoreResult<Vec<Task>> {
    let open = if open_only { " AND t.status IN (0, 1)" } else { "" };
    let mut values = vec![tenant_id.value(), id.value(), codec::limit(limit)];
    values.extend(after.map(Value::Uuid));
    let cursor = if after.is_some() { " AND t.id > $4" } else { "" };
    let rest = format!(
        "WHERE t.tenant_id = $1 AND t.execution_id = $2 AND t.purging = 0{open}{cursor} ORDER BY t.id LIMIT $3"
    );
    shared.records(&rest, values).await
}

macro_rules! define_snapshot {
    ($($field:ident: $row:ident,)*) => {
        /// Reads all tables in one consistent state.
        pub(super) async fn snapshot(shared: &Shared) -> StoreResult<Snapshot> {
            let mut requests = vec![Request::plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")];
            $(requests.push(Request::text(whole::<$row>(), Vec::new()));)*
            requests.push(Request::plain("COMMIT"));
            let mut connection = shared.readers.take().await?;
            connection.set_reusable(false);
            let answers = connection.round(&requests).await?;
            connection.set_reusable(true);
            let mut answers = answers.iter().skip(1);
            let mut snapshot = Snapshot::default();
            $(*$row::kept(&mut snapshot) = codec::read_all(answers.next().map_or(&[], Vec::as_slice))?;)*
            Ok(snapshot)
        }
    };
}
for_each_table!(define_snapshot);

fn whole<R: Record>() -> String {
    format!("SELECT {} FROM {} t ORDER BY {}", columns::<R>(), R::TABLE, key_order::<R>())
}
