//! Claims: workflows or tasks of the lanes that a worker can serve, in order, up to the number that it asks for.

use uuid::Uuid;

use crate::check;
use crate::code::{Code, Refusal};
use crate::event::DeliveredEvent;
use crate::ids::{TenantId, Text};
use crate::lifecycle::{alarm, clean_up, execution, held_back, key, task};
use crate::limits::{HELD_BACK_ROWS, Limits};
use crate::note::Noted;
use crate::planted::{Bug, planted};
use crate::reply::{Activation, Claimed, Reply, Started, TaskDelivery};
use crate::request::{Claim, Claimer};
use crate::rules::{Rule, Work};
use crate::state::{
    DueClass, Execution, ExecutionStatus, KeySpace, Lane, PlaceInLane, Ready, Task, TaskStatus, WorkClass,
};
use crate::table::{Known, Row};
use crate::working_set::{Needs, Scan, WorkingSet};

/// If an execution has more new events than this, the worker reads them page by page instead of receiving them here.
pub const INLINE_EVENTS: i64 = 256;

impl Rule for Claim {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::name("queue", &self.queue, limits)?;
        check::name("worker", &self.claimer.worker, limits)?;
        check::optional_name("build id", &self.claimer.build, limits)?;
        check::bulk("items", self.max, limits.claim_items)?;
        let lanes = self.kinds.iter().map(|kind| 1 + kind.versions.len()).sum();
        check::bulk("kinds and versions", lanes, limits.claim_lanes)?;
        if !matches!(self.class, WorkClass::Workflow | WorkClass::Task) {
            return Err(Refusal::new(Code::InvalidBatch, "a claim must be for workflows or for tasks"));
        }
        for kind in self.kinds.iter().filter(|kind| !kind.is_any()) {
            check::name("kind", &kind.kind, limits)?;
            kind.versions.iter().try_for_each(|version| check::name("version", version, limits))?;
        }
        Ok(())
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs.scan(Scan::PausedQueues);
        let lanes = self.lanes(tenant_id);
        let mut searched = true;
        if self.only.is_none() {
            for lane in &lanes {
                // The lane may begin with executions that this build has failed on, so more rows are searched.
                let rows = if lane.class == WorkClass::HeldBack { HELD_BACK_ROWS } else { page(self) };
                searched &= needs.lane(lane, rows);
            }
        }
        if searched {
            let (held_back, usual) = split(&lanes);
            for (_, (_, id)) in candidates(needs.set(), usual, self) {
                needs_candidate(needs, tenant_id, self.class, id);
            }
            for (_, (_, id)) in held_back_candidates(needs.set(), held_back, self) {
                needs_candidate(needs, tenant_id, self.class, id);
            }
        }
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let mut claimed = Claimed::default();
        if is_paused(work, &self.queue) {
            return Ok(Reply::Claimed(claimed));
        }
        let lanes = self.lanes(work.tenant_id);
        let (held_back, usual) = split(&lanes);
        for (lane, place) in held_back_candidates(work.set, held_back, self) {
            if claimed.len() == self.max {
                break;
            }
            if let Some(activation) = take_workflow(work, &self.claimer, lane, place.1) {
                claimed.workflows.push(activation);
                drop_candidate(work, lane, place);
            }
        }
        loop {
            let page = candidates(work.set, usual, self);
            if page.is_empty() || claimed.len() == self.max {
                return Ok(Reply::Claimed(claimed));
            }
            if self.class == WorkClass::Task {
                claimed.tasks.reserve(page.len().min(self.max - claimed.len()));
            }
            for (lane, place) in page {
                if claimed.len() == self.max {
                    break;
                }
                claimed.passed_over |= is_busy(work, self.class, place.1);
                match self.class {
                    WorkClass::Task => take_task(work, self, lane, place.1, &mut claimed),
                    _ => claimed.workflows.extend(take_workflow(work, &self.claimer, lane, place.1)),
                }
                // Taken or not, this batch needs the candidate no more.
                drop_candidate(work, lane, place);
            }
        }
    }
}

