//! Live data of running tasks for whoever watches. In memory only: what nobody watches is gone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::ids::{TaskId, TenantId};
use flovyn_proto::v1::StreamTaskDataRequest;
use rustc_hash::FxHashMap;
use tokio::sync::broadcast;

/// Data that a slow watcher may be behind before it misses some.
const BUFFER: usize = 256;

type Subject = (TenantId, TaskId);
type Datum = Arc<StreamTaskDataRequest>;

/// All live streams of this process.
#[derive(Debug, Default)]
pub struct Live {
    tasks: Mutex<FxHashMap<Subject, broadcast::Sender<Datum>>>,
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<Subject, broadcast::Sender<Datum>>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn publish(&self, tenant_id: TenantId, task_id: TaskId, datum: StreamTaskDataRequest) {
        let mut tasks = self.lock();
        let subject = (tenant_id, task_id);
        if let Some(sender) = tasks.get(&subject)
            && sender.send(Arc::new(datum)).is_err()
        {
            // The last watcher has gone.
            tasks.remove(&subject);
        }
    }

    pub fn watch(&self, tenant_id: TenantId, task_id: TaskId) -> broadcast::Receiver<Datum> {
        let mut tasks = self.lock();
        tasks.entry((tenant_id, task_id)).or_insert_with(|| broadcast::channel(BUFFER).0).subscribe()
    }
}
