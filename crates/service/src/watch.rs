//! Waiting for a change of one execution or task, in memory. Used by callers that wait for a result or follow a log.
//!
//! Watches see only changes that this process committed. If other processes write to the same database, also read it
//! from time to time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::ids::TenantId;
use rustc_hash::FxHashMap;
use tokio::sync::watch;
use uuid::Uuid;

use crate::service::Service;

pub(crate) type Subject = (TenantId, Uuid);

#[derive(Debug, Default, Clone)]
pub(crate) struct Watchers {
    subjects: Arc<Mutex<FxHashMap<Subject, watch::Sender<()>>>>,
}

impl Watchers {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<Subject, watch::Sender<()>>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(crate) fn tell(&self, changed: &[Subject]) {
        if changed.is_empty() {
            return;
        }
        let subjects = self.lock();
        for subject in changed {
            if let Some(sender) = subjects.get(subject) {
                sender.send_replace(());
            }
        }
    }
}

impl Watchers {
    /// Makes all watchers read again.
    pub(crate) fn tell_all(&self) {
        for sender in self.lock().values() {
            sender.send_replace(());
        }
    }
}

/// Waits for changes of one subject.
#[derive(Debug)]
pub struct Watch {
    watchers: Watchers,
    subject: Subject,
    receiver: watch::Receiver<()>,
}

impl Watch {
    /// Completes when the subject has changed since the last call, or since the watch began.
    pub async fn changed(&mut self) {
        if self.receiver.changed().await.is_err() {
            // The sender stays in the map as long as this watch exists, so this cannot happen.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut subjects = self.watchers.lock();
        if subjects.get(&self.subject).is_some_and(|sender| sender.receiver_count() <= 1) {
            subjects.remove(&self.subject);
        }
    }
}

impl Service {
    /// Watches an execution or a task. To miss no change, call this first and read after it.
    pub fn watch(&self, tenant_id: TenantId, id: Uuid) -> Watch {
        let watchers = self.shared.watchers.clone();
        let subject = (tenant_id, id);
        let receiver = watchers.lock().entry(subject).or_insert_with(|| watch::channel(()).0).subscribe();
        Watch { watchers, subject, receiver }
    }
}
