//! Claims work for one session as far as it has given credit, and pushes it.

use std::sync::Arc;
use std::time::Duration;

use flovyn_engine::event::TaskPayloads;
use flovyn_engine::reply::{Activation, Claimed};
use flovyn_engine::request::{Claim, ClaimKind, Claimer};
use flovyn_engine::state::{Event, WorkClass};
use flovyn_proto::v1;
use tokio::sync::{Semaphore, mpsc};
use tonic::Status;

use super::super::activations::execution;
use super::super::call::Call;
use super::super::poll::Delivery;
use super::super::{events, task_execution};
use super::sessions::{Held, Holdings};

/// How long one claim waits for work before it is made anew.
const WAIT: Duration = Duration::from_secs(60);
/// Events that come along with an activation; a longer history is fetched by pages.
const INLINE_EVENTS: usize = 500;
/// Items in one push.
const MAX_ITEMS: usize = 100;
/// A pause after a claim that was refused, so that a full server is not asked in a loop.
const AFTER_REFUSAL: Duration = Duration::from_millis(200);

/// One class of work for one session.
#[derive(Debug, Clone)]
pub(super) struct Feed {
    pub(super) call: Call,
    pub(super) class: WorkClass,
    pub(super) claimer: Claimer,
    pub(super) queue: flovyn_engine::ids::Text,
    pub(super) kinds: Vec<ClaimKind>,
    pub(super) credit: Arc<Semaphore>,
    pub(super) holdings: Arc<Holdings>,
    pub(super) outbound: mpsc::Sender<Result<v1::ServerFrame, Status>>,
}

impl Feed {
    /// Runs until the connection has gone or the server is about to stop.
    pub(super) async fn run(self) {
        if self.kinds.is_empty() {
            return;
        }
        while let Ok(first) = self.credit.acquire().await {
            // Room first: what is claimed can then be pushed at once.
            let Ok(room) = self.outbound.reserve().await else { return };
            let more = self.credit.available_permits().min(MAX_ITEMS - 1);
            let claim = self.claim(1 + more);
            let claimed = tokio::select! {
                claimed = self.call.poll(claim, WAIT) => claimed,
                () = self.outbound.closed() => return,
            };
            if self.call.api().is_draining() {
                return;
            }
            let claimed = match claimed {
                Ok(claimed) => claimed,
                Err(status) => {
                    tracing::warn!(%status, "a claim for a session was refused");
                    tokio::time::sleep(AFTER_REFUSAL).await;
                    continue;
                }
            };
            if claimed.is_empty() {
                continue;
            }
            let delivery = Delivery::new(&self.call, claimed);
            match self.frame(delivery.claimed()).await {
                Ok(frame) => {
                    let claimed = delivery.sent();
                    // What is pushed uses credit up; the worker grants new credit when a slot is free.
                    first.forget();
                    self.credit.forget_permits(claimed.len() - 1);
                    self.hold(&claimed);
                    room.send(Ok(frame));
                }
                Err(status) => {
                    drop(delivery);
                    tracing::warn!(%status, "claimed work could not be read and was given back");
                    tokio::time::sleep(AFTER_REFUSAL).await;
                }
            }
        }
    }

    fn claim(&self, max: usize) -> Claim {
        Claim {
            class: self.class,
            claimer: self.claimer.clone(),
            queue: self.queue.clone(),
            kinds: self.kinds.clone(),
            max,
            only: None,
        }
    }

    fn hold(&self, claimed: &Claimed) {
        for item in &claimed.workflows {
            self.holdings.add(item.execution.id, Held { token: item.token, is_task: false });
        }
        for item in &claimed.tasks {
            self.holdings.add(item.task.id, Held { token: item.token, is_task: true });
        }
    }

    async fn frame(&self, claimed: &Claimed) -> Result<v1::ServerFrame, Status> {
        let mut activations = Vec::with_capacity(claimed.workflows.len());
        for activation in &claimed.workflows {
            activations.push(self.activation(activation).await?);
        }
        let tasks = claimed.tasks.iter().map(task_execution::info).collect();
        Ok(v1::ServerFrame { activations, tasks, ..v1::ServerFrame::default() })
    }

    /// The activation with the events that its worker has not seen. A worker that does not have the instance in
    /// memory fetches the rest.
    async fn activation(&self, activation: &Activation) -> Result<v1::WorkflowExecution, Status> {
        let row = &activation.execution;
        let base = row.base_sequence;
        let shown = |event: &Event, task: Option<&TaskPayloads>| events::unseen(base, event, task);
        let (events, more) = match &activation.new_events {
            Some(events) => (events.iter().map(|(event, task)| shown(event, task.as_ref())).collect(), false),
            None => events::page(&self.call, row.id, base, INLINE_EVENTS, shown).await?,
        };
        let mut message = execution(activation, flovyn_engine::ids::Payload::new());
        message.events = events;
        message.more_events = more;
        Ok(message)
    }
}
