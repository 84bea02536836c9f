//! The demo's worker. It runs in this process but talks to the server like any other worker.

use flovyn_sdk::{Result, WorkerHandle};

use super::order;
use crate::local::Credentials;

pub(super) struct Workers {
    credentials: Credentials,
    count: u32,
    running: WorkerHandle,
}

impl Workers {
    pub(super) fn start(credentials: &Credentials) -> Result<Self> {
        let running = order::worker(credentials, "demo-worker-1")?.start();
        Ok(Self { credentials: credentials.clone(), count: 1, running })
    }

    /// Aborts the worker, and starts another one without any state of the first.
    pub(super) fn crash(&mut self) -> Result<()> {
        self.count += 1;
        let next = order::worker(&self.credentials, &format!("demo-worker-{}", self.count))?.start();
        std::mem::replace(&mut self.running, next).abort();
        Ok(())
    }

    pub(super) async fn stop(self) {
        self.running.stop().await;
    }
}
