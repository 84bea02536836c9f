//! The commands of an activation. Each accepted command writes exactly one event, even if it has no effect. Exception:
//! a task or child that already exists is not announced twice.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind, Origin};
use crate::failure::{Failure, StoredFailure};
use crate::ids::{ExecutionId, TaskId, TenantId, Text};
use crate::lifecycle::execution::{self, End};
use crate::lifecycle::{key, task};
use crate::limits::Limits;
use crate::request::{Command, KeySpec, Parent, ScheduleChild, StartWorkflow, TaskSpec};
use crate::rules::{Work, answer_promise, create_task, start_workflow};
use crate::state::{
    DueClass, Execution, HolderClass, IdempotencyKey, KeySpace, Promise, PromiseStatus, StateEntry, Task,
    TaskStatus, Timer, TimerStatus,
};
use crate::working_set::Needs;

/// Checks the command itself. Payloads are checked when the command is applied.
pub(crate) fn check(command: &Command, limits: &Limits) -> Result<(), Refusal> {
    match command {
        Command::RecordOperation { name, .. } => check::name("operation name", name, limits),
        Command::SetState { name, .. } | Command::ClearState { name } => {
            check::name("state key", name, limits)
        }
        Command::ScheduleTask { task_id, spec } => {
            check::id("task id", *task_id)?;
            create_task::check_spec(spec, limits)
        }
        Command::StartTimer { timer_id, duration_ms } => {
            check::name("timer id", timer_id, limits)?;
            check::duration("timer", *duration_ms, limits)
        }
        Command::CancelTimer { timer_id } => check::name("timer id", timer_id, limits),
        Command::CreatePromise { name, timeout_ms, key } => {
            check::name("promise name", name, limits)?;
            check::duration("promise timeout", timeout_ms.unwrap_or(0), limits)?;
            key.as_ref().map_or(Ok(()), |key| check::name("promise key", &key.name, limits))
        }
        Command::ScheduleChild(child) => {
            check::id("child id", child.child_id)?;
            check::duration("cancel grace", child.cancel_grace_ms.unwrap_or(0), limits)?;
            check::name("child name", &child.name, limits)
        }
        Command::RequestCancelChild { reason, .. } => check::text("reason", reason, limits),
        Command::CancelTask { .. } | Command::ResolvePromise { .. } => Ok(()),
    }
}

pub(crate) fn needs(
    tenant_id: TenantId,
    execution_id: ExecutionId,
    command: &Command,
    needs: &mut Needs<'_>,
) {
    match command {
        Command::RecordOperation { .. } => {}
        Command::SetState { name, .. } | Command::ClearState { name } => {
            needs.row::<StateEntry>((tenant_id, execution_id, name.clone()));
        }
        Command::ScheduleTask { task_id, spec } => {
            needs.row::<Task>((tenant_id, *task_id));
            if let Some(key) = &spec.key {
                key::needs_work_key(needs, tenant_id, key);
            }
        }
        Command::CancelTask { task_id } => {
            let task = needs.row::<Task>((tenant_id, *task_id));
            let key = task.and_then(|task| task.idempotency_key.as_ref());
            key::needs_release(needs, tenant_id, KeySpace::Work, key);
        }
        Command::StartTimer { timer_id, .. } | Command::CancelTimer { timer_id } => {
            needs.row::<Timer>((tenant_id, execution_id, timer_id.clone()));
        }
        Command::CreatePromise { key, .. } => {
            let Some(key) = key else { return };
            let holder = needs.row::<IdempotencyKey>((tenant_id, KeySpace::Promise, key.name.clone()));
            if let Some(holder) = holder
                && let Some(promise) = needs.peek::<Promise>((tenant_id, holder.holder_id))
            {
                needs.peek::<Execution>((tenant_id, promise.execution_id));
            }
        }
        Command::ResolvePromise { promise_id, .. } => {
            needs.row::<Promise>((tenant_id, *promise_id));
        }
        Command::ScheduleChild(child) => {
            needs.row::<Execution>((tenant_id, child.child_id));
            if let Some(key) = &child.key {
                key::needs_work_key(needs, tenant_id, key);
            }
        }
        Command::RequestCancelChild { child_id, .. } => {
            needs.peek::<Execution>((tenant_id, *child_id));
        }
    }
}

