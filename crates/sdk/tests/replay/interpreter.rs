//! Runs a random program as a workflow. The workflow records everything it sees and passes the record to its tasks,
//! so that a different decision shows in the log.

use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use flovyn_sdk::context::{
    CancellationFuture, ChildFuture, OperationFuture, PromiseFuture, SignalFuture, TaskFuture, TimerFuture,
};
use flovyn_sdk::{Either, Error, PromiseOptions, Result, WorkflowContext, with_timeout};
use futures::StreamExt;
use futures::future::FutureExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};

use crate::program::{Program, Start, Step, Style};

/// A future of the context, of any kind.
enum Held {
    Operation(OperationFuture<Value>),
    Task(TaskFuture<Value>),
    Timer(TimerFuture),
    Signal(SignalFuture<Value>),
    Child(ChildFuture<Value>),
    Promise(PromiseFuture<Value>),
    Cancellation(CancellationFuture),
}

impl Future for Held {
    type Output = Result<Value>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Operation(future) => future.poll_unpin(context),
            Self::Task(future) => future.poll_unpin(context),
            Self::Timer(future) => future.poll_unpin(context).map_ok(|()| Value::Null),
            Self::Signal(future) => future.poll_unpin(context),
            Self::Child(future) => future.poll_unpin(context),
            Self::Promise(future) => future.poll_unpin(context),
            Self::Cancellation(future) => future.poll_unpin(context).map(|reason| Ok(json!(reason))),
        }
    }
}

impl Held {
    fn cancel(&self) {
        match self {
            Self::Operation(future) => future.cancel(),
            Self::Task(future) => future.cancel(),
            Self::Timer(future) => future.cancel(),
            Self::Signal(future) => future.cancel(),
            Self::Child(future) => future.cancel(),
            Self::Promise(future) => future.cancel(),
            Self::Cancellation(_) => {}
        }
    }
}

struct Machine {
    context: WorkflowContext,
    pool: Vec<Held>,
    seen: Vec<String>,
}

/// Returns the program as a workflow.
pub(crate) fn workflow(
    program: &Program,
) -> impl Fn(WorkflowContext, Value) -> futures::future::BoxFuture<'static, Result<Value>>
+ Send
+ Sync
+ Clone
+ 'static {
    let program = Arc::new(program.clone());
    move |context, _| {
        let program = program.clone();
        let mut machine = Machine { context, pool: Vec::new(), seen: Vec::new() };
        Box::pin(async move {
            machine.run(&program.steps).await?;
            if program.obeys && machine.context.is_cancellation_requested() {
                return Err(Error::Cancelled("as asked".into()));
            }
            Ok(json!(machine.seen))
        })
    }
}

