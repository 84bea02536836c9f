//! Starting a workflow, alone or in bulk.

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::{EventData, EventKind};
use crate::ids::{ExecutionId, TenantId, Text};
use crate::lifecycle::{execution, key, quota};
use crate::limits::Limits;
use crate::note::Noted;
use crate::planted::{Bug, planted};
use crate::reply::{Reply, Started};
use crate::request::{KeySpec, StartWorkflow, StartWorkflows};
use crate::rules::{Rule, Work};
use crate::state::{Execution, ExecutionStatus, HolderClass, KeySpace, Label};
use crate::working_set::Needs;

impl Rule for StartWorkflow {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check_start(self, limits)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        if let Some(key) = &self.key {
            key::needs_work_key(needs, tenant_id, key);
        }
        match &self.parent {
            Some(parent) => {
                needs.execution((tenant_id, parent.id));
            }
            None => quota::needs_start(needs, tenant_id),
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        start(work, self, None).map(Reply::Started)
    }
}

impl Rule for StartWorkflows {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::bulk("workflows", self.items.len(), limits.bulk_items)?;
        let checked = |(index, item)| check_start(item, limits).map_err(|refusal| refusal.at_item(index));
        self.items.iter().enumerate().try_for_each(checked)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        for item in &self.items {
            item.needs(tenant_id, needs);
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let counts = self.items.iter().any(|item| item.parent.is_none());
        let quota = if counts { work.set.quotas.get(&(work.tenant_id,)).cloned() } else { None };
        let now_ms = work.now.ms;
        let mut started = Vec::with_capacity(self.items.len());
        for (index, item) in self.items.iter().enumerate() {
            started.push(start(work, item, None).map_err(|refusal| match refusal.exceeded {
                Some(_) => quota::of_bulk(refusal, quota.as_ref(), now_ms),
                None => refusal.at_item(index),
            })?);
        }
        Ok(Reply::StartedMany(started))
    }
}

/// Starts an execution, or answers with the execution that already has the key. A retry is answered only with a retry
/// of the same execution.
pub(crate) fn start(
    work: &mut Work<'_>,
    request: &StartWorkflow,
    retry_of: Option<ExecutionId>,
) -> Result<Started, Refusal> {
    if let Some(existing) = existing(work, request)? {
        if retry_of.is_some() && existing.retry_of != retry_of {
            let message = format!("the idempotency key belongs to execution {}", existing.id);
            return Err(Refusal::new(Code::KeyConflict, message));
        }
        work.note(Noted::KeyHit);
        return Ok(started(&existing, true, false));
    }
    let id = work.ids.uuid(work.now.ms);
    let execution = create_counted(work, id, request, retry_of)?;
    let started = started(&execution, request.key.is_some(), true);
    work.set.executions.put(execution);
    Ok(started)
}

fn started(execution: &Execution, key_used: bool, key_new: bool) -> Started {
    Started {
        execution_id: execution.id,
        status: execution.status,
        kind: execution.kind.clone(),
        created_ms: execution.created_ms,
        key_used,
        key_new,
    }
}

/// The execution that holds the request's key. `None`: the key is free. If the key belongs to other work, that is a
/// conflict.
pub(crate) fn existing(work: &Work<'_>, request: &StartWorkflow) -> Result<Option<Execution>, Refusal> {
    let Some(key) = request.key.as_ref().filter(|_| !planted(Bug::KeyNotChecked)) else { return Ok(None) };
    let Some(holder) = key::holder(work, KeySpace::Work, &key.name) else { return Ok(None) };
    let conflict = |what: String| {
        let message = format!("idempotency key '{}' belongs to {what}", key.name);
        Err(Refusal::new(Code::KeyConflict, message))
    };
    if holder.holder_class != HolderClass::Workflow {
        return conflict(format!("task {}", holder.holder_id));
    }
    match work.set.executions.get(&(work.tenant_id, holder.holder_id)) {
        Some(execution) if execution.kind == request.kind => Ok(Some(execution.clone())),
        Some(execution) => conflict(format!("a workflow of kind '{}'", execution.kind)),
        // The execution was purged before its key expired: the key is free.
        None => Ok(None),
    }
}

pub(crate) fn check_start(request: &StartWorkflow, limits: &Limits) -> Result<(), Refusal> {
    check::name("kind", &request.kind, limits)?;
    check::name("queue", &request.queue, limits)?;
    check::optional_version(&request.workflow_version, limits)?;
    check::optional_name("traceparent", &request.traceparent, limits)?;
    check::priority(request.priority_seconds, limits)?;
    check::labels(&request.labels, limits)?;
    check::timeout("execution timeout", request.execution_timeout_ms, limits)?;
    check::duration("cancel grace", request.cancel_grace_ms.unwrap_or(0), limits)?;
    check_key(request.key.as_ref(), limits)?;
    if let Some(parent) = &request.parent {
        check::name("child name", &parent.name, limits)?;
    }
    Ok(())
}

