//! Values that a task keeps between its attempts.

use crate::check;
use crate::code::{Code, Refusal};
use crate::ids::{TaskId, TenantId, Text};
use crate::lifecycle::task;
use crate::limits::{Limits, TASK_STATE_KEYS as MAX_KEYS};
use crate::reply::Reply;
use crate::request::{ClearAllTaskState, ClearTaskState, GetTaskState, ListTaskState, SetTaskState};
use crate::rules::{Rule, Work};
use crate::state::{Task, TaskState};
use crate::working_set::{Needs, Scan};

fn needs_entry(needs: &mut Needs<'_>, tenant_id: TenantId, task_id: TaskId, name: &Text) {
    // The task's lock also guards its entries.
    needs.row::<Task>((tenant_id, task_id));
    needs.row::<TaskState>((tenant_id, task_id, name.clone()));
}

fn needs_all(needs: &mut Needs<'_>, tenant_id: TenantId, task_id: TaskId) {
    needs.row::<Task>((tenant_id, task_id));
    needs.scan(all(tenant_id, task_id));
}

fn all(tenant_id: TenantId, task_id: TaskId) -> Scan {
    Scan::TaskStateKeys { tenant_id, task_id, limit: MAX_KEYS }
}

impl Rule for SetTaskState {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::name("state key", &self.name, limits)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs_entry(needs, tenant_id, self.task_id, &self.name);
        needs_all(needs, tenant_id, self.task_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        let value = check::payload("state value", &self.value, work.limits)?;
        let row = task::find_claimed(work, self.task_id, self.token)?;
        let known = names(work, self.task_id);
        if known.len() >= MAX_KEYS && !known.contains(&self.name) {
            let message = format!("task {} has {MAX_KEYS} state keys", self.task_id);
            return Err(Refusal::new(Code::TooManyStateKeys, message));
        }
        let (tenant_id, task_id) = row.key();
        work.set.task_states.put(TaskState { tenant_id, task_id, name: self.name.clone(), value });
        Ok(Reply::Done)
    }
}

impl Rule for GetTaskState {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::name("state key", &self.name, limits)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs_entry(needs, tenant_id, self.task_id, &self.name);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        task::find(work, self.task_id)?;
        let key = (work.tenant_id, self.task_id, self.name.clone());
        Ok(Reply::TaskState { value: work.set.task_states.get(&key).map(|row| row.value.clone()) })
    }
}

impl Rule for ListTaskState {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs_all(needs, tenant_id, self.task_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        task::find(work, self.task_id)?;
        Ok(Reply::TaskStateKeys { names: names(work, self.task_id) })
    }
}

impl Rule for ClearTaskState {
    fn check(&self, limits: &Limits) -> Result<(), Refusal> {
        check::name("state key", &self.name, limits)
    }

    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs_entry(needs, tenant_id, self.task_id, &self.name);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        task::find_claimed(work, self.task_id, self.token)?;
        let key = (work.tenant_id, self.task_id, self.name.clone());
        if work.set.task_states.get(&key).is_some() {
            work.set.task_states.delete(&key);
        }
        Ok(Reply::Done)
    }
}

impl Rule for ClearAllTaskState {
    fn needs(&self, tenant_id: TenantId, needs: &mut Needs<'_>) {
        needs_all(needs, tenant_id, self.task_id);
    }

    fn decide(&self, work: &mut Work<'_>) -> Result<Reply, Refusal> {
        task::find_claimed(work, self.task_id, self.token)?;
        for name in names(work, self.task_id) {
            work.set.task_states.delete(&(work.tenant_id, self.task_id, name));
        }
        Ok(Reply::Done)
    }
}

fn names(work: &Work<'_>, task_id: TaskId) -> Vec<Text> {
    let own = |row: &&TaskState| row.tenant_id == work.tenant_id && row.task_id == task_id;
    let mut names: Vec<Text> =
        work.set.task_states.current().filter(own).map(|row| row.name.clone()).collect();
    names.sort_unstable();
    names
}
