//! Random work, sent to any server that answers. All answers are recorded in the ledger.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flovyn_sdk::{Client, StartOptions};
use flovyn_sim::rng::Rng;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::programs::{self, Shape};
use crate::received::Ledger;

/// In percent: work whose tasks fail at first.
const FAILING: usize = 12;
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// A request to a server that is down must not wait without a limit.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// How many pieces of work are in flight at once.
    pub(crate) in_flight: usize,
    /// The longest duration of a task.
    pub(crate) work_ms: usize,
    /// How long work may take after the last request was sent.
    pub(crate) settle: Duration,
}

/// Sends work until `until`, then waits until all work has ended or `settle` is over.
pub(crate) async fn run(load: Load, clients: Vec<Client>, ledger: Arc<Ledger>, seed: u64, until: Instant) {
    let mut rng = Rng::new(seed);
    let slots = Arc::new(Semaphore::new(load.in_flight));
    let mut work = JoinSet::new();
    while Instant::now() < until {
        let Ok(slot) = slots.clone().acquire_owned().await else { break };
        let shape = rng.of(Shape::ALL);
        let sender = Sender {
            number: ledger.add(shape),
            shape,
            work_ms: rng.below(load.work_ms),
            failures: u32::from(rng.chance(FAILING)),
            clients: clients.clone(),
            first: rng.below(clients.len()),
            ledger: ledger.clone(),
            until: until + load.settle,
        };
        work.spawn(async move {
            sender.send().await;
            drop(slot);
        });
        while work.try_join_next().is_some() {}
    }
    while work.join_next().await.is_some() {}
}

/// One piece of work, and the client that requests it.
struct Sender {
    number: u64,
    shape: Shape,
    work_ms: usize,
    /// How many attempts of each task fail.
    failures: u32,
    clients: Vec<Client>,
    first: usize,
    ledger: Arc<Ledger>,
    until: Instant,
}

impl Sender {
    fn client(&self, attempt: usize) -> &Client {
        &self.clients[(self.first + attempt) % self.clients.len()]
    }

    async fn send(&self) {
        let id = match self.shape {
            // Both clients must receive the same answer.
            Shape::Keyed => {
                let (one, other) = (Box::pin(self.start_keyed(0)), Box::pin(self.start_keyed(1)));
                futures::future::join(one, other).await.0
            }
            _ => self.start_once().await,
        };
        match id {
            Some(id) => self.ledger.while_open(Box::pin(self.finish(id))).await,
            // No server answers: pause instead of a storm of retries.
            None => tokio::time::sleep(AGAIN_AFTER).await,
        }
    }

    async fn start(&self, attempt: usize, key: Option<String>) -> Option<Uuid> {
        let input = json!({ "number": self.number, "work_ms": self.work_ms, "failures": self.failures });
        let request = async {
            if self.shape == Shape::Task {
                self.client(attempt).submit_task_raw(programs::STEP, input, programs::patient()).await
            } else {
                let options = StartOptions { idempotency_key: key, ..StartOptions::default() };
                let started = self.client(attempt).start_raw(self.shape.kind(), input, options).await;
                started.map(|handle| handle.id())
            }
        };
        let id = self.ledger.request(within(request)).await?;
        self.ledger.note(self.number, |received| received.acknowledged.push(id));
        Some(id)
    }

    /// A start without a key must not be repeated, because it is not known whether it was carried out.
    async fn start_once(&self) -> Option<Uuid> {
        self.start(0, None).await
    }

    async fn start_keyed(&self, twin: usize) -> Option<Uuid> {
        let mut attempt = twin;
        while Instant::now() < self.until {
            if let Some(id) = self.start(attempt, Some(format!("key-{}", self.number))).await {
                return Some(id);
            }
            attempt += 1;
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        None
    }

    async fn finish(&self, id: Uuid) {
        let patience = self.until.saturating_duration_since(Instant::now());
        let client = self.client(0);
        let result = async {
            match self.shape {
                Shape::Task => {
                    let value: Result<Value, _> = client.task(id).result(patience).await;
                    value.map(|value| value["number"].clone())
                }
                _ => client.handle::<Value>(id).result(patience).await,
            }
        };
        let result = tokio::select! {
            result = result => result.map_err(|error| error.to_string()),
            never = self.answer(id) => match never {},
        };
        self.ledger.note(self.number, |received| received.result = Some(result));
    }

    /// Sends the signal or the answer that the work waits for, until it is acknowledged.
    async fn answer(&self, id: Uuid) -> std::convert::Infallible {
        let value = programs::answer(self.number);
        let mut attempt = 0;
        while !self.shape.ends_alone() {
            let client = self.client(attempt);
            let answered = if self.shape == Shape::Signal {
                self.ledger.note(self.number, |received| received.signals_sent += 1);
                let handle = client.handle::<Value>(id);
                let answered = self.ledger.request(within(handle.signal("go", &value))).await;
                if answered.is_some() {
                    self.ledger.note(self.number, |received| received.signals_acknowledged += 1);
                }
                answered
            } else {
                let promise = format!("key:{}", programs::promise_key(self.number));
                self.ledger.request(within(client.resolve_promise(&promise, &value))).await
            };
            if answered.is_some() {
                break;
            }
            attempt += 1;
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        std::future::pending().await
    }
}

/// The answer. `None`: no answer in time, or a refusal.
async fn within<T>(request: impl Future<Output = flovyn_sdk::Result<T>>) -> Option<T> {
    tokio::time::timeout(ANSWER_WITHIN, request).await.ok()?.ok()
}