pub(crate) fn check_key(key: Option<&KeySpec>, limits: &Limits) -> Result<(), Refusal> {
    let Some(key) = key else { return Ok(()) };
    check::name("idempotency key", &key.name, limits)?;
    check::ttl(key.ttl_ms, limits).map(drop)
}

/// Creates an execution that counts against the tenant's quota. Children do not count.
pub(crate) fn create_counted(
    work: &mut Work<'_>,
    id: ExecutionId,
    request: &StartWorkflow,
    retry_of: Option<ExecutionId>,
) -> Result<Execution, Refusal> {
    let mut row = create(work, id, request, retry_of, work.now.ms)?;
    row.counted = request.parent.is_none() && quota::count_start(work)?;
    Ok(row)
}

/// Creates the row, its first event, labels and key, and enqueues the execution. The caller writes the row.
pub(crate) fn create(
    work: &mut Work<'_>,
    id: ExecutionId,
    request: &StartWorkflow,
    retry_of: Option<ExecutionId>,
    created_ms: i64,
) -> Result<Execution, Refusal> {
    let now_ms = work.now.ms;
    let input = check::payload("input", &request.input, work.limits)?;
    if let Some(at) = request.scheduled_ms {
        check::moment("start", at, now_ms, work.limits)?;
    }
    if let Some(parent) = &request.parent {
        let mut row = execution::find_open(work, parent.id)?;
        row.open_children += 1;
        execution::check_history(work, &row, 0)?;
        work.set.executions.put(row);
    }
    let mut row = new_row(work, id, request, retry_of, created_ms);
    let started = EventData::new(EventKind::WorkflowStarted).name(request.kind.clone()).payload(input);
    execution::append_external(work, &mut row, started);
    for (name, value) in &request.labels {
        work.set.labels.put(Label {
            tenant_id: work.tenant_id,
            execution_id: id,
            name: name.clone(),
            value: value.clone(),
            created_ms,
        });
    }
    if let Some(key) = &request.key {
        key::take(work, KeySpace::Work, key, HolderClass::Workflow, id)?;
    }
    // The id is new, so no other request can need this row.
    work.set.executions.supply((work.tenant_id, id), crate::table::Found::Absent, true);
    work.note(Noted::WorkflowStarted);
    Ok(row)
}

fn new_row(
    work: &Work<'_>,
    id: ExecutionId,
    request: &StartWorkflow,
    retry_of: Option<ExecutionId>,
    created_ms: i64,
) -> Execution {
    let now_ms = work.now.ms;
    let begins_ms = request.scheduled_ms.unwrap_or(now_ms).max(now_ms);
    Execution {
        tenant_id: work.tenant_id,
        id,
        version: 1,
        kind: request.kind.clone(),
        queue: request.queue.clone(),
        workflow_version: request.workflow_version.clone(),
        priority_seconds: request.priority_seconds,
        parent_id: request.parent.as_ref().map(|parent| parent.id),
        parent_name: request.parent.as_ref().map(|parent| parent.name.clone()),
        retry_of,
        idempotency_key: request.key.as_ref().map(|key| key.name.clone()),
        traceparent: request.traceparent.clone(),
        created_ms,
        scheduled_ms: request.scheduled_ms,
        deadline_ms: request.execution_timeout_ms.map(|timeout| begins_ms.saturating_add(timeout)),
        counted: false,
        // The first event makes it PENDING, like every external event.
        status: ExecutionStatus::Waiting,
        started_ms: None,
        finished_ms: None,
        last_sequence: 0,
        last_external_sequence: 0,
        base_sequence: 0,
        last_event_ms: now_ms,
        history_bytes: 0,
        large: false,
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
        marked: false,
        cooperative: false,
        cancel_requested_ms: None,
        cancel_grace_ms: request.cancel_grace_ms,
        clean_up_until_ms: None,
        clean_up_left_ms: None,
        not_before_ms: request.scheduled_ms.filter(|at| *at > now_ms),
        activation_failures: 0,
        failure_code: None,
        failure_message: None,
        failure_build: None,
        equal_refusals: 0,
        open_tasks: 0,
        open_timers: 0,
        open_promises: 0,
        open_children: 0,
        buffered_signals: 0,
        delivered_signals: 0,
        state_keys: 0,
        last_signal_sequence: 0,
        runs_again: 0,
        alarm_ms: None,
        lease_alarm_ms: None,
        purging: false,
    }
}

/// A start request that creates an execution like this one.
pub(crate) fn like(
    execution: &Execution,
    input: crate::ids::Payload,
    labels: Vec<(Text, Text)>,
) -> StartWorkflow {
    StartWorkflow {
        kind: execution.kind.clone(),
        input,
        queue: execution.queue.clone(),
        priority_seconds: execution.priority_seconds,
        workflow_version: execution.workflow_version.clone(),
        labels,
        key: None,
        parent: None,
        scheduled_ms: None,
        execution_timeout_ms: execution
            .deadline_ms
            .map(|at| at - execution.scheduled_ms.unwrap_or(execution.created_ms).max(execution.created_ms)),
        cancel_grace_ms: execution.cancel_grace_ms,
        traceparent: execution.traceparent.clone(),
    }
}
