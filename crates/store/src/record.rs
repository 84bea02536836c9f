//! The table, the columns and the key of each row type. Both databases build their statements from these records.
//!
//! To add a column, add the field to the row in the engine, a line here, and a migration in both databases.

use flovyn_engine::ids::{Payload, TenantId, Text};
use flovyn_engine::state::*;
use flovyn_engine::table::Row;
use uuid::Uuid;

use crate::value::{ColumnType, Field, ReadError, Value};

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub kind: ColumnType,
    /// The column never changes after the insert, so updates omit it.
    pub fixed: bool,
}

/// A row type with its table.
pub trait Record: Row {
    const TABLE: &'static str;
    /// Columns in the order of `each_value` and `read`. The columns of the key come first.
    const COLUMNS: &'static [Column];
    const KEY_COLUMNS: usize;
    /// Index of the `version` column. `None` if the table has no such column.
    const VERSION: Option<usize>;

    /// Calls `take` with each column value, in order.
    fn each_value<'a>(&'a self, take: impl FnMut(Value<'a>));

    /// Appends all column values to a list, in order.
    fn values<'a>(&'a self, out: &mut Vec<Value<'a>>) {
        self.each_value(|value| out.push(value));
    }

    /// Appends the column values of the key to a list, in order.
    fn key_values<'a>(key: &'a Self::Key, out: &mut Vec<Value<'a>>);
    /// Reads a row from its column values.
    fn read<'a>(column: impl FnMut(usize) -> Value<'a>) -> Result<Self, ReadError>;
}

const fn version_column(columns: &[Column]) -> Option<usize> {
    let mut index = 0;
    while index < columns.len() {
        if matches!(columns[index].name.as_bytes(), b"version") {
            return Some(index);
        }
        index += 1;
    }
    None
}

/// `record!(Row, "table", key(..), fixed(..), changing(..))`: every column has the name of its field.
macro_rules! record {
    (
        $row:ident, $table:literal,
        key($($key:ident: $key_type:ty),* $(,)?),
        fixed($($fixed:ident: $fixed_type:ty),* $(,)?),
        changing($($field:ident: $field_type:ty),* $(,)?)
    ) => {
        impl Record for $row {
            const TABLE: &'static str = $table;
            const COLUMNS: &'static [Column] = &[
                $(column::<$key_type>(stringify!($key), true),)*
                $(column::<$fixed_type>(stringify!($fixed), true),)*
                $(column::<$field_type>(stringify!($field), false),)*
            ];
            const KEY_COLUMNS: usize = [$(stringify!($key)),*].len();
            const VERSION: Option<usize> = version_column(Self::COLUMNS);

            fn each_value<'a>(&'a self, mut take: impl FnMut(Value<'a>)) {
                $(take(self.$key.value());)*
                $(take(self.$fixed.value());)*
                $(take(self.$field.value());)*
            }

            fn key_values<'a>(key: &'a Self::Key, out: &mut Vec<Value<'a>>) {
                let ($($key,)*) = key;
                $(out.push($key.value());)*
            }

            fn read<'a>(column: impl FnMut(usize) -> Value<'a>) -> Result<Self, ReadError> {
                let mut reader = Reader::<Self, _>::new(column);
                Ok($row {
                    $($key: reader.next()?,)*
                    $($fixed: reader.next()?,)*
                    $($field: reader.next()?,)*
                })
            }
        }
    };
}

const fn column<F: Field>(name: &'static str, fixed: bool) -> Column {
    Column { name, kind: F::TYPE, fixed }
}

/// Reads a row's columns one after the other.
struct Reader<R, C> {
    column: C,
    next: usize,
    row: std::marker::PhantomData<R>,
}

impl<'a, R: Record, C: FnMut(usize) -> Value<'a>> Reader<R, C> {
    fn new(column: C) -> Self {
        Self { column, next: 0, row: std::marker::PhantomData }
    }

    fn next<F: Field>(&mut self) -> Result<F, ReadError> {
        let index = self.next;
        self.next += 1;
        F::from_value((self.column)(index)).map_err(|problem| ReadError {
            table: R::TABLE,
            column: R::COLUMNS[index].name,
            problem,
        })
    }
}

