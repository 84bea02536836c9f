//! Removes expired idempotency keys, in one process at a time.

use std::time::Duration;

use flovyn_engine::request::CleanIdempotencyKeys;
use flovyn_engine::{Code, Refusal, Reply};
use uuid::Uuid;

use crate::loops::{Options, Stopped, pause, turn};
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
        while pause(&self.service, &mut stopped, turn::look_every(&self.service, self.every)).await {
            if let Err(refusal) = self.tick_in_turn().await {
                tracing::warn!(%refusal, "cannot remove expired idempotency keys; trying again later");
            }
        }
    }

    /// Removes expired keys if it is this process's turn. Returns how many, or `None` if it is not its turn.
    pub async fn tick_in_turn(&self) -> Result<Option<usize>, Refusal> {
        match turn::take(&self.service, "clean_idempotency_keys", self.every).await? {
            true => self.tick().await.map(Some),
            false => Ok(None),
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
            self.service.shared.meters.keys_expired.increment(count as u64);
            total += count;
            if count < PAGE {
                return Ok(total);
            }
        }
    }
}
