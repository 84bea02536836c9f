//! Creating standalone tasks, alone or in bulk, and a workflow's task ahead of its command (deprecated).

use crate::check;
use crate::code::{Code, Refusal};
use crate::ids::{TaskId, TenantId, Text};
use crate::lifecycle::{execution, key, task};
use crate::limits::Limits;
use crate::note::Noted;
use crate::reply::{Reply, TaskCreated};
use crate::request::{CreateTask, CreateTasks, TaskSpec};
use crate::rules::{Rule, Work};
use crate::state::{Execution, HolderClass, KeySpace, Task, TaskStatus};
use crate::working_set::Needs;

const DEFAULT_QUEUE: &str = "default";
const DEFAULT_MAX_RETRIES: i64 = 3;

impl Rule for CreateTask {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::optional_name("traceparent", &self.traceparent, limits)?;
        check_spec(&self.spec, limits)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        if let Some(key) = &self.spec.key {
            key::needs_work_key(needs, tenant_id, key);
        }
        if let Some(execution_id) = self.execution_id {
            needs.execution((tenant_id, execution_id));
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        create(work, self).map(Reply::TaskCreated)
    }
}

impl Rule for CreateTasks {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::bulk("tasks", self.items.len(), limits.bulk_items)?;
        let checked = |(index, item): (usize, &CreateTask)| {
            item.check(limits).map_err(|refusal| refusal.at_item(index))
        };
        self.items.iter().enumerate().try_for_each(checked)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        for item in &self.items {
            item.needs(tenant_id, needs);
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut created = Vec::with_capacity(self.items.len());
        for (index, item) in self.items.iter().enumerate() {
            created.push(create(work, item).map_err(|refusal| refusal.at_item(index))?);
        }
        Ok(Reply::TasksCreated(created))
    }
}

fn create(work: &mut Work<'_>, request: &CreateTask) -> Result<TaskCreated, Refusal> {
    if let Some(key) = &request.spec.key
        && let Some(existing) = existing(work, &request.spec, &key.name)?
    {
        work.note(Noted::KeyHit);
        return Ok(created(&existing, true, false));
    }
    let owner = request.execution_id.map(|id| execution::find_open(work, id)).transpose()?;
    let id = work.ids.uuid(work.now.ms);
    work.set.tasks.supply((work.tenant_id, id), crate::table::Found::Absent, true);
    let mut row = new_row(work, id, &request.spec, owner.as_ref())?;
    if row.traceparent.is_none() {
        row.traceparent = request.traceparent.clone();
    }
    if let Some(at) = request.scheduled_ms {
        check::moment("scheduled_at", at, work.now.ms, work.limits)?;
        row.scheduled_ms = Some(at);
    }
    task::make_pending(work, &mut row, request.scheduled_ms);
    let created = created(&row, request.spec.key.is_some(), true);
    work.set.tasks.put(row);
    Ok(created)
}

fn created(task: &Task, key_used: bool, key_new: bool) -> TaskCreated {
    TaskCreated { task_id: task.id, status: task.status, created_ms: task.created_ms, key_used, key_new }
}

/// The task that holds the key. `None`: the key is free. If the key belongs to other work, that is a conflict.
fn existing(work: &Work<'_>, spec: &TaskSpec, name: &Text) -> Result<Option<Task>, Refusal> {
    let Some(holder) = key::holder(work, KeySpace::Work, name) else { return Ok(None) };
    let conflict = |what: String| {
        Err(Refusal::new(Code::KeyConflict, format!("idempotency key '{name}' belongs to {what}")))
    };
    if holder.holder_class != HolderClass::Task {
        return conflict(format!("workflow execution {}", holder.holder_id));
    }
    match work.set.tasks.get(&(work.tenant_id, holder.holder_id)) {
        Some(task) if task.task_type == spec.task_type => Ok(Some(task.clone())),
        Some(task) => conflict(format!("a task of type '{}'", task.task_type)),
        None => Ok(None),
    }
}

