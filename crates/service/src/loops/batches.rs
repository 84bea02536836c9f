//! Forgets the ids of old batches: they are only asked for while a commit's outcome is unknown.

use std::time::Duration;

use crate::loops::{Stopped, pause};
use crate::service::Service;

/// Ids are kept far longer than any connection could be in doubt.
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
                    tracing::warn!(%error, "old batch ids could not be removed");
                    break;
                }
            }
        }
    }
}
