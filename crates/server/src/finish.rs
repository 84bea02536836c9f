//! Waits until an execution or a task has finished. The request is held here, so that clients need not poll.

use std::time::Duration;

use flovyn_engine::ids::{ExecutionId, TaskId, TenantId};
use flovyn_engine::state::{Execution, Task};
use flovyn_service::{Follower, Watch};
use flovyn_store::StoreResult;
use tokio::time::Instant;

use crate::api::Api;

/// On a shared database the row is read again this often, because commits of other processes send no notification.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The execution once it has finished. If the time is up or the server is draining, its current state. `None` if
/// there is no such execution.
pub(crate) async fn finished(
    api: &Api,
    tenant_id: TenantId,
    id: ExecutionId,
    wait: Duration,
) -> StoreResult<Option<Execution>> {
    let store = api.service().store();
    let mut follower = api.service().follower(tenant_id);
    follower.add(id);
    let is_open = |row: &Execution| !row.status.is_terminal();
    until_closed(api, wait, || store.execution_get(tenant_id, id), is_open, News::End(follower)).await
}

/// The task once it has finished. If the time is up or the server is draining, its current state. `None` if there is
/// no such task.
pub(crate) async fn task_finished(
    api: &Api,
    tenant_id: TenantId,
    id: TaskId,
    wait: Duration,
) -> StoreResult<Option<Task>> {
    let store = api.service().store();
    let watch = api.service().watch(tenant_id, id);
    let is_open = |row: &Task| !row.status.is_terminal();
    until_closed(api, wait, || store.task_get(tenant_id, id), is_open, News::Change(watch)).await
}

/// The notification that the row may have changed and should be read again.
enum News {
    End(Follower),
    Change(Watch),
}

impl News {
    async fn come(&mut self) {
        match self {
            Self::End(follower) => drop(follower.next().await),
            Self::Change(watch) => watch.changed().await,
        }
    }
}

/// Reads the row again until it is closed or the time is up. The notification was subscribed to before the first
/// read, so no change is missed.
async fn until_closed<R, F: Future<Output = StoreResult<Option<R>>>>(
    api: &Api,
    wait: Duration,
    read: impl Fn() -> F,
    is_open: impl Fn(&R) -> bool,
    mut news: News,
) -> StoreResult<Option<R>> {
    let until = Instant::now() + wait;
    let shared = api.service().store().is_shared();
    loop {
        let row = read().await?;
        let now = Instant::now();
        if !row.as_ref().is_some_and(&is_open) || now >= until || api.is_draining() {
            return Ok(row);
        }
        let look_at = if shared { until.min(now + LOOK_EVERY) } else { until };
        tokio::select! {
            () = news.come() => {}
            () = tokio::time::sleep_until(look_at) => {}
            () = api.drains() => {}
        }
    }
}