record!(
    Tenant, "tenant",
    key(id: TenantId),
    fixed(slug: Text, created_ms: i64),
    changing(version: i64, name: Text, retention_ms: Option<i64>)
);
record!(
    WorkerToken, "worker_token",
    key(tenant_id: TenantId, id: Uuid),
    fixed(name: Text, hash: Payload, created_ms: i64, expires_ms: Option<i64>),
    changing(version: i64, revoked_ms: Option<i64>)
);
record!(
    AuditEntry, "audit",
    key(tenant_id: TenantId, time_ms: i64, id: Uuid),
    fixed(actor: Text, credential: CredentialKind, action: AuditAction, target: Text, details: Option<Text>),
    changing()
);
record!(
    Worker, "worker",
    key(tenant_id: TenantId, id: Uuid),
    fixed(name: Text),
    changing(
        version: i64, build_id: Text, host: Text, process_id: Text, queue: Option<Text>, registered_ms: i64,
        last_heartbeat_ms: i64, heartbeats: bool, lease_until_ms: Option<i64>,
    )
);
record!(
    WorkerCapability, "worker_capability",
    key(tenant_id: TenantId, worker_id: Uuid, class: WorkClass, kind: Text, kind_version: Text),
    fixed(),
    changing(timeout_ms: Option<i64>, input_schema: Option<Payload>, output_schema: Option<Payload>)
);
record!(
    PausedQueue, "paused_queue",
    key(tenant_id: TenantId, name: Text),
    fixed(),
    changing(paused_ms: i64)
);
record!(
    Execution, "workflow_execution",
    key(tenant_id: TenantId, id: Uuid),
    fixed(
        kind: Text, queue: Text, workflow_version: Option<Text>, priority_seconds: i64, parent_id: Option<Uuid>,
        parent_name: Option<Text>, retry_of: Option<Uuid>, idempotency_key: Option<Text>,
        traceparent: Option<Text>, created_ms: i64, scheduled_ms: Option<i64>, deadline_ms: Option<i64>,
        counted: bool,
    ),
    changing(
        version: i64, status: ExecutionStatus, started_ms: Option<i64>, finished_ms: Option<i64>,
        last_sequence: i64, last_external_sequence: i64, base_sequence: i64, last_event_ms: i64,
        history_bytes: i64, large: bool, epoch: i64, accepted_epoch: i64, worker: Option<Text>, session: Option<Uuid>,
        plain: bool, lease_until_ms: Option<i64>, marked: bool, cooperative: bool,
        cancel_requested_ms: Option<i64>, not_before_ms: Option<i64>, activation_failures: i64,
        failure_code: Option<Text>, failure_message: Option<Text>, failure_build: Option<Text>,
        open_tasks: i64, open_timers: i64, open_promises: i64, open_children: i64, buffered_signals: i64,
        delivered_signals: i64, state_keys: i64, alarm_ms: Option<i64>, lease_alarm_ms: Option<i64>, purging: bool,
        accepted_digest: Option<i64>, claim_credential: Option<i64>, claim_connection: Option<i64>, claim_lost_ms: Option<i64>,
        last_signal_sequence: i64, runs_again: i64, equal_refusals: i64,
        cancel_grace_ms: Option<i64>, clean_up_until_ms: Option<i64>, clean_up_left_ms: Option<i64>,
    )
);
record!(
    Quota, "quota",
    key(tenant_id: TenantId),
    fixed(),
    changing(
        version: i64, monthly_workflow_runs: Option<i64>, concurrent_workflows: Option<i64>,
        requests_per_second: Option<i64>, burst: Option<i64>, month: i64, runs: i64, open_workflows: i64, bucket: i64,
        refilled_ms: i64,
    )
);
record!(
    Label, "execution_label",
    key(tenant_id: TenantId, execution_id: Uuid, name: Text),
    fixed(value: Text, created_ms: i64),
    changing()
);
record!(
    Event, "workflow_event",
    key(tenant_id: TenantId, execution_id: Uuid, sequence: i64),
    fixed(
        kind: EventKind, origin: Origin, time_ms: i64, subject: Option<Uuid>, name: Option<Text>,
        number: Option<i64>, text: Option<Text>, payload: Option<Payload>,
    ),
    changing()
);
record!(
    StateEntry, "execution_state",
    key(tenant_id: TenantId, execution_id: Uuid, name: Text),
    fixed(),
    changing(sequence: i64)
);
record!(
    Timer, "timer",
    key(tenant_id: TenantId, execution_id: Uuid, name: Text),
    fixed(fire_ms: i64),
    changing(version: i64, status: TimerStatus)
);
record!(
    Promise, "promise",
    key(tenant_id: TenantId, id: Uuid),
    fixed(
        execution_id: Uuid, name: Text, external_key: Option<Text>, created_ms: i64, deadline_ms: Option<i64>,
    ),
    changing(version: i64, status: PromiseStatus)
);
record!(
    Task, "task_execution",
    key(tenant_id: TenantId, id: Uuid),
    fixed(
        execution_id: Option<Uuid>, task_type: Text, queue: Text, priority_seconds: i64, input: Payload,
        max_retries: i64, retry_initial_ms: i64, retry_factor: f64, retry_cap_ms: i64,
        schedule_to_start_ms: Option<i64>, start_to_close_ms: Option<i64>, total_ms: Option<i64>,
        heartbeat_ms: Option<i64>, idempotency_key: Option<Text>, traceparent: Option<Text>, created_ms: i64,
    ),
    changing(
        version: i64, scheduled_ms: Option<i64>, status: TaskStatus, announced: bool, execution_count: i64, retry_base: i64,
        not_before_ms: Option<i64>, started_ms: Option<i64>, finished_ms: Option<i64>,
        output: Option<Payload>, error: Option<Text>, epoch: i64, accepted_epoch: i64, worker: Option<Text>,
        session: Option<Uuid>, plain: bool, lease_until_ms: Option<i64>, cancel_requested: bool,
        last_heartbeat_ms: Option<i64>, heartbeat_details: Option<Payload>, progress: f64,
        progress_details: Option<Text>, log_lines: i64, alarm_ms: Option<i64>, lease_alarm_ms: Option<i64>,
        purging: bool, accepted_digest: Option<i64>, claim_credential: Option<i64>, claim_connection: Option<i64>,
        claim_lost_ms: Option<i64>, failure: Option<Payload>,
    )
);
record!(
    Attempt, "task_attempt",
    key(tenant_id: TenantId, task_id: Uuid, attempt: i64),
    fixed(
        started_ms: i64, finished_ms: i64, status: AttemptStatus, error: Option<Text>, worker: Option<Text>,
        failure: Option<Payload>,
    ),
    changing()
);
record!(
    TaskState, "task_state",
    key(tenant_id: TenantId, task_id: Uuid, name: Text),
    fixed(),
    changing(value: Payload)
);
record!(
    TaskLog, "task_log",
    key(tenant_id: TenantId, task_id: Uuid, line: i64),
    fixed(time_ms: i64, level: LogLevel, message: Text),
    changing()
);
record!(
    IdempotencyKey, "idempotency_key",
    key(tenant_id: TenantId, space: KeySpace, name: Text),
    fixed(),
    changing(
        version: i64, holder_class: HolderClass, holder_id: Uuid, created_ms: i64, expires_ms: i64,
        ttl_after_end_ms: Option<i64>,
    )
);
record!(
    Due, "due",
    key(clock: ClockKind, due_ms: i64, tenant_id: TenantId, class: DueClass, id: Uuid, name: Text),
    fixed(),
    changing(cursor: Option<Uuid>, note: Option<Text>)
);

