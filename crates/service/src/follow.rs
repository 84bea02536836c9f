//! Following executions to their end, in memory: whoever follows one is handed its outcome by the batch that ends it, and
//! nothing is read.
//!
//! Tells of what this process committed. On a database that others write to as well, look now and then.

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
    /// With the error, and what was said beside it.
    Failed(Text, Failure),
    /// With the reason.
    Cancelled(Text),
}

impl Outcome {
    /// What a terminal event says.
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

/// Everybody who follows something, by what they follow. Unbounded channels: each execution ends once.
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
                // Whoever has gone needs no answer.
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

    /// Forgets those who have gone: of these subjects, or of all.
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

/// Somebody who follows any number of a tenant's executions.
#[derive(Debug)]
pub struct Follower {
    service: Service,
    tenant_id: TenantId,
    sender: EndSender,
    receiver: mpsc::UnboundedReceiver<Ended>,
    /// What it follows, unless it also follows what others started for it.
    only: Option<Vec<Subject>>,
}

impl Follower {
    /// Follows one more. Begin to follow first, then read: an end in between is not missed.
    pub fn add(&mut self, execution_id: ExecutionId) {
        let subject = (self.tenant_id, execution_id);
        self.service.shared.followers.add(subject, self.sender.clone());
        self.only.iter_mut().for_each(|only| only.push(subject));
    }

    /// Follows one less, once: its end is known from elsewhere.
    pub fn forget(&mut self, execution_id: ExecutionId) {
        self.service.shared.followers.forget((self.tenant_id, execution_id), &self.sender);
    }

    /// A handle that starts executions which this follows from their first moment.
    pub fn starter(&mut self) -> Starter {
        self.only = None;
        Starter { service: self.service.clone(), tenant_id: self.tenant_id, sender: self.sender.clone() }
    }

    /// The next one to end.
    pub async fn next(&mut self) -> Ended {
        // It has a sender itself, so there is always one more.
        match self.receiver.recv().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    }

    /// One that has ended already.
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
    /// As [`Service::call`]; what it starts is followed before anybody can have ended it. An execution that its key had
    /// already is followed too, but may have ended before.
    pub async fn start(&self, start: StartWorkflow) -> Result<Reply, Refusal> {
        let (sender, receiver) = oneshot::channel();
        let request = self.service.request(self.tenant_id, start.into());
        self.service.send(request, Asker::Start(sender, self.sender.clone()))?;
        receiver.await.unwrap_or_else(|_| Err(stopping()))
    }
}

impl Service {
    /// Follows executions of a tenant; none to begin with.
    pub fn follower(&self, tenant_id: TenantId) -> Follower {
        let (sender, receiver) = mpsc::unbounded_channel();
        Follower { service: self.clone(), tenant_id, sender, receiver, only: Some(Vec::new()) }
    }
}
