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

type Senders = FxHashMap<Subject, broadcast::Sender<Datum>>;

/// All live streams of this process. Cheap to clone.
#[derive(Debug, Default, Clone)]
pub struct Live {
    tasks: Arc<Mutex<Senders>>,
}

/// Somebody who watches a task.
#[derive(Debug)]
pub struct LiveWatch {
    live: Live,
    subject: Subject,
    receiver: broadcast::Receiver<Datum>,
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, Senders> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn publish(&self, tenant_id: TenantId, task_id: TaskId, datum: StreamTaskDataRequest) {
        if let Some(sender) = self.lock().get(&(tenant_id, task_id)) {
            // Whoever watched may just have gone.
            let _ = sender.send(Arc::new(datum));
        }
    }

    pub fn watch(&self, tenant_id: TenantId, task_id: TaskId) -> LiveWatch {
        let subject = (tenant_id, task_id);
        let receiver = self.lock().entry(subject).or_insert_with(|| broadcast::channel(BUFFER).0).subscribe();
        LiveWatch { live: self.clone(), subject, receiver }
    }
}

impl LiveWatch {
    /// The next datum. Who is too slow misses some.
    pub async fn next(&mut self) -> Datum {
        loop {
            match self.receiver.recv().await {
                Ok(datum) => return datum,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                // The sender stays in the map as long as this watch is there.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

impl Drop for LiveWatch {
    fn drop(&mut self) {
        let mut tasks = self.live.lock();
        if tasks.get(&self.subject).is_some_and(|sender| sender.receiver_count() <= 1) {
            tasks.remove(&self.subject);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[tokio::test]
    async fn who_watches_gets_what_is_published_and_leaves_nothing_behind() {
        let live = Live::default();
        let (tenant, task) = (Uuid::from_u128(1), Uuid::from_u128(2));
        live.publish(tenant, task, StreamTaskDataRequest::default());
        let mut one = live.watch(tenant, task);
        let two = live.watch(tenant, task);
        let datum = StreamTaskDataRequest { sequence: 7, ..StreamTaskDataRequest::default() };
        live.publish(tenant, task, datum);
        assert_eq!(one.next().await.sequence, 7);
        drop(one);
        assert_eq!(live.lock().len(), 1);
        drop(two);
        assert_eq!(live.lock().len(), 0);
    }
}
