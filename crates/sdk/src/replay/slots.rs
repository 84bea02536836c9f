//! Slots: each future waits on one slot, which is resolved at most once.

use std::task::{Context, Poll, Waker};

use serde_json::Value;

use crate::error::Error;

/// Number of a slot, in order of creation.
pub(crate) type SlotId = usize;

pub(crate) type Resolution = Result<Value, Error>;

#[derive(Debug)]
enum Slot {
    /// The future has not been polled yet.
    New,
    Waiting(Waker),
    Resolved(Resolution),
    /// The future has taken the result or was dropped.
    Gone,
}

#[derive(Debug, Default)]
pub(crate) struct Slots(Vec<Slot>);

impl Slots {
    pub(crate) fn add(&mut self) -> SlotId {
        self.0.push(Slot::New);
        self.0.len() - 1
    }

    /// The first resolution counts; later ones are ignored.
    pub(crate) fn resolve(&mut self, id: SlotId, resolution: Resolution) {
        match &mut self.0[id] {
            slot @ (Slot::New | Slot::Waiting(_)) => {
                if let Slot::Waiting(waker) = std::mem::replace(slot, Slot::Resolved(resolution)) {
                    waker.wake();
                }
            }
            Slot::Resolved(_) | Slot::Gone => {}
        }
    }

    /// `None`: the result has been taken already.
    pub(crate) fn poll(&mut self, id: SlotId, context: &Context<'_>) -> Option<Poll<Resolution>> {
        match std::mem::replace(&mut self.0[id], Slot::Gone) {
            Slot::Resolved(resolution) => Some(Poll::Ready(resolution)),
            Slot::New | Slot::Waiting(_) => {
                self.0[id] = Slot::Waiting(context.waker().clone());
                Some(Poll::Pending)
            }
            Slot::Gone => None,
        }
    }

    /// Wakes a waiting future without resolving it.
    pub(crate) fn wake(&mut self, id: SlotId) {
        if let Slot::Waiting(waker) = &self.0[id] {
            waker.wake_by_ref();
        }
    }

    pub(crate) fn drop_future(&mut self, id: SlotId) {
        self.0[id] = Slot::Gone;
    }

    pub(crate) fn is_open(&self, id: SlotId) -> bool {
        matches!(self.0[id], Slot::New | Slot::Waiting(_))
    }

    /// Whether any slot has a future that waits.
    pub(crate) fn any_waiting(&self) -> bool {
        self.0.iter().any(|slot| matches!(slot, Slot::Waiting(_)))
    }

    /// Whether the slot's future has been polled and the slot is not resolved.
    pub(crate) fn is_waiting(&self, id: SlotId) -> bool {
        matches!(self.0[id], Slot::Waiting(_))
    }

    /// All slots that are not resolved yet, in order of creation.
    pub(crate) fn open(&self) -> Vec<SlotId> {
        (0..self.0.len()).filter(|id| self.is_open(*id)).collect()
    }
}
