//! Waiting for several things. What comes first in the log wins, live and on replay.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};

use super::WorkflowContext;
use crate::error::{Error, Result};

/// Waits for one of several branches, in the order they are written: the first that is ready is taken.
///
/// Like `tokio::select!` with `biased`. Plain `tokio::select!` polls its branches in random order and must not be used in a
/// workflow.
///
/// ```
/// # use serde_json::json;
/// # use std::time::Duration;
/// # flovyn_sdk::testing::example(|context| async move {
/// let first = flovyn_sdk::select! {
///     charged = context.schedule_raw("charge", json!(42)) => charged?,
///     _ = context.sleep(Duration::from_secs(60)) => json!("too late"),
/// };
/// # assert_eq!(first, 42);
/// # Ok(()) });
/// ```
#[macro_export]
macro_rules! select {
    ($($branches:tt)*) => { $crate::export::tokio_select! { biased; $($branches)* } };
}

/// The future's result, or [`Error::Timeout`] when it takes longer. The timer is stopped if it is not needed.
///
/// ```
/// # use serde_json::json;
/// # use std::time::Duration;
/// # flovyn_sdk::testing::example(|context| async move {
/// let charge = context.schedule_raw("charge", json!(42));
/// let charged = flovyn_sdk::with_timeout(&context, Duration::from_secs(60), charge).await?;
/// # assert_eq!(charged, 42);
/// # Ok(()) });
/// ```
///
/// # Errors
/// With the future's own error, or when the time is up.
pub async fn with_timeout<T>(
    context: &WorkflowContext,
    limit: Duration,
    future: impl Future<Output = Result<T>>,
) -> Result<T> {
    let future = pin!(future);
    match select(future, context.sleep(limit)).await {
        Either::Left((result, timer)) => {
            timer.cancel();
            result
        }
        Either::Right((Ok(()), _)) => Err(Error::Timeout(Some(limit))),
        // The workflow was asked to cancel, which stopped the timer as well.
        Either::Right((Err(error), _)) => Err(error),
    }
}