/// Whether the command has an id that exists once in an execution, so that the log shows a copy of it.
pub(crate) fn has_id(command: &Command) -> bool {
    matches!(command, Command::ScheduleTask { .. } | Command::ScheduleChild(_) | Command::StartTimer { .. })
}

/// For a command that names an id: whether the log already has it. `None`: the command names no id.
pub(crate) fn is_in_log(work: &Work<'_>, execution: &Execution, command: &Command) -> Option<bool> {
    let tenant_id = execution.tenant_id;
    match command {
        // If the id belongs to another task, it is no repeat: applying the command refuses it.
        Command::ScheduleTask { task_id, spec } => {
            Some(work.set.tasks.get(&(tenant_id, *task_id)).is_some_and(|task| {
                let own = task.execution_id == Some(execution.id) && task.announced;
                own && task.task_type == spec.task_type
            }))
        }
        Command::ScheduleChild(child) => Some(
            work.set
                .executions
                .get(&(tenant_id, child.child_id))
                .is_some_and(|row| row.parent_id == Some(execution.id) && row.kind == child.kind),
        ),
        Command::StartTimer { timer_id, .. } => {
            Some(work.set.timers.get(&(tenant_id, execution.id, timer_id.clone())).is_some())
        }
        _ => None,
    }
}

pub(crate) fn apply(
    work: &mut Work<'_>,
    execution: &mut Execution,
    command: &Command,
) -> Result<(), Refusal> {
    match command {
        Command::RecordOperation { name, result } => {
            let result = check::payload("result", result, work.limits)?;
            log(
                work,
                execution,
                EventData::new(EventKind::OperationCompleted).name(name.clone()).payload(result),
            );
            Ok(())
        }
        Command::SetState { name, value } => set_state(work, execution, name, value),
        Command::ClearState { name } => clear_state(work, execution, name),
        Command::ScheduleTask { task_id, spec } => schedule_task(work, execution, *task_id, spec),
        Command::CancelTask { task_id } => cancel_task(work, execution, *task_id),
        Command::StartTimer { timer_id, duration_ms } => start_timer(work, execution, timer_id, *duration_ms),
        Command::CancelTimer { timer_id } => cancel_timer(work, execution, timer_id),
        Command::CreatePromise { name, timeout_ms, key } => {
            create_promise(work, execution, name, *timeout_ms, key.as_ref())
        }
        Command::ResolvePromise { promise_id, value } => resolve_promise(work, execution, *promise_id, value),
        Command::ScheduleChild(child) => schedule_child(work, execution, child),
        Command::RequestCancelChild { child_id, reason } => cancel_child(work, execution, *child_id, reason),
    }
}

fn log(work: &mut Work<'_>, execution: &mut Execution, data: EventData) -> i64 {
    execution::append(work, execution, Origin::Command, data)
}

fn set_state(
    work: &mut Work<'_>,
    execution: &mut Execution,
    name: &Text,
    value: &crate::ids::Payload,
) -> Result<(), Refusal> {
    let value = check::payload("state value", value, work.limits)?;
    let key = (execution.tenant_id, execution.id, name.clone());
    if work.set.states.get(&key).is_none() {
        execution.state_keys += 1;
        if execution.state_keys > work.limits.state_keys {
            let message = format!("execution {} has {} state keys", execution.id, work.limits.state_keys);
            return Err(Refusal::new(Code::TooManyStateKeys, message));
        }
    }
    let sequence =
        log(work, execution, EventData::new(EventKind::StateSet).name(name.clone()).payload(value));
    work.set.states.put(StateEntry { tenant_id: key.0, execution_id: key.1, name: name.clone(), sequence });
    Ok(())
}

fn clear_state(work: &mut Work<'_>, execution: &mut Execution, name: &Text) -> Result<(), Refusal> {
    log(work, execution, EventData::new(EventKind::StateCleared).name(name.clone()));
    let key = (execution.tenant_id, execution.id, name.clone());
    if work.set.states.get(&key).is_some() {
        execution.state_keys -= 1;
        work.set.states.delete(&key);
    }
    Ok(())
}

