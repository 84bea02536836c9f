//! Waiting for several things. What comes first in the log wins, live and on replay.
//!
//! One rule for all of it: a future that was passed by value and has lost is cancelled, and so are all futures in it. One that was
//! passed as `&mut` is kept: it goes on and can be awaited again.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

pub use futures::future::Either;

use super::WorkflowContext;
use super::futures::abandon;
use crate::error::{Error, Result};

/// Waits for one of several branches, in the order they are written: the first that is ready is taken.
///
/// A branch that loses is cancelled: a task or a child workflow is asked to stop, a timer is stopped, a promise or a signal is no
/// longer waited for. To keep one, pass it as `&mut` and await it again later.
///
/// Like `tokio::select!` with `biased`, but for that. Plain `tokio::select!` polls its branches in random order and must not be
/// used in a workflow.
///
/// ```
/// # use serde_json::json;
/// # use std::time::Duration;
/// # flovyn_sdk::testing::example(|context| async move {
/// let mut charge = context.schedule_raw("charge", json!(42));
/// let first = flovyn_sdk::select! {
///     charged = &mut charge => charged?,
///     _ = context.sleep(Duration::from_secs(60)) => {
///         context.set_state("step", "the bank is slow")?;
///         // It was kept.
///         charge.await?
///     }
/// };
/// # assert_eq!(first, 42);
/// # Ok(()) });
/// ```
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => {{
        let race = $crate::export::Race::default();
        $crate::select_branches!(@ race {} $($branches)*)
    }};
}

/// Wraps the future of each branch, so that it learns whether it has lost. Takes the forms that `tokio::select!` takes.
#[doc(hidden)]
#[macro_export]
macro_rules! select_branches {
    (@ $race:ident {$($done:tt)*}) => { $crate::export::tokio_select! { biased; $($done)* } };
    (@ $race:ident {$($done:tt)*} else => $handler:expr $(,)?) => {
        $crate::export::tokio_select! { biased; $($done)* else => $handler }
    };
    (@ $race:ident {$($done:tt)*} $p:pat = $f:expr, if $c:expr => $h:block, $($rest:tt)*) => {
        $crate::select_branches!(@ $race {$($done)* $p = $crate::export::Branch { future: $f, race: $race.clone() }, if $c => $h,} $($rest)*)
    };
    (@ $race:ident {$($done:tt)*} $p:pat = $f:expr => $h:block, $($rest:tt)*) => {
        $crate::select_branches!(@ $race {$($done)* $p = $crate::export::Branch { future: $f, race: $race.clone() } => $h,} $($rest)*)
    };
    (@ $race:ident {$($done:tt)*} $p:pat = $f:expr, if $c:expr => $h:block $($rest:tt)*) => {
        $crate::select_branches!(@ $race {$($done)* $p = $crate::export::Branch { future: $f, race: $race.clone() }, if $c => $h,} $($rest)*)
    };
    (@ $race:ident {$($done:tt)*} $p:pat = $f:expr => $h:block $($rest:tt)*) => {
        $crate::select_branches!(@ $race {$($done)* $p = $crate::export::Branch { future: $f, race: $race.clone() } => $h,} $($rest)*)
    };
    (@ $race:ident {$($done:tt)*} $p:pat = $f:expr, if $c:expr => $h:expr $(, $($rest:tt)*)?) => {
        $crate::select_branches!(@ $race {$($done)* $p = $crate::export::Branch { future: $f, race: $race.clone() }, if $c => { $h },} $($($rest)*)?)
    };
    (@ $race:ident {$($done:tt)*} $p:pat = $f:expr => $h:expr $(, $($rest:tt)*)?) => {
        $crate::select_branches!(@ $race {$($done)* $p = $crate::export::Branch { future: $f, race: $race.clone() } => { $h },} $($($rest)*)?)
    };
}

/// Whether a `select!` has been decided. Until then nothing has lost: a workflow that is put out of memory cancels nothing.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct Race(Arc<AtomicBool>);

/// A future in a `select!`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Branch<F> {
    pub future: F,
    pub race: Race,
}

impl<F: IntoFuture> IntoFuture for Branch<F> {
    type Output = F::Output;
    type IntoFuture = Raced<F::IntoFuture>;

    fn into_future(self) -> Self::IntoFuture {
        Raced { future: Some(Box::pin(self.future.into_future())), race: self.race }
    }
}

/// A future that is cancelled if another of its race ends before it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Raced<F> {
    /// Taken when it is dropped.
    future: Option<Pin<Box<F>>>,
    race: Race,
}

impl<F: Future> Future for Raced<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = self.future.as_mut().expect("it is only taken when it is dropped");
        let polled = future.as_mut().poll(context);
        if polled.is_ready() {
            self.race.0.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl<F> Drop for Raced<F> {
    fn drop(&mut self) {
        if self.race.0.load(Ordering::Relaxed) {
            abandon(self.future.take());
        }
    }
}

/// The output of whichever of two futures ends first; of both at once, the first one's. As with [`select!`](macro@crate::select),
/// the loser is cancelled, unless it was passed as `&mut`.
///
/// ```
/// # use serde_json::json;
/// # use std::time::Duration;
/// # use flovyn_sdk::Either;
/// # flovyn_sdk::testing::example(|context| async move {
/// let charge = context.schedule_raw("charge", json!(42));
/// match flovyn_sdk::select(charge, context.sleep(Duration::from_secs(60))).await {
///     Either::Left(charged) => assert_eq!(charged?, 42),
///     Either::Right(_) => println!("too late"),
/// }
/// # Ok(()) });
/// ```
pub async fn select<A: Future, B: Future>(first: A, second: B) -> Either<A::Output, B::Output> {
    // In boxes, so that the loser can be dropped here.
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    let won = std::future::poll_fn(|context| match first.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Either::Left(output)),
        Poll::Pending => second.as_mut().poll(context).map(Either::Right),
    });
    let won = won.await;
    match &won {
        Either::Left(_) => abandon(second),
        Either::Right(_) => abandon(first),
    }
    won
}

/// The future's result, or [`Error::Elapsed`] when it takes longer. Then the future is cancelled, unless it was passed as
/// `&mut`. The timer is stopped if it is not needed.
///
/// ```
/// # use serde_json::json;
/// # use std::time::Duration;
/// # use flovyn_sdk::{Error, with_timeout};
/// # flovyn_sdk::testing::example(|context| async move {
/// let mut charge = context.schedule_raw("charge", json!(42));
/// let charged = match with_timeout(&context, Duration::from_secs(60), &mut charge).await {
///     Err(Error::Elapsed(_)) => {
///         context.set_state("step", "the bank is slow")?;
///         // It was kept.
///         charge.await?
///     }
///     result => result?,
/// };
/// # assert_eq!(charged, 42);
/// # Ok(()) });
/// ```
///
/// # Errors
/// With the future's own error, which may be [`Error::Timeout`] for a promise with a deadline of its own; or with
/// [`Error::Elapsed`] when the time is up.
pub async fn with_timeout<T>(
    context: &WorkflowContext,
    limit: Duration,
    future: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut future = Box::pin(future);
    match select(&mut future, context.sleep(limit)).await {
        Either::Left(result) => result,
        Either::Right(Ok(())) => {
            abandon(future);
            Err(Error::Elapsed(limit))
        }
        // The workflow was asked to cancel, which stopped the timer as well.
        Either::Right(Err(error)) => Err(error),
    }
}
