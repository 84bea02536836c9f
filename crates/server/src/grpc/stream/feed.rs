//! Claims work for one session, up to its credit, and pushes it. A silent worker receives nothing.

use std::sync::Arc;
use std::time::Duration;

use flovyn_engine::event::TaskPayloads;
use flovyn_engine::reply::{Activation, Claimed};
use flovyn_engine::request::{Claim, ClaimKind, Claimer};
use flovyn_engine::state::{Event, WorkClass};
use flovyn_proto::v1;
use futures::future::try_join_all;
use prost::Message;
use tokio::sync::{Semaphore, mpsc};
use tonic::Status;
use uuid::Uuid;

use super::super::MAX_MESSAGE_BYTES;
use super::super::activations::execution;
use super::super::call::Call;
use super::super::poll::Delivery;
use super::super::{events, task_execution};
use super::pulse::Pulse;
use super::results;
use super::sessions::{Held, Holdings};

/// How long one claim waits for work before it is repeated.
const WAIT: Duration = Duration::from_secs(60);
/// The most events that are read from the log and sent with an activation. The worker fetches the other events by
/// pages. It is more than the engine's `INLINE_EVENTS`, which limits what is kept in memory.
const FIRST_PAGE_EVENTS: usize = 500;
/// The most items in one push. Workflows may include long histories, which are read one by one.
const MAX_TASKS: usize = 250;
const MAX_WORKFLOWS: usize = 100;
/// The approximate size of one push, and the assumed size of an item before any was seen.
const PUSH_BYTES: usize = 8 << 20;
const FIRST_ITEM_BYTES: usize = 64 << 10;
/// The overhead of an item in a frame, and of a frame around its items, in bytes.
const ITEM_OVERHEAD: usize = 8;
const ROOM: usize = 1 << 10;
/// The pause after a refused claim, so that a full server does not receive claims in a busy loop.
const AFTER_REFUSAL: Duration = Duration::from_millis(200);

/// One class of work for one session.
#[derive(Debug, Clone)]
pub(super) struct Feed {
    pub(super) call: Call,
    pub(super) class: WorkClass,
    pub(super) claimer: Claimer,
    pub(super) queue: flovyn_engine::ids::Text,
    pub(super) kinds: Vec<ClaimKind>,
    /// Whether the worker supports provisional executions.
    pub(super) provisional: bool,
    /// How many feeds of this class the session has.
    pub(super) feeds: usize,
    pub(super) credit: Arc<Semaphore>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) holdings: Arc<Holdings>,
    pub(super) connection: u64,
    pub(super) outbound: mpsc::Sender<Result<v1::ServerFrame, Status>>,
}

impl Feed {
    /// Runs until the connection is closed or the server is about to stop.
    pub(super) async fn run(self) {
        if self.kinds.is_empty() {
            return;
        }
        let mut item_bytes = FIRST_ITEM_BYTES;
        // The first claim includes executions that other builds failed on before this worker connected. Later ones are
        // handed to it by the dispatcher.
        let mut held_back = self.class == WorkClass::Workflow;
        while let Ok(first) = self.credit.acquire().await {
            tokio::select! {
                biased;
                () = self.pulse.is_heard() => {}
                () = self.outbound.closed() => return,
            }
            // Reserve room first, so that claimed work can be pushed at once.
            let Ok(room) = self.outbound.reserve().await else { return };
            let more = (self.credit.available_permits() / self.feeds).min(self.most_items(item_bytes) - 1);
            let Ok(more) = self.credit.try_acquire_many(more as u32) else { continue };
            let claim = self.claim(1 + more.num_permits(), std::mem::take(&mut held_back));
            let claimed = tokio::select! {
                claimed = self.call.poll(claim, WAIT, std::future::pending()) => claimed,
                () = self.outbound.closed() => return,
                () = self.pulse.falls_silent() => continue,
            };
            let claimed = match claimed {
                Ok(claimed) => claimed,
                Err(_) if self.call.api().is_draining() => return,
                Err(status) => {
                    tracing::warn!(%status, "a claim for a session was refused");
                    drop(room);
                    tokio::time::sleep(AFTER_REFUSAL).await;
                    continue;
                }
            };
            // From here on, work that is not sent is released.
            let delivery = Delivery::new(&self.call, claimed);
            if self.call.api().is_draining() {
                return;
            }
            if delivery.claimed().is_empty() {
                continue;
            }
            match self.parcels(delivery).await {
                Ok(parcels) => {
                    item_bytes = item_bytes_of(&parcels);
                    let mut credit = first;
                    credit.merge(more);
                    let mut room = Some(room);
                    for parcel in parcels {
                        let room = match room.take() {
                            Some(room) => room,
                            None => match self.outbound.reserve().await {
                                Ok(room) => room,
                                Err(_) => return,
                            },
                        };
                        // Pushed items use up credit. The worker grants new credit when a slot is free.
                        if let Some(used) = credit.split(parcel.delivery.claimed().len()) {
                            used.forget();
                        }
                        let Some(stopped) = self.hold(parcel.delivery.claimed()) else { return };
                        drop(parcel.delivery.sent());
                        room.send(Ok(parcel.frame));
                        self.stop(stopped).await;
                    }
                }
                Err(status) => {
                    tracing::warn!(%status, "claimed work cannot be read and was released");
                    drop(room);
                    tokio::time::sleep(AFTER_REFUSAL).await;
                }
            }
        }
    }