fn schedule_task(
    work: &mut Work<'_>,
    execution: &mut Execution,
    task_id: TaskId,
    spec: &TaskSpec,
) -> Result<(), Refusal> {
    let existing = work.set.tasks.get(&(execution.tenant_id, task_id)).cloned();
    let mut task = match existing {
        Some(task) => {
            check_same_task(&task, execution, spec)?;
            if task.announced {
                return Ok(());
            }
            task
        }
        None => create_task::new_row(work, task_id, spec, Some(execution))?,
    };
    if task.status.is_terminal() {
        return announce_ended(work, execution, task);
    }
    if execution.open_tasks >= work.limits.pending_tasks {
        let message = format!("execution {} has {} unfinished tasks", execution.id, execution.open_tasks);
        return Err(Refusal::new(Code::TooManyPendingTasks, message));
    }
    execution.open_tasks += 1;
    let data = EventData::new(EventKind::TaskScheduled).subject(task_id).name(task.task_type.clone());
    log(work, execution, data);
    // The input is shown as part of the history, so it adds to the history's size.
    execution::grow_history(work, execution, bytes(&task.input));
    task.announced = true;
    let not_before_ms = task.not_before_ms;
    task::make_pending(work, &mut task, not_before_ms);
    work.set.tasks.put(task);
    Ok(())
}

/// Announces a task that was created ahead of this command and cancelled meanwhile: both events are written at once.
fn announce_ended(work: &mut Work<'_>, execution: &mut Execution, mut task: Task) -> Result<(), Refusal> {
    let scheduled = EventData::new(EventKind::TaskScheduled).subject(task.id).name(task.task_type.clone());
    log(work, execution, scheduled);
    let ended = EventData::new(EventKind::TaskFailed).subject(task.id).flag(true);
    execution::append_external(work, execution, ended);
    task.announced = true;
    work.set.tasks.put(task);
    Ok(())
}

fn check_same_task(task: &Task, execution: &Execution, spec: &TaskSpec) -> Result<(), Refusal> {
    if task.execution_id != Some(execution.id) {
        let message = format!("task id {} belongs to another workflow", task.id);
        return Err(Refusal::new(Code::IdCollision, message));
    }
    if task.task_type != spec.task_type {
        let message = format!(
            "task id {} already exists with task type '{}', got '{}'",
            task.id, task.task_type, spec.task_type
        );
        return Err(Refusal::new(Code::IdCollision, message));
    }
    Ok(())
}

fn cancel_task(work: &mut Work<'_>, execution: &mut Execution, task_id: TaskId) -> Result<(), Refusal> {
    let own = work.set.tasks.get(&(execution.tenant_id, task_id)).cloned();
    let Some(mut task) = own.filter(|task| task.execution_id == Some(execution.id) && task.announced) else {
        return Err(Refusal::new(
            Code::TaskNotFound,
            format!("task {task_id} does not belong to this workflow"),
        ));
    };
    let at_once = task.status == TaskStatus::Pending;
    let data = EventData::new(EventKind::TaskCancelRequested).subject(task_id).flag(at_once);
    log(work, execution, data);
    match task.status {
        TaskStatus::Pending => {
            execution.open_tasks -= 1;
            let reason = "cancelled by its workflow".into();
            task::finish(work, &mut task, task::End::Cancelled { reason, told: true });
        }
        TaskStatus::Running => task.cancel_requested = true,
        _ => return Ok(()),
    }
    work.set.tasks.put(task);
    Ok(())
}

fn start_timer(
    work: &mut Work<'_>,
    execution: &mut Execution,
    timer_id: &Text,
    duration_ms: i64,
) -> Result<(), Refusal> {
    let key = (execution.tenant_id, execution.id, timer_id.clone());
    if work.set.timers.get(&key).is_some() {
        return Err(Refusal::new(Code::IdCollision, format!("timer '{timer_id}' already exists")));
    }
    execution.open_timers += 1;
    let data = EventData::new(EventKind::TimerStarted).name(timer_id.clone()).number(duration_ms);
    log(work, execution, data);
    let timer = Timer {
        tenant_id: execution.tenant_id,
        execution_id: execution.id,
        name: timer_id.clone(),
        version: 1,
        fire_ms: work.now.ms.saturating_add(duration_ms),
        status: TimerStatus::Open,
    };
    work.set.due.put(timer.due_row());
    work.set.timers.put(timer);
    Ok(())
}

fn bytes(payload: &crate::ids::Payload) -> i64 {
    i64::try_from(payload.len()).unwrap_or(i64::MAX)
}

