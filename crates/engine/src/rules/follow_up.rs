//! Follow-ups: effects that were too large or too distant for the transaction that caused them, done page by page.
//!
//! A follow-up that is not finished writes a new row for the rest.

use crate::ids::{TenantId, Text};
use crate::lifecycle::task::{self, End};
use crate::lifecycle::{execution, key};
use crate::limits::FOLLOW_UP_ROWS as PAGE;
use crate::rules::cancel_workflow;
use crate::rules::{Work, commands, fire_due};
use crate::state::*;
use crate::table::{Known, Row, Table};
use crate::working_set::{Needs, Scan};

pub(crate) fn needs(due: &Due, needs: &mut Needs<'_>) {
    let (tenant_id, id) = (due.tenant_id, due.id);
    match due.class {
        DueClass::CancelChildren => {
            needs.peek::<Execution>((tenant_id, id));
            needs.scan(children(due));
        }
        DueClass::CancelExecution => {
            execution::needs_with_end(needs, tenant_id, id);
        }
        DueClass::CloseItems => {
            needs.execution((tenant_id, id));
            let scanned = open_items(due).map(|scan| needs.scan(scan));
            if scanned.contains(&false) {
                return;
            }
            for row in of_execution(&needs.set().tasks, tenant_id, id, |row| row.execution_id) {
                needs.row::<Task>(row.key());
                key::needs_release(needs, tenant_id, KeySpace::Work, row.idempotency_key.as_ref());
            }
            for row in of_execution(&needs.set().promises, tenant_id, id, |row| Some(row.execution_id)) {
                needs.row::<Promise>(Row::key(row));
            }
        }
        DueClass::PurgeExecution => {
            needs.execution((tenant_id, id));
            if needs.scan(Scan::Belongings { tenant_id, execution_id: id, limit: PAGE }) {
                for row in of_execution(&needs.set().tasks, tenant_id, id, |row| row.execution_id) {
                    needs.row::<Task>(row.key());
                    key::needs_release(needs, tenant_id, KeySpace::Work, row.idempotency_key.as_ref());
                }
                for row in of_execution(&needs.set().promises, tenant_id, id, |row| Some(row.execution_id)) {
                    needs.row::<Promise>(Row::key(row));
                    key::needs_release(needs, tenant_id, KeySpace::Promise, row.external_key.as_ref());
                }
            }
        }
        DueClass::PurgeTask => {
            needs.row::<Task>((tenant_id, id));
            needs.scan(Scan::TaskBelongings { tenant_id, task_id: id, limit: PAGE });
        }
        _ => unreachable!("not a follow-up"),
    }
}

fn children(due: &Due) -> Scan {
    Scan::Children { tenant_id: due.tenant_id, parent_id: due.id, after: due.cursor, limit: PAGE }
}

fn open_items(due: &Due) -> [Scan; 3] {
    let (tenant_id, execution_id, limit) = (due.tenant_id, due.id, PAGE);
    [
        Scan::OpenTasks { tenant_id, execution_id, limit },
        Scan::OpenTimers { tenant_id, execution_id, limit },
        Scan::OpenPromises { tenant_id, execution_id, limit },
    ]
}

/// Rows of a table that belong to an execution, in key order.
fn of_execution<R: Row>(
    table: &Table<R>,
    tenant_id: TenantId,
    id: uuid::Uuid,
    owner: impl Fn(&R) -> Option<uuid::Uuid>,
) -> Vec<&R>
where
    R::Key: HasTenant,
{
    let mut rows: Vec<&R> =
        table.current().filter(|row| row.key().tenant() == tenant_id && owner(row) == Some(id)).collect();
    rows.sort_unstable_by_key(|row| row.key());
    rows
}

/// The tenant that a key begins with.
pub(crate) trait HasTenant {
    fn tenant(&self) -> TenantId;
}
impl<A> HasTenant for (TenantId, A) {
    fn tenant(&self) -> TenantId {
        self.0
    }
}
impl<A, B> HasTenant for (TenantId, A, B) {
    fn tenant(&self) -> TenantId {
        self.0
    }
}

