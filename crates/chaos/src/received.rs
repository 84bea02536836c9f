//! The answers that clients received. The promises are checked against them alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use uuid::Uuid;

use crate::programs::Shape;

/// One piece of work, as its client sees it.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) shape: Shape,
    /// The ids with which its start was acknowledged.
    pub(crate) acknowledged: Vec<Uuid>,
    /// `signals_sent`: signals that were sent. `signals_acknowledged`: those of them that were acknowledged.
    pub(crate) signals_sent: usize,
    pub(crate) signals_acknowledged: usize,
    /// The result of waiting for its end. `None`: no answer.
    pub(crate) result: Option<Result<Value, String>>,
}

/// All work, by number.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    received: Mutex<Vec<Received>>,
    /// Requests in flight.
    requests: AtomicUsize,
    /// Work that was acknowledged and has not ended.
    open: AtomicUsize,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Vec<Received>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds new work. Returns its number.
    pub(crate) fn add(&self, shape: Shape) -> u64 {
        let mut received = self.lock();
        received.push(Received {
            shape,
            acknowledged: Vec::new(),
            signals_sent: 0,
            signals_acknowledged: 0,
            result: None,
        });
        received.len() as u64 - 1
    }

    pub(crate) fn note(&self, number: u64, change: impl FnOnce(&mut Received)) {
        let mut all = self.lock();
        if let Some(received) = usize::try_from(number).ok().and_then(|index| all.get_mut(index)) {
            change(received);
        }
    }

    /// Counts a request as in flight until it has been answered.
    pub(crate) async fn request<T>(&self, request: impl Future<Output = T>) -> T {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let answer = request.await;
        self.requests.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    pub(crate) async fn while_open<T>(&self, work: impl Future<Output = T>) -> T {
        self.open.fetch_add(1, Ordering::Relaxed);
        let result = work.await;
        self.open.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// Whether a fault now hits work or a request.
    pub(crate) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) + self.open.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn all(&self) -> Vec<Received> {
        self.lock().clone()
    }

    /// How many starts were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        self.lock().iter().filter(|received| !received.acknowledged.is_empty()).count()
    }
}
