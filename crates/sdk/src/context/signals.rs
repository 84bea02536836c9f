//! Signals and cancellation.

use serde::de::DeserializeOwned;

use super::WorkflowContext;
use super::futures::{Awaited, CancellationFuture, SignalFuture};
use crate::error::{Error, Result};

impl WorkflowContext {
    /// Waits for the next signal of this name. Each signal goes to one waiter: the oldest.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let value: u32 = context.wait_for_signal("go").await?;
    /// # assert_eq!(value, 1);
    /// # Ok(()) });
    /// ```
    pub fn wait_for_signal<T: DeserializeOwned>(&self, name: &str) -> SignalFuture<T> {
        let mut core = self.core.lock();
        let awaited = Awaited::Signal(name.to_owned());
        let slot = match self.open(&mut core) {
            None => return SignalFuture::new(self.cancelled(core, awaited), name),
            Some(slot) => slot,
        };
        core.wait_for_signal(name, slot);
        drop(core);
        SignalFuture::new(self.pending(slot, awaited), name)
    }

    /// Whether a signal of this name has arrived and has not been received yet.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// assert!(!context.has_signal("go"));
    /// # Ok(()) });
    /// ```
    pub fn has_signal(&self, name: &str) -> bool {
        self.core.lock().has_signal(name)
    }

    /// Takes all signals of this name that have arrived and have not been received.
    ///
    /// # Errors
    /// Fails if a signal cannot be deserialized as `T`. All signals of this name are taken even then.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let waiting: Vec<u32> = context.drain_signals("go")?;
    /// # assert!(waiting.is_empty());
    /// # Ok(()) });
    /// ```
    pub fn drain_signals<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>> {
        let values = self.core.lock().drain_signals(name);
        values.into_iter().map(|value| serde_json::from_value(value).map_err(Error::from)).collect()
    }

    /// Whether cancellation of this workflow was requested.
    ///
    /// ```
    /// # flovyn_sdk::testing::example(|context| async move {
    /// assert!(!context.is_cancellation_requested());
    /// # Ok(()) });
    /// ```
    pub fn is_cancellation_requested(&self) -> bool {
        self.core.lock().cancel_reason.is_some()
    }

    /// Completes, with the reason, when cancellation of this workflow is requested.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # flovyn_sdk::testing::example(|context| async move {
    /// flovyn_sdk::select! {
    ///     reason = context.cancellation() => println!("asked to stop: {reason}"),
    ///     done = context.sleep(Duration::from_secs(60)) => done?,
    /// }
    /// # Ok(()) });
    /// ```
    pub fn cancellation(&self) -> CancellationFuture {
        let mut core = self.core.lock();
        let slot = core.slot(true);
        core.wait_for_cancel(slot);
        drop(core);
        CancellationFuture::new(self.pending(slot, Awaited::Cancellation))
    }

    /// A context for clean-up: commands through it are carried out even after a cancel request.
    ///
    /// ```
    /// # use serde_json::{Value, json};
    /// # flovyn_sdk::testing::example(|context| async move {
    /// let seat = context.schedule_raw("book", json!("12A")).await?;
    /// if context.wait_for_signal::<Value>("never").await.is_err() {
    ///     // Cancellation was requested: this task still runs.
    ///     context.shielded().schedule_raw("refund", seat).await?;
    /// }
    /// # Ok(()) });
    /// ```
    #[must_use]
    pub fn shielded(&self) -> Self {
        Self { core: self.core.clone(), shielded: true }
    }
}
