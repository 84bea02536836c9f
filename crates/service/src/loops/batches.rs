//! Deletes the ids of old batches. An id is only needed while the outcome of its commit is unknown.

use std::time::Duration;

use crate::loops::{Stopped, pause};
use crate::service::Service;

/// Ids are kept far longer than the outcome of any commit can be unknown.
const KEEP_MS: i64 = 60 * 60 * 1_000;
/// Ids in one transaction.
const PAGE: usize = 10_000;

pub(super) async fn run(service: Service, every: Duration, mut stopped: Stopped) {
    while pause(&service, &mut stopped, every).await {
        let Ok(now) = service.store().now().await else { continue };
        loop {
            match service.store().batch_cleanup(now.ms - KEEP_MS, PAGE).await {
                Ok(PAGE) => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot delete old batch ids; trying again later");
                    break;
                }
            }
        }
    }
}