/// Does one page. The due row has already been deleted.
pub(crate) fn act(work: &mut Work<'_>, due: &Due) -> bool {
    match due.class {
        DueClass::CancelChildren => cancel_children(work, due),
        DueClass::CancelExecution => {
            if let Ok(row) = execution::find_open(work, due.id) {
                cancel_workflow::cancel(work, row, &reason(due), true);
            }
        }
        DueClass::CloseItems => close_items(work, due),
        DueClass::PurgeExecution => purge_execution(work, due),
        _ => purge_task(work, due),
    }
    true
}

fn reason(due: &Due) -> Text {
    due.note.clone().unwrap_or_else(|| "cancelled".into())
}

fn again(work: &mut Work<'_>, due: &Due, cursor: Option<uuid::Uuid>) {
    let mut next = due.clone();
    // One step later, so that it is a new row, behind the rows that are due already.
    next.due_ms = work.now.ms.max(due.due_ms + 1);
    next.cursor = cursor;
    work.set.due.put(next);
}

/// Adds a follow-up for each child; the child's follow-up cancels the child and its own children.
fn cancel_children(work: &mut Work<'_>, due: &Due) {
    let after = due.cursor;
    let asked_ms = match work.set.executions.known(&(due.tenant_id, due.id), false) {
        Known::Row(parent) => parent.cancel_requested_ms,
        _ => None,
    };
    // A child that was started after the cancel request belongs to the clean-up and is not cancelled.
    let spared = |row: &Execution| asked_ms.is_some_and(|asked| row.created_ms > asked);
    let page: Vec<(uuid::Uuid, bool)> =
        of_execution(&work.set.executions, due.tenant_id, due.id, |row| row.parent_id)
            .into_iter()
            .filter(|row| after.is_none_or(|after| row.id > after))
            .take(PAGE)
            .map(|row| (row.id, row.status.is_terminal() || spared(row)))
            .collect();
    for (child_id, left_alone) in &page {
        if !left_alone {
            execution::follow_up(work, DueClass::CancelExecution, *child_id, Some(reason(due)));
        }
    }
    if page.len() == PAGE {
        again(work, due, page.last().map(|(id, _)| *id));
    }
}

/// Closes tasks, timers and promises that a finished execution left open.
fn close_items(work: &mut Work<'_>, due: &Due) {
    let (tenant_id, id) = (due.tenant_id, due.id);
    let tasks: Vec<Task> = of_execution(&work.set.tasks, tenant_id, id, |row| row.execution_id)
        .into_iter()
        .filter(|row| !row.status.is_terminal())
        .cloned()
        .collect();
    let open_timer = |row: &&Timer| row.status == TimerStatus::Open;
    let timers: Vec<Timer> = of_execution(&work.set.timers, tenant_id, id, |row| Some(row.execution_id))
        .into_iter()
        .filter(open_timer)
        .cloned()
        .collect();
    let promises: Vec<Promise> =
        of_execution(&work.set.promises, tenant_id, id, |row| Some(row.execution_id))
            .into_iter()
            .filter(|row| row.status == PromiseStatus::Open)
            .cloned()
            .collect();
    let full = [tasks.len(), timers.len(), promises.len()].iter().any(|count| *count >= PAGE);
    for mut row in tasks {
        let reason = Text::from("its workflow has finished");
        if row.status == TaskStatus::Running {
            task::record_attempt(work, &row, AttemptStatus::Cancelled, reason.clone(), None);
        }
        task::finish(work, &mut row, End::Cancelled { reason, told: true });
        work.set.tasks.put(row);
    }
    for row in timers {
        commands::drop_timer(work, row);
    }
    for row in promises {
        fire_due::abandon_promise(work, row);
    }
    if full && due.class == DueClass::CloseItems {
        again(work, due, None);
    }
}

fn delete_all<R: Row>(table: &mut Table<R>, keys: Vec<R::Key>) -> usize {
    for key in &keys {
        table.delete(key);
    }
    keys.len()
}

