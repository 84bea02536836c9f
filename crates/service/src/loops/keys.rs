//! Removes idempotency keys whose time is over.

use std::time::Duration;

use flovyn_engine::request::CleanIdempotencyKeys;
use flovyn_engine::{Code, Refusal, Reply};
use uuid::Uuid;

use crate::loops::{Options, Stopped, pause};
use crate::service::Service;

/// Keys in one transaction.
const PAGE: usize = 1_000;

#[derive(Debug)]
pub struct KeyLoop {
    service: Service,
    every: Duration,
}

impl KeyLoop {
    pub fn new(service: Service, options: &Options) -> Self {
        Self { service, every: options.key_cleanup }
    }

    pub(crate) async fn run(self, mut stopped: Stopped) {
        while pause(&mut stopped, self.every).await {
            if let Err(refusal) = self.tick().await {
                tracing::warn!(%refusal, "expired idempotency keys could not be removed");
            }
        }
    }

    /// Removes all expired keys, page by page. Returns how many.
    pub async fn tick(&self) -> Result<usize, Refusal> {
        let mut total = 0;
        let now = self.service.store().now().await;
        let until_ms = now.map_err(|error| Refusal::new(Code::StoreUnavailable, error.to_string()))?.ms;
        loop {
            let reply = self.service.call(Uuid::nil(), CleanIdempotencyKeys { until_ms, max: PAGE }).await?;
            let Reply::Cleaned { count } = reply else { return Ok(total) };
            total += count;
            if count < PAGE {
                return Ok(total);
            }
        }
    }
}