    /// How many items are likely to fit into one push, judged by the size of the last ones.
    fn most_items(&self, item_bytes: usize) -> usize {
        let most = if self.class == WorkClass::Task { MAX_TASKS } else { MAX_WORKFLOWS };
        (PUSH_BYTES / item_bytes.max(1)).clamp(1, most)
    }

    fn claim(&self, max: usize, held_back: bool) -> Claim {
        Claim {
            class: self.class,
            claimer: self.claimer.clone(),
            queue: self.queue.clone(),
            kinds: self.kinds.clone(),
            max,
            only: None,
            provisional: self.provisional,
            held_back,
        }
    }

    fn hold(&self, claimed: &Claimed) -> Option<Vec<(Uuid, i64)>> {
        let workflows = claimed
            .workflows
            .iter()
            .map(|item| (item.execution.id, Held { token: item.token, is_task: false }));
        let tasks =
            claimed.tasks.iter().map(|item| (item.task.id, Held { token: item.token, is_task: true }));
        let items: Vec<_> = workflows.chain(tasks).collect();
        self.holdings.add(self.connection, &items)
    }

    /// Notifies the worker of tasks that were cancelled while they were being sent. The worker must receive the tasks
    /// first.
    async fn stop(&self, tasks: Vec<(Uuid, i64)>) {
        if tasks.is_empty() {
            return;
        }
        let cancels = tasks.into_iter().map(|(id, token)| results::notice(id, token)).collect();
        // A disconnected worker needs no notice.
        let _ = self.outbound.send(Ok(v1::ServerFrame { cancels, ..v1::ServerFrame::default() })).await;
    }

    /// The claimed work, in frames that fit into a message.
    async fn parcels<'a>(&self, delivery: Delivery<'a>) -> Result<Vec<Parcel<'a>>, Status> {
        let activations = delivery.claimed().workflows.iter().map(|activation| self.activation(activation));
        let activations = try_join_all(activations).await?;
        // Nothing fails or waits from here on: all items go into parcels.
        let call = delivery.call();
        let Claimed { workflows, tasks, .. } = delivery.sent();
        let mut packed = Packed::default();
        for (item, message) in workflows.into_iter().zip(activations) {
            let (claimed, frame) = packed.next(message.encoded_len());
            claimed.workflows.push(item);
            frame.activations.push(message);
        }
        for item in tasks {
            let message = task_execution::info(&item);
            let (claimed, frame) = packed.next(message.encoded_len());
            claimed.tasks.push(item);
            frame.tasks.push(message);
        }
        let parcel = |part: Part| Parcel {
            delivery: Delivery::new(call, part.claimed),
            frame: part.frame,
            bytes: part.bytes,
        };
        Ok(packed.parts.into_iter().map(parcel).collect())
    }

    /// The activation with the events that its worker has not seen. A worker that does not have the instance in memory
    /// fetches the other events.
    async fn activation(&self, activation: &Activation) -> Result<v1::WorkflowExecution, Status> {
        let row = &activation.execution;
        let base = row.base_sequence;
        let shown = |event: &Event, task: Option<&TaskPayloads>| events::unseen(base, event, task);
        let (events, more) = match &activation.new_events {
            Some(events) => events::cut(events.iter().map(|(event, task)| shown(event, task.as_ref()))),
            None => events::page(&self.call, row.id, base, FIRST_PAGE_EVENTS, shown).await?,
        };
        let mut message = execution(activation, flovyn_engine::ids::Payload::new());
        message.events = events;
        message.more_events = more;
        Ok(message)
    }
}

/// One frame with its claims. If it is dropped before it is sent, the claims are released.
struct Parcel<'a> {
    delivery: Delivery<'a>,
    frame: v1::ServerFrame,
    bytes: usize,
}

/// The average size of an item in these parcels.
fn item_bytes_of(parcels: &[Parcel<'_>]) -> usize {
    let bytes: usize = parcels.iter().map(|parcel| parcel.bytes).sum();
    let items: usize = parcels.iter().map(|parcel| parcel.delivery.claimed().len()).sum();
    bytes.div_ceil(items.max(1))
}

/// Frames that are filled one after the other.
#[derive(Debug, Default)]
struct Packed {
    parts: Vec<Part>,
}

#[derive(Debug, Default)]
struct Part {
    claimed: Claimed,
    frame: v1::ServerFrame,
    bytes: usize,
}

impl Packed {
    /// The frame for an item of this size.
    fn next(&mut self, bytes: usize) -> (&mut Claimed, &mut v1::ServerFrame) {
        let bytes = bytes + ITEM_OVERHEAD;
        if self.parts.last().is_none_or(|part| part.bytes + bytes > MAX_MESSAGE_BYTES - ROOM) {
            self.parts.push(Part::default());
        }
        let last = self.parts.len() - 1;
        let part = &mut self.parts[last];
        part.bytes += bytes;
        (&mut part.claimed, &mut part.frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_closed_before_it_is_too_large() {
        let mut packed = Packed::default();
        for _ in 0..3 {
            packed.next(MAX_MESSAGE_BYTES / 2);
        }
        packed.next(10);
        assert_eq!(packed.parts.len(), 3);
        assert!(packed.parts.iter().all(|part| part.bytes <= MAX_MESSAGE_BYTES));
        assert_eq!(packed.parts[2].bytes, MAX_MESSAGE_BYTES / 2 + 10 + 2 * ITEM_OVERHEAD);
    }
}
