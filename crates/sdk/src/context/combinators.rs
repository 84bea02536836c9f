//! Waiting for several futures. The event that comes first in the log wins, live and on replay.
//!
//! One rule applies to all combinators: a future that was passed by value and loses is cancelled, and so are all
//! futures in it. A future that was passed as `&mut` is kept: it continues and can be awaited again.

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

/// Waits for one of several branches. The branches are polled in the order in which they are written, and the first
/// that is ready wins.
///
/// A losing branch is cancelled: the server asks its task or child workflow to stop and stops its timer. For a
/// promise or a signal, only the wait ends. To keep a future, pass it as `&mut` and await it again later.
///
/// Otherwise this macro works like `tokio::select!` with `biased`. Plain `tokio::select!` polls its branches in
/// random order and must not be used in a workflow.
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
///         // The charge was kept, so it can be awaited again.
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

/// Wraps the future of each branch, so that the future knows whether it has lost. Accepts the same syntax as
/// `tokio::select!`.
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

/// Whether a `select!` has been decided. Until then no branch has lost, so dropping a workflow from memory cancels
/// nothing.
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

/// A future that is cancelled if another future of its race ends first.
#[doc(hidden)]
#[derive(Debug)]
pub struct Raced<F> {
    /// `None` only after the drop.
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

/// Returns the output of the future that ends first. If both are ready at once, the first argument wins. As with
/// [`select!`](macro@crate::select), the loser is cancelled, unless it was passed as `&mut`.
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
    // Boxed, so that the loser can be dropped here.
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

/// Returns the future's result, or [`Error::Elapsed`] if the future takes longer than `limit`. In that case the
/// future is cancelled, unless it was passed as `&mut`. If the future ends first, the timer is cancelled.
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
///         // The charge was kept, so it can be awaited again.
///         charge.await?
///     }
///     result => result?,
/// };
/// # assert_eq!(charged, 42);
/// # Ok(()) });
/// ```
///
/// # Errors
/// Fails with [`Error::Elapsed`] when the limit is reached, or with the future's own error. The future's own error
/// may be [`Error::Timeout`], for a promise with its own timeout.
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
        // The workflow was asked to cancel, which also cancelled the timer. A shielded future goes on unless it is
        // cancelled here.
        Either::Right(Err(error)) => {
            abandon(future);
            Err(error)
        }
    }
}