fn keys_of<R: Row>(
    table: &Table<R>,
    tenant_id: TenantId,
    id: uuid::Uuid,
    owner: impl Fn(&R) -> Option<uuid::Uuid>,
) -> Vec<R::Key>
where
    R::Key: HasTenant,
{
    of_execution(table, tenant_id, id, owner).into_iter().map(Row::key).collect()
}

/// Removes a page of rows from every table. When no row is left, removes the execution itself.
fn purge_execution(work: &mut Work<'_>, due: &Due) {
    let (tenant_id, id) = (due.tenant_id, due.id);
    let owned: Vec<Task> =
        of_execution(&work.set.tasks, tenant_id, id, |row| row.execution_id).into_iter().cloned().collect();
    if owned.iter().any(|row| !row.status.is_terminal()) {
        close_items(work, due);
        again(work, due, None);
        return;
    }
    for row in &owned {
        key::release(work, KeySpace::Work, row.idempotency_key.as_ref(), row.id);
    }
    for promise in of_execution(&work.set.promises, tenant_id, id, |row| Some(row.execution_id))
        .into_iter()
        .cloned()
        .collect::<Vec<_>>()
    {
        key::release(work, KeySpace::Promise, promise.external_key.as_ref(), promise.id);
        if promise.status == PromiseStatus::Open {
            fire_due::abandon_promise(work, promise);
        }
    }
    for timer in of_execution(&work.set.timers, tenant_id, id, |row| Some(row.execution_id))
        .into_iter()
        .filter(|row| row.status == TimerStatus::Open)
        .cloned()
        .collect::<Vec<_>>()
    {
        commands::drop_timer(work, timer);
    }
    let mut removed = 0;
    for row in &owned {
        removed += purge_task_rows(work, tenant_id, row.id);
    }
    let set = &mut *work.set;
    // A task is removed only after a page has found none of its rows.
    if removed == 0 {
        removed += delete_all(&mut set.tasks, owned.iter().map(Row::key).collect());
    }
    let keys = keys_of(&set.events, tenant_id, id, |row| Some(row.execution_id));
    removed += delete_all(&mut set.events, keys);
    let keys = keys_of(&set.labels, tenant_id, id, |row| Some(row.execution_id));
    removed += delete_all(&mut set.labels, keys);
    let keys = keys_of(&set.states, tenant_id, id, |row| Some(row.execution_id));
    removed += delete_all(&mut set.states, keys);
    let keys = keys_of(&set.timers, tenant_id, id, |row| Some(row.execution_id));
    removed += delete_all(&mut set.timers, keys);
    let keys = keys_of(&set.promises, tenant_id, id, |row| Some(row.execution_id));
    removed += delete_all(&mut set.promises, keys);
    if removed > 0 {
        again(work, due, None);
    } else if matches!(set.executions.known(&(tenant_id, id), true), Known::Row(_)) {
        set.executions.delete(&(tenant_id, id));
    }
}

fn purge_task_rows(work: &mut Work<'_>, tenant_id: TenantId, id: uuid::Uuid) -> usize {
    let set = &mut *work.set;
    let keys = keys_of(&set.attempts, tenant_id, id, |row| Some(row.task_id));
    let mut removed = delete_all(&mut set.attempts, keys);
    let keys = keys_of(&set.task_logs, tenant_id, id, |row| Some(row.task_id));
    removed += delete_all(&mut set.task_logs, keys);
    let keys = keys_of(&set.task_states, tenant_id, id, |row| Some(row.task_id));
    removed += delete_all(&mut set.task_states, keys);
    removed
}

fn purge_task(work: &mut Work<'_>, due: &Due) {
    let (tenant_id, id) = (due.tenant_id, due.id);
    if purge_task_rows(work, tenant_id, id) > 0 {
        again(work, due, None);
    } else if matches!(work.set.tasks.known(&(tenant_id, id), true), Known::Row(_)) {
        work.set.tasks.delete(&(tenant_id, id));
    }
}
