//! Deletes workers that have not shown a sign of life for a week.

use std::time::Duration;

use flovyn_engine::Reply;
use flovyn_engine::request::ForgetWorkers;
use uuid::Uuid;

use crate::loops::{Stopped, pause};
use crate::service::Service;

const KEEP_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// Workers in one transaction.
const PAGE: usize = 200;

pub(super) async fn run(service: Service, every: Duration, mut stopped: Stopped) {
    while pause(&service, &mut stopped, every).await {
        let Ok(now) = service.store().now().await else { continue };
        let forget = ForgetWorkers { before_ms: now.lease_ms - KEEP_MS, max: PAGE };
        // If a page is full, there may be more. After an error, the next round tries again.
        while let Ok(Reply::Cleaned { count: PAGE }) = service.call(Uuid::nil(), forget.clone()).await {}
    }
}