/// Takes the task's key and creates its row. The caller enqueues the task and writes the row.
pub(crate) fn new_row(
    work: &mut Work<'_>,
    id: TaskId,
    spec: &TaskSpec,
    owner: Option<&Execution>,
) -> Result<Task, Refusal> {
    let retry = spec.retry.unwrap_or_default();
    if let Some(key) = &spec.key {
        if let Some(holder) = existing(work, spec, &key.name)? {
            let message = format!("idempotency key '{}' belongs to task {}", key.name, holder.id);
            return Err(Refusal::new(Code::KeyConflict, message));
        }
        key::take(work, KeySpace::Work, key, HolderClass::Task, id)?;
    }
    let queue = match (&spec.queue, owner) {
        (Some(queue), _) => queue.clone(),
        (None, Some(owner)) => owner.queue.clone(),
        (None, None) => DEFAULT_QUEUE.into(),
    };
    work.note(Noted::TaskSubmitted { task_type: spec.task_type.clone(), queue: queue.clone() });
    Ok(Task {
        tenant_id: work.tenant_id,
        id,
        version: 1,
        execution_id: owner.map(|owner| owner.id),
        task_type: spec.task_type.clone(),
        queue,
        priority_seconds: spec.priority_seconds,
        input: check::payload("input", &spec.input, work.limits)?,
        max_retries: spec.max_retries.unwrap_or(DEFAULT_MAX_RETRIES),
        retry_initial_ms: retry.initial_ms,
        retry_factor: retry.factor,
        retry_cap_ms: retry.cap_ms,
        schedule_to_start_ms: spec.schedule_to_start_ms,
        start_to_close_ms: spec.start_to_close_ms,
        total_ms: spec.total_ms,
        heartbeat_ms: spec.heartbeat_ms,
        idempotency_key: spec.key.as_ref().map(|key| key.name.clone()),
        traceparent: owner.and_then(|owner| owner.traceparent.clone()),
        created_ms: work.now.ms,
        scheduled_ms: None,
        status: TaskStatus::Pending,
        announced: owner.is_none(),
        execution_count: 0,
        retry_base: 0,
        not_before_ms: None,
        started_ms: None,
        finished_ms: None,
        output: None,
        error: None,
        failure: None,
        epoch: 0,
        accepted_epoch: 0,
        worker: None,
        session: None,
        plain: false,
        accepted_digest: None,
        claim_credential: None,
        claim_connection: None,
        claim_lost_ms: None,
        lease_until_ms: None,
        cancel_requested: false,
        last_heartbeat_ms: None,
        heartbeat_details: None,
        progress: 0.0,
        progress_details: None,
        log_lines: 0,
        alarm_ms: None,
        lease_alarm_ms: None,
        purging: false,
    })
}

pub(crate) fn check_spec(spec: &TaskSpec, limits: &Limits) -> Result<(), Refusal> {
    check::name("task type", &spec.task_type, limits)?;
    check::optional_name("queue", &spec.queue, limits)?;
    check::priority(spec.priority_seconds, limits)?;
    if let Some(key) = &spec.key {
        check::name("idempotency key", &key.name, limits)?;
        check::ttl(key.ttl_ms, limits)?;
    }
    check::timeout("schedule-to-start timeout", spec.schedule_to_start_ms, limits)?;
    check::timeout("start-to-close timeout", spec.start_to_close_ms, limits)?;
    check::timeout("total timeout", spec.total_ms, limits)?;
    check::timeout("heartbeat timeout", spec.heartbeat_ms, limits)?;
    if let Some(retries) = spec.max_retries
        && !(0..=limits.max_retries).contains(&retries)
    {
        let message = format!("max_retries {retries} is outside 0..={}", limits.max_retries);
        return Err(Refusal::new(Code::InvalidRetryPolicy, message));
    }
    let policy = spec.retry.unwrap_or_default();
    let sound = policy.initial_ms >= 1
        && policy.cap_ms >= 1
        && policy.cap_ms <= limits.duration_max_ms
        && policy.initial_ms <= limits.duration_max_ms
        && (1.0..=100.0).contains(&policy.factor);
    if !sound {
        return Err(Refusal::new(
            Code::InvalidRetryPolicy,
            format!("the retry policy is out of range: {policy:?}"),
        ));
    }
    Ok(())
}
