//! Live data of running tasks, for clients that watch them. It is kept in memory only: data that nobody watches is
//! discarded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::ids::{TaskId, TenantId};
use flovyn_proto::v1::StreamTaskDataRequest;
use rustc_hash::FxHashMap;
use tokio::sync::broadcast;

/// How many items a slow watcher may lag behind before it misses some.
const BUFFER: usize = 256;

type Subject = (TenantId, TaskId);
type Datum = Arc<StreamTaskDataRequest>;

type Senders = FxHashMap<Subject, broadcast::Sender<Datum>>;

/// All live streams of this process. Cheap to clone.
#[derive(Debug, Default, Clone)]
pub struct Live {
    tasks: Arc<Mutex<Senders>>,
}

/// A subscription to the live data of one task.
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
            // An error means that the last watcher has just left.
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
    /// The next item. A watcher that is too slow misses some.
    pub async fn next(&mut self) -> Datum {
        loop {
            match self.receiver.recv().await {
                Ok(datum) => return datum,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                // This cannot happen: the sender stays in the map as long as this watch exists.
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
    async fn a_watcher_receives_published_data_and_the_last_one_removes_the_channel() {
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