fn cancel_timer(work: &mut Work<'_>, execution: &mut Execution, timer_id: &Text) -> Result<(), Refusal> {
    let key = (execution.tenant_id, execution.id, timer_id.clone());
    let Some(mut timer) = work.set.timers.get(&key).cloned() else {
        return Err(Refusal::new(Code::InvalidCommand, format!("timer '{timer_id}' was never started")));
    };
    log(work, execution, EventData::new(EventKind::TimerCancelled).name(timer_id.clone()));
    if timer.status == TimerStatus::Open {
        execution.open_timers -= 1;
        work.set.due.delete_known(timer.due_row());
        timer.status = TimerStatus::Cancelled;
        work.set.timers.put(timer);
    }
    Ok(())
}

fn create_promise(
    work: &mut Work<'_>,
    execution: &mut Execution,
    name: &Text,
    timeout_ms: Option<i64>,
    key: Option<&KeySpec>,
) -> Result<(), Refusal> {
    let id = work.ids.uuid(work.now.ms);
    if let Some(key) = key {
        check_promise_key_free(work, execution, &key.name)?;
        key::take(work, KeySpace::Promise, key, HolderClass::Promise, id)?;
    }
    let promise = Promise {
        tenant_id: execution.tenant_id,
        id,
        version: 1,
        execution_id: execution.id,
        name: name.clone(),
        external_key: key.map(|key| key.name.clone()),
        created_ms: work.now.ms,
        deadline_ms: timeout_ms.map(|timeout| work.now.ms.saturating_add(timeout)),
        status: PromiseStatus::Open,
    };
    execution.open_promises += 1;
    let mut data = EventData::new(EventKind::PromiseCreated).subject(id).name(name.clone());
    data.number = timeout_ms;
    log(work, execution, data);
    if let Some(due) = promise.due_row() {
        work.set.due.put(due);
    }
    work.set.promises.supply((promise.tenant_id, id), crate::table::Found::Absent, true);
    work.set.promises.put(promise);
    Ok(())
}

/// Whether a promise key can be taken: its promise is closed, or belongs to an execution that has finished.
fn check_promise_key_free(work: &Work<'_>, execution: &Execution, name: &Text) -> Result<(), Refusal> {
    let Some(holder) = key::holder(work, KeySpace::Promise, name) else { return Ok(()) };
    let tenant_id = work.tenant_id;
    let Some(promise) = work.set.promises.get(&(tenant_id, holder.holder_id)) else { return Ok(()) };
    let owner_open = promise.execution_id == execution.id
        || work
            .set
            .executions
            .get(&(tenant_id, promise.execution_id))
            .is_some_and(|owner| !owner.status.is_terminal());
    if promise.status == PromiseStatus::Open && owner_open {
        let message = format!("promise key '{name}' is held by the open promise {}", promise.id);
        return Err(Refusal::new(Code::PromiseKeyConflict, message));
    }
    Ok(())
}

fn resolve_promise(
    work: &mut Work<'_>,
    execution: &mut Execution,
    promise_id: crate::ids::PromiseId,
    value: &crate::ids::Payload,
) -> Result<(), Refusal> {
    let value = check::payload("value", value, work.limits)?;
    let own = work.set.promises.get(&(execution.tenant_id, promise_id)).cloned();
    let Some(promise) = own.filter(|promise| promise.execution_id == execution.id) else {
        let message = format!("promise {promise_id} does not belong to this workflow");
        return Err(Refusal::new(Code::PromiseNotFound, message));
    };
    let data = EventData::new(EventKind::PromiseResolved).subject(promise_id).name(promise.name.clone());
    log(work, execution, data.payload(value));
    if promise.status == PromiseStatus::Open {
        execution.open_promises -= 1;
        answer_promise::close(work, promise, PromiseStatus::Resolved);
    }
    Ok(())
}