/// Loads the rows of everything that the lane scans found: one load for all claims of a batch.
pub(crate) fn needs_pool(needs: &mut Needs<'_>) {
    for (lane, rows) in &needs.set().pool {
        for (_, id) in rows {
            needs_candidate(needs, lane.tenant_id, lane.class, *id);
        }
    }
}

fn needs_candidate(needs: &mut Needs<'_>, tenant_id: TenantId, class: WorkClass, id: Uuid) {
    if class != WorkClass::Task {
        needs.candidate::<Execution>((tenant_id, id));
        return;
    }
    let Some(task) = needs.candidate::<Task>((tenant_id, id)) else { return };
    let Some(execution_id) = task.execution_id else { return };
    let owner = needs.glance::<Execution>((tenant_id, execution_id));
    if owner.is_none_or(|owner| owner.status.is_terminal()) {
        key::needs_release(needs, tenant_id, KeySpace::Work, task.idempotency_key.as_ref());
    }
}

/// How many candidates a claim examines: a few more than it asks for, because some may be gone.
fn page(claim: &Claim) -> usize {
    claim.max + claim.max / 8 + 4
}

/// The next candidates of the claim, in order of work.
fn candidates<'a>(set: &WorkingSet, lanes: &'a [Lane], claim: &Claim) -> Vec<(&'a Lane, PlaceInLane)> {
    let page = page(claim);
    let mut found: Vec<(&Lane, PlaceInLane)> = Vec::new();
    for lane in lanes {
        let Some(pool) = set.pool.get(lane) else { continue };
        let in_lane = |place: &PlaceInLane| (lane, *place);
        match &claim.only {
            Some(only) => found.extend(only.iter().filter(|place| pool.contains(place)).map(in_lane)),
            None => found.extend(pool.iter().take(page).map(in_lane)),
        }
    }
    found.sort_unstable_by_key(|(_, place)| *place);
    found.truncate(page);
    found
}

/// Splits the lanes into those of held-back executions, which are last in the list, and the others.
fn split(lanes: &[Lane]) -> (&[Lane], &[Lane]) {
    let usual = lanes.iter().position(|lane| lane.class == WorkClass::HeldBack).unwrap_or(lanes.len());
    let (usual, held_back) = lanes.split_at(usual);
    (held_back, usual)
}

/// All held-back executions, in order of work. The executions that this build may not take stay for other claims of the
/// batch.
fn held_back_candidates<'a>(
    set: &WorkingSet,
    lanes: &'a [Lane],
    claim: &Claim,
) -> Vec<(&'a Lane, PlaceInLane)> {
    let wanted = |place: &PlaceInLane| claim.only.as_ref().is_none_or(|only| only.contains(place));
    let of_lane = |lane: &'a Lane| {
        let pool = set.pool.get(lane).into_iter().flatten().copied();
        pool.filter(wanted).map(move |place| (lane, place))
    };
    let mut found: Vec<(&Lane, PlaceInLane)> = lanes.iter().flat_map(of_lane).collect();
    found.sort_unstable_by_key(|(_, place)| *place);
    found
}

/// The row, if it could be locked. `None`: it is busy or gone.
fn candidate<R: Row>(table: &crate::table::Table<R>, key: &R::Key) -> Option<R> {
    match table.known(key, true) {
        Known::Row(row) => Some(row.clone()),
        _ => None,
    }
}

fn is_busy(work: &Work<'_>, class: WorkClass, id: Uuid) -> bool {
    let key = (work.tenant_id, id);
    match class {
        WorkClass::Task => matches!(work.set.tasks.known(&key, true), Known::Busy),
        _ => matches!(work.set.executions.known(&key, true), Known::Busy),
    }
}

/// Removes a candidate from the pool: it was claimed, is locked by another transaction, or has left the lane. Writes
/// nothing.
fn drop_candidate(work: &mut Work<'_>, lane: &Lane, place: PlaceInLane) {
    if let Some(pool) = work.set.pool.get_mut(lane) {
        pool.remove(&place);
    }
}

fn stands_in(ready: &Ready, lane: &Lane) -> bool {
    ready.lane == *lane
}

pub(crate) fn is_paused(work: &Work<'_>, queue: &Text) -> bool {
    work.set.queues.get(&(work.tenant_id, queue.clone())).is_some()
}

