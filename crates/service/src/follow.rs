//! Following executions to their end, in memory. The batch that ends an execution sends its outcome to the followers,
//! without a read of the database.
//!
//! Followers see only what this process committed. If other processes write to the same database, also read it from
//! time to time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flovyn_engine::event::EventKind;
use flovyn_engine::failure::Failure;
use flovyn_engine::ids::{ExecutionId, Payload, TenantId, Text};
use flovyn_engine::request::StartWorkflow;
use flovyn_engine::state::Event;
use flovyn_engine::{Refusal, Reply};
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, oneshot};

use crate::job::Asker;
use crate::service::{Service, stopping};
use crate::watch::Subject;

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub execution_id: ExecutionId,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Completed(Payload),
    /// The error text, and the details of the failure.
    Failed(Text, Failure),
    /// The reason.
    Cancelled(Text),
}

impl Outcome {
    /// The outcome in a terminal event. `None` for any other event.
    pub fn of(event: &Event) -> Option<Self> {
        let text = || event.text.clone().unwrap_or_default();
        match event.kind {
            EventKind::WorkflowCompleted => Some(Self::Completed(event.payload.clone().unwrap_or_default())),
            EventKind::WorkflowFailed => Some(Self::Failed(text(), event.failure().failure)),
            EventKind::WorkflowCancelled => Some(Self::Cancelled(text())),
            _ => None,
        }
    }
}

pub(crate) type EndSender = mpsc::UnboundedSender<Ended>;

/// All followers, by the execution that they follow. The channels are unbounded, because each execution ends once.
#[derive(Debug, Default, Clone)]
pub(crate) struct Followers {
    subjects: Arc<Mutex<FxHashMap<Subject, Vec<EndSender>>>>,
}

impl Followers {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<Subject, Vec<EndSender>>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, subject: Subject, sender: EndSender) {
        self.lock().entry(subject).or_default().push(sender);
    }

    pub(crate) fn tell(&self, ended: Vec<(Subject, Outcome)>) {
        if ended.is_empty() {
            return;
        }
        let mut subjects = self.lock();
        if subjects.is_empty() {
            return;
        }
        for (subject, outcome) in ended {
            for sender in subjects.remove(&subject).unwrap_or_default() {
                // A receiver that has gone needs no answer.
                let _ = sender.send(Ended { execution_id: subject.1, outcome: outcome.clone() });
            }
        }
    }

    fn forget(&self, subject: Subject, sender: &EndSender) {
        let mut subjects = self.lock();
        let Some(senders) = subjects.get_mut(&subject) else { return };
        if let Some(place) = senders.iter().position(|other| other.same_channel(sender)) {
            senders.swap_remove(place);
        }
        if senders.is_empty() {
            subjects.remove(&subject);
        }
    }

    /// Removes the senders whose receivers have gone: for these subjects, or for all if `only` is `None`.
    fn prune(&self, only: Option<&[Subject]>) {
        let mut subjects = self.lock();
        let is_followed = |senders: &mut Vec<EndSender>| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        };
        match only {
            None => subjects.retain(|_, senders| is_followed(senders)),
            Some(only) => {
                for subject in only {
                    if subjects.get_mut(subject).is_some_and(|senders| !is_followed(senders)) {
                        subjects.remove(subject);
                    }
                }
            }
        }
    }
}

/// Follows any number of executions of one tenant.
#[derive(Debug)]
pub struct Follower {
    service: Service,
    tenant_id: TenantId,
    sender: EndSender,
    receiver: mpsc::UnboundedReceiver<Ended>,
    /// The followed executions. `None` if a [`Starter`] may have added others.
    only: Option<Vec<Subject>>,
}

impl Follower {
    /// Follows one more execution. To miss no end, call this first and read the execution after it.
    pub fn add(&mut self, execution_id: ExecutionId) {
        let subject = (self.tenant_id, execution_id);
        self.service.shared.followers.add(subject, self.sender.clone());
        self.only.iter_mut().for_each(|only| only.push(subject));
    }

    /// Removes the execution once from the followed ones, because its end is known from elsewhere.
    pub fn forget(&mut self, execution_id: ExecutionId) {
        self.service.shared.followers.forget((self.tenant_id, execution_id), &self.sender);
    }

    /// A handle that starts executions and makes this follower follow them from the beginning.
    pub fn starter(&mut self) -> Starter {
        self.only = None;
        Starter { service: self.service.clone(), tenant_id: self.tenant_id, sender: self.sender.clone() }
    }

    /// Waits for the next end of a followed execution.
    pub async fn next(&mut self) -> Ended {
        // `self` holds a sender, so the channel never closes.
        match self.receiver.recv().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// The next end, if it has been received already. `None` otherwise; does not wait.
    pub fn try_next(&mut self) -> Option<Ended> {
        self.receiver.try_recv().ok()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.receiver.close();
        self.service.shared.followers.prune(self.only.as_deref());
    }
}

/// Starts executions for a follower.
#[derive(Debug, Clone)]
pub struct Starter {
    service: Service,
    tenant_id: TenantId,
    sender: EndSender,
}

impl Starter {
    /// Like [`Service::call`]. A new execution is followed before it can end. If the idempotency key belongs to an
    /// existing execution, that execution is followed too, but it may have ended before.
    pub async fn start(&self, start: StartWorkflow) -> Result<Reply, Refusal> {
        let (sender, receiver) = oneshot::channel();
        let request = self.service.request(self.tenant_id, start.into());
        self.service.send(request, Asker::Start(sender, self.sender.clone()))?;
        receiver.await.unwrap_or_else(|_| Err(stopping()))
    }
}

impl Service {
    /// A follower of this tenant's executions. It follows none at first.
    pub fn follower(&self, tenant_id: TenantId) -> Follower {
        let (sender, receiver) = mpsc::unbounded_channel();
        Follower { service: self.clone(), tenant_id, sender, receiver, only: Some(Vec::new()) }
    }
}