impl Machine {
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.seen.hash(&mut hasher);
        hasher.finish()
    }

    fn see(&mut self, what: &str, result: impl std::fmt::Debug) {
        self.seen.push(format!("{what} {result:?}"));
    }

    fn take(&mut self, index: u8) -> Option<Held> {
        let length = self.pool.len();
        (length > 0).then(|| self.pool.remove(usize::from(index) % length))
    }

    fn start(&mut self, start: Start, shielded: bool) {
        let context = if shielded { self.context.shielded() } else { self.context.clone() };
        let digest = json!(self.digest() % 1_000);
        let held = match start {
            Start::Run(n, false) => Held::Operation(context.run(&format!("step-{n}"), move || json!(n))),
            Start::Run(n, true) => {
                Held::Operation(context.run_async(&format!("step-{n}"), move || async move {
                    tokio::task::yield_now().await;
                    json!(n)
                }))
            }
            Start::Task(n) => {
                Held::Task(context.schedule_raw(["good", "bad", "endless"][usize::from(n)], digest))
            }
            Start::Timer(n) => Held::Timer(context.sleep(Duration::from_millis(n.into()))),
            Start::Signal(n) => Held::Signal(context.wait_for_signal(&format!("signal-{n}"))),
            Start::Child(n) => {
                let kind = ["good", "bad", "endless"][usize::from(n)];
                Held::Child(context.schedule_workflow_raw(&format!("child-{digest}"), kind, digest))
            }
            Start::Promise(n, limited) => {
                let timeout = limited.then(|| Duration::from_millis(5));
                let options = PromiseOptions { timeout, key: None };
                Held::Promise(context.promise_with_options(&format!("promise-{n}"), options))
            }
            Start::Cancellation => Held::Cancellation(context.cancellation()),
        };
        self.pool.push(held);
    }

    async fn run(&mut self, steps: &[Step]) -> Result<()> {
        for step in steps {
            if let Step::Branch(left, right) = step {
                let way = if self.digest().is_multiple_of(2) { left } else { right };
                Box::pin(self.run(way)).await?;
            } else {
                self.step(step).await?;
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<()> {
        match *step {
            Step::Start(start, shielded) => self.start(start, shielded),
            Step::Await(index) => {
                if let Some(held) = self.take(index) {
                    let result = held.await;
                    self.see("awaited", result);
                }
            }
            Step::Drop(index) => drop(self.take(index)),
            Step::Cancel(index) => {
                if let Some(held) = self.take(index) {
                    held.cancel();
                    self.pool.push(held);
                }
            }
            Step::Peek(index) => {
                if let Some(mut held) = self.take(index) {
                    match futures::poll!(&mut held) {
                        Poll::Ready(result) => self.see("peeked", result),
                        Poll::Pending => self.pool.push(held),
                    }
                }
            }
            Step::Select(a, b, style, keep) => self.select(a, b, style, keep).await,
            Step::Join(a, b, style) => self.join(a, b, style).await,
            Step::Unordered(count) => {
                let wanted = usize::from(count) % (self.pool.len() + 1);
                let mut pool: FuturesUnordered<Held> = self.pool.drain(..).collect();
                for _ in 0..wanted {
                    let result = pool.next().await;
                    self.see("came", result);
                }
            }
            Step::WithTimeout(index, ms, keep) => {
                if let Some(mut held) = self.take(index) {
                    let limit = Duration::from_millis(ms.into());
                    if keep {
                        let result = with_timeout(&self.context, limit, &mut held).await;
                        if matches!(result, Err(Error::Elapsed(_))) {
                            self.pool.push(held);
                        }
                        self.see("in time", result);
                    } else {
                        let result = with_timeout(&self.context, limit, held).await;
                        self.see("in time", result);
                    }
                }
            }
            Step::SetState(key) => self.context.set_state(&key.to_string(), &self.digest())?,
            Step::ClearState(key) => self.context.clear_state(&key.to_string()),
            Step::GetState(key) => self.see("state", self.context.get_state::<u64>(&key.to_string())),
            Step::Uuid => self.see("uuid", self.context.random_uuid()),
            Step::Random => self.see("random", self.context.random()),
            Step::Now => self.see("now", self.context.current_time_millis()),
            Step::HasSignal(n) => self.see("has", self.context.has_signal(&format!("signal-{n}"))),
            Step::Drain(n) => {
                self.see("drained", self.context.drain_signals::<Value>(&format!("signal-{n}")))
            }
            Step::Branch(..) => {}
        }
        Ok(())
    }

    async fn select(&mut self, a: u8, b: u8, style: Style, keep: bool) {
        let (Some(mut a), Some(mut b)) = (self.take(a), self.take(b)) else { return };
        if !keep {
            return self.race(a, b, style).await;
        }
        let (first, result) = match style {
            Style::Flovyn => flovyn_sdk::select! {
                result = &mut a => (true, result),
                result = &mut b => (false, result),
            },
            Style::Tokio => tokio::select! {
                biased;
                result = &mut a => (true, result),
                result = &mut b => (false, result),
            },
            Style::Futures => match flovyn_sdk::select(&mut a, &mut b).await {
                Either::Left(result) => (true, result),
                Either::Right(result) => (false, result),
            },
        };
        self.see(if first { "first" } else { "second" }, result);
        self.pool.push(if first { b } else { a });
    }

    /// The loser is passed by value. If it is inside another future, the result is the same.
    async fn race(&mut self, a: Held, b: Held, style: Style) {
        let (first, result) = match style {
            Style::Flovyn => flovyn_sdk::select! {
                result = a => (true, result),
                result = async { futures::join!(b).0 } => (false, result),
            },
            Style::Tokio => tokio::select! {
                biased;
                result = a => (true, result),
                result = b => (false, result),
            },
            Style::Futures => match flovyn_sdk::select(a, async { futures::join!(b).0 }).await {
                Either::Left(result) => (true, result),
                Either::Right(result) => (false, result),
            },
        };
        self.see(if first { "first, alone" } else { "second, alone" }, result);
    }

    async fn join(&mut self, a: u8, b: u8, style: Style) {
        let (Some(a), Some(b)) = (self.take(a), self.take(b)) else { return };
        let both = match style {
            Style::Flovyn => flovyn_sdk::join_all([a, b]).await,
            Style::Tokio => <[_; 2]>::from(tokio::join!(a, b)).into(),
            Style::Futures => <[_; 2]>::from(futures::join!(a, b)).into(),
        };
        self.see("both", both);
    }
}