/// Claims the execution that this request has just started, for the worker that received it. The queue may have been
/// paused since.
pub(crate) fn take_started(work: &mut Work<'_>, taker: &Claimer, reply: &Reply) {
    let Reply::Started(Started { execution_id: id, key_new: true, .. }) = *reply else { return };
    let Some(execution) = work.set.executions.get(&(work.tenant_id, id)) else { return };
    if execution.is_in_ready() {
        let ready = execution.ready();
        take_workflow(work, taker, &ready.lane, id);
        drop_candidate(work, &ready.lane, ready.place());
    }
}

fn take_workflow(work: &mut Work<'_>, claimer: &Claimer, lane: &Lane, id: Uuid) -> Option<Activation> {
    let row = candidate(&work.set.executions, &(work.tenant_id, id));
    let mut execution = row.filter(|row| row.is_in_ready() && stands_in(&row.ready(), lane))?;
    if lane.class == WorkClass::HeldBack && !may_take_early(&execution, claimer) {
        return None;
    }
    begin(work, &mut execution, claimer);
    let lease_ms = if claimer.plain { work.limits.workflow_lease_ms } else { work.limits.session_lease_ms };
    let until_ms = work.now.lease_ms.saturating_add(lease_ms);
    execution.lease_until_ms = Some(until_ms);
    execution.lease_alarm_ms = alarm::no_later_than(
        work,
        DueClass::ExecutionLease,
        execution.key(),
        execution.lease_alarm_ms,
        Some(until_ms),
    );
    let new_events = new_events(work, &execution);
    work.set.executions.put(execution.clone());
    Some(Activation { token: execution.epoch, execution, new_events, provisional: false })
}

/// Whether the claimer may take a held-back execution early. The delay is kept until an activation is accepted: if the
/// claim ends without one, the execution is held back as before.
fn may_take_early(execution: &Execution, claimer: &Claimer) -> bool {
    // A large history does not fit into a reply of the plain protocol.
    let fits = !(execution.large && claimer.plain);
    fits && held_back::may_try(execution.failure_build.as_ref(), claimer.build.as_ref())
}

/// Claims an execution: removes it from the ready table and starts a new epoch.
pub(crate) fn begin(work: &mut Work<'_>, execution: &mut Execution, claimer: &Claimer) {
    work.set.remove_ready(execution.ready());
    note_workflow(work, execution);
    execution.status = ExecutionStatus::Running;
    execution.started_ms.get_or_insert(work.now.ms);
    execution.epoch += 1;
    execution.marked = false;
    execution.delivered_signals = execution.buffered_signals;
    execution.cooperative = claimer.cooperative;
    execution.plain = claimer.plain;
    let peer = work.peer.filter(|_| claimer.plain);
    execution.claim_credential = peer.and_then(|peer| peer.credential);
    execution.claim_connection = peer.and_then(|peer| peer.connection);
    execution.worker = Some(claimer.worker.clone());
    execution.session = claimer.session;
    if execution.cancel_requested_ms.is_some() {
        clean_up::delivered(execution, work.now.ms);
        execution::arm(work, execution);
    }
}

/// The events that the worker has not seen. `None`: this batch did not write all of them.
fn new_events(work: &Work<'_>, execution: &Execution) -> Option<Vec<DeliveredEvent>> {
    if execution.last_sequence - execution.base_sequence > INLINE_EVENTS {
        return None;
    }
    let task = |task_id| match work.set.tasks.known(&(execution.tenant_id, task_id), false) {
        Known::Row(task) => Some(task),
        _ => None,
    };
    (execution.base_sequence + 1..=execution.last_sequence)
        .map(|sequence| work.set.events.get(&(execution.tenant_id, execution.id, sequence))?.delivered(task))
        .collect()
}