/// Written by hand instead of by `record!`, because the key contains a lane.
impl Record for Ready {
    const TABLE: &'static str = "ready";
    const COLUMNS: &'static [Column] = &[
        column::<TenantId>("tenant_id", true),
        column::<WorkClass>("class", true),
        column::<Text>("queue", true),
        column::<Text>("kind", true),
        column::<Text>("kind_version", true),
        column::<i64>("sort_ms", true),
        column::<Uuid>("id", true),
    ];
    const KEY_COLUMNS: usize = 7;
    const VERSION: Option<usize> = None;

    fn each_value<'a>(&'a self, mut take: impl FnMut(Value<'a>)) {
        lane_columns(&self.lane).into_iter().for_each(&mut take);
        [self.sort_ms.value(), self.id.value()].into_iter().for_each(take);
    }

    fn key_values<'a>((lane, sort_ms, id): &'a Self::Key, out: &mut Vec<Value<'a>>) {
        lane_values(lane, out);
        out.extend([sort_ms.value(), id.value()]);
    }

    fn read<'a>(column: impl FnMut(usize) -> Value<'a>) -> Result<Self, ReadError> {
        let mut reader = Reader::<Self, _>::new(column);
        Ok(Ready {
            lane: Lane {
                tenant_id: reader.next()?,
                class: reader.next()?,
                queue: reader.next()?,
                kind: reader.next()?,
                version: reader.next()?,
            },
            sort_ms: reader.next()?,
            id: reader.next()?,
        })
    }
}

/// The columns that make up a lane, in order.
pub fn lane_values<'a>(lane: &'a Lane, out: &mut Vec<Value<'a>>) {
    out.extend(lane_columns(lane));
}

fn lane_columns(lane: &Lane) -> [Value<'_>; 5] {
    [lane.tenant_id.value(), lane.class.value(), lane.queue.value(), lane.kind.value(), lane.version.value()]
}