fn schedule_child(
    work: &mut Work<'_>,
    execution: &mut Execution,
    child: &ScheduleChild,
) -> Result<(), Refusal> {
    if let Some(existing) = work.set.executions.get(&(execution.tenant_id, child.child_id)) {
        if existing.parent_id == Some(execution.id) && existing.kind == child.kind {
            return Ok(());
        }
        let message = format!("execution id {} belongs to another execution", child.child_id);
        return Err(Refusal::new(Code::IdCollision, message));
    }
    let mut start = StartWorkflow::new(
        child.kind.clone(),
        child.queue.clone().unwrap_or_else(|| execution.queue.clone()),
        child.input.clone(),
    );
    start.priority_seconds = child.priority_seconds;
    start.workflow_version = child.workflow_version.clone();
    start.execution_timeout_ms = child.execution_timeout_ms;
    start.cancel_grace_ms = child.cancel_grace_ms;
    start.traceparent = execution.traceparent.clone();
    start.labels = child.labels.clone();
    start.key = child.key.clone();
    start_workflow::check_start(&start, work.limits)?;
    // A start with a held key returns the holder. A child cannot be another execution, so it fails.
    let conflict = key_conflict(work, &start);
    start.key = start.key.filter(|_| conflict.is_none());
    // A child that was started during clean-up must be younger than the cancel request, even within one millisecond, so
    // that the request does not cancel it.
    let after_ms = execution.cancel_requested_ms.map_or(i64::MIN, |asked| asked.saturating_add(1));
    let created_ms = work.now.ms.max(after_ms);
    let mut row = start_workflow::create(work, child.child_id, &start, None, created_ms)?;
    let data = EventData::new(EventKind::ChildInitiated)
        .subject(child.child_id)
        .name(child.name.clone())
        .text(child.kind.clone());
    log(work, execution, data);
    match conflict {
        None => execution.open_children += 1,
        Some(refusal) => fail_child(work, execution, child, &mut row, &refusal),
    }
    // The parent's row is already loaded and the caller writes it, so the link is set here.
    let parent = Parent { id: execution.id, name: child.name.clone() };
    row.parent_id = Some(parent.id);
    row.parent_name = Some(parent.name);
    work.set.executions.put(row);
    Ok(())
}

/// Why the child cannot have its key. `None`: it has no key, or the key is free.
fn key_conflict(work: &Work<'_>, start: &StartWorkflow) -> Option<Refusal> {
    match start_workflow::existing(work, start) {
        Ok(holder) => holder.map(|holder| {
            let message = format!(
                "idempotency key '{}' belongs to execution {}",
                start.key.as_ref().map_or("", |key| &key.name),
                holder.id
            );
            Refusal::new(Code::KeyConflict, message)
        }),
        Err(refusal) => Some(refusal),
    }
}

/// Fails a child that was created in this transaction. Its parent is written by the caller, so the parent's event is
/// written here.
fn fail_child(
    work: &mut Work<'_>,
    execution: &mut Execution,
    child: &ScheduleChild,
    row: &mut Execution,
    refusal: &Refusal,
) {
    let error = Text::from(refusal.to_string());
    let failure = Failure::of_kind(&refusal.code.to_string());
    let end =
        End::Failed { error: error.clone(), failure: failure.clone(), stack_trace: None, unread_signals: 0 };
    execution::finish(work, row, Origin::External, end);
    let mut data =
        EventData::new(EventKind::ChildFailed).subject(child.child_id).name(child.name.clone()).text(error);
    data.payload = StoredFailure { failure, ..StoredFailure::default() }.write();
    execution::append_external(work, execution, data);
}

fn cancel_child(
    work: &mut Work<'_>,
    execution: &mut Execution,
    child_id: ExecutionId,
    reason: &Text,
) -> Result<(), Refusal> {
    let own = work.set.executions.get(&(execution.tenant_id, child_id));
    let Some(child) = own.filter(|child| child.parent_id == Some(execution.id)) else {
        let message = format!("execution {child_id} is not a child of this workflow");
        return Err(Refusal::new(Code::ExecutionNotFound, message));
    };
    let (name, open) = (child.parent_name.clone().unwrap_or_default(), !child.status.is_terminal());
    let data =
        EventData::new(EventKind::ChildCancelRequested).subject(child_id).name(name).text(reason.clone());
    log(work, execution, data);
    if open {
        // As a follow-up: here, parent and child would be locked in the opposite order to a child that finishes.
        execution::follow_up(work, DueClass::CancelExecution, child_id, Some(reason.clone()));
    }
    Ok(())
}

/// Closes a timer whose execution has ended.
pub(crate) fn drop_timer(work: &mut Work<'_>, mut timer: Timer) {
    work.set.due.delete_known(timer.due_row());
    timer.status = TimerStatus::Cancelled;
    work.set.timers.put(timer);
}