fn take_task(work: &mut Work<'_>, claim: &Claim, lane: &Lane, id: Uuid, claimed: &mut Claimed) {
    let row = candidate(&work.set.tasks, &(work.tenant_id, id));
    let Some(mut task) = row.filter(|row| row.is_in_ready() && stands_in(&row.ready(), lane)) else { return };
    if owner_has_finished(work, &task) {
        let reason = "its workflow has finished".into();
        task::finish(work, &mut task, task::End::Cancelled { reason, told: true });
        work.set.tasks.put(task);
        claimed.cleared = true;
        return;
    }
    work.set.remove_ready(task.ready());
    note_task(work, &task);
    task.status = TaskStatus::Running;
    task.started_ms = Some(work.now.ms);
    // Counted at delivery, not at the report: otherwise a task that kills its worker would be retried without a limit.
    task.execution_count += 1;
    task.epoch += i64::from(claim.only.is_none() || !planted(Bug::HandOffWithoutToken));
    task.plain = claim.claimer.plain;
    let peer = work.peer.filter(|_| claim.claimer.plain);
    task.claim_credential = peer.and_then(|peer| peer.credential);
    task.claim_connection = peer.and_then(|peer| peer.connection);
    task.worker = Some(claim.claimer.worker.clone());
    task.session = claim.claimer.session;
    task.last_heartbeat_ms = None;
    let timeout_ms = task_timeout_ms(claim, &task);
    let lease_ms = timeout_ms.unwrap_or(default_task_lease_ms(work, claim));
    task.lease_until_ms = Some(work.now.lease_ms.saturating_add(lease_ms));
    task.lease_alarm_ms = alarm::no_later_than(
        work,
        DueClass::TaskLease,
        task.key(),
        task.lease_alarm_ms,
        Some(first_look(work, &claim.claimer, lease_ms)),
    );
    task::arm(work, &mut task);
    work.set.tasks.put(task.clone());
    let extensible = claim.claimer.plain && timeout_ms.is_none();
    claimed.tasks.push(TaskDelivery { token: task.epoch, task, extensible });
}

/// Notes how long the execution waited since its last event or its scheduled time. After a failed activation nothing is
/// noted, because the back-off says nothing about workers.
fn note_workflow(work: &mut Work<'_>, execution: &Execution) {
    if execution.activation_failures == 0 {
        let since_ms = execution.last_event_ms.max(execution.scheduled_ms.unwrap_or(i64::MIN));
        note_handed(work, WorkClass::Workflow, &execution.queue, since_ms);
    }
}

fn note_task(work: &mut Work<'_>, task: &Task) {
    if task.execution_count == task.retry_base {
        note_handed(work, WorkClass::Task, &task.queue, task.scheduled_or_created_ms().max(task.created_ms));
    }
}

fn note_handed(work: &mut Work<'_>, class: WorkClass, queue: &Text, since_ms: i64) {
    let waited_ms = work.now.ms.saturating_sub(since_ms).max(0);
    work.note(Noted::Handed { class, queue: queue.clone(), waited_ms });
}

fn owner_has_finished(work: &Work<'_>, task: &Task) -> bool {
    let Some(execution_id) = task.execution_id else { return false };
    match work.set.executions.known(&(task.tenant_id, execution_id), false) {
        Known::Row(execution) => execution.status.is_terminal(),
        // Another transaction is writing the execution: it is open, or the result will be refused.
        Known::Busy | Known::No => false,
        Known::Absent => true,
    }
}

/// A session renews its lease. A plain worker cannot, so its lease is as long as the task may take. `None`: no timeout
/// is known.
fn task_timeout_ms(claim: &Claim, task: &Task) -> Option<i64> {
    let registered =
        || claim.kinds.iter().find(|kind| kind.kind == task.task_type).and_then(|kind| kind.timeout_ms);
    if claim.claimer.plain { task.start_to_close_ms.or_else(registered) } else { None }
}

fn default_task_lease_ms(work: &Work<'_>, claim: &Claim) -> i64 {
    if claim.claimer.plain { work.limits.task_lease_ms } else { work.limits.session_lease_ms }
}

/// When to check the claim for the first time. For a registered plain worker that is earlier, because its heartbeats
/// may stop before the lease ends.
fn first_look(work: &Work<'_>, claimer: &Claimer, lease_ms: i64) -> i64 {
    let look_ms = match claimer.session {
        Some(_) if claimer.plain => lease_ms.min(work.limits.worker_silence_ms),
        _ => lease_ms,
    };
    work.now.lease_ms.saturating_add(look_ms)
}
